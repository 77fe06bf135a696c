"""Draw what the window does: which ranks win, and what an agreement is worth (like figure 2 of the
WTA paper).

python bench/figures/winner_ranks.py [--out docs/images/winner_ranks.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bitkin import theory

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "winner_ranks.png"
N = 100
WINDOWS = (2, 4, 8, 16)
# Ordered as the windows are, light to dark; dashes tell them apart without colour.
COLOURS = ("#74addb", "#3f86c1", "#1d5a94", "#0a2c4d")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (3, 2)), (0, (1, 1.2)))


def draw() -> Figure:
    figure = Figure(figsize=(9.5, 3.7), layout="constrained")
    ranks, worth = figure.subplots(1, 2)
    for window, colour, dash in zip(WINDOWS, COLOURS, DASHES, strict=True):
        chances = theory.winner_rank_distribution(N, window)
        style = {"color": colour, "linestyle": dash, "linewidth": 1.8, "label": f"K = {window}"}
        ranks.plot(np.arange(N), chances, **style)
        # A feature that wins against R others in both vectors wins as often as the one of rank n −
        # 1 − R.
        worth.plot(np.arange(N), chances[::-1] / chances[0], **style)
    ranks.set(
        title="(a) Who wins a window",
        xlabel="rank of the winner among all features (0 = largest)",
        ylabel="share of windows",
        xlim=(-1, N),
        ylim=(0, None),
    )
    worth.set(
        title="(b) What agreement at one feature adds",
        xlabel=r"$R$ = features below it in both vectors",
        xlim=(0, N),
        ylim=(0, 1.02),
    )
    worth.set_ylabel(r"$\binom{R}{K-1}\,/\,\binom{n-1}{K-1}$", fontsize=15)
    ranks.legend(frameon=False, title=f"n = {N} features")
    for axes in (ranks, worth):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=IMAGE)
    out = parser.parse_args().out
    with mpl.rc_context({"font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left"}):
        draw().savefig(out, dpi=130, metadata={"Software": None})
    print(out)


if __name__ == "__main__":
    main()
