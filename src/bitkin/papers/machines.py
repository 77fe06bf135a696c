"""Support vector machines on kernels, as the papers train them on codes and on bags."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.svm import SVC

from bitkin import threads
from bitkin.randomness import Draws


def svm_accuracy(
    kernel: npt.NDArray[np.float64],
    y: npt.NDArray[np.int64],
    asked: npt.NDArray[np.float64],
    yq: npt.NDArray[np.int64],
    costs: tuple[float, ...],
) -> float:
    """Return the accuracy of a support vector machine whose C is chosen on a quarter of the rows,
    held out for that.

    `kernel` is (n, n) of the rows, `asked` (q, n) of queries and rows.
    """
    held = np.zeros(len(y), dtype=bool)
    held[Draws(0, "held out").permutation(len(y))[: len(y) // 4]] = True
    kept = ~held

    def held_out_score(C: float) -> float:
        machine = SVC(C=C, kernel="precomputed").fit(kernel[np.ix_(kept, kept)], y[kept])
        return float(machine.score(kernel[np.ix_(held, kept)], y[held]))

    scores = threads.run(held_out_score, costs)  # SVC lets go of the GIL
    best = costs[int(np.argmax(scores))]
    return float(SVC(C=best, kernel="precomputed").fit(kernel, y).score(asked, yq))
