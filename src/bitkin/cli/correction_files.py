"""Corrections in files: two numbers a vector, in the order of the vectors, with the metric and the
model they are for.

A plain .npy array of them, as NumPy saves what `bitkin.corrections` returns, is read too: of that,
neither is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bitkin.cli.searching.plan import METRICS

if TYPE_CHECKING:
    from bitkin.io.vectors import VectorSource
    from bitkin.rescoring.estimate import Corrections, Scorer

CLASS_NAME = "Corrections"


def write_corrections(
    path: Path, scorer: Scorer, source: VectorSource, progress: Callable[[int], None]
) -> None:
    """Write the corrections of all rows, a batch at a time: aside first, then in place at once."""
    import numpy as np

    from bitkin.io.writer import Chunks, write_file

    def pieces() -> Iterator[Corrections]:
        for first, batch in source.batches():
            yield scorer.corrections(batch, source.name, first)
            progress(first + batch.shape[0])

    numbers = Chunks(np.dtype(np.float32), (len(source), 2), pieces)
    write_file(
        path,
        CLASS_NAME,
        {"metric": scorer.metric},
        scorer.model.fingerprint,
        {"corrections": numbers},
    )


def read_corrections(path: Path, metric: str, fingerprint: str) -> Corrections:
    """Map a file of corrections, which must be for this metric and the model of this
    fingerprint.
    """
    if path.suffix == ".npy":
        return _plain(path)
    from bitkin.errors import CodeMismatchError, InvalidInputError
    from bitkin.io.layout import damaged
    from bitkin.io.reader import read_file

    stored = read_file(path, mmap=True)
    if stored.class_name != CLASS_NAME:
        raise InvalidInputError(
            f"{path} holds {stored.class_name}, not corrections. Make them with bitkin encode "
            "--corrections."
        )
    numbers = stored.tensor("corrections", "float32", (None, 2))
    stored.require_no_more_tensors()
    made_for = stored.parameter("metric")
    if made_for not in METRICS or stored.fingerprint is None:
        raise damaged(str(path), "does not say which metric and model its corrections are for")
    if stored.fingerprint != fingerprint:
        raise CodeMismatchError(
            f"{path} must hold corrections of the model given by --model, got those of another "
            "one. Make them with "
            "bitkin encode --corrections and that model."
        )
    if made_for != metric:
        raise InvalidInputError(
            f"{path} must hold corrections for {metric}, got those for {made_for}. Search with "
            f"--metric {made_for}, or "
            f"make others with bitkin encode --corrections --metric {metric}."
        )
    return numbers


def _plain(path: Path) -> Corrections:
    from bitkin.cli.npy_files import map_npy
    from bitkin.errors import InvalidInputError

    numbers = map_npy(path)
    if numbers.dtype != "float32" or numbers.ndim != 2 or numbers.shape[1] != 2:
        raise InvalidInputError(
            f"{path} must hold corrections, float32 (n, 2) as bitkin.corrections makes them, got "
            f"{numbers.dtype} "
            f"{numbers.shape}."
        )
    return numbers
