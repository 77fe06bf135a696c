"""`fit`: an estimator learns from rows where they are."""

from __future__ import annotations

from typing import Any, TypeVar

from distributed import Client

from bitkin.distributed.cluster import Progress, collect, current_client
from bitkin.distributed.partitions import find_partitions
from bitkin.errors import InvalidInputError
from bitkin.estimators.vector_input import VectorLearner
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.projections.opast import OPAST
from bitkin.hashers.projection.registry import projection_for
from bitkin.input_files import VectorFileOptions
from bitkin.notices import warn_caller

Learner = TypeVar("Learner", bound=VectorLearner)


def fit(
    hasher: Learner,
    X: Any,
    *,
    column: str | None = None,
    dataset: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> Learner:
    """Fit a hasher to vectors that a cluster holds, and return it.

    Workers find the statistics of their rows, which are merged in a tree; what comes here is small,
    however many rows there are. The code is that of a fit to a file: codes of `WTAHash` and
    `MinHash` are the very same, and directions are those of all rows up to rounding.

    Parameters
    ----------
    hasher : ProjectionHash, WTAHash, MinHash, SignHash or KernelMap
        Fitted in place.
    X : Dask array or data frame, list of delayed blocks, path, folder or list of paths
        An array has chunks of whole rows, dense or CSR. Of a data frame, `column` holds vectors, or
        all columns are numbers. Files are those of `bitkin.io.open_vectors`, as the workers see
        them; those of a folder are read in the order of their names, 10 after 9.
    column, dataset, n_features, zero_based : optional
        How files are read, as `bitkin.io.open_vectors` says; svmlight text needs the last two.
    client : distributed.Client, optional
        Whose workers do the work; by default the one that Dask knows.
    progress : callable, optional
        Called with how many tasks of a pass are done, and how many there are.

    Notes
    -----
    Rows are read once or twice: a Dask array that is costly to make is better persisted first.
    "opast" follows rows one after another, so all of them come here, a piece at a time; sketches of
    "frequent-directions" are merged, which keeps their bound but gives other directions. Exact PCA
    of fewer rows than columns, or of CSR rows with more than 4,096 columns, holds the rows here:
    take `PCA(solver="randomized")` or "nystrom" where they are many.

    Examples
    --------
    >>> import bitkin, dask.array as da
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=None) as client:
    ...     X = da.random.default_rng(0).standard_normal((1000, 16), chunks=(250, -1))
    ...     hasher = bitkin.distributed.fit(bitkin.ProjectionHash(n_bits=8), X)
    >>> hasher.n_features_in_
    16
    """
    if not isinstance(hasher, VectorLearner):
        raise InvalidInputError(
            "hasher must be a ProjectionHash, WTAHash, MinHash, SignHash or KernelMap, got a "
            f"{type(hasher).__name__}."
        )
    client = current_client(client)
    partitions = find_partitions(
        X,
        lambda tasks: collect(client, tasks),
        column=column,
        options=VectorFileOptions(None, dataset, n_features, zero_based),
    )
    _warn_where_rows_come_here(hasher)
    with partitions.open(client, progress) as rows:
        hasher.fit(rows)
    return hasher


def _warn_where_rows_come_here(hasher: VectorLearner) -> None:
    if not isinstance(hasher, ProjectionHash):
        return
    if isinstance(projection_for(hasher.projection), OPAST):
        warn_caller(
            f"projection={hasher.projection!r} follows rows one after another, so all of them come "
            "to this process. projection='pca' learns where the rows are."
        )
