"""What the stages of a search took: seconds, and rows in and out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Timing:
    """What one stage has done, of all queries together."""

    seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0


@dataclass(slots=True)
class Timings:
    """What every stage has done; "encode" is what makes codes of queries."""

    stages: dict[str, Timing] = field(default_factory=dict)

    def add(self, stage: str, since: float, rows_in: int, rows_out: int) -> float:
        """Note that a stage ends now, and return the time."""
        now = time.perf_counter()
        timing = self.stages.setdefault(stage, Timing())
        timing.seconds += now - since
        timing.rows_in += rows_in
        timing.rows_out += rows_out
        return now
