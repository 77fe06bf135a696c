"""Findings about single rows: lengths, rows far off, zeros, and what kind of numbers they hold."""

from __future__ import annotations

import numpy as np

from bitkin.checks import some_of
from bitkin.evaluate.diagnosis.finding import Finding, level_of, percent, short
from bitkin.evaluate.diagnosis.sample import DataSample
from bitkin.evaluate.diagnosis.survey import MOST_FAR_ROWS, DataSurvey
from bitkin.hashers.wta.window_size import DEFAULT_WINDOW, WARNED_SHARE

# Of lengths: standard deviation / mean. Above the second, collections refuse a metric that does not
# go with it.
_UNEVEN, _VERY_UNEVEN = 0.35, 0.45
_FAR_SHARE, _DOMINATING_SHARE = 0.05, 0.2
_MANY_ZERO_ROWS = 0.01
_SPARSE = 0.9
_MANY_EMPTY = 0.5
_HASHES = 256  # WTAHash's default
_FEWER_HASHES = (128, 64, 32)  # whose windows can be larger


def measure_lengths(sampled: DataSample, metric: str) -> Finding:
    """Tell how much the lengths of rows differ; rows far off are left to another finding."""
    lengths = sampled.lengths
    if not lengths.size:
        return Finding("lengths", "fine", "no row has one", "All rows are zero.", None, {})
    spread = float(lengths.std() / lengths.mean())
    low, high = np.quantile(lengths, [0.05, 0.95])
    values = {"spread": spread, "mean": lengths.mean(), "q05": low, "q95": high}
    measured = f"spread {percent(spread)} of the mean; {short(low)} to {short(high)}"
    level = level_of(spread, _UNEVEN, _VERY_UNEVEN)
    if level == "fine":
        sentence = "Alike enough: l2, cosine and inner product ask for much the same."
        return Finding("lengths", level, measured, sentence, None, values)
    if metric == "cosine":
        sentence = (
            "Cosine does not look at lengths, but centred codes do: scale rows to length 1 before "
            "they are centred."
        )
        return Finding("lengths", level, measured, sentence, "normalize=True", values)
    sentence = (
        "Signs keep directions and lose lengths, on which this metric depends: let the estimate "
        "rank rows, which knows their lengths. If lengths mean nothing to you, ask by cosine."
    )
    setting = 'stage="estimate", or metric="cosine" with normalize=True'
    return Finding("lengths", level, measured, sentence, setting, values)


def find_far_rows(survey: DataSurvey, sampled: DataSample, metric: str) -> Finding:
    """Tell whether a few rows hold much of the variance."""
    rows, share = survey.far_rows(sampled.far_square)
    values = {"rows": len(rows), "share": share, "first": int(rows[0]) if len(rows) else -1}
    if len(rows) == 0 or share <= _FAR_SHARE:
        measured = f"the farthest have {percent(share)} of the variance" if len(rows) else "none"
        return Finding(
            "outlying rows",
            "fine",
            measured,
            "No row pulls the directions to itself.",
            None,
            values,
        )
    level = level_of(share, _FAR_SHARE, _DOMINATING_SHARE)
    counted = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    more = " or more" if len(rows) == MOST_FAR_ROWS else ""
    measured = f"{counted}{more} with {percent(share)} of the variance"
    rest = f"(row{'s' if len(rows) > 1 else ''} {some_of(rows.tolist())})"
    if metric == "cosine":
        sentence = (
            f"Ten times as far from the middle as others {rest}. By cosine that means nothing: "
            "scale rows to length 1, or they pull the learned directions to themselves."
        )
        return Finding("outlying rows", "notice", measured, sentence, "normalize=True", values)
    sentence = (
        f"Ten times as far from the middle as others {rest}: learned directions follow them, and "
        "each costs about a bit of every code. Look whether they are errors, and fit without them."
    )
    return Finding(
        "outlying rows", level, measured, sentence, "leave these rows out of fit", values
    )


def count_zero_rows(survey: DataSurvey, metric: str) -> Finding:
    """Tell how many rows hold nothing."""
    n, share = survey.n_zero_rows, survey.n_zero_rows / survey.n_rows
    values = {"rows": n, "share": share}
    if n == 0:
        return Finding(
            "zero rows", "fine", "none", "Every row has something to hash.", None, values
        )
    by_cosine = ", and a cosine with them means nothing" if metric == "cosine" else ""
    sentence = (
        "Rows of zeros get no code from WTAHash and MinHash, which never find them"
        f"{by_cosine}. Often they are rows that failed to be embedded: leave them out."
    )
    level = level_of(share, 0.0, _MANY_ZERO_ROWS)
    measured = f"{n:,} rows, {percent(share)}"
    return Finding("zero rows", level, measured, sentence, "leave these rows out", values)


