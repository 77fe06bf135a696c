"""Do epochs keep old codes searchable while the model moves, and how much does the estimate add to Hamming distance?

    python bench/epochs.py

A stream that turns half way: Fashion-MNIST, classes 0–4 and then 5–9. Compared, by the share of the true 10 nearest
among 100 found, over all rows: the first model for everything ("frozen"), the codes as they were emitted, with a new
epoch now and then ("epochs"), the last model for everything ("reencoded"), and the codes of all epochs in one FlatIndex
as if they were comparable ("mixed").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from _data import data_file
from _timing import interleaved, report
from bitkin.evaluate import nearest, recall
from bitkin.hashers.streams.epoch_codes import EpochCodes

N_QUERIES, K, FOUND = 1000, 10, 100

EPOCH_ROWS = 5_000

Floats = npt.NDArray[np.float32]
Epochs = list[tuple[Any, slice]]
"""Snapshots, each with the rows it encoded."""


def turning_stream(seed: int) -> tuple[Floats, Floats]:
    """Return rows in the order of the stream, and queries of all classes."""
    data = np.load(data_file("fashion_mnist.npz"))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data["y_train"]))
    order = order[np.argsort(data["y_train"][order] >= 5, kind="stable")]
    queries = rng.permutation(len(data["y_test"]))[:N_QUERIES]
    return data["X_train"][order].astype(np.float32), data["X_test"][queries].astype(np.float32)


def offline(X: Floats, n_bits: int, rotation: str) -> Epochs:
    """PCA of the first half for the first half, PCA of everything for the rest: what a stream could reach at best."""
    half = len(X) // 2
    first, last = (bitkin.ProjectionHash(n_bits, rotation=rotation).fit(rows) for rows in (X[:half], X))
    return [(first, slice(0, half)), (last, slice(half, len(X)))]


def streamed(X: Floats, n_bits: int, rotation: str, forgetting: float) -> Epochs:
    """OPAST: fitted on the first 5,000 vectors, then one pass over the rest, with a new epoch every 5,000."""
    opast = bitkin.projections.OPAST(forgetting)
    live = bitkin.ProjectionHash(n_bits, projection=opast, rotation=rotation, epochs=EPOCH_ROWS).fit(X[:EPOCH_ROWS])
    epochs: Epochs = [(live.epoch_, slice(0, EPOCH_ROWS))]
    done = EPOCH_ROWS
    for snapshot, codes in EpochCodes(live).of(X[EPOCH_ROWS:]):
        epochs.append((snapshot, slice(done, done + len(codes))))
        done += len(codes)
    return epochs


def recall_by_epochs(epochs: Epochs, X: Floats, Q: Floats, true_ids: Any) -> float:
    index = bitkin.EpochIndex()
    for snapshot, rows in epochs:
        index.add(snapshot, X[rows])
    return recall(index.search(Q, FOUND).ids, true_ids)


def recall_of_mixed(epochs: Epochs, X: Floats, Q: Floats, true_ids: Any) -> float:
    """Codes of all epochs side by side, asked with the last model: the failure that epochs are there to prevent."""
    index = bitkin.FlatIndex(epochs[0][0].spec_)
    for snapshot, rows in epochs:
        index.add(snapshot.encode(X[rows]).with_fingerprint(None))
    return recall(index.search(epochs[-1][0].encode(Q), FOUND).ids, true_ids)


def turning(seed: int, n_bits: int, rotation: str, forgetting: float | None) -> None:
    """Without `forgetting` the models are offline ones."""
    X, Q = turning_stream(seed)
    true_ids = nearest(X, Q, K).ids
    epochs = offline(X, n_bits, rotation) if forgetting is None else streamed(X, n_bits, rotation, forgetting)
    everything = slice(0, len(X))
    frozen = recall_by_epochs([(epochs[0][0], everything)], X, Q, true_ids)
    kept = recall_by_epochs(epochs, X, Q, true_ids)
    anew = recall_by_epochs([(epochs[-1][0], everything)], X, Q, true_ids)
    report(
        "a stream that turns half way",
        data="fashion_mnist",
        models=f"{'pca' if forgetting is None else 'opast'} + {rotation}",
        forgetting=None if forgetting is None else f"{forgetting:.4f}",
        n_bits=n_bits,
        seed=seed,
        n_epochs=len({snapshot.fingerprint_ for snapshot, _ in epochs}),
        frozen=frozen,
        epochs=kept,
        reencoded=anew,
        mixed=recall_of_mixed(epochs, X, Q, true_ids),
        ratio=kept / frozen,
        wanted=1.10,
        of_reencoded=kept / anew,
    )


def estimate(n_bits: int) -> None:
    """The estimate against Hamming distance, on the same codes."""
    X, Q = turning_stream(0)
    true_ids = nearest(X, Q, K).ids
    hasher = bitkin.ProjectionHash(n_bits, rotation="random").fit(X)
    flat, scored = bitkin.FlatIndex(hasher.spec_), bitkin.EpochIndex()
    flat.add(hasher.encode(X))
    scored.add(hasher, X)
    queries = hasher.encode(Q)
    seconds = interleaved(
        {
            "codes 100": lambda: flat.search(queries, FOUND),
            "codes 1000": lambda: flat.search(queries, 10 * FOUND),
            "estimate": lambda: scored.search(Q, FOUND),
        },
        rounds=5,
    )
    report(
        "the corrected estimate, shortlist of 1,000 by codes",
        data="fashion_mnist",
        n_bits=n_bits,
        codes=recall(flat.search(queries, FOUND).ids, true_ids),
        estimate=recall(scored.search(Q, FOUND).ids, true_ids),
        codes_100_us=1e6 * seconds["codes 100"] / len(Q),
        codes_1000_us=1e6 * seconds["codes 1000"] / len(Q),
        estimate_us=1e6 * seconds["estimate"] / len(Q),
        threads=bitkin.get_threads(),
    )


if __name__ == "__main__":
    for bits in (64, 128, 256):
        estimate(bits)
    # A model that forgets within an epoch follows the turn; one that never does is half way there at the end.
    for bits in (32, 64):
        for beta in (None, 1.0, 1 - 1 / EPOCH_ROWS):
            for number in range(3):
                turning(number, bits, "unifdiag", beta)
