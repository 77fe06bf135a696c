"""What a report can hold: plain values that whoever measured fills in, checked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from bitkin.arrays import Floats
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.evaluate.reporting.rows import HardQuery
from bitkin.evaluate.trials.measurement import Measurement

_CODE_ROWS = 20_000  # are enough for shares and correlations of bits


class ReportedFinding(Protocol):
    """What is known of one thing that `diagnose` looked at."""

    @property
    def name(self) -> str:
        """What was looked at."""

    @property
    def level(self) -> str:
        """One of "fine", "notice" and "warning"."""

    @property
    def measured(self) -> str:
        """The figures, in a few words."""

    @property
    def sentence(self) -> str:
        """What it means for the choice of a code."""

    @property
    def setting(self) -> str | None:
        """What to set because of it."""


class ReportedCheck(NamedTuple):
    """What queries that had no part in a choice found with it."""

    recall: float
    interval: tuple[float, float]
    search_us: float


@dataclass(frozen=True, eq=False)
class ReportChoice:
    """What is recommended, and why.

    Attributes
    ----------
    headline : str
        The choice in one line.
    chosen, runner_up : Measurement or None
        Marked in the plot and in the tables.
    reasons : sequence of str
        A paragraph each.
    checked : ReportedCheck or None
        What was measured of the choice afterwards; shown with it, in place of what chose it.
    """

    headline: str
    chosen: Measurement | None = None
    runner_up: Measurement | None = None
    reasons: Sequence[str] = ()
    checked: ReportedCheck | None = None


@dataclass(frozen=True, eq=False)
class CodeStatistics:
    """How well the bits of a code are used: at best each is 1 for half of the rows, and no two say
    the same.

    Attributes
    ----------
    name : str
        Of the code.
    ones : float64 (b,)
        Share of rows with a 1, per bit.
    correlation : float64 (b, b)
        Of every two bits, 0 for a bit that never changes.

    Examples
    --------
    >>> import bitkin
    >>> codes = bitkin.Codes.from_symbols([[0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 1, 0]], 1)
    >>> statistics = CodeStatistics.from_codes("three bits", codes)
    >>> statistics.entropy.tolist()
    [0.0, 1.0, 1.0]
    >>> statistics.correlation.round(6).tolist()
    [[0.0, 0.0, 0.0], [0.0, 1.0, -1.0], [0.0, -1.0, 1.0]]
    """

    name: str
    ones: Floats
    correlation: Floats

    def __post_init__(self) -> None:
        ones = np.asarray(self.ones, dtype=np.float64)
        correlation = np.asarray(self.correlation, dtype=np.float64)
        if ones.ndim != 1 or not ((ones >= 0) & (ones <= 1)).all():
            raise InvalidInputError("ones must be shares between 0 and 1, one per bit.")
        if correlation.shape != (ones.size, ones.size):
            raise InvalidInputError(
                f"correlation must have shape ({ones.size}, {ones.size}), a row and a column per "
                f"bit, got {correlation.shape}."
            )
        object.__setattr__(self, "ones", ones)
        object.__setattr__(self, "correlation", np.nan_to_num(correlation, nan=0.0))

    @classmethod
    def from_codes(cls, name: str, codes: Codes) -> CodeStatistics:
        """Look at the bits of codes: of the first 20,000 rows. A symbol of several bits counts as
        several.
        """
        spec = codes.spec
        some = codes[:_CODE_ROWS]
        planes = some.words.view(np.uint8)
        bits = np.concatenate(
            [
                np.unpackbits(planes[:, plane], axis=1, count=spec.n_symbols)
                for plane in range(spec.bits_per_symbol)
            ],
            axis=1,
        ).astype(np.float32)
        bits = bits[~some.empty_rows()]
        n = max(1, len(bits))
        # covariance = E[a b] − E[a] E[b]: sums of zeros and ones are exact in float32
        ones = bits.sum(axis=0, dtype=np.float64) / n
        covariance = (bits.T @ bits).astype(np.float64) / n - np.outer(ones, ones)
        spread = np.sqrt(ones * (1.0 - ones))
        scale = np.outer(spread, spread)
        correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0)
        return cls(name, ones, np.clip(correlation, -1.0, 1.0))

    @property
    def n_bits(self) -> int:
        """Of a code."""
        return int(self.ones.size)

    @property
    def entropy(self) -> Floats:
        """Bits of information in every bit: −p log₂ p − (1 − p) log₂ (1 − p)."""
        p = np.stack([self.ones, 1.0 - self.ones])
        logs = np.log2(p, out=np.zeros_like(p), where=p > 0)
        return np.asarray(np.abs((p * logs).sum(axis=0)))


@dataclass(frozen=True, eq=False)
class ReportPage:
    """All that one report shows; a part that is empty or None is left out.

    Attributes
    ----------
    title : str
        Of the page.
    facts : mapping of str to value
        What was measured on, in order: rows, queries, k, metric, machine, versions, seconds.
    command : str or None
        Makes the same report again.
    choice : ReportChoice or None
        What is recommended.
    measurements : sequence of Measurement
        Failures among them are listed with their reasons.
    findings : sequence of ReportedFinding or None
        Of `bitkin.diagnose`.
    spectrum : float64 (n,) or None
        Shares of the variance, largest first.
    code : CodeStatistics or None
        Of the best code.
    hard_queries : sequence of HardQuery
        Hardest first.
    notes : sequence of str
        How it was measured, a paragraph each.
    """

    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    choice: ReportChoice | None = None
    measurements: Sequence[Measurement] = ()
    findings: Sequence[ReportedFinding] | None = None
    spectrum: Floats | None = None
    code: CodeStatistics | None = None
    hard_queries: Sequence[HardQuery] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.spectrum is None:
            return
        spectrum = np.asarray(self.spectrum, dtype=np.float64)
        if spectrum.ndim != 1 or not (np.isfinite(spectrum) & (spectrum >= 0)).all():
            raise InvalidInputError(
                "spectrum must be shares of the variance, finite and none of them negative, got an "
                f"array of shape {spectrum.shape}."
            )
        object.__setattr__(self, "spectrum", spectrum if spectrum.size else None)

    @cached_property
    def measured(self) -> list[Measurement]:
        """Measurements that have figures, highest recall first; of equal ones the smallest."""
        worked = [m for m in self.measurements if m.error is None and np.isfinite(recall_of(m))]
        return sorted(worked, key=lambda m: (-recall_of(m), size_of(m)))

    @property
    def failures(self) -> list[Measurement]:
        """Measurements that could not be made."""
        return [m for m in self.measurements if m.error is not None]

    @cached_property
    def frontier(self) -> list[Measurement]:
        """Those that no other one beats: smallest first, each of higher recall than all before."""
        return _climb(self.measured)

    @cached_property
    def own_frontier(self) -> list[Measurement]:
        """The same among bitkin's own."""
        return _climb([m for m in self.measured if m.ours])


def _climb(measured: Sequence[Measurement]) -> list[Measurement]:
    """Return those of which none is both smaller and of higher recall, smallest first."""
    best: list[Measurement] = []
    sized = [m for m in measured if np.isfinite(m.bytes_per_vector)]
    for m in sorted(sized, key=lambda m: (m.bytes_per_vector, -recall_of(m))):
        if not best or recall_of(m) > recall_of(best[-1]):
            best.append(m)
    return best


def recall_of(measurement: Measurement) -> float:
    """Return the mean recall at the measurement's own oversample, NaN where no query has one."""
    known = measurement.per_query[~np.isnan(measurement.per_query)]
    return float(known.mean()) if known.size else float("nan")


def size_of(measurement: Measurement) -> float:
    """Return the bytes of a vector, for sorting: what is not known comes last."""
    size = measurement.bytes_per_vector
    return size if np.isfinite(size) else np.inf
