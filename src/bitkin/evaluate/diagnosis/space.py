"""Findings about the space that rows lie in: how many there are, directions, mean and columns."""

from __future__ import annotations

import numpy as np

from bitkin.checks import some_of
from bitkin.evaluate.diagnosis.finding import Finding, level_of, percent, short
from bitkin.evaluate.diagnosis.sample import DataSample
from bitkin.evaluate.diagnosis.survey import DataSurvey

# With as many rows as bits or fewer, learned directions are worse than random ones on GloVe, MiniLM
# and made rows; with 1.5 times as many they are better.
_FEW_ROWS, _VERY_FEW_ROWS = 384, 96
_FEW_DIRECTIONS, _VERY_FEW_DIRECTIONS = 4.0, 2.0
# Of the mean in spreads. Without centring, codes lose a third of the neighbours from 3 on, nearly
# all from 10; estimates by cosine lose from 3,000 on, centred codes for l2 from 100,000.
_OFF, _FAR_OFF = 3.0, 1_000.0
_COLLAPSED = 1e-3  # of the spread of the more varied columns
_SOME_COLLAPSED, _MANY_COLLAPSED = 0.01, 0.1
_LARGE_SHARE, _DOMINATING_SHARE = 0.4, 0.5
_FEWEST_COLUMNS = 8  # of fewer, one may well have a large share


def count_rows(survey: DataSurvey) -> Finding:
    """Tell whether there are enough rows to learn from."""
    n, d = survey.n_rows, survey.n_features
    measured = f"{n:,} rows of {d:,} columns"
    values = {"rows": n, "columns": d}
    level = level_of(-n, -_FEW_ROWS, -_VERY_FEW_ROWS)
    if level == "fine":
        return Finding(
            "rows", level, measured, "Enough to learn a code of 256 bits from.", None, values
        )
    sentence = (
        "Directions that are learned from fewer rows than bits are worse than random ones: take "
        f"at most {max(1, n // 2):,} bits, or directions that are not learned."
    )
    return Finding("rows", level, measured, sentence, 'projection="random"', values)


def measure_dimension(sampled: DataSample, n_features: int) -> Finding:
    """Tell in how many directions rows vary."""
    spectrum = sampled.spectrum
    n90 = spectrum.n_directions(0.9)
    values = {
        "effective_dimension": round(spectrum.participation, 3),
        "directions_for_90_percent": n90,
        "largest_share": round(float(spectrum.shares[0]), 6) if n90 else 0.0,
    }
    if n90 == 0:
        return Finding(
            "dimension", "warning", "0 directions",
            "All rows are the same, so that no code can tell them apart.", None, values,
        )  # fmt: skip
    largest = percent(float(spectrum.shares[0]))
    measured = f"{short(spectrum.participation)} effective, {n90:,} for 90 % of the variance"
    level = level_of(-spectrum.participation, -_FEW_DIRECTIONS, -_VERY_FEW_DIRECTIONS)
    if level == "fine":
        sentence = (
            f"The largest of {n_features:,} directions has {largest} of the variance: signs of "
            "projections tell rows apart."
        )
        return Finding("dimension", level, measured, sentence, None, values)
    sentence = (
        f"One direction has {largest} of the variance, and a bit tells only on which side of the "
        "middle a row lies: codes alone confuse many rows, whatever their length. Let the estimate "
        "rank them, which a Collection does by default, and rotate."
    )
    return Finding(
        "dimension", level, measured, sentence, 'rotation="random", stage="estimate"', values
    )


def measure_mean(survey: DataSurvey, metric: str) -> Finding:
    """Tell how far from zero the rows lie, in spreads."""
    spread = float(np.sqrt(survey.columns.variance.sum()))
    length = float(np.linalg.norm(survey.columns.mean))
    offset = length / spread if spread > 0 else 0.0
    values = {"offset": offset, "mean_length": length, "spread": spread}
    measured = f"{short(offset)} spreads from zero"
    level = level_of(offset, _OFF, _FAR_OFF)
    setting: str | None = "center=True"
    if level == "fine":
        sentence = "Near enough to zero for every method; most centre anyway."
        setting = None
    elif level == "notice":
        sentence = (
            "Signs of the rows as they are hardly differ: keep the mean subtracted, as "
            "ProjectionHash and WTAHash do by default. SignHash would make nearly equal codes."
        )
    else:
        lost = "cosines are all nearly 1, and their" if metric == "cosine" else "the"
        sentence = (
            f"Rows differ in the last digits of float32 only, {lost} estimates lose digits, and "
            "without the mean subtracted all codes are the same. Subtract one fixed mean from rows "
            "and queries in float64 before anything else."
        )
        setting = "subtract the mean first; center=True"
    return Finding("mean", level, measured, sentence, setting, values)


def find_collapsed_columns(survey: DataSurvey) -> Finding:
    """Tell which columns hardly vary."""
    constant = survey.columns.constant
    collapsed = constant.copy()
    if not survey.sparse:  # where a rare column is as good as any
        spreads = np.sqrt(survey.columns.variance)
        collapsed |= spreads <= _COLLAPSED * float(np.quantile(spreads, 0.9))
    n, d = int(collapsed.sum()), survey.n_features
    values = {"collapsed": n, "constant": int(constant.sum()), "columns": d}
    measured = f"{n:,} of {d:,} columns"
    if n == 0:
        return Finding("collapsed columns", "fine", "none", "Every column varies.", None, values)
    columns = some_of(np.flatnonzero(collapsed).tolist())
    if survey.sparse:
        sentence = f"Never used, or always the same (columns {columns}): they cost and do nothing."
        return Finding("collapsed columns", "fine", measured, sentence, None, values)
    level = level_of(n / d, _SOME_COLLAPSED, _MANY_COLLAPSED)
    if level == "fine":
        sentence = f"(Nearly) the same in all rows (columns {columns}): too few to matter."
        return Finding("collapsed columns", level, measured, sentence, None, values)
    sentence = (
        f"(Nearly) the same in all rows (columns {columns}): such a bit of SignHash tells nothing, "
        "and without the mean subtracted they win the windows of WTAHash. Projections pass over "
        "them; so there are fewer directions than columns. Leave them out, or centre."
    )
    return Finding("collapsed columns", level, measured, sentence, "center=True", values)


def find_dominating_columns(survey: DataSurvey, sampled: DataSample) -> Finding:
    """Tell whether one column has most of the variance."""
    variances = sampled.column_variances
    total = float(variances.sum())
    column = int(np.argmax(variances))
    share = float(variances[column]) / total if total > 0 else 0.0
    values = {"largest_share": share, "column": column}
    measured = f"column {column} has {percent(share)} of the variance"
    level = "fine"
    if survey.n_features >= _FEWEST_COLUMNS:
        level = level_of(share, _LARGE_SHARE, _DOMINATING_SHARE)
    if level == "fine":
        return Finding(
            "dominating columns", level, measured, "No column decides alone.", None, values
        )
    sentence = (
        "Distances are nearly those in this column, and so are codes. If its unit is just another "
        "one, divide every column by its standard deviation first, in rows and queries; WTAHash "
        "does so itself."
    )
    setting = "divide columns by their spread, or WTAHash(scale=True)"
    return Finding("dominating columns", level, measured, sentence, setting, values)
