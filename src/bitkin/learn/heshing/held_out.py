"""Rows put aside to measure on: every class in its share, and none without a row left to learn."""

from __future__ import annotations

import numpy as np

from bitkin.learn.heshing.sgd import Labelled
from bitkin.randomness import Draws


def split_rows(
    data: Labelled, share: float, seed: int, purpose: str, most: int | None = None
) -> tuple[Labelled, Labelled]:
    """Return the rows to learn and those held out, drawn at random from at most `most` rows in all.

    Rows are put aside evenly along the classes, so that each gives its share, at most half, to
    within one row. Classes of one row keep it; where there are no others, nothing is held out.
    Every purpose has draws of its own.
    """
    order = Draws(seed, f"heshing held out for {purpose}").permutation(len(data))[:most]
    classes = data.classes[order]
    order = order[np.argsort(classes, kind="stable")]
    several = np.bincount(classes)[data.classes[order]] > 1
    n_several = int(several.sum())
    n_held = max(1, round(share * n_several)) if n_several else 0
    places = np.flatnonzero(several)[
        ((np.arange(n_held) + 0.5) * n_several / max(1, n_held)).astype(np.int64)
    ]
    held = np.zeros(len(order), dtype=np.bool_)
    held[places] = True
    return data.take(np.sort(order[~held])), data.take(np.sort(order[held]))
