"""What was measured of one way to store and search vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from bitkin.arrays import Floats
from bitkin.evaluate.intervals import interval

OVERSAMPLES = (1, 2, 3, 5, 10, 20, 50, 100)
"""Of every curve: shortlists of k, 2k, … rows."""


@dataclass(frozen=True)
class Measurement:
    """One method, at one number of bits, with one last stage: what it finds, and what it costs.

    Attributes
    ----------
    method : str
        Such as "pca × itq", or "faiss PQ" for a baseline.
    n_bits : int
        Of a code.
    stage : {"codes", "estimate", "exact"}
        The last stage of the search. Baselines have "exact" where they refine, else "estimate".
    vectors : str or None
        How vectors are kept beside the codes, as `Collection.create` takes it.
    bytes_per_vector : float
        Everything that a search needs per row, the model not included.
    oversample : int
        At which `recall` is given: 1 unless the last stage is exact.
    recalls : float64 (q, len(OVERSAMPLES))
        Per query and oversample: the share of the true k that is found when the stage before the
        last keeps k · oversample rows; for "codes" and "estimate", the share that is among the
        first k · oversample rows.
    fit_seconds, encode_us, search_us : float
        CPU time of one thread: of the fit on the sample, per row encoded, and per query of a batch
        searched on the sample at `oversample`.
    us_per_oversample : float
        What `search_us` grows by for every further k rows that the last stage measures.
    note : str or None
        What to know about these figures, such as that they hold for the sample alone.
    error : str or None
        Why nothing could be measured; then all figures are NaN.
    """

    method: str
    n_bits: int
    stage: str
    vectors: str | None = None
    bytes_per_vector: float = float("nan")
    oversample: int = 1
    recalls: Floats = field(repr=False, default_factory=lambda: np.empty((0, len(OVERSAMPLES))))
    fit_seconds: float = float("nan")
    encode_us: float = float("nan")
    search_us: float = float("nan")
    ours: bool = True
    error: str | None = None
    us_per_oversample: float = 0.0
    note: str | None = None

    @property
    def oversamples(self) -> tuple[int, ...]:
        """Those of `OVERSAMPLES` at which a search gives k rows: the last stage chooses them from
        more where it is exact.
        """
        return OVERSAMPLES if self.stage == "exact" else OVERSAMPLES[:1]

    def at(self, oversample: int) -> Measurement:
        """Return this at another of `oversamples`, with the recall and the time of it."""
        more = self.us_per_oversample * (oversample - self.oversample)
        return replace(self, oversample=oversample, search_us=self.search_us + more)

    def cheapest_at(self, recall: float) -> Measurement | None:
        """Return this at the first of `oversamples` that reaches a recall, or None."""
        for oversample in self.oversamples:
            if self.recall_at(oversample) >= recall:
                return self.at(oversample)
        return None

    @property
    def recall(self) -> float:
        """Mean over the queries, at `oversample`."""
        return self.recall_at(self.oversample)

    @property
    def curve(self) -> Floats:
        """Mean recall at each of `OVERSAMPLES`."""
        if len(self.recalls) == 0:
            return np.full(len(OVERSAMPLES), np.nan)
        return np.asarray(np.nanmean(self.recalls, axis=0))

    def recall_at(self, oversample: int) -> float:
        """Return the mean recall at one of `OVERSAMPLES`."""
        return float(self.curve[OVERSAMPLES.index(oversample)])

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Where the recall over all such queries lies, with 95 % confidence."""
        if len(self.recalls) == 0:
            return (float("nan"), float("nan"))
        return interval(self.recalls[:, OVERSAMPLES.index(self.oversample)])

    @property
    def per_query(self) -> Floats:
        """Recall of every query at `oversample`."""
        return np.asarray(self.recalls[:, OVERSAMPLES.index(self.oversample)])

    @property
    def name(self) -> str:
        """All of it in a few words: "pca × itq, 128 bits, exact float32"."""
        kept = f" {self.vectors}" if self.vectors else ""
        return f"{self.method}, {self.n_bits} bits, {self.stage}{kept}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON has them."""
        low, high = self.interval
        return {
            "method": self.method,
            "bits": self.n_bits,
            "stage": self.stage,
            "vectors": self.vectors,
            "bytes_per_vector": _plain(self.bytes_per_vector),
            "oversample": self.oversample,
            "recall": _plain(self.recall),
            "interval": [_plain(low), _plain(high)],
            "curve": {
                str(o): _plain(r) for o, r in zip(OVERSAMPLES, self.curve.tolist(), strict=True)
            },
            "fit_seconds": _plain(self.fit_seconds),
            "encode_us": _plain(self.encode_us),
            "search_us": _plain(self.search_us),
            "ours": self.ours,
            "note": self.note,
            "error": self.error,
        }


def _plain(value: float) -> float | None:
    """Return a number that JSON can hold, None for NaN."""
    return None if np.isnan(value) else round(float(value), 6)
