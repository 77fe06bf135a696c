"""Corrections in files: two numbers per vector, in the order of the vectors, with the metric and
the model they are for.

A plain .npy array of them, as NumPy saves what `bitkin.corrections` returns, is read too: of that,
neither is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import one_of
from bitkin.choices import METRICS
from bitkin.errors import BitkinError, CodeMismatchError, InvalidInputError
from bitkin.hashers.encoding import (
    RowFile,
    RowTensors,
    code_tensors,
    codes_file,
    encode_to_row_files,
)
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.input_files import map_npy
from bitkin.io.layout import damaged
from bitkin.io.reader import read_file
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.writer import TensorChunks, write_file
from bitkin.rescoring.corrections import batches_for, scorer_for
from bitkin.rescoring.estimate import Corrections, Scorer

CLASS_NAME = "Corrections"


def save_corrections(
    path: str | os.PathLike[str],
    hasher: ProjectionHash,
    vectors: Any,
    metric: str = "l2",
    *,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write the corrections of vectors to a file, in little memory however many they are.

    The file also says which metric and which model they are for. `load_corrections` reads it, and
    `bitkin search --corrections`.

    Parameters
    ----------
    path : path
        The file to write, or to replace.
    hasher : ProjectionHash
        As for `corrections`.
    vectors : array, CSR matrix, data frame, VectorSource or path
        The rows that were hashed.
    metric : {"l2", "cosine", "ip"}
        The metric to be estimated.
    progress : callable, optional
        Called with the number of rows done.

    Examples
    --------
    >>> import numpy as np, bitkin, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "corrections.bitkin"
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
    >>> bitkin.save_corrections(path, hasher, X, metric="ip")
    >>> kept = bitkin.load_corrections(path, hasher, metric="ip")
    >>> bool((kept == bitkin.corrections(hasher, X, metric="ip")).all())
    True
    """
    scorer = scorer_for(hasher, metric)
    source = open_vectors(vectors, name="vectors")
    batches_for(scorer, source, source.name)  # checks the columns
    write_corrections(path, scorer, source, progress)


def write_corrections(
    path: str | os.PathLike[str],
    scorer: Scorer,
    source: VectorSource,
    progress: Callable[[int], None] | None,
) -> None:
    """Write the corrections of all rows, a batch at a time: aside first, then in place at once."""

    def compute_chunks() -> Iterator[Corrections]:
        for first, batch in source.batches():
            yield scorer.corrections(batch, source.name, first)
            if progress is not None:
                progress(first + batch.shape[0])

    # computed while they are written: no more than one batch is in memory
    chunks = TensorChunks(np.dtype(np.float32), (len(source), 2), compute_chunks)
    fingerprint = scorer.model.fingerprint
    write_file(path, CLASS_NAME, {"metric": scorer.metric}, fingerprint, {"corrections": chunks})


def encode_with_corrections_to_files(
    hasher: ProjectionHash,
    scorer: Scorer,
    source: VectorSource,
    codes_path: str | os.PathLike[str],
    corrections_path: str | os.PathLike[str],
    *,
    identity: Mapping[str, Any] | None = None,
    fresh: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write codes and corrections of all rows in one pass, by one projection of each.

    It continues after an interruption as `encode_to_file` does; returns the row that this call
    began with.
    """
    hasher.require_features(source)

    def encode_rows(batch: Any, first: int) -> list[RowTensors]:
        codes, kept = scorer.encode(batch, source.name, first)
        return [{"corrections": kept}, code_tensors(hasher, codes)]

    fingerprint = scorer.model.fingerprint
    shapes: dict[str, Any] = {"corrections": (np.dtype(np.float32), (2,))}
    metric = {"metric": scorer.metric}
    corrections = RowFile(corrections_path, CLASS_NAME, metric, fingerprint, shapes, metric)
    return encode_to_row_files(
        [corrections, codes_file(hasher, codes_path)],
        encode_rows,
        source,
        identity=identity,
        fresh=fresh,
        progress=progress,
    )


def load_corrections(
    path: str | os.PathLike[str], hasher: ProjectionHash, metric: str = "l2"
) -> Corrections:
    """Map a file of corrections, float32 (n, 2), that must be for this hasher and this metric.

    They are what `rescore` and `EpochIndex.add_codes` take. The file must stay as it is while they
    are in use. An .npy array of corrections is taken as it is: what it was made for is not known.
    """
    one_of(metric, "metric", METRICS)
    fingerprint = getattr(hasher, "fingerprint_", None)
    if fingerprint is None:
        raise InvalidInputError(
            f"hasher must be the fitted one that made the codes, got {type(hasher).__name__}."
        )
    return read_corrections(Path(path), metric, fingerprint)


def metric_of_corrections(path: Path) -> str | None:
    """Return the metric that a file of corrections says it is for; None where it says nothing, as
    an .npy array does not, or is no such file, which reading it will say.
    """
    if path.suffix == ".npy":
        return None
    try:
        stored = read_file(path, mmap=True)
        metric = stored.parameter("metric") if stored.class_name == CLASS_NAME else None
    except BitkinError:
        return None
    return metric if metric in METRICS else None


def read_corrections(
    path: Path,
    metric: str,
    fingerprint: str,
    model: str = "hasher",
    spelling: ArgumentSpelling = PYTHON,
) -> Corrections:
    """Map a file of corrections, which must be for this metric and the model of this fingerprint.

    `model` is the argument that gave the model.
    """
    if path.suffix == ".npy":
        return _map_plain(path)
    stored = read_file(path, mmap=True)
    make = spelling.command("save_corrections")
    if stored.class_name != CLASS_NAME:
        raise InvalidInputError(
            f"{path} holds {stored.class_name}, not corrections. Make them with {make}."
        )
    kept = stored.tensor("corrections", "float32", (None, 2))
    stored.require_no_more_tensors()
    made_for = stored.parameter("metric")
    if made_for not in METRICS or stored.fingerprint is None:
        raise damaged(str(path), "does not say which metric and model its corrections are for")
    # corrections of another model would still look right, and rank wrongly
    if stored.fingerprint != fingerprint:
        raise CodeMismatchError(
            f"{path} must hold corrections of the model given by {spelling.name(model)}, got "
            f"those of another one. Make them with {make} and that model."
        )
    if made_for != metric:
        other = spelling.command("save_corrections", metric=metric)
        raise InvalidInputError(
            f"{path} must hold corrections for {metric}, got those for {made_for}. Search with "
            f"{spelling.given('metric', made_for)}, or make others with {other}."
        )
    return kept


def _map_plain(path: Path) -> Corrections:
    kept = map_npy(path)
    if kept.dtype != "float32" or kept.ndim != 2 or kept.shape[1] != 2:
        raise InvalidInputError(
            f"{path} must hold corrections, float32 (n, 2) as bitkin.corrections makes them, got "
            f"{kept.dtype} {kept.shape}."
        )
    return kept
