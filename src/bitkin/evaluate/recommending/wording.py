"""A recommendation in words."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bitkin.evaluate.trials.measurement import Measurement

if TYPE_CHECKING:
    from bitkin.evaluate.recommending.recommendation import Recommendation

_AS_FAST = 1.2  # times what a search takes
_MODEL_COUNTS = 0.1  # of what all vectors take
_MEGABYTE = 1e6


def name_way(measured: Measurement) -> str:
    """Name a way to search: "pca × itq, 128 bits, exact int8, oversample 10"."""
    over = f", oversample {measured.oversample}" if measured.stage == "exact" else ""
    return f"{measured.name}{over}"


def headline(given: Recommendation) -> str:
    """Say what to take, and what to expect, in one line."""
    low, high = given.interval
    return (
        f"{name_way(given.chosen)}: {given.bytes_per_vector:,.0f} bytes per vector, recall "
        f"{given.recall:.3f} ({low:.3f} to {high:.3f})"
    )


def reasons(given: Recommendation, facts: SearchFacts) -> list[str]:
    """Say why, a sentence or two each."""
    said = [_why_this(given)]
    said += _why_vectors(given)
    if given.runner_up is not None:
        said.append(_runner_up(given, given.runner_up))
    said += _model(given, facts)
    said.append(_how_checked(given, facts))
    low, high = given.interval
    if high - low > facts.widest:
        said.append(
            f"The interval is {high - low:.3f} wide: {facts.n_checked:,} fresh queries are too few "
            "for a narrower one. Give more rows, or queries of your own."
        )
    said += _exact_search(given, facts)
    if not given.complete:
        said.append(
            "This is the best so far: the search for a better one was ended before it was through."
        )
    return said


class SearchFacts:
    """What is known beside the measurements.

    Parameters
    ----------
    n_rows, n_checked : int
        Rows of all the data, and fresh queries.
    on_all : bool
        Whether the check was a collection of all rows.
    n_sample : int
        Rows of the sample.
    plain_bytes : float
        Of a vector in float32 (or CSR), as it came.
    model_bytes : float
        Of the directions that the hasher keeps; 0 where it has none.
    exact_us, search_us : float
        Of an exact search of all rows, and of the recommended one.
    widest : float
        Interval that was wanted.
    """

    def __init__(
        self,
        *,
        n_rows: int,
        n_checked: int,
        on_all: bool,
        n_sample: int,
        plain_bytes: float,
        model_bytes: float,
        exact_us: float,
        search_us: float,
        widest: float,
    ) -> None:
        self.n_rows, self.n_checked, self.n_sample = n_rows, n_checked, n_sample
        self.on_all, self.plain_bytes = on_all, plain_bytes
        self.model_bytes = model_bytes
        self.exact_us, self.search_us, self.widest = exact_us, search_us, widest


def _why_this(given: Recommendation) -> str:
    if not given.reached:
        under = "" if given.max_bytes is None else f" within {given.max_bytes:g} bytes per vector"
        return f"Nothing reached a recall of {given.target:g}{under}; this finds most."
    return (
        f"Of {sum(m.error is None for m in given.measurements)} ways measured it takes the fewest "
        f"bytes among those that reach a recall of {given.target:g}; within 5 % of bytes the "
        "quickest to search is taken."
    )


def _why_vectors(given: Recommendation) -> list[str]:
    """Say what codes alone find, or that they are enough."""
    alone = [m for m in given.measurements if m.error is None and m.vectors is None]
    if not alone:
        return []
    if given.vectors is None:
        return ["Codes alone are enough: no vectors are kept."] if given.reached else []
    best = max(alone, key=lambda m: m.recall)
    return [
        f"Codes alone found {best.recall:.3f} at best ({best.method}, {best.n_bits:,} bits), so "
        f"vectors are kept as {given.vectors}, by which the last stage measures."
    ]


def _model(given: Recommendation, facts: SearchFacts) -> list[str]:
    """Say what the model takes, which bytes per vector leave out, where that is no trifle: of wide
    rows it may take more than all their vectors.
    """
    vectors = facts.n_rows * given.bytes_per_vector
    if facts.model_bytes < max(_MEGABYTE, _MODEL_COUNTS * vectors):
        return []
    model_mb, vectors_mb = facts.model_bytes / _MEGABYTE, vectors / _MEGABYTE
    return [
        f"The model of the hasher takes {model_mb:,.0f} MB more, once, however many rows there "
        f"are; these {facts.n_rows:,} take {vectors_mb:,.1f} MB."
    ]


def _runner_up(given: Recommendation, other: Measurement) -> str:
    more = other.bytes_per_vector / given.bytes_per_vector - 1.0
    return (
        f"Runner-up: {name_way(other)}, {other.bytes_per_vector:,.0f} bytes ({more:+.0%}), recall "
        f"{other.recall:.3f} on the queries that chose."
    )


def _how_checked(given: Recommendation, facts: SearchFacts) -> str:
    where = (
        f"in a collection of all {facts.n_rows:,} rows"
        if facts.on_all
        else f"on a sample of {facts.n_sample:,} of {facts.n_rows:,} rows, which predicts all"
    )
    return (
        f"Recall and interval are of {facts.n_checked:,} queries that had no part in the choice, "
        f"{where}. With 95 % confidence the recall of as many others lies in the interval."
    )


def _exact_search(given: Recommendation, facts: SearchFacts) -> list[str]:
    """Say where plain vectors are as quick to search, or as small: then codes may not be needed."""
    as_fast = facts.exact_us <= _AS_FAST * facts.search_us
    as_small = facts.plain_bytes <= given.bytes_per_vector
    sizes = f"{given.bytes_per_vector:,.0f} instead of {facts.plain_bytes:,.0f} bytes per vector"
    if not as_fast:
        only_time = f"Codes save time alone here, no memory: they take {sizes}."
        return [only_time] if as_small else []
    timed = (
        f"Plain exact search of these {facts.n_rows:,} rows takes about {facts.exact_us:,.0f} µs "
        f"per query, as long as this one or less ({facts.search_us:,.0f} µs): at this size codes "
    )
    if as_small:
        return [f"{timed}save nothing, and take {sizes}. Take bitkin.evaluate.nearest."]
    return [
        f"{timed}only save memory, {sizes}. Where that does not matter, take "
        "bitkin.evaluate.nearest."
    ]


def describe(
    given: Recommendation, width: int | None = None, recipe: Sequence[str] | None = None
) -> str:
    """Return the recommendation as text that fits a terminal, with lines of Python that build it:
    `recipe`, or else those for whoever holds the recommendation.
    """
    width = max(60, width or shutil.get_terminal_size().columns)
    low, high = given.interval
    parts = _labelled("take", name_way(given.chosen), width)
    parts += _labelled(
        "expect",
        f"recall@{given.k} {given.recall:.3f} ({low:.3f} to {high:.3f}, wanted {given.target:g}) "
        f"with {given.bytes_per_vector:,.0f} bytes per vector",
        width,
    )
    for i, reason in enumerate(given.reason.split("\n")):
        parts += _labelled("because" if i == 0 else "", reason, width)
    for i, line in enumerate(given.recipe if recipe is None else recipe):
        parts += [f"{'build' if i == 0 else '':<9}{line}"]
    return "\n".join(parts)


def _labelled(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=f"{label:<9}", subsequent_indent=" " * 9) or [
        label
    ]
