"""Labels of rows that Dask holds, found where the rows are and not before they are asked for."""

from __future__ import annotations

import copy
from typing import Any

import dask.array
import numpy as np
import numpy.typing as npt
from dask.delayed import delayed
from sklearn.utils.validation import check_is_fitted

from bitkin.distributed.cluster import block
from bitkin.distributed.partitions import find_partitions
from bitkin.errors import InvalidInputError
from bitkin.learn.heshing.heshing_classifier import HeshingClassifier


def predict(classifier: HeshingClassifier, X: Any) -> Any:
    """Return the label of the best class of every row, lazily: a Dask array with the chunks of X.

    Parameters
    ----------
    classifier : HeshingClassifier
        Fitted. It is sent to a worker once.
    X : Dask array
        Chunks of whole rows, of known sizes, dense or CSR.

    Examples
    --------
    >>> import bitkin, dask.array as da, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(90, 8))
    >>> model = bitkin.HeshingClassifier(n_buckets=256, alpha=1e-4).fit(X, X[:, 0] > 0)
    >>> labels = bitkin.distributed.predict(model, da.from_array(X, chunks=(30, -1)))
    >>> labels
    dask.array<predict_rows, shape=(90,), dtype=bool, chunksize=(30,), chunktype=numpy.ndarray>
    >>> bool((labels.compute(scheduler="synchronous") == model.predict(X)).all())
    True
    """
    if not isinstance(classifier, HeshingClassifier):
        raise InvalidInputError(
            f"classifier must be a HeshingClassifier, got a {type(classifier).__name__}."
        )
    check_is_fitted(classifier)
    if not isinstance(X, dask.array.Array):
        raise InvalidInputError(f"X must be a Dask array, got a {type(X).__name__}.")
    find_partitions(X, list)  # which raises unless its chunks are whole rows, and known
    if X.shape[1] != classifier.n_features_in_:
        raise InvalidInputError(
            f"X has {X.shape[1]} features, but the classifier was fitted on "
            f"{classifier.n_features_in_}. Give it vectors of the kind it was fitted on."
        )
    sent = copy.copy(classifier)
    sent.progress = None  # a bar on this terminal is of no use there
    meta = classifier.predict(np.empty((0, classifier.n_features_in_)))
    return X.map_blocks(
        predict_rows,
        classifier=delayed(sent, pure=False, traverse=False),
        dtype=meta.dtype,
        meta=meta,
        chunks=(X.chunks[0],),
        drop_axis=1,
    )


@block
def predict_rows(rows: Any, *, classifier: HeshingClassifier) -> npt.NDArray[Any]:
    """Return the labels of a block."""
    labels: npt.NDArray[Any] = classifier.predict(rows)
    return labels
