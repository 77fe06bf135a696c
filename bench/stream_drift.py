"""Do the defaults of a stream serve streams that drift, and lose nothing where nothing does?

    python bench/stream_drift.py [names of streams, all unless given]

Every stream has 12,000 vectors, 400 of which are queries, and is coded at 32 bits as `bitkin
stream` codes it: each vector by the epoch at its time. Printed is the share of the true 10 nearest
that an EpochIndex of those codes finds among 100, and the number of epochs. "earlier" are the
defaults of bitkin 0.1 before early epochs; "asked" is OPAST(forgetting=0.999), a random rotation
and epochs=0.02; "fixed" is one set of random directions for all rows. The defaults are to find at
least what "asked" does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from _data import data_file
from _timing import report
from _tiny import sized
from bitkin.evaluate import nearest, recall
from bitkin.hashers.projection.epoch_codes import EpochCodes

N_ROWS, N_QUERIES, N_BITS = sized(12_000, 380), sized(400, 20), sized(32, 8)
K, FOUND = 10, sized(100, 20)

Floats = npt.NDArray[np.float32]
OPAST = bitkin.projections.OPAST

WAYS: dict[str, dict[str, Any]] = {
    "earlier": {"projection": OPAST(1.0), "rotation": "unifdiag", "epochs": "request"},
    "asked": {"projection": OPAST(0.999), "rotation": "random", "epochs": 0.02},
    "defaults": {"projection": "opast", "rotation": "auto"},
}


def planted(kind: str) -> Floats:
    """Vectors near 40 of 200 directions, which stay, turn three times, or move from the mean."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((N_ROWS, 40)) * np.geomspace(3, 0.3, 40)
    n_turns = 4 if kind == "turns" else 1
    bases = [np.linalg.qr(rng.standard_normal((200, 40)))[0].T for _ in range(n_turns)]
    parts = np.array_split(rows, n_turns)
    vectors = np.concatenate([part @ basis for part, basis in zip(parts, bases, strict=True)])
    if kind == "moves":
        vectors += np.linspace(0, 30, N_ROWS)[:, None] * np.eye(200)[0]
    return np.asarray(vectors + 0.05 * rng.standard_normal(vectors.shape), dtype=np.float32)


def of_file(name: str, rows: str, labels: str | None, order: str) -> Floats:
    """Rows of a data set: as they come, shuffled, or sorted by their labels."""
    data, rng = np.load(data_file(f"{name}.npz")), np.random.default_rng(0)
    vectors = data[rows].reshape(len(data[rows]), -1)
    if order == "natural":
        return np.asarray(vectors[:N_ROWS], dtype=np.float32)
    places = rng.permutation(len(vectors))[:N_ROWS]
    if order == "sorted":
        places = places[np.argsort(data[labels][places], kind="stable")]
    return np.asarray(vectors[places], dtype=np.float32)


STREAMS: dict[str, Callable[[], Floats]] = {
    "planted, stays": lambda: planted("stays"),
    "planted, turns": lambda: planted("turns"),
    "planted, moves": lambda: planted("moves"),
    "fashion, shuffled": lambda: of_file("fashion_mnist", "X_train", "y_train", "shuffled"),
    "fashion, sorted": lambda: of_file("fashion_mnist", "X_train", "y_train", "sorted"),
    "gist, shuffled": lambda: of_file("cifar10_gist960", "X", "y", "shuffled"),
    "gist, sorted": lambda: of_file("cifar10_gist960", "X", "y", "sorted"),
    "words, shuffled": lambda: of_file("glove100_100k", "X", None, "shuffled"),
    "words, natural": lambda: of_file("glove100_100k", "X", None, "natural"),
    "sentences, shuffled": lambda: of_file("onet_tasks_minilm384", "X", None, "shuffled"),
    "sentences, natural": lambda: of_file("onet_tasks_minilm384", "X", None, "natural"),
}


def index_of(hasher: bitkin.ProjectionHash, X: Floats) -> bitkin.EpochIndex:
    """Return an index of the codes as they leave the stream, whoever made them."""
    index, last = bitkin.EpochIndex(), None
    snapshot: Any
    for snapshot, codes, rows in EpochCodes(hasher).sketch(X):
        if snapshot is not last:
            index.begin(snapshot)
            last = snapshot
        index.add_codes(codes, bitkin.corrections(snapshot, rows))
    return index


def compare(name: str) -> None:
    """Print what each way finds in one stream."""
    vectors = STREAMS[name]()
    asked = np.zeros(len(vectors), dtype=bool)
    asked[np.random.default_rng(1).permutation(len(vectors))[:N_QUERIES]] = True
    X, Q = vectors[~asked], vectors[asked]
    true_ids = nearest(X, Q, K).ids
    fixed = bitkin.EpochIndex()
    fixed.add(bitkin.ProjectionHash(N_BITS, projection="random", rotation=None).fit(X), X)
    found = {"fixed": recall(fixed.search(Q, FOUND).ids, true_ids)}
    n_epochs = {}
    for way, slots in WAYS.items():
        index = index_of(bitkin.ProjectionHash(N_BITS, **slots), X)
        found[way], n_epochs[way] = recall(index.search(Q, FOUND).ids, true_ids), len(index.epochs)
    report(
        "the defaults of a stream",
        stream=name,
        n_bits=N_BITS,
        **found,
        epochs=n_epochs,
        ratio=found["defaults"] / found["asked"],
        wanted=1.0,
    )


if __name__ == "__main__":
    for stream in sys.argv[1:] or STREAMS:
        compare(stream)
