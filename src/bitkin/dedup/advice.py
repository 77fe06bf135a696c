"""Advice for short texts: what one change leaves of them, and which settings forgive it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_FEWEST_TEXTS = 10  # about fewer, nothing can be said


def similarity_after_one_change(n_shingles: float, size: int) -> float:
    """Return the Jaccard similarity that is left when one word or character of a text is replaced.

    The change is in up to `size` of the n shingles: n − size are shared, of n + size in all.
    """
    touched = min(size, n_shingles)
    return (n_shingles - touched) / (n_shingles + touched)


def advice_for(
    n_shingles: npt.NDArray[np.int64], threshold: float, shingle: str, size: int
) -> str | None:
    """Return what to try where one change makes most texts differ by more than the threshold
    allows, or None.
    """
    filled = n_shingles[n_shingles > 0]
    if len(filled) < _FEWEST_TEXTS or threshold == 1.0:
        return None
    median = float(np.median(filled))
    left = similarity_after_one_change(median, size)
    if left >= threshold:
        return None
    unit = "word" if shingle == "words" else "character"
    ways = []
    if left > 0.3:
        ways.append(f"a threshold of {np.floor(20 * left) / 20:g}")
    smaller = max(1, size // 3)
    if smaller < size:
        ways.append(f"shingles of {smaller} {unit}{'s' if smaller > 1 else ''}")
    if shingle == "words":
        ways.append("shingles of 5 characters with a threshold of 0.6")
    if not ways:
        return None
    return (
        f"Most texts are short: half have at most {median:g} shingle{'s' if median > 1 else ''} of "
        f"{size} {unit}s, and one changed {unit} leaves {left:.2f} of the similarity of two equal "
        f"ones, below the threshold of {threshold:g}. To find such near-duplicates, try "
        f"{' or '.join(ways)}."
    )
