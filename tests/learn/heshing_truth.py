"""What HeshingClassifier must come to, in plain NumPy and Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from bitkin.learn.heshing.tree import node_seeds

TREE = bitkin.Taxonomy.from_paths(
    [
        ("plant", "flower", "lily"),
        ("plant", "flower", "rose"),
        ("plant", "moss"),
        ("animal", "cat"),
        ("rock",),
    ]
)
"""Leaves at three depths."""


def bags(
    n: int, seed: int = 0, n_features: int = 60
) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
    """Rows of small counts, each class with words of its own, and their labels in `TREE`."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, TREE.n_classes, n)
    own = np.arange(n_features) % 7 == numbers[:, None]
    counts = rng.poisson(0.15 + 0.6 * own).astype(np.float32)
    counts[:, 0] = 1.0  # so that no row is empty
    return counts, np.array(TREE.classes)[numbers]


def murmur3(feature: int, seed: int) -> int:
    """MurmurHash3_x86_32 of the four bytes of a number, as its author wrote it."""
    mask = 2**32 - 1
    k = feature * 0xCC9E2D51 & mask
    k = (k << 15 | k >> 17) & mask
    h = seed ^ (k * 0x1B873593 & mask)
    h = (h << 13 | h >> 19) & mask
    h = (h * 5 + 0xE6546B64 & mask) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16


def feature_maps(
    tree: bitkin.Taxonomy, d: int, n_buckets: int, seed: int
) -> npt.NDArray[np.float64]:
    """Ψ of every class as a matrix from features to buckets: (n_classes, levels below the root, d,
    n_buckets).
    """
    maps = np.zeros((tree.n_classes, tree.n_levels - 1, d, n_buckets))
    for c, path in enumerate(tree.class_paths):
        for level, node_seed in enumerate(node_seeds(path, seed).tolist()):
            for j in range(d):
                h = murmur3(j, node_seed)
                maps[c, level, j, ((h & 2**31 - 1) * n_buckets) >> 31] = -1 if h >> 31 else 1
    maps /= np.sqrt(tree.n_levels)
    return maps


def reached_classes(
    scores: npt.NDArray[Any], paths: npt.NDArray[Any], beam: int, y: int
) -> npt.NDArray[np.bool_]:
    """Classes below the `beam` best nodes of every level, and below those above class `y`; ties go
    to the first node.

    `scores` are those of the nodes on the path of every class, summed from the root down:
    (n_classes, levels).
    """
    alive = np.ones(len(paths), dtype=bool)
    for level in range(paths.shape[1] - 1):
        lead = {
            paths[c, level]: (-scores[c, level], paths[c, level]) for c in np.flatnonzero(alive)
        }
        best = sorted(lead, key=lambda node: lead[node])[:beam]
        alive &= np.isin(paths[:, level], [*best, paths[y, level]])
    return alive


def learned_slowly(
    maps: npt.NDArray[np.float64],
    X: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    *,
    alpha: float,
    softmax: bool,
    beam: int | None = None,
    paths: npt.NDArray[Any] | None = None,
) -> npt.NDArray[np.float64]:
    """The average of the weights after every row, the rows learned in order: the definition, step
    by step.
    """
    weights = np.zeros((maps.shape[1], maps.shape[3]))
    total = np.zeros_like(weights)
    first_step = 4.0 / (X**2).sum(axis=1).mean()
    shared = np.array([[(np.abs(a - b).sum(axis=(1, 2)) == 0).sum() for a in maps] for b in maps])
    for t, (x, y) in enumerate(zip(X, classes, strict=True)):
        psi = np.einsum("j,cljb->clb", x, maps)
        on_path = np.einsum("clb,lb->cl", psi, weights).cumsum(axis=1)
        scores = on_path[:, -1]
        if beam is not None and paths is not None:
            scores = np.where(reached_classes(on_path, paths, beam, y), scores, -np.inf)
        step = first_step / np.sqrt(1 + alpha * first_step * t)
        if softmax:
            p = np.exp(scores - scores.max())
            p /= p.sum()
            loss = -np.log(p[y])
            direction = psi[y] - np.einsum("c,clb->lb", p, psi)
            length = steepness(maps, p, y) * (x @ x)
        else:
            rival = int(np.argmax(np.where(np.arange(len(scores)) == y, -np.inf, scores)))
            loss = max(0.0, 1 - scores[y] + scores[rival])
            direction = psi[y] - psi[rival]
            length = 2 * (maps.shape[1] - shared[y, rival]) * (x @ x) / (maps.shape[1] + 1)
        weights = (weights + min(step, loss / length) * direction) / (1 + step * alpha)
        total += weights
    return total / len(X)


