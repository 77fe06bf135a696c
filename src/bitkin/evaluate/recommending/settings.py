"""The arguments of `recommend`, checked before anything is read, and the call that repeats it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bitkin.checks import is_number, one_of, shown
from bitkin.choices import METRICS
from bitkin.errors import InvalidInputError
from bitkin.evaluate.comparing.settings import ComparisonSettings
from bitkin.evaluate.trials.trial import SAMPLE_ROWS

BITS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
CHOOSING_QUERIES = 500
CHECKING_QUERIES = 1_000  # at least
WIDEST_INTERVAL = 0.04
_MOST_CHECKING_QUERIES = 4_000


@dataclass
class RecommendSettings:
    """All arguments of `recommend` but the rows; what is wrong with one is raised at once."""

    recall: float = 0.95
    k: int = 10
    max_bytes: float | None = None
    metric: str = "l2"
    streaming: bool = False
    bits: Any = None
    methods: Any = None
    n_queries: int | None = None
    sample_rows: int = SAMPLE_ROWS
    time_limit: float | None = None
    random_state: int | None = 0
    own_queries: bool = False

    def __post_init__(self) -> None:
        if not is_number(self.recall) or not 0.0 < self.recall <= 1.0:
            raise InvalidInputError(
                f"recall must be above 0 and up to 1, such as 0.95, got {shown(self.recall)}."
            )
        if self.max_bytes is not None and not (is_number(self.max_bytes) and self.max_bytes > 0):
            raise InvalidInputError(
                f"max_bytes must be a number of bytes per vector above 0, or None, got "
                f"{shown(self.max_bytes)}."
            )
        if not isinstance(self.streaming, (bool, np.bool_)):
            raise InvalidInputError(
                f"streaming must be True or False, got {shown(self.streaming)}."
            )
        one_of(self.metric, "metric", METRICS)
        self.own_bits = self.bits is not None
        if isinstance(self.bits, np.ndarray):
            self.bits = self.bits.tolist()
        checked = ComparisonSettings(
            bits=self.bits if self.own_bits else BITS,
            k=self.k,
            metric=self.metric,
            n_queries=1 if self.n_queries is None else self.n_queries,
            sample_rows=self.sample_rows,
            random_state=self.random_state,
            time_limit=self.time_limit,
        )
        self.recall = float(self.recall)
        self.bits, self.k, self.sample_rows = checked.bits, checked.k, checked.sample_rows
        # what a seed of None was resolved to: the call repeats what was done
        self.random_state = checked.random_state
        self.call = self._describe_call()
        if self.n_queries is None:
            self.n_queries = CHOOSING_QUERIES + queries_to_check(float(self.recall), self.k)

    def _describe_call(self) -> str:
        """Return the call in Python, with what differs from the defaults."""
        given = ["X"] + (["queries=queries"] if self.own_queries else [])
        given += [
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)
            if one.name not in ("own_queries", "time_limit", *(() if self.own_bits else ("bits",)))
            and getattr(self, one.name) != one.default
        ]
        return f"bitkin.recommend({', '.join(given)})"


def queries_to_check(recall: float, k: int) -> int:
    """Return how many fresh queries make an interval narrow enough.

    Recalls of queries spread by √(r (1 − r)) where k is 1, and by about half of that where it is
    10; an interval for the mean of as many other queries is 2 · 1.96 · √2 / √n of it wide.
    """
    spread = np.sqrt(recall * (1.0 - recall)) * np.clip(1.6 / np.sqrt(k), 0.4, 1.0)
    wanted = 1.3 * (2 * 1.96 * np.sqrt(2.0) * spread / WIDEST_INTERVAL) ** 2
    return int(np.clip(np.ceil(wanted), CHECKING_QUERIES, _MOST_CHECKING_QUERIES))
