"""`fit`: an estimator learns from rows where they are."""

from __future__ import annotations

from typing import Any, TypeVar

from distributed import Client

from bitkin.distributed.classifying.pieces import label_pieces
from bitkin.distributed.classifying.training import fit_classifier
from bitkin.distributed.cluster import Progress, collect, current_client
from bitkin.distributed.partitions import find_partitions
from bitkin.errors import InvalidInputError
from bitkin.estimators.vector_input import VectorLearner
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.projections.opast import OPAST
from bitkin.hashers.projection.registry import projection_for
from bitkin.input_files import VectorFileOptions
from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
from bitkin.notices import warn_caller

Learner = TypeVar("Learner", bound=VectorLearner | HeshingClassifier)


def fit(
    hasher: Learner,
    X: Any,
    y: Any = None,
    *,
    column: str | None = None,
    dataset: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
    n_shards: int | None = None,
) -> Learner:
    """Fit a hasher or a classifier to vectors that a cluster holds, and return it.

    Workers find the statistics of their rows, which are merged in a tree; what comes here is small,
    however many rows there are. The code is that of a fit to a file: codes of `WTAHash` and
    `MinHash` are the very same, and directions are those of all rows up to rounding.

    Parameters
    ----------
    hasher : ProjectionHash, WTAHash, MinHash, SignHash, KernelMap or HeshingClassifier
        Fitted in place; a classifier as `classifying.training.fit_classifier` says.
    X : Dask array or data frame, list of delayed blocks, path, folder or list of paths
        An array has chunks of whole rows, dense or CSR. Of a data frame, `column` holds vectors, or
        all columns are numbers. Files are those of `bitkin.io.open_vectors`, as the workers see
        them; those of a folder are read in the order of their names, 10 after 9.
    column, dataset, n_features, zero_based : optional
        How files are read, as `bitkin.io.open_vectors` says; svmlight text needs the last two.
    y : Dask array or column, list of delayed blocks, or labels in memory, optional
        A label per row, for a classifier: in the partitions of X, or all of them here.
    client : distributed.Client, optional
        Whose workers do the work; by default the one that Dask knows.
    progress : callable, optional
        Called with how many tasks of a pass are done, and how many there are; for a classifier with
        rows.
    n_shards : int, optional
        Of a classifier: shards that learn by themselves within a pass. By default one per 50,000
        rows, at most 64.

    Notes
    -----
    Rows are read once or twice: a Dask array that is costly to make is better persisted first.
    `Nystrom(sampling="norms")` brings 8 bytes per row here.
    "opast" follows rows one after another, so all of them come here, a piece at a time; sketches of
    "frequent-directions" are merged, which keeps their bound but gives other directions. Exact PCA
    of fewer rows than columns, or of CSR rows with more than 4,096 columns, holds the rows here:
    take `PCA(solver="randomized")` or "nystrom" where they are many.

    Examples
    --------
    >>> import bitkin, dask.array as da
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     X = da.random.default_rng(0).standard_normal((1000, 16), chunks=(250, -1))
    ...     hasher = bitkin.distributed.fit(bitkin.ProjectionHash(n_bits=8), X)
    >>> hasher.n_features_in_
    16
    """
    if not isinstance(hasher, (VectorLearner, HeshingClassifier)):
        raise InvalidInputError(
            "hasher must be a ProjectionHash, WTAHash, MinHash, SignHash, KernelMap or "
            f"HeshingClassifier, got a {type(hasher).__name__}."
        )
    if y is not None and not isinstance(hasher, HeshingClassifier):
        raise InvalidInputError(
            f"y is for classifiers, a {type(hasher).__name__} learns without: leave it out, got a "
            f"{type(y).__name__}."
        )
    client = current_client(client)
    options = VectorFileOptions(None, dataset, n_features, zero_based)
    if isinstance(hasher, HeshingClassifier):
        pieces = label_pieces(X, y, client, column=column, options=options)
        return fit_classifier(hasher, pieces, client, progress, n_shards=n_shards)
    if n_shards is not None:
        raise InvalidInputError(f"n_shards is for classifiers: leave it out, got {n_shards!r}.")
    partitions = find_partitions(
        X,
        lambda tasks: collect(client, tasks),
        column=column,
        options=options,
    )
    warn_where_rows_come_here(hasher)
    with partitions.open(client, progress) as rows:
        hasher.fit(rows)
    return hasher


def warn_where_rows_come_here(hasher: VectorLearner) -> None:
    """Warn of a projection that does not learn where the rows are."""
    if not isinstance(hasher, ProjectionHash):
        return
    if isinstance(projection_for(hasher.projection), OPAST):
        warn_caller(
            f"projection={hasher.projection!r} follows rows one after another, so all of them come "
            "to this process. projection='pca' learns where the rows are."
        )