def learned_online_slowly(
    maps: npt.NDArray[np.float64],
    X: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    *,
    alpha: float | None,
    softmax: bool,
    centered: bool,
) -> npt.NDArray[np.float64]:
    """What one pass of `partial_fit` comes to, with all classes known from the first row: the
    definition, step by step. `alpha` None is "auto".
    """
    n_classes, n_levels, d, m = maps.shape
    weights, precisions, average = (np.zeros((n_levels, m)) for _ in range(3))
    squares, n_learned = 0.0, 0
    mean = np.zeros(d)
    for t, (x, y) in enumerate(zip(X, classes, strict=True)):
        z = x
        if centered:
            if t == 1:
                mean = pulled_back(mean, x @ x)
            if t:
                usual = float(squares / n_learned if n_learned else mean @ mean)
                x = mean + pulled_back(x - mean, usual)
            mean = (t * mean + x) / (t + 1)
            z = x - mean
        if n_learned == 1 and squares > 100 * (z @ z):
            precisions *= 100 * (z @ z) / squares
            squares = 100 * (z @ z)
        if n_learned:
            z = pulled_back(z, squares / n_learned)
        if np.allclose(z, 0, atol=1e-12):
            continue
        squares, n_learned = squares + z @ z, n_learned + 1
        start = 30 * (1e-4 * squares / n_learned if alpha is None else alpha)
        scores = np.einsum("j,cljb,lb->c", z, maps, weights)
        if not softmax:
            scores[y] -= 1
        p = np.exp(scores - scores.max())
        p /= p.sum()
        loss = -np.log(p[y])
        # the gradient by node, each node once, and Φ(x, u)/√T of its features, one a row
        nodes: dict[tuple[int, bytes], float] = {}
        for level in range(n_levels):
            for c in range(n_classes):
                key = (level, maps[c, level].tobytes())
                nodes[key] = nodes.get(key, 0.0) + p[c] - (c == y)
        moved = [
            (level, share, np.frombuffer(key).reshape(d, m) * z[:, None])
            for (level, key), share in nodes.items()
            if share < 0 or share > 1e-3
        ]
        fall = sum(
            share**2 * (features**2 / (start + precisions[level])).sum()
            for level, share, features in moved
        )
        amount = min(0.5, loss / fall)
        for level, share, features in moved:
            curvature = max(abs(share) * (1 - abs(share)), 0.02 if share < 0 else 0.0)
            # features of a row that share a bucket come one after another
            for feature in features[np.abs(features).sum(axis=1) > 0]:
                weights[level] -= amount * share * feature / (start + precisions[level])
                precisions[level] += curvature * feature**2
        average += max(5 / (n_learned + 5), 1 / 2000) * (weights - average)
    return average


def pulled_back(x: npt.NDArray[np.float64], usual: float) -> npt.NDArray[np.float64]:
    """A vector, no longer than 10 times one of the usual squared length."""
    scale = min(1.0, 10 * float(np.sqrt(usual / max(float(x @ x), 1e-300))))
    return np.asarray(x * scale)


def steepness(maps: npt.NDArray[np.float64], p: npt.NDArray[np.float64], y: int) -> float:
    """Sum of the squared coefficients of all nodes in the softmax's gradient, over T."""
    total = 0.0
    for level in range(maps.shape[1]):
        nodes: dict[bytes, float] = {}
        for c in range(len(p)):
            node = maps[c, level].tobytes()
            nodes[node] = nodes.get(node, 0.0) + p[c] - (c == y)
        total += sum(value**2 for value in nodes.values())
    return float(total / (maps.shape[1] + 1))
