"""The arguments of `compare`, checked before anything is read, and the call that repeats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bitkin import threads as pool
from bitkin.checks import is_number, one_of, shown, whole_number
from bitkin.choices import STAGES, TRUTH_METRICS
from bitkin.errors import InvalidInputError
from bitkin.evaluate.comparing.baselines import check_baselines
from bitkin.evaluate.trials.measuring import possible_kinds
from bitkin.evaluate.trials.trial import QUERIES, SAMPLE_ROWS
from bitkin.randomness import resolve_seed

BITS = (32, 64, 128, 256)
KINDS = ("float32", "float16", "int8", "csr")
_MOST_BITS = 1 << 16


@dataclass
class ComparisonSettings:
    """All arguments of `compare` but the rows; what is wrong with one is raised at once."""

    methods: Any = None
    bits: Any = BITS
    k: int = 10
    metric: str = "l2"
    stages: Any = None
    vectors: Any = None
    baselines: Any = "auto"
    n_queries: int = QUERIES
    sample_rows: int = SAMPLE_ROWS
    random_state: int | None = 0
    threads: int | None = None
    time_limit: float | None = None
    picture_shape: tuple[int, ...] | None = None
    texts: Sequence[str] | None = None
    own_queries: bool = False

    def __post_init__(self) -> None:
        self.call = self._describe_call()
        self.bits = _check_bits(self.bits)
        self.k = whole_number(self.k, "k", low=1)
        self.metric = one_of(self.metric, "metric", TRUTH_METRICS)
        self.stages = _some_of(self.stages, "stages", STAGES) or STAGES
        self.vectors = _some_of(self.vectors, "vectors", KINDS)
        check_baselines(self.baselines)
        self.n_queries = whole_number(self.n_queries, "n_queries", low=1)
        self.sample_rows = whole_number(self.sample_rows, "sample_rows", low=1)
        self.random_state = resolve_seed(self.random_state)
        if self.threads is not None:
            self.threads = whole_number(self.threads, "threads", low=1, high=pool.MOST_THREADS)
        _check_limit(self.time_limit)
        self.picture_shape = _check_shape(self.picture_shape)
        if self.texts is not None and not _is_sequence(self.texts):
            raise InvalidInputError(
                f"texts must be a list with one text per row of X, got {shown(self.texts)}."
            )

    def _describe_call(self) -> str:
        """Return the call in Python, with what differs from the defaults."""
        given = ["X"] + (["queries=queries"] if self.own_queries else [])
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ("texts", "own_queries") or value is one.default:
                continue
            if value != one.default:
                given.append(f"{one.name}={value!r}")
        if self.texts is not None:
            given.append("texts=texts")
        return f"bitkin.compare({', '.join(given)})"

    def choose_kinds(self, *, sparse: bool) -> tuple[str, ...]:
        """Return how vectors are to be kept for the exact stage, none without it; raise for a way
        that rows do not have.
        """
        possible = possible_kinds(sparse=sparse, metric=self.metric)
        for name in self.vectors or ():
            if name not in possible:
                kind = "CSR" if sparse else "dense"
                raise InvalidInputError(
                    f"vectors must be some of {', '.join(possible) or 'none'} for {kind} rows and "
                    f"metric={self.metric!r}, got {name!r}."
                )
        return (self.vectors or possible) if "exact" in self.stages else ()

    def check_rows(self, n_rows: int | None, n_columns: int, *, sparse: bool) -> None:
        """Raise where texts or pictures do not fit the rows."""
        if self.texts is not None and len(self.texts) != n_rows:
            raise InvalidInputError(
                f"texts must be one per row of X, {n_rows:,} of them, got {len(self.texts):,}."
            )
        shape = self.picture_shape
        if shape is None:
            return
        if sparse:
            raise InvalidInputError("picture_shape must be None for CSR rows.")
        size = shape[0] * shape[1] * (shape[2] if len(shape) == 3 else 1)
        if size != n_columns:
            raise InvalidInputError(
                f"picture_shape must hold the {n_columns} columns of X, got {shape}."
            )


def _check_bits(bits: Any) -> tuple[int, ...]:
    try:
        numbers = [bits] if is_number(bits) else list(bits)
    except TypeError:
        numbers = [bits]
    if not numbers or isinstance(bits, (str, bytes)):
        raise InvalidInputError(
            f"bits must be a whole number or several, such as (64, 128), got {shown(bits)}."
        )
    checked = {whole_number(number, "bits", low=1, high=_MOST_BITS) for number in numbers}
    return tuple(sorted(checked))


def _some_of(value: Any, name: str, choices: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return words out of `choices`, in their order there; None for None."""
    if value is None:
        return None
    try:
        words = [value] if isinstance(value, str) else list(value)
    except TypeError:
        words = [value]
    chosen = {one_of(word, name, choices) for word in words}
    if not chosen:
        raise InvalidInputError(f"{name} must be some of {', '.join(choices)}, got none.")
    return tuple(choice for choice in choices if choice in chosen)


def _is_sequence(value: Any) -> bool:
    """Tell whether a value has items and a number of them, as a list or an array has."""
    is_one = isinstance(value, (str, bytes, Mapping))
    return not is_one and hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _check_limit(limit: Any) -> None:
    if limit is not None and not (is_number(limit) and limit > 0):
        raise InvalidInputError(f"time_limit must be seconds above 0 or None, got {shown(limit)}.")


def _check_shape(shape: Any) -> tuple[int, ...] | None:
    if shape is None:
        return None
    try:
        sizes = tuple(whole_number(size, "picture_shape", low=1) for size in shape)
    except TypeError:
        sizes = ()
    if len(sizes) not in (2, 3) or (len(sizes) == 3 and sizes[2] != 3):
        raise InvalidInputError(
            f"picture_shape must be (height, width) or (height, width, 3), got {shown(shape)}."
        )
    return sizes
