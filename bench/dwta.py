"""Do the claims of densified winner-take-all hashing hold on real bags of visual words?

python bench/dwta.py             share of empty codes, retrieval at 16, 64 and 128 bytes
python bench/dwta.py alphabets   how many values a densified symbol should have, at equal bytes
python bench/dwta.py classify    linear classifiers on the codes, C tuned for each, and why
python bench/dwta.py windows     retrieval of newsgroup texts with automatic and fixed windows
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.svm import LinearSVC

import bitkin
from _data import data_file
from _timing import report
from _tiny import sized

WORDS: tuple[int, ...] = sized((100, 300, 1000, 5000, 10_000), (100, 300))
RUNS = sized(10, 2)
N_BYTES = sized(64, 8)
BAGS_OF_ALPHABETS: tuple[int, ...] = sized((300, 1000, 10_000), (100,))
ALPHABETS: tuple[int, ...] = sized((4, 8, 16, 64, 256), (4, 256))
COSTS: tuple[float, ...] = sized((1e-4, 3e-4, 1e-3, 3e-3), (1e-3,))


def bags(n_words: int) -> tuple[Any, Any]:
    return tuple(
        scipy.sparse.load_npz(data_file(f"bow_cifar10_{n_words}_{part}.npz")).astype(np.float32)
        for part in ("train", "test")
    )


def labels() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    held = np.load(data_file("bow_cifar10_labels.npz"), allow_pickle=False)
    return held["y_train"], held["y_test"]


def precision(
    hasher: Any, X: Any, y: npt.NDArray[Any], Q: Any, yq: npt.NDArray[Any], k: int = 100
) -> float:
    """Share of the k nearest by codes that have the query's label; what a query does not get counts
    as wrong.
    """
    index = bitkin.FlatIndex(hasher.fit(X).spec_)
    index.add(hasher.encode(X))
    ids = index.search(hasher.encode(Q), k).ids
    return float(((y[ids] == yq[:, None]) & (ids >= 0)).mean())


def schemes(n_bytes: int, seed: int) -> Iterator[tuple[str, bitkin.WTAHash]]:
    """Codes of K = 4 that all take `n_bytes`: 2 bits per symbol, or 8 with an alphabet of 256."""
    for name, densify, size in (
        ("wta", None, 4),
        ("rotation", "rotation", 256),
        ("optimal", "optimal", 4),
        ("optimal_256", "optimal", 256),
    ):
        n_hashes = 8 * n_bytes // (size - 1).bit_length()
        yield (
            name,
            bitkin.WTAHash(
                n_hashes, 4, densify=densify, alphabet_size=size, center=False, random_state=seed
            ),
        )


def retrieval() -> None:
    y, yq = labels()
    for n_words in WORDS:
        X, Q = bags(n_words)
        for window in (4, 16):
            share = bitkin.WTAHash(512, window).fit(X).empty_share_
            report(
                "empty codes",
                words=n_words,
                zeros=1 - X.nnz / np.prod(X.shape),
                window=window,
                empty_share=share,
            )
        for n_bytes in sized((16, 64, 128), (16,)):
            found: dict[str, list[float]] = {}
            for seed in range(RUNS):
                for name, hasher in schemes(n_bytes, seed):
                    found.setdefault(name, []).append(precision(hasher, X, y, Q, yq))
            means = {name: float(np.mean(values)) for name, values in found.items()}
            gains = {}
            for name in ("rotation", "optimal"):
                gain = 100 * np.subtract(found[name], found["wta"])
                gains[f"{name}_gain_points"] = float(gain.mean())
                gains[f"{name}_gain_error"] = float(gain.std(ddof=1) / RUNS**0.5)
            report(
                "retrieval, precision at 100",
                words=n_words,
                bytes=n_bytes,
                runs=RUNS,
                **means,
                **gains,
            )


def alphabets() -> None:
    """Precision by label at equal bytes, for every number of values; the default is the power of
    two from the window on, up to 256.
    """
    y, yq = labels()
    sets = [(f"bags of {n_words}", *bags(n_words), y, yq, 100) for n_words in BAGS_OF_ALPHABETS]
    images = np.load(data_file("tinyimagenet_labels.npz"), allow_pickle=False)
    sets.append(("tiny ImageNet", *tiny_images(), images["y_train"], images["y_test"], 100))
    X, split, groups = newsgroups()
    train, test = split == "train", split == "test"
    sets.append(("newsgroups", X[train], X[test], groups[train], groups[test], 10))
    for name, X, Q, y, yq, k in sets:
        for window in (4, 16, "auto"):
            values: dict[str, float] = {}
            for size in ALPHABETS:
                n_hashes = 8 * N_BYTES // (size - 1).bit_length()
                hashers = [
                    bitkin.WTAHash(
                        n_hashes, window, densify="optimal", alphabet_size=size, random_state=seed
                    )
                    for seed in range(sized(3, 1))
                ]
                values[f"R_{size}"] = float(
                    np.mean([precision(hasher, X, y, Q, yq, k) for hasher in hashers])
                )
            report(
                f"alphabets, precision at {k}",
                set=name,
                bytes=N_BYTES,
                window=window,
                window_used=hashers[-1].window_,
                **values,
            )


def tiny_images() -> tuple[Any, Any]:
    return tuple(
        scipy.sparse.load_npz(data_file(f"bow_tinyimagenet_1000_{part}.npz")).astype(np.float32)
        for part in ("train", "test")
    )


def newsgroups() -> tuple[Any, npt.NDArray[Any], npt.NDArray[Any]]:
    X = scipy.sparse.load_npz(data_file("newsgroups20_bow.npz")).astype(np.float32)
    held = np.load(data_file("newsgroups20_labels.npz"), allow_pickle=False)
    return X, held["split"], held["y"]


def accuracy(
    features: Any, y: npt.NDArray[Any], tests: Any, yq: npt.NDArray[Any]
) -> tuple[float, float]:
    """Accuracy of a linear SVM whose C is chosen on a quarter of the training rows, held out for
    that; and that C.
    """
    kept = np.random.default_rng(0).random(len(y)) < 0.75
    scores = {}
    for C in COSTS:
        scores[C] = (
            LinearSVC(C=C, tol=1e-2).fit(features[kept], y[kept]).score(features[~kept], y[~kept])
        )
    best = max(scores, key=lambda C: scores[C])
    return float(LinearSVC(C=best, tol=1e-2).fit(features, y).score(tests, yq)), best


def classification() -> None:
    """WTA and densified WTA, and two things to compare them with.

    `filled_only` gives empty windows no feature at all, so it holds what is known and nothing more.
    `marked` gives them a value of their own.
    """
    y, yq = labels()
    for n_words in sized((300, 1000, 10_000), (300,)):
        X, Q = bags(n_words)
        raw, _ = accuracy(X.astype(np.float64), y, Q.astype(np.float64), yq)
        report("classification of raw bags", words=n_words, accuracy=raw)
        for n_hashes in (500, 2000) if n_words == 1000 else (500,):
            plain = bitkin.WTAHash(n_hashes, 4, densify=None, output="onehot").fit(X)
            variants = {"wta": (plain.transform(X), plain.transform(Q))}
            for alphabet in (4, 16, 64, 256):
                dense = bitkin.WTAHash(
                    n_hashes, 4, densify="optimal", alphabet_size=alphabet, output="onehot"
                ).fit(X)
                variants[f"dwta_{alphabet}"] = dense.transform(X), dense.transform(Q)
            filled = filled_windows(plain, X), filled_windows(plain, Q)
            variants["filled_only"] = tuple(
                one.multiply(scipy.sparse.csr_array(np.repeat(mask, 4, axis=1))).tocsr()
                for one, mask in zip(variants["wta"], filled, strict=True)
            )
            variants["marked"] = tuple(
                scipy.sparse.hstack([one, scipy.sparse.csr_array(~mask).astype(np.float32)]).tocsr()
                for one, mask in zip(variants["filled_only"], filled, strict=True)
            )
            for name, (train, tests) in variants.items():
                share, C = accuracy(train, y, tests, yq)
                report(
                    "classification",
                    words=n_words,
                    n_hashes=n_hashes,
                    features=name,
                    columns=train.shape[1],
                    accuracy=share,
                    C=f"{C:g}",
                    empty_share=plain.empty_share_,
                )


def filled_windows(hasher: bitkin.WTAHash, X: Any) -> npt.NDArray[np.bool_]:
    """Tell in which windows a row has anything, bool (n, n_hashes)."""
    features = hasher._windows.features.reshape(-1)
    window_of = np.repeat(np.arange(hasher.n_hashes), len(features) // hasher.n_hashes)
    inside = scipy.sparse.csr_array(
        (np.ones(len(features), dtype=np.float32), (features, window_of)),
        shape=(X.shape[1], hasher.n_hashes),
    )
    found: npt.NDArray[np.bool_] = ((X != 0).astype(np.float32) @ inside).toarray() > 0
    return found


def windows() -> None:
    X, split, y = newsgroups()
    train, test = np.flatnonzero(split == "train"), np.flatnonzero(split == "test")
    for n_hashes in sized((64, 256), (64,)):
        for window in sized((4, 16, 64, "auto"), (4, "auto")):
            values, shares = [], []
            for seed in range(3):
                hasher = bitkin.WTAHash(n_hashes, window, densify="optimal", random_state=seed)
                values.append(precision(hasher, X[train], y[train], X[test], y[test], k=10))
                shares.append(hasher.empty_share_)
            report(
                "newsgroups, precision at 10",
                n_hashes=n_hashes,
                window=window,
                window_used=hasher.window_,
                bytes=hasher.spec_.n_bytes,
                empty_share=float(np.mean(shares)),
                precision=float(np.mean(values)),
                spread=float(np.std(values)),
                rows_without_code=float(hasher.encode(X[train]).empty_rows().mean()),
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    modes = {"": retrieval, "alphabets": alphabets, "classify": classification, "windows": windows}
    modes["".join(sys.argv[1:])]()
