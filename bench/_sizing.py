"""A model of a cluster that fits, encodes and searches: seconds and bytes from rates of one core.

Every worker is a core with memory of its own and a link of so many bytes a second; the client has
such a link too. A pass over P pieces on W workers takes ⌈P / W⌉ rounds of one piece each, or the
scheduler's time for all tasks where that is more. States of a pass are merged eight at a time,
level after level: seven of them travel to the eighth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FAN_IN = 8
SAMPLE_ROWS = 32_768  # that the rotation looks at
PIECE_BYTES = 1 << 26


@dataclass(frozen=True)
class Rates:
    """What one core was measured to do; seconds unless named otherwise."""

    make_row: float
    """To have a row in memory: read, or made."""
    moments_row: float
    merge_states: float
    """Of two states."""
    state_bytes: float
    solve: float
    """Of directions and rotation, once all statistics are there."""
    encode_row: float
    scan_pair: float
    """Of a query of a batch of 100 with one code."""
    scan_lone: float
    """Of a lone query with one code."""
    bytes_per_code: float
    """In the memory of a worker that searches."""
    task: float
    """Of the scheduler, per task."""
    answer: float
    """From the client to a worker and back."""


@dataclass(frozen=True)
class Network:
    """What is between machines."""

    bytes_per_second: float
    round_trip: float


@dataclass(frozen=True)
class Plan:
    """What is to be done, by how many."""

    n_rows: int
    n_features: int
    n_bits: int
    workers: int
    piece_rows: int
    """Rows of a piece of vectors."""
    shards: int
    """Of codes."""
    reads: int = 2
    """How often vectors are made or read by a fit: for statistics, and for the sample."""

    @property
    def pieces(self) -> int:
        """How many pieces of vectors there are."""
        return math.ceil(self.n_rows / self.piece_rows)


def predict_fit(plan: Plan, rates: Rates, network: Network) -> float:
    """Return the seconds of a fit with PCA and a rotation."""
    row = plan.reads * rates.make_row + rates.moments_row
    spread = _pass(plan, rates, row * plan.piece_rows)
    states, merging = min(plan.pieces, plan.n_rows), 0.0
    while states > 1:
        merged = min(FAN_IN, states) - 1
        rounds = math.ceil(math.ceil(states / FAN_IN) / plan.workers)
        moved = rates.state_bytes / network.bytes_per_second
        merging += rounds * merged * (rates.merge_states + moved) + rates.task
        states = math.ceil(states / FAN_IN)
    sample = 4 * min(SAMPLE_ROWS, plan.n_rows) * plan.n_features / network.bytes_per_second
    return spread + merging + sample + rates.solve + 4 * (rates.answer + network.round_trip)


def predict_encode(plan: Plan, rates: Rates, network: Network) -> float:
    """Return the seconds of an encode whose codes stay with the workers."""
    row = rates.make_row + rates.encode_row
    return _pass(plan, rates, row * plan.piece_rows) + rates.answer + network.round_trip


def predict_search(plan: Plan, rates: Rates, network: Network, queries: int, k: int) -> float:
    """Return the seconds of a search of all codes."""
    pair = rates.scan_lone if queries == 1 else rates.scan_pair
    scan = math.ceil(plan.n_rows / plan.workers) * queries * pair
    # what workers find travels to one of them, or to the client, level after level
    levels = max(1, math.ceil(math.log(max(2, plan.workers), FAN_IN)))
    travel = levels * (12 * queries * k * FAN_IN / network.bytes_per_second + network.round_trip)
    tasks = (plan.workers * 2 + levels) * rates.task
    return scan + travel + tasks + rates.answer


def predict_bytes(plan: Plan, rates: Rates) -> dict[str, float]:
    """Return the memory of a worker while it encodes, and of all of them while they search."""
    piece = 4 * plan.piece_rows * plan.n_features
    return {
        "worker_fit_gb": (3 * piece + FAN_IN * rates.state_bytes) / 1e9,
        "worker_encode_gb": 3 * piece / 1e9,
        "all_search_gb": plan.n_rows * rates.bytes_per_code / 1e9,
    }


def _pass(plan: Plan, rates: Rates, piece_seconds: float) -> float:
    rounds = math.ceil(plan.pieces / plan.workers)
    return max(rounds * (piece_seconds + rates.answer), plan.pieces * rates.task)
