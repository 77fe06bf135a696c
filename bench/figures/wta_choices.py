"""Draw docs/images/wta_choices.png: what window, densification and degree do to retrieval, measured
on real data.

python bench/figures/wta_choices.py
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import bitkin

sys.path.insert(0, str(Path(__file__).parents[1]))
from _data import data_file
from _tiny import picture, sized
from dwta import bags, labels, precision

WINDOWS = sized((2, 4, 8, 16, 32, 64), (2, 4))
SEEDS = sized(3, 1)
N_HASHES = sized(256, 16)
SCHEMES = {
    None: ("none", "#999999", ":"),
    "rotation": ("rotation", "#1f77b4", "--"),
    "optimal": ("optimal", "#d62728", "-"),
}


def draw_bags(axis: Any, n_words: int) -> None:
    (X, Q), (y, yq) = bags(n_words), labels()
    for densify, (name, colour, line) in SCHEMES.items():
        found = [
            np.mean(
                [
                    precision(
                        bitkin.WTAHash(N_HASHES, K, densify=densify, random_state=seed), X, y, Q, yq
                    )
                    for seed in range(SEEDS)
                ]
            )
            for K in WINDOWS
        ]
        print(n_words, name, np.round(found, 4).tolist(), flush=True)
        axis.plot(WINDOWS, found, line, color=colour, marker="o", markersize=4, label=name)
    chosen = bitkin.WTAHash(N_HASHES, "auto").fit(X).window_
    axis.axvline(chosen, color="#cccccc", zorder=0)
    axis.annotate(
        f"auto: {chosen}",
        (chosen, axis.get_ylim()[0]),
        xytext=(3, 4),
        textcoords="offset points",
        fontsize=8,
    )
    zeros = 1 - X.nnz / np.prod(X.shape)
    axis.set_title(f"{n_words:,} visual words, {zeros:.0%} zeros", fontsize=10)
    axis.set_ylabel("precision at 100")


def draw_degrees(axis: Any) -> None:
    held = np.load(data_file("cifar10_gist960.npz"), allow_pickle=False)
    X, Q = held["X"].astype(np.float32), held["Q"].astype(np.float32)
    truth = bitkin.evaluate.nearest(X, Q, k=10).ids
    for degree, colour in ((1, "#d62728"), (2, "#1f77b4"), (4, "#2ca02c")):
        found = []
        for window in WINDOWS:
            values = []
            for seed in range(SEEDS):
                hasher = bitkin.WTAHash(N_HASHES, window, degree=degree, random_state=seed).fit(X)
                index = bitkin.FlatIndex(hasher.spec_)
                index.add(hasher.encode(X))
                values.append(
                    bitkin.evaluate.recall(index.search(hasher.encode(Q), 100).ids, truth)
                )
            found.append(np.mean(values))
        print("gist", degree, np.round(found, 4).tolist(), flush=True)
        axis.plot(WINDOWS, found, color=colour, marker="o", markersize=4, label=f"degree {degree}")
    axis.set_title("dense: 960-d GIST", fontsize=10)
    axis.set_ylabel("of the true 10, in the best 100")
    axis.legend(fontsize=8, frameon=False)


def main() -> None:
    warnings.simplefilter("ignore")
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for axis, n_words in zip(axes.flat, (300, 1000, 10_000), strict=False):
        draw_bags(axis, n_words)
    axes[0, 0].legend(title="densify", fontsize=8, title_fontsize=8, frameon=False)
    draw_degrees(axes[1, 1])
    for axis in axes.flat:
        axis.set_xscale("log", base=2)
        axis.set_xticks(WINDOWS, [str(window) for window in WINDOWS])
        axis.set_xlabel("window (K)")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#eeeeee")
    figure.savefig(picture("wta_choices.png"), dpi=110)


if __name__ == "__main__":
    main()
