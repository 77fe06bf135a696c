"""Training on the workers of a cluster, which read the files where they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.cli.classifying.inputs import LabelledVectors, RowOptions, TextRows, Truths
from bitkin.cli.clusters import as_workers_see, open_cluster
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client

    from bitkin.distributed.cluster import Progress
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
    from bitkin.learn.taxonomy.taxonomy import Taxonomy

BuildTree = Callable[[Truths], "tuple[Taxonomy | None, Sequence[Hashable]]"]
"""Called with the paths of classes; returns the tree above them, and a label each."""


def train_on_cluster(
    model: HeshingClassifier,
    address: str,
    rows: TextRows | LabelledVectors,
    files: list[Path],
    options: RowOptions,
    build: BuildTree,
    n_shards: int | None,
    progress: Progress,
) -> int:
    """Fit a model to files that the workers read, and return how many rows there were."""
    from bitkin.distributed.classifying.training import fit_classifier

    with open_cluster(address) as client:
        if isinstance(rows, LabelledVectors):
            n_rows, pieces = rows.total, _vector_pieces(model, rows, files, options, build, client)
        else:
            n_rows, pieces = _text_pieces(model, files, options, build, client)
        fit_classifier(model, pieces, client, progress, n_shards=n_shards)
    return n_rows


def _vector_pieces(
    model: HeshingClassifier,
    rows: LabelledVectors,
    files: list[Path],
    options: RowOptions,
    build: BuildTree,
    client: Client,
) -> list[Delayed]:
    """Return pieces of files, and the labels of their rows, which this process has read."""
    from bitkin.distributed.classifying.pieces import label_pieces

    model.taxonomy, named = build([(label,) for label in rows.labels])
    return label_pieces(as_workers_see(files), named, client, options=options.vector_files)


def _text_pieces(
    model: HeshingClassifier,
    files: list[Path],
    options: RowOptions,
    build: BuildTree,
    client: Client,
) -> tuple[int, list[Delayed]]:
    """Return the number of texts and a piece for every file of them, once the workers have found
    all classes.
    """
    from dask.delayed import delayed

    from bitkin.distributed.cluster import gather

    paths = as_workers_see(files)
    read = client.map(read_texts, paths, [options] * len(paths), pure=False)
    found = gather(client, client.map(count_truths, read, pure=False))
    truths = list(dict.fromkeys(truth for _, part in found for truth in part))
    if not truths:
        raise InvalidInputError("there are no rows to learn. Give files with at least one row.")
    model.taxonomy, named = build(truths)
    labels = delayed(dict(zip(truths, named, strict=True)), traverse=False)
    name = delayed(name_rows, pure=False)
    return sum(n for n, _ in found), [name(part, labels) for part in read]


def read_texts(path: str, options: RowOptions) -> tuple[Any, Truths]:
    """Return the texts of a file as rows, and the paths of their classes."""
    from scipy.sparse import csr_array, vstack

    from bitkin.learn.texts import TEXT_COLUMNS

    if not Path(path).stat().st_size:  # which is an error only where there is no other file
        return csr_array((0, TEXT_COLUMNS), dtype="float32"), []
    parts = list(TextRows([Path(path)], options).batches(lambda _: None))
    truths = [truth for _, part in parts for truth in part]
    return vstack([rows for rows, _ in parts], format="csr"), truths


def count_truths(read: tuple[Any, Truths]) -> tuple[int, Truths]:
    """Return how many rows there are, and the different paths of their classes."""
    return len(read[1]), list(dict.fromkeys(read[1]))


def name_rows(
    read: tuple[Any, Truths], labels: dict[tuple[str, ...], Hashable]
) -> tuple[Any, list[Hashable]]:
    """Return rows and the labels that their classes have in the tree."""
    rows, truths = read
    return rows, [labels[truth] for truth in truths]
