"""Findings about rows among each other: copies, ties, hubs, and the order of the file."""

from __future__ import annotations

from bitkin.evaluate.diagnosis.finding import LEVELS, Finding, level_of, percent, short
from bitkin.evaluate.diagnosis.neighbors import HubSurvey, K, NearRows
from bitkin.evaluate.diagnosis.sample import DataSample
from bitkin.evaluate.diagnosis.survey import DataSurvey

_DEDUP = "bitkin dedup FILE --threshold 0.99 --out kept.npy"  # of dense vectors
_SOME_COPIES, _MANY_COPIES = 0.01, 0.1
NEAR = 0.01
"""Rows are near duplicates where they are at most so far apart, of the usual distance of rows."""
_FEWEST_DIRECTIONS = 4.0  # in fewer, rows are near each other without being alike
_MANY_TIES = 0.3
_MOVED, _FAR_MOVED = 0.02, 0.1  # share of the variance between stretches of the file
_SORTED = 0.5  # share of the variance of one column; by chance, of ten thousand, under a third
_LOST, _MUCH_LOST = 0.05, 0.2  # of the variance of the last part, by directions of the first
_DEVIATIONS = 5.0  # of chance


def count_copies(survey: DataSurvey) -> Finding:
    """Tell how many rows are equal to an earlier one."""
    share, most = survey.copies.copied_share(), survey.copies.most_copies()
    values = {"share": share, "most_copies": most, "exact": int(survey.copies.exact)}
    if share <= 0:
        return Finding("duplicates", "fine", "none", "No two rows are equal.", None, values)
    measured = f"{percent(share)} of rows repeat another; one comes {most:,} times"
    level = level_of(share, _SOME_COPIES, _MANY_COPIES)
    if level == "fine":
        return Finding("duplicates", level, measured, "Too few to matter.", None, values)
    sentence = (
        "Equal rows have equal codes: they fill the nearest neighbours of each other, and a recall "
        "measured with them in looks better than it is. Remove them first."
    )
    setting = "remove repeated rows" if survey.sparse else _DEDUP
    return Finding("duplicates", level, measured, sentence, setting, values)


def count_near_copies(near: NearRows, typical: float, directions: float) -> Finding:
    """Tell how many rows have another one nearly equal to them."""
    name = "near duplicates"
    if directions < _FEWEST_DIRECTIONS:
        sentence = "Not told: in so few directions rows are near each other without being alike."
        return Finding(name, "fine", "not measured", sentence, None, {})
    share = near.near_share(NEAR * typical)
    values = {"share": share, "searched": near.n_searched, "within": NEAR * typical}
    measured = f"{percent(share)} of rows, among {near.n_searched:,}"
    level = level_of(share, _SOME_COPIES, _MANY_COPIES)
    if level == "fine":
        sentence = "Hardly a row has another within 1 % of the usual distance."
        return Finding(name, level, measured, sentence, None, values)
    sentence = (
        "They have another row within 1 % of the usual distance: their codes are nearly equal, and "
        "only exact distances can rank them. Remove those that say the same, or keep vectors."
    )
    return Finding(name, level, measured, sentence, None if near.sparse else _DEDUP, values)


def count_ties(near: NearRows) -> Finding:
    """Tell how many rows have neighbours at one distance."""
    share = near.tied_share()
    values = {"share": share}
    measured = f"{percent(share)} of rows, at neighbour {K}"
    level = "notice" if share > _MANY_TIES else "fine"
    if level == "fine":
        return Finding("ties", level, measured, "Neighbours have an order.", None, values)
    sentence = (
        f"Several rows share the place of the {K}th neighbour, and which of them counts is a "
        "matter of row numbers: a measured recall is lower than what a user sees. No setting "
        "changes that; compare distances, not ids."
    )
    return Finding("ties", level, measured, sentence, None, values)


def describe_hubs(hubs: HubSurvey) -> Finding:
    """Tell whether a few rows are neighbours of many."""
    own = hubs.own
    if own is None:
        return Finding("hubs", "fine", "not measured", "Too few rows to tell.", None, {})
    values = {"skew": own.skew, "largest_share": own.largest_share, "never_share": own.never_share}
    measured = f"skew {short(own.skew)}; {percent(own.never_share)} are nobody's neighbour"
    if not hubs.unusual or hubs.normal is None:
        sentence = "No row is the neighbour of more others than such directions bring with them."
        return Finding("hubs", "fine", measured, sentence, None, values)
    values["skew_of_normal_rows"] = hubs.normal.skew
    sentence = (
        f"One row is among the {K} nearest of {percent(own.largest_share)} of the others, and will "
        "be in many results, by codes as by exact distances; normal rows in the same directions "
        f"would have a skew of {short(hubs.normal.skew)}."
    )
    setting = None
    if hubs.by_cosine is not None:
        values["skew_by_cosine"] = hubs.by_cosine.skew
        if hubs.by_cosine.skew < own.skew / 2:
            sentence += f" By cosine it is {short(hubs.by_cosine.skew)}."
            setting = 'metric="cosine" with normalize=True'
    return Finding("hubs", "notice", measured, sentence, setting, values)


def measure_order(survey: DataSurvey, sampled: DataSample) -> Finding:
    """Tell whether rows change along the file."""
    between, expected, deviation = survey.stretches.share_between()
    moved = max(0.0, between - expected)
    if moved <= _DEVIATIONS * deviation:
        moved = 0.0
    lost = sampled.variance_lost_at_the_end()
    column, of_column = survey.stretches.most_sorted_column()
    values = {"between": between, "expected": expected, "moved": moved}
    values |= {"sorted_column": column, "share_of_column": of_column}
    if lost is not None:
        values["variance_lost"] = lost
    most = ""
    if of_column > _SORTED:
        which = f"column {column}" if column >= 0 else "one column"
        most = f", and {percent(of_column)} of that of {which},"
    measured = f"{percent(moved)} of the variance{most} is between parts of the file"
    if lost is not None and lost > _LOST:
        measured += f"; the first part's directions miss {percent(lost)} of the last part's"
    levels = (
        level_of(moved, _MOVED, _FAR_MOVED),
        level_of(lost or 0.0, _LOST, _MUCH_LOST),
        "notice" if of_column > _SORTED else "fine",
    )
    level = max(levels, key=LEVELS.index)
    if level == "fine":
        return Finding("order", level, measured, "Any part looks like the rest.", None, values)
    sentence = (
        "The file is sorted, or its rows change along it: a code learned from its first part is "
        "bad for the rest, and partial_fit forgets the first. Learn from all rows, as fit does, or "
        "shuffle them; where they come in time, let the model follow (bitkin stream)."
    )
    return Finding("order", level, measured, sentence, "shuffle the rows, or fit on all", values)
