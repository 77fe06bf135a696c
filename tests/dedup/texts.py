"""Texts with near-duplicates among them, and all pairs compared in Python."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def related_texts(n: int, seed: int = 0, n_words: int = 30) -> list[str]:
    """Copies of a fifth as many texts with 0 to 6 words replaced, equal ones and empty ones among
    them.
    """
    rng = np.random.default_rng(seed)
    originals = [
        [f"w{number}" for number in rng.integers(0, 500, n_words)] for _ in range(max(1, n // 5))
    ]
    texts = []
    for _ in range(n):
        words = list(originals[rng.integers(len(originals))])
        for place in rng.integers(0, n_words, rng.integers(0, 7)):
            words[place] = f"x{rng.integers(0, 500)}"
        texts.append(" ".join(words) if rng.random() > 0.03 else "")
    return texts


def shingle_set(text: str, size: int = 3) -> frozenset[str]:
    words = text.split()
    if len(words) < size:
        return frozenset([" ".join(words)] if words else [])
    return frozenset(" ".join(words[i : i + size]) for i in range(len(words) - size + 1))


def jaccard(a: str, b: str) -> float:
    x, y = shingle_set(a), shingle_set(b)
    return len(x & y) / len(x | y) if x | y else 0.0


def similar_pairs(texts: list[str], threshold: float) -> dict[tuple[int, int], float]:
    found = {(i, j): jaccard(texts[i], texts[j]) for i, j in combinations(range(len(texts)), 2)}
    return {pair: similarity for pair, similarity in found.items() if similarity >= threshold}


def cluster_of(n: int, pairs: list[tuple[int, int]]) -> list[int]:
    roots = list(range(n))
    for a, b in pairs:
        low, high = sorted((roots[a], roots[b]))
        roots = [low if root == high else root for root in roots]
    return roots