def measure_sparsity(survey: DataSurvey) -> Finding:
    """Tell how many numbers are zero."""
    share = survey.zero_share
    values = {"zero_share": share, "stored_sparse": int(survey.sparse)}
    measured = f"{percent(share)} zeros"
    if share <= _SPARSE:
        return Finding("sparsity", "fine", measured, "Dense rows, for every method.", None, values)
    if survey.sparse:
        sentence = (
            "Sparse rows, kept as CSR: projections take them as they are and mostly find more than "
            "other codes, see empty windows for WTAHash; MinHash where only which columns are used "
            "counts."
        )
        return Finding("sparsity", "notice", measured, sentence, None, values)
    sentence = (
        "Nearly everything is zero: kept as CSR, rows take a fraction of the memory and time and "
        "get the same codes."
    )
    return Finding("sparsity", "warning", measured, sentence, "scipy.sparse.csr_array(X)", values)


def measure_windows(survey: DataSurvey, metric: str) -> Finding:
    """Tell how many windows of `WTAHash` would hold zeros only."""
    sparsity = survey.sparsity
    window = min(DEFAULT_WINDOW, survey.n_features)
    share = sparsity.empty_share(window, 1)
    n_hashes = _hashes_with_filled_windows(survey)
    better = sparsity.best_window(n_hashes or _HASHES, 1)
    left = sparsity.empty_share(better, 1)
    values = {"empty_share": share, "best_window": better, "empty_share_of_best": left}
    measured = f"{percent(share)} of windows of {window} are empty"
    level = level_of(share, _MANY_EMPTY, WARNED_SHARE)
    if level == "fine":
        sentence = "WTAHash finds a winner in most windows as it comes."
        return Finding("empty windows", level, measured, sentence, None, values)
    if n_hashes is None:
        sentence = (
            "WTAHash would mostly compare zeros, and there are too few columns for larger windows. "
            "Projections do not mind zeros."
        )
        n_bits = min(survey.n_features, _HASHES)
        normalize = ", normalize=True" if metric == "cosine" else ""
        setting = f"ProjectionHash({n_bits}{normalize})"
        return Finding("empty windows", level, measured, sentence, setting, values)
    sentence = (
        f"WTAHash would mostly compare zeros; windows of {better:,} leave {percent(left)} empty, "
        "and are what it chooses by itself when asked to"
    )
    sentence += "." if n_hashes == _HASHES else f" for {n_hashes} hashes: more do not fit."
    return Finding("empty windows", level, measured, sentence, _wta_setting(n_hashes), values)


def _hashes_with_filled_windows(survey: DataSurvey) -> int | None:
    """Return with how many hashes windows can be as large as rows need, at best as many as by
    default; None where there are too few columns.
    """
    sparsity = survey.sparsity
    if sparsity.best_window(_HASHES, 1) > DEFAULT_WINDOW:
        return _HASHES
    for n_hashes in _FEWER_HASHES:
        if sparsity.empty_share(sparsity.best_window(n_hashes, 1), 1) <= _MANY_EMPTY:
            return n_hashes
    return None


def _wta_setting(n_hashes: int) -> str:
    return f'WTAHash({"" if n_hashes == _HASHES else f"{n_hashes}, "}window="auto")'


def describe_values(survey: DataSurvey) -> Finding:
    """Tell what kind of numbers rows hold."""
    least, greatest = survey.least, survey.greatest
    if survey.zero_share > 0:
        least, greatest = min(least, 0.0), max(greatest, 0.0)
    values = {"least": least, "greatest": greatest, "whole": int(survey.whole)}
    measured = f"{short(least)} to {short(greatest)}{', whole' if survey.whole else ''}"
    two_valued = (
        survey.whole
        and least < greatest
        and (
            (least, greatest) == (0.0, 1.0)
            or ((least, greatest) == (-1.0, 1.0) and survey.zero_share == 0)
        )
    )
    if not two_valued:
        kind = "Whole numbers" if survey.whole else "Real numbers"
        return Finding("values", "fine", measured, f"{kind}: every method.", None, values)
    measured = f"only {short(least)} and {short(greatest)}"
    if survey.zero_share > _SPARSE:
        sentence = (
            "Rows are sets of columns: MinHash codes tell how much two of them overlap (Jaccard)."
        )
        return Finding("values", "notice", measured, sentence, "MinHash()", values)
    sentence = (
        "Rows are bits already: SignHash keeps every one of them, and its distance is how many "
        "differ. A learned code of as many bits would lose some."
    )
    return Finding("values", "notice", measured, sentence, "SignHash()", values)
