"""Every exported scikit-learn estimator, in small instances, behind one way to fit it and to ask
it. Exporting an estimator is what gets it tested: hashers are listed in `hashers.py`, others here.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier

import bitkin
from bitkin import HeshingClassifier, KernelMap
from tests.contracts import hashers

INSTANCES: dict[str, list[Any]] = {
    **hashers.INSTANCES,
    "KernelMap": [
        KernelMap(anchors=3),
        KernelMap("laplacian", anchors=2, gamma=0.5),
        KernelMap("poly", anchors=4, degree=2, coef0=1, random_state=5),
        KernelMap("chi2", anchors=3),
    ],
    "HeshingClassifier": [
        HeshingClassifier(n_buckets=1024, loss="hinge", max_iter=3),
        HeshingClassifier(n_buckets=1024, loss="softmax", max_iter=3, random_state=3),
    ],
}


def exported() -> list[type[Any]]:
    """All estimators among the public names."""
    public = [getattr(bitkin, name) for name in bitkin.__all__]
    return [one for one in public if inspect.isclass(one) and issubclass(one, BaseEstimator)]


def instances() -> list[Any]:
    """All small instances of all exported estimators."""
    return [instance for kind in exported() for instance in INSTANCES[kind.__name__]]


def scikit_learn_instances() -> list[Any]:
    """Those that the data of scikit-learn's checks can serve, and every class by its defaults:
    they ask for more than that data has, and take what there is.
    """
    others = [one for one in instances() if type(one).__name__ not in hashers.INSTANCES]
    return [*(kind() for kind in exported()), *hashers.scikit_learn_instances(), *others]


def vectors(estimator: Any, n: int = 300, d: int = 11, seed: int = 0) -> npt.NDArray[np.float32]:
    """Small whole numbers, many of them zero, that this estimator can take."""
    rng = np.random.default_rng(seed)
    X = (rng.integers(-9, 10, (n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32)
    return np.abs(X) if estimator.__sklearn_tags__().input_tags.positive_only else X


def fit(estimator: Any, X: Any, y: Any = None) -> Any:
    """Fit on rows; a classifier learns which of the first columns is largest."""
    if not is_classifier(estimator):
        return estimator.fit(X)
    return estimator.fit(X, labels(X) if y is None else y)


def labels(X: Any) -> npt.NDArray[Any]:
    """Return one of four labels for each row."""
    if isinstance(X, np.ndarray):
        columns = np.nan_to_num(X[:, :4].astype(np.float64))
    else:
        columns = np.asarray(X.iloc[:, :4])
    found: npt.NDArray[Any] = np.array(["a.a", "a.b", "b.a", "b.b"])[columns.argmax(axis=1)]
    return found


def answer(estimator: Any, X: Any) -> Any:
    """Return what a fitted estimator makes of rows: codes, features or scores."""
    for name in ("encode", "transform", "decision_function"):
        if hasattr(estimator, name):
            return getattr(estimator, name)(X)
    raise AssertionError(f"say in tests/contracts/estimators.py what to ask {estimator!r} for")


def same(a: Any, b: Any) -> bool:
    """Whether two answers are the same to the last bit."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return bool(a == b)
