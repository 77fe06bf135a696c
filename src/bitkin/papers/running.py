"""`run_paper`: one paper's experiment, from the data to the pages."""

from __future__ import annotations

import importlib
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from bitkin import threads
from bitkin._version import __version__
from bitkin.papers.data import PaperData
from bitkin.papers.pages import write_report
from bitkin.papers.registry import PAPERS
from bitkin.papers.report import PaperReport
from bitkin.papers.scores import Job


class Experiment(Protocol):
    """What a paper's module makes: steps to be done in order, and then a report."""

    def jobs(self) -> list[Job]:
        """Return the steps."""

    def report(self) -> PaperReport:
        """Return what the steps found, once all are done."""


class PaperRun(NamedTuple):
    """A report, where it was written, and how long it took."""

    report: PaperReport
    page: Path
    minutes: float


class PaperSteps:
    """The experiment of one paper with its data loaded, ready to be done."""

    def __init__(self, name: str, data: PaperData) -> None:
        self._start, self._worked = time.perf_counter(), time.process_time()
        self._quick = data.quick
        self._experiment: Experiment = importlib.import_module(PAPERS[name].module).experiment(data)
        self._jobs = self._experiment.jobs()

    def __len__(self) -> int:
        return len(self._jobs)

    def run(self, out: Path, progress: Callable[[int], None] = lambda done: None) -> PaperRun:
        """Do all steps, and write page, tables and figures to the folder `out`; `progress` is
        called with the number of steps done.
        """
        for number, job in enumerate(self._jobs, start=1):
            job()
            progress(number)
        report = self._experiment.report()
        minutes = (time.perf_counter() - self._start) / 60
        worked = (time.process_time() - self._worked) / 60
        page = write_report(report, out, describe_run(minutes, worked, quick=self._quick))
        return PaperRun(report, page, minutes)


def run_paper(name: str, out: Path, data: PaperData) -> PaperRun:
    """Run the experiment of one paper and write page, tables and figures to the folder `out`.

    Results are equal from run to run on one machine with one number of threads.

    Examples
    --------
    >>> from pathlib import Path
    >>> from bitkin.papers.data import PaperData
    >>> from bitkin.papers.running import run_paper
    >>> run = run_paper("nystrom", Path("papers"), PaperData(quick=True))  # doctest: +SKIP
    >>> [claim.verdict for claim in run.report.claims]  # doctest: +SKIP
    ['holds', ...]
    """
    return PaperSteps(name, data).run(out)


def describe_run(minutes: float, processor_minutes: float, *, quick: bool) -> dict[str, Any]:
    """Return what may differ from run to run. The time of all processors tells how long a run is
    where the machine does other things beside.
    """
    return {
        "quick": quick,
        "minutes": round(minutes, 2),
        "processor_minutes": round(processor_minutes, 2),
        "bitkin": __version__,
        "machine": _processor(),
        "cores": os.cpu_count(),
        "threads": threads.get_threads(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _processor() -> str:
    """Return the name of the processor, as well as the system knows it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
