"""Settings of a BandIndex for a recall that is wanted, measured on a sample of the codes
themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes, require_codes
from bitkin.errors import InvalidInputError
from bitkin.index.bands.bands import similarity_threshold
from bitkin.index.bands.layout import BandLayout
from bitkin.index.bands.search import BandSearch
from bitkin.index.bands.tables import band_tables
from bitkin.index.flat import FlatIndex
from bitkin.index.rows.growth import with_tables
from bitkin.index.rows.snapshot import Snapshot
from bitkin.index.tuning import (
    FEWEST_CODES,
    expectations,
    least_seconds,
    rows_and_queries,
    wilson_interval,
)
from bitkin.notices import warn_caller
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.index.bands.band_index import BandIndex

_BITS = (6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40)  # widths of bands that are tried
_BUDGETS = tuple(2.0 ** (-power / 2) for power in range(22, 3, -1))  # shares of the rows, ascending
_MOST_PROBES = 512
_LOOKUP = 0.5  # looking a key up takes about half as long as looking at a row


@dataclass(frozen=True, slots=True, repr=False)
class BandTuning:
    """Settings for a `BandIndex`, and what to expect of them; `build()` makes the index, still
    without rows.

    Settings were chosen with one half of the queries, expectations measured with the other.
    """

    spec: CodeSpec
    band_bits: int
    probes: int
    budget: int
    recall: float
    """Share of the true k nearest, by code distance, that are found."""
    interval: tuple[float, float]
    """Where the recall of more queries of the same kind is, 95 % sure, were every query found
    wholly or not at all.
    """
    candidates: float
    """Rows looked at, as a share of all rows; a row counts again in every band that holds it."""
    microseconds: float
    """Time a query in a batch, all threads, here and now."""
    scan_microseconds: float
    """The same for `FlatIndex`: where this is less, a scan is the better index."""
    k: int
    n_rows: int
    """Rows that were searched in."""

    def __repr__(self) -> str:
        return (
            f"BandTuning(band_bits={self.band_bits}, probes={self.probes}, budget={self.budget}: "
            f"{expectations(self)})"
        )

    def build(self) -> BandIndex:
        """Return an index with these settings and no rows."""
        from bitkin.index.bands.band_index import BandIndex

        return BandIndex(self.spec, self.band_bits, probes=self.probes, budget=self.budget)


def tune_bands(
    codes: Codes,
    recall: float,
    k: int,
    queries: Codes | None,
    sample: int,
    random_state: int | None,
) -> BandTuning:
    """Measure settings on a sample and return the cheapest that reaches the recall; see
    `BandIndex.tune`.
    """
    wanted = similarity_threshold(recall, "recall")
    k = whole_number(k, "k", low=1)
    sample = whole_number(sample, "sample", low=FEWEST_CODES)
    rows, asked = rows_and_queries(
        require_codes(codes, "codes"), queries, sample, resolve_seed(random_state), "bands"
    )
    if k > len(rows):
        raise InvalidInputError(
            f"k must be at most {len(rows)}, the rows that are searched, got {k}."
        )
    scan = FlatIndex(codes.spec)
    scan.add(rows)
    # Chosen with one half and measured with the other: the winner of many trials looks better than
    # it is on the queries that chose it.
    half = len(asked) // 2
    first, second = (
        _Questions(some, scan.search(some, k).ids) for some in (asked[:half], asked[half:])
    )
    best = _cheapest(scan, first, wanted)
    found = best.answer(second)
    if best.recall < wanted:
        warn_caller(
            f"no bands reach a recall of {wanted}; the best found {best.recall:.3f}. FlatIndex "
            "finds all."
        )
    seconds, scan_seconds = (
        least_seconds(lambda: best.answer(second)),
        least_seconds(lambda: scan.search(second.codes, k)),
    )
    return BandTuning(
        spec=codes.spec,
        band_bits=best.layout.band_bits,
        probes=best.layout.probes,
        # buckets grow with the number of rows, so the budget of the sample does too
        budget=math.ceil(best.budget * max(1.0, len(codes) / len(rows))),
        recall=found.recall,
        interval=wilson_interval(found.recall, len(second.codes)),
        candidates=found.looked / len(rows),
        microseconds=1e6 * seconds / len(second.codes),
        scan_microseconds=1e6 * scan_seconds / len(second.codes),
        k=k,
        n_rows=len(rows),
    )


@dataclass(frozen=True, slots=True)
class _Questions:
    """Queries, and the ids of their true nearest."""

    codes: Codes
    truth: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Answer:
    recall: float
    looked: float
    """Rows looked at, a query."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """Settings over rows in tables."""

    snapshot: Snapshot
    layout: BandLayout
    budget: int
    recall: float = 0.0

    def answer(self, questions: _Questions) -> _Answer:
        """Search, and compare with the truth."""
        search = BandSearch.begin(
            self.snapshot, self.layout, self.budget, False, questions.codes, None
        )
        found, looked = search.nearest(questions.truth.shape[1])
        # for every true id, whether it is among those found
        hits = (found.ids[:, :, None] == questions.truth[:, None, :]).any(axis=1)
        return _Answer(float(hits.mean()), float(looked.mean()))


def _cheapest(scan: FlatIndex, questions: _Questions, wanted: float) -> _Trial:
    """Return the settings that reach a recall with the fewest rows and keys looked at; else those
    nearest to it.
    """
    spec, rows = scan.spec, scan.snapshot
    reached: list[tuple[float, _Trial]] = []
    others: list[_Trial] = []
    for layouts in _layouts(spec):
        tabled = with_tables(rows, partial(band_tables, layout=layouts[0]), few=0)
        for layout in layouts:
            budgets = [math.ceil(share * len(scan)) for share in _BUDGETS]
            low, high = 0, len(budgets)
            while low < high:  # the smallest that reaches the recall, which grows with the budget
                # the largest budget first: where even that fails,
                # no other of this layout has to be tried
                middle = (low + high) // 2 if high < len(budgets) or low else len(budgets) - 1
                answer = _Trial(tabled, layout, budgets[middle]).answer(questions)
                trial = _Trial(tabled, layout, budgets[middle], answer.recall)
                if answer.recall < wanted:
                    others.append(trial)
                    low = middle + 1
                else:
                    reached.append(
                        (answer.looked + _LOOKUP * layout.bands * len(layout.masks), trial)
                    )
                    high = middle
    return (
        min(reached, key=lambda pair: pair[0])[1]
        if reached
        else max(others, key=lambda trial: trial.recall)
    )


def _layouts(spec: CodeSpec) -> Iterator[list[BandLayout]]:
    """Yield layouts to try, those of one width together: own keys, and all with one or two symbols
    changed.
    """
    bits, widths = spec.bits_per_symbol, set()
    for band_bits in _BITS:
        r = max(1, min(band_bits, spec.n_bits) // bits)
        if r in widths:
            continue
        widths.add(r)
        # keys with one symbol changed: r places, a − 1 other
        # values; with two, C(r, 2) · (a − 1)² more
        one = r * (spec.alphabet_size - 1)
        two = one + math.comb(r, 2) * (spec.alphabet_size - 1) ** 2
        yield [
            BandLayout(spec, r * bits, probes) for probes in (0, one, two) if probes <= _MOST_PROBES
        ]
