"""Shared by all benches: interleaved medians, JSON lines, and what this machine can do at best."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _tiny import TINY, sized
from bitkin.cli.machine.doctor import processor_name, read_bandwidth


def interleaved(
    jobs: dict[str, Callable[[], Any]],
    rounds: int = 7,
    pause: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Run all jobs in turn, `rounds` times after one untimed round, and return the median seconds
    of each by a clock.

    OpenBLAS's threads go on spinning for some milliseconds after a product; a `pause` keeps one
    job's from the next.
    """
    if TINY:
        rounds, pause = 1, 0.0
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            time.sleep(pause)
            start = clock()
            job()
            times[name].append(clock() - start)
    return {name: float(np.median(taken)) for name, taken in times.items()}


def report(question: str, **figures: Any) -> None:
    """Print one JSON line; times in milliseconds unless named otherwise. A ratio with a goal says
    whether it is met.
    """
    if figures.get("wanted") is not None and "ratio" in figures:
        figures["met"] = bool(figures["ratio"] >= figures["wanted"])
    rounded = {
        key: round(value, 3) if isinstance(value, float) else value
        for key, value in figures.items()
    }
    print(json.dumps({"question": question, **rounded}, ensure_ascii=False), flush=True)


def report_machine(**figures: Any) -> float:
    """Print the processor and the bytes a second that one thread reads, by a sum; return those."""
    read = read_bandwidth(sized(1 << 28, 1 << 16))
    report("this machine", processor=processor_name(), read_gb_s=read / 1e9, **figures)
    return read
