"""Recommendation: what `bitkin.recommend` says, ready to be built."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bitkin.collection.collection import Collection
from bitkin.evaluate.recommending.wording import SearchFacts, describe, headline, reasons
from bitkin.evaluate.reporting.page import (
    ReportChoice,
    ReportedCheck,
    ReportPage,
    write_html,
    write_markdown,
)
from bitkin.evaluate.trials.measurement import Measurement
from bitkin.hashers.base import Hasher


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """The cheapest way to keep and search vectors that reaches a recall, and what to expect of it.

    Made by `bitkin.recommend`; printed, it says what to take, what to expect, why, and how to
    build it.

    Attributes
    ----------
    hasher : Hasher
        Fitted, on the sample: the very model that was measured. `build` and `Collection.create`
        take it as it is, however many rows there are; a model of other rows is another one, about
        which nothing was measured.
    chosen : Measurement
        What was measured of it by the queries that chose.
    settings : dict
        What `Collection.create` takes beside the hasher: `vectors`, `metric`, `stage`,
        `oversample`, `index`, `first`.
    recall : float
        Share of the true k that fresh queries find, which had no part in the choice.
    interval : tuple of float
        Where the recall of as many other queries lies, with 95 % confidence.
    target : float
        The recall that was asked for.
    k : int
        Neighbours per query.
    max_bytes : float or None
        Per vector, that was asked for.
    runner_up : Measurement or None
        The best by another method that reaches the recall too.
    measurements : list of Measurement
        All that was measured in full, by the queries that chose; what failed says why.
    facts : dict
        What was measured on.
    notes : tuple of str
        How it was measured.
    command : str or None
        Makes the same recommendation again.
    seconds : float
        That it took.
    complete : bool
        False where the time limit or Ctrl-C ended it: then it is the best so far.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    >>> best = bitkin.recommend(X, recall=0.8, methods="pca × random", bits=16)
    >>> best.reached, best.bytes_per_vector < 4 * 16, len(best.build(X))
    (True, True, 500)
    """

    hasher: Hasher
    chosen: Measurement
    settings: Mapping[str, Any]
    recall: float
    interval: tuple[float, float]
    target: float
    k: int
    max_bytes: float | None
    runner_up: Measurement | None
    measurements: list[Measurement]
    facts: Mapping[str, Any]
    search_facts: SearchFacts = field(repr=False)
    notes: Sequence[str] = ()
    command: str | None = None
    seconds: float = 0.0
    complete: bool = True

    @property
    def stage(self) -> str:
        """The last stage of a search."""
        return str(self.settings["stage"])

    @property
    def oversample(self) -> int:
        """How many times k rows the exact stage measures."""
        return int(self.settings["oversample"])

    @property
    def vectors(self) -> str | None:
        """How vectors are kept; None where they are not."""
        kept: str | None = self.settings["vectors"]
        return kept

    @property
    def index(self) -> str:
        """How codes are searched."""
        return str(self.settings["index"])

    @property
    def metric(self) -> str:
        """What distances are."""
        return str(self.settings["metric"])

    @property
    def bytes_per_vector(self) -> float:
        """Everything that a search needs, the model not included."""
        return self.chosen.bytes_per_vector

    @property
    def reached(self) -> bool:
        """Whether fresh queries reach the recall that was asked for."""
        return bool(self.recall >= self.target)

    @cached_property
    def reason(self) -> str:
        """Why this one, a line per sentence or two."""
        return "\n".join(reasons(self, self.search_facts))

    @property
    def recipe(self) -> list[str]:
        """How to build it: lines of Python, which fit 80 columns with a label before them."""
        return [
            "recommendation.build(X)     # a Collection of all rows, ready to search",
            "bitkin.Collection.create(   # or an empty one",
            "    None, recommendation.hasher, **recommendation.settings)",
        ]

    def build(
        self,
        X: Any,
        path: str | os.PathLike[str] | None = None,
        *,
        ids: Any = None,
        metadata: Any = None,
        fields: dict[str, Any] | None = None,
    ) -> Collection:
        """Return a collection of all rows of X that searches as recommended, and holds no room for
        more of them: it takes as many bytes as were promised. For a moment, while that room is
        given back, it takes up to twice as many.

        Parameters
        ----------
        X : array, SciPy sparse matrix, data frame, path, list of paths or VectorSource
            The rows.
        path : str, path or None, default None
            A folder that is not there yet, in which the collection lasts; vectors stay on its disk,
            so that it holds less memory than was promised. None keeps it in memory.
        ids : whole numbers or strings, optional
            One per row; without them, rows are numbered from 0.
        metadata, fields : optional
            As for `Collection.add` and `Collection.create`.
        """
        kind = "int" if ids is None or _are_numbers(ids) else "str"
        collection = Collection.create(path, self.hasher, ids=kind, fields=fields, **self.settings)
        try:
            collection.add(X, ids=ids, metadata=metadata)
            collection.compact()
        except BaseException:
            collection.close()
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)
            raise
        return collection

    @cached_property
    def page(self) -> ReportPage:
        """All of it as `evaluate.reporting` writes it."""
        return ReportPage(
            title="Recommended code",
            facts=self.facts,
            command=self.command,
            choice=ReportChoice(
                headline(self),
                self.chosen,
                self.runner_up,
                self.reason.split("\n"),
                ReportedCheck(self.recall, self.interval, self.search_facts.search_us),
            ),
            measurements=self.measurements,
            notes=self.notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON has them."""
        return {
            "method": self.chosen.method,
            "bits": self.chosen.n_bits,
            "hasher": " ".join(repr(self.hasher).split()),
            "stage": self.stage,
            "vectors": self.vectors,
            "oversample": self.oversample,
            "index": self.index,
            "metric": self.metric,
            "k": self.k,
            "bytes_per_vector": round(float(self.bytes_per_vector), 3),
            "recall": round(float(self.recall), 6),
            "interval": [round(float(end), 6) for end in self.interval],
            "target": float(self.target),
            "reached": self.reached,
            "complete": self.complete,
            "reason": self.reason,
            "runner_up": None if self.runner_up is None else self.runner_up.to_dict(),
            "seconds": round(self.seconds, 2),
            "facts": {name: _plain(value) for name, value in self.facts.items()},
            "measurements": [measured.to_dict() for measured in self.measurements],
            "command": self.command,
        }

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that needs nothing else, and return its path."""
        return write_html(self.page, path)

    def to_markdown(self, path: str | os.PathLike[str]) -> Path:
        """Write a Markdown file, and return its path."""
        write_markdown(self.page, path)
        return Path(path)

    def __str__(self) -> str:
        return describe(self)

    def __repr__(self) -> str:
        return str(self)


def _are_numbers(ids: Any) -> bool:
    """Tell whether ids are whole numbers rather than strings, by the first of them."""
    first = next(iter(np.atleast_1d(np.asarray(ids)).tolist()), 0)
    return not isinstance(first, str)


def _plain(value: Any) -> Any:
    """Return a fact as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value
