"""One pass over labelled rows: HeshingClassifier.partial_fit against its own fit and the best
online learners of scikit-learn.

python bench/one_pass.py [--sets imclef07a newsgroups20 onet icd10cm tinyimagenet] [--rows 8000]
Flat errors on test rows; rows in random order, and sorted by class. Rivals hold a weight for every
class and feature, ours one table of 2^18.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.linear_model import PassiveAggressiveClassifier, SGDClassifier
from sklearn.preprocessing import StandardScaler

import bitkin
from _label_trees import SETS, load_set
from _timing import report
from _tiny import sized

RIVALS: dict[str, Callable[[], Any]] = {
    "sgd log": lambda: SGDClassifier(loss="log_loss", average=True, random_state=0),
    "sgd hinge": lambda: SGDClassifier(average=True, random_state=0),
    "passive-aggressive": lambda: PassiveAggressiveClassifier(average=True, random_state=0),
}
MOST_WEIGHTS = 1 << 27  # of a rival; more do not fit a small machine
N_TEST = 2000


def softmax_error(
    X: npt.NDArray[Any], y: Any, X_test: npt.NDArray[Any], y_test: Any, n_classes: int, rate: float
) -> float:
    """Softmax regression on features standardized as they come, a row at a time, as river does."""
    n_features = X.shape[1]
    weights = np.zeros((n_classes, n_features + 1))
    mean, squares, scale = np.zeros(n_features), np.zeros(n_features), np.ones(n_features)
    for t, (x, label) in enumerate(zip(X.astype(np.float64), y, strict=True), 1):
        change = x - mean
        mean += change / t
        squares += change * (x - mean)
        scale = np.sqrt(squares / t)
        scale[scale == 0] = 1
        z = np.append((x - mean) / scale, 1.0)
        scores = weights @ z
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        shares[label] -= 1
        weights -= rate * np.outer(shares, z)
    rows = np.column_stack([(X_test - mean) / scale, np.ones(len(X_test))])
    return float(((rows @ weights.T).argmax(axis=1) != y_test).mean())


def errors(name: str, n_rows: int) -> None:
    """Report the errors of all learners on one set."""
    data = load_set(name)
    rng = np.random.default_rng(0)
    rows = rng.permutation(data.X.shape[0])[:n_rows]
    tests = rng.permutation(data.X_test.shape[0])[:N_TEST]
    X, y, X_test, y_test = data.X[rows], data.y[rows], data.X_test[tests], data.y_test[tests]
    n_classes, labels = data.taxonomy.n_classes, data.labels
    by_class = np.argsort(y, kind="stable")

    def ours(learn: Callable[[Any], Any]) -> float:
        model = bitkin.HeshingClassifier(data.taxonomy, fit_intercept=data.intercept)
        return float((learn(model).predict(X_test) != labels[y_test]).mean())

    figures = {
        "one_pass": ours(lambda model: model.partial_fit(X, labels[y])),
        "sorted": ours(lambda model: model.partial_fit(X[by_class], labels[y[by_class]])),
        "fit": ours(lambda model: model.fit(X, labels[y])),
    }
    found: dict[str, float] = {}
    dense = not issparse(X)
    if n_classes * X.shape[1] <= MOST_WEIGHTS:
        for rival, make in RIVALS.items():
            for scaler in (None, StandardScaler().fit(X)) if dense else (None,):
                learned, asked = (
                    (X, X_test) if scaler is None else map(scaler.transform, (X, X_test))
                )
                model = make().partial_fit(learned, y, classes=np.arange(n_classes))
                found[rival + ("" if scaler is None else ", scaled")] = float(
                    (model.predict(asked) != y_test).mean()
                )
    if dense:
        for rate in (0.01, 0.003):
            found[f"softmax {rate}"] = softmax_error(X, y, X_test, y_test, n_classes, rate)
    if found:
        best = min(found, key=lambda rival: found[rival])
        figures["best_rival"] = found[best]
        name = f"{name} (best rival: {best})"
    report(f"one pass over {len(y):,} rows of {name}, flat error", **figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["imclef07a", "newsgroups20"])
    parser.add_argument("--rows", type=int, default=sized(8000, 60))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)  # scikit-learn's, of its own classes
    for chosen in given.sets:
        errors(chosen, given.rows)
