"""A HeshingClassifier learned on one machine, and in shards whose weights are mixed after a pass.

python bench/mixing.py [--sets newsgroups20 imclef07a icd10cm onet] [--shards 1 2 4 8] [--seeds 1]
Flat errors on test rows; training rows are shuffled before they are cut into shards, and with
--sorted sorted by class instead. One alpha for all, that of one machine. Workers are two threads of
this process: errors do not depend on them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

if Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    sys.path.append(sys.path.pop(0))  # where a file is called as Dask's package is

import numpy as np
from dask.delayed import delayed
from distributed import Client

import bitkin
from _label_trees import SETS, load_set
from _timing import report
from _tiny import sized
from bitkin.distributed.classifying.training import bytes_per_pass, fit_classifier


def errors(client: Client, name: str, shards: list[int], n_seeds: int, *, by_class: bool) -> None:
    """Report the errors on one set, by the number of shards, and what a pass moves."""
    data = load_set(name)
    labels, truth = data.labels[data.y], data.labels[data.y_test]
    alphas: dict[int, float] = {}
    found: dict[str, Any] = {}
    for n in [0, *shards]:
        misses = []
        for seed in range(n_seeds):
            model = bitkin.HeshingClassifier(
                data.taxonomy,
                alpha=alphas.get(seed, "auto"),
                fit_intercept=data.intercept,
                random_state=seed,
            )
            if not n:
                model.fit(data.X, labels)
                alphas[seed] = model.alpha_
            else:
                order = np.random.default_rng(seed).permutation(len(labels))
                if by_class:
                    order = order[np.argsort(data.y[order], kind="stable")]
                pieces = [
                    delayed((data.X[rows], labels[rows]), pure=False)
                    for rows in np.array_split(order, n)
                ]
                fit_classifier(model, pieces, client, n_shards=n)
            misses.append(float((model.predict(data.X_test) != truth).mean()))
        key = f"{n}_shards" if n else "one_machine"
        found[key] = f"{statistics.mean(misses):.4f}"
        if n > 1:
            found[f"passes_{n}"] = model.n_iter_
            found[f"MB_{n}"] = bytes_per_pass(model._model, n) / 1e6
    kind = "sorted" if by_class else "shuffled"
    report(f"{name}, {len(labels):,} {kind} rows, flat error", **found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["newsgroups20", "imclef07a"])
    parser.add_argument("--shards", nargs="+", type=int, default=sized([1, 2, 4, 8, 16], [1, 2]))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sorted", action="store_true")
    given = parser.parse_args()
    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        for chosen in given.sets:
            errors(cluster, chosen, given.shards, given.seeds, by_class=given.sorted)
