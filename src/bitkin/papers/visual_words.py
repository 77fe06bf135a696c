"""Bags of visual words of small pictures: what the papers make of photographs, made of what ships
with the package.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.randomness import Draws

_SIDE, _STEP = 8, 3  # pixels of a patch, and from one to the next
_N_LEARNED = 8000  # patches that words are learned from
_ROUNDS = 5
_FLAT = 8.0  # standard deviation below which a patch shows nothing and is no word


def count_words(pictures: npt.NDArray[np.uint8], n_words: int) -> scipy.sparse.csr_matrix:
    """Return how often each of `n_words` words is in every picture, (n, n_words).

    Words are centres of patches, each without its mean and at length 1, by some rounds of k-means.
    """
    patches, owners = _cut_patches(pictures)
    words = _learn_words(patches, n_words)
    nearest = np.concatenate(
        [
            (patches[first : first + 20_000] @ words.T).argmax(axis=1)
            for first in range(0, len(patches), 20_000)
        ]
    )
    counts = scipy.sparse.csr_matrix(
        (np.ones(len(owners), dtype=np.float32), (owners, nearest)),
        shape=(len(pictures), n_words),
    )
    counts.sum_duplicates()
    return counts


def _cut_patches(
    pictures: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the patches that show something, one per row, and the picture of each."""
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (_SIDE, _SIDE), axis=(1, 2))
    on_grid = windows[:, ::_STEP, ::_STEP].reshape(len(pictures), -1, _SIDE * _SIDE)
    patches = on_grid.reshape(-1, _SIDE * _SIDE).astype(np.float32)
    owners = np.repeat(np.arange(len(pictures)), on_grid.shape[1])
    patches -= patches.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(patches, axis=1)
    shows = lengths > _FLAT * _SIDE
    return patches[shows] / lengths[shows, None], owners[shows]


def _learn_words(patches: npt.NDArray[np.float32], n_words: int) -> npt.NDArray[np.float32]:
    draws = Draws(0, "visual words")
    learned = patches[draws.permutation(len(patches))[:_N_LEARNED]]
    words = learned[:n_words].copy()
    for _ in range(_ROUNDS):
        nearest = (learned @ words.T).argmax(axis=1)
        sums = scipy.sparse.csr_matrix(
            (np.ones(len(learned), dtype=np.float32), (nearest, np.arange(len(learned)))),
            shape=(n_words, len(learned)),
        )
        centres = sums @ learned
        lengths = np.linalg.norm(centres, axis=1, keepdims=True)
        # a word that no patch is nearest to stays where it is
        words = np.where(lengths > 0, centres / np.maximum(lengths, 1e-12), words)
    return words
