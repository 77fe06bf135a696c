"""Ways to search with a code that was tried: how far, with which vectors, and at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bitkin.arrays import Floats
from bitkin.code_spec import CodeSpec
from bitkin.evaluate.trials.measurement import OVERSAMPLES, Measurement
from bitkin.evaluate.trials.measuring import EXACT_OVERSAMPLE, FittedMethod, KeptKind
from bitkin.evaluate.trials.methods import CodeMethod
from bitkin.evaluate.trials.trial import Trial

# Nanoseconds of one thread of a Xeon of 2021. The choice goes by these, not by a clock: the same
# rows and seed give the same answer on a busy machine. Ratios change little between machines.
_COMPARE, _ESTIMATE, _OFFER = 0.12, 0.48, 0.4  # a word of a code; a row of a scan
_FETCH, _NUMBER, _ENTRY = 60.0, 0.1, 1.0  # a vector that is measured, each number, each CSR entry


@dataclass(frozen=True, eq=False)
class TriedCode:
    """A code that was fitted on the sample, and what each last stage finds with it."""

    method: CodeMethod
    spec: CodeSpec
    best_stage: str
    code_bytes: float
    rows_per_oversample: int
    """Rows that an exact stage measures at oversample 1."""
    recalls: Mapping[tuple[str, str | None], Floats]
    """By last stage and kind of kept vectors: float64 (q, len(OVERSAMPLES))."""
    kind_bytes: Mapping[str | None, float]
    fit_seconds: float
    encode_us: float
    scan_rows: int
    """Of all the data, over which the first stage goes."""
    vector_cost: float
    """Nanoseconds that it takes to measure a vector."""

    @classmethod
    def from_fitted(cls, fitted: FittedMethod, kinds: Mapping[str, KeptKind]) -> TriedCode:
        """Take from a fitted method what choosing needs, and let go of the rest."""
        trial = fitted.trial
        stages = dict.fromkeys(("codes", fitted.best_stage))
        recalls: dict[tuple[str, str | None], Floats] = {
            (stage, None): fitted.recalls(stage) for stage in stages
        }
        recalls |= {("exact", name): fitted.recalls("exact", kept) for name, kept in kinds.items()}
        return cls(
            method=fitted.method,
            spec=fitted.hasher.spec_,
            best_stage=fitted.best_stage,
            code_bytes=fitted.code_bytes,
            rows_per_oversample=fitted.collection.rows_measured(trial.k, 1),
            recalls=recalls,
            kind_bytes={None: 0.0, **{name: k.bytes_per_vector for name, k in kinds.items()}},
            fit_seconds=fitted.fit_seconds,
            encode_us=fitted.encode_us,
            scan_rows=trial.n_rows,
            vector_cost=_cost_of_vector(trial),
        )

    @property
    def n_bits(self) -> int:
        """Of a code."""
        return self.spec.n_bits

    def ways(self) -> Iterator[Way]:
        """List every way to search with this code."""
        for (stage, vectors), recalls in self.recalls.items():
            for place, oversample in enumerate(OVERSAMPLES):
                if stage == "exact" or oversample == 1:
                    yield Way(self, stage, vectors, oversample, recalls[:, place])

    def best_recall(self, vectors: str | None) -> tuple[float, float]:
        """Return the highest mean recall with vectors kept so, and its standard error."""
        last = "exact" if vectors is not None else self.best_stage
        values = self.recalls[last, vectors]
        return mean_and_error(values[:, -1 if vectors is not None else 0])

    def cost_of_scan(self, stage: str) -> float:
        """Return the nanoseconds per query of a first stage over all rows."""
        words = self.spec.plane_words * self.spec.bits_per_symbol
        per_word = _COMPARE if stage == "codes" else _ESTIMATE
        return self.scan_rows * (words * per_word + _OFFER)

    def measurement(self, stage: str, vectors: str | None) -> Measurement:
        """Return what was measured, without search times."""
        return Measurement(
            method=self.method.name,
            n_bits=self.n_bits,
            stage=stage,
            vectors=vectors,
            bytes_per_vector=self.code_bytes + self.kind_bytes[vectors],
            oversample=EXACT_OVERSAMPLE if stage == "exact" else 1,
            recalls=self.recalls[stage, vectors],
            fit_seconds=self.fit_seconds,
            encode_us=self.encode_us,
        )


Family = tuple[str, int, str, str | None]
"""A method, bits, the last stage, and how vectors are kept."""


@dataclass(frozen=True, eq=False)
class Way:
    """One way to search: a code, the last stage, how vectors are kept, and the oversample."""

    code: TriedCode
    stage: str
    vectors: str | None
    oversample: int
    recalls: Floats
    """Of every query that chooses."""

    @property
    def bytes_per_vector(self) -> float:
        """Of everything that a search needs."""
        return self.code.code_bytes + self.code.kind_bytes[self.vectors]

    @cached_property
    def recall(self) -> float:
        """Mean over the queries that choose."""
        return mean_and_error(self.recalls)[0]

    @cached_property
    def sure(self) -> float:
        """The recall less its standard error."""
        mean, error = mean_and_error(self.recalls)
        return mean - error

    @cached_property
    def work(self) -> float:
        """Nanoseconds per query on all rows, by fixed figures."""
        code = self.code
        first = code.best_stage if self.stage == "exact" else self.stage
        measured = code.rows_per_oversample * self.oversample if self.stage == "exact" else 0
        return code.cost_of_scan(first) + min(measured, code.scan_rows) * code.vector_cost

    @property
    def key(self) -> tuple[str, int, str, str | None, int]:
        """What tells it from others."""
        return (*self.family, self.oversample)

    @property
    def family(self) -> Family:
        """What it has in common with itself at other oversamples."""
        return self.code.method.name, self.code.n_bits, self.stage, self.vectors

    def measurement(self) -> Measurement:
        """Return what was measured, at this oversample."""
        return self.code.measurement(self.stage, self.vectors).at(self.oversample)


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean over queries that count, and its standard error."""
    kept = values[~np.isnan(values)]
    if len(kept) == 0:
        return 0.0, 0.0
    error = kept.std(ddof=1) / np.sqrt(len(kept)) if len(kept) > 1 else 0.0
    return float(kept.mean()), float(error)


def _cost_of_vector(trial: Trial) -> float:
    if trial.sparse:
        return _FETCH + _ENTRY * float(trial.rows.nnz) / max(1, int(trial.rows.shape[0]))
    return float(_FETCH + _NUMBER * trial.n_features)
