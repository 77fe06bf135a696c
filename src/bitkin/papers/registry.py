"""The papers that `bitkin papers` runs, and where their experiments are. Loads nothing."""

from __future__ import annotations

from typing import NamedTuple


class Paper(NamedTuple):
    """A paper, and the module whose `experiment(data, quick=...)` reproduces it."""

    name: str
    title: str
    module: str


PAPERS = {
    paper.name: paper
    for paper in (
        Paper(
            "wta",
            "The Power of Comparative Reasoning (Yagnik, Strelow, Ross, Lin, 2011)",
            "bitkin.papers.wta.experiment",
        ),
        Paper(
            "dwta",
            "Revisiting Winner Take All (WTA) Hashing for Sparse Datasets (Chen, Shrivastava, "
            "2016)",
            "bitkin.papers.dwta.experiment",
        ),
        Paper(
            "stream",
            "Streaming Binary Sketching based on Subspace Tracking and Diagonal Uniformization "
            "(Morvan, Souloumiac, Gouy-Pailler, Atif, 2018)",
            "bitkin.papers.stream.experiment",
        ),
        Paper(
            "heshing",
            "Hierarchical Feature Hashing for Fast Dimensionality Reduction (Zhao, Xing, 2014)",
            "bitkin.papers.heshing.experiment",
        ),
        Paper(
            "nystrom",
            "Hashing with Generalized Nyström Approximation (Yun, Kim, Choi, 2012)",
            "bitkin.papers.nystrom.experiment",
        ),
    )
}
