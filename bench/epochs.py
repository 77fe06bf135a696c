"""Do epochs keep old codes searchable while the model moves, and how much does the estimate add to
Hamming distance?

    python bench/epochs.py [number of seeds, 3 unless given]

A stream that turns half way: Fashion-MNIST, classes 0–4 and then 5–9. Compared, by the share of the
true 10 nearest among 100 found, over all rows: the first model for everything ("frozen"), the codes
as they were emitted, with a new epoch now and then ("epochs"), the last model for everything
("reencoded"), and the emitted codes of all epochs in one FlatIndex as if they were comparable
("mixed"). Epochs are to find at least 1.10 times as many as the frozen model, and 0.95 times as
many as if all rows had been encoded anew.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import bitkin
from _data import data_file
from _timing import interleaved, report
from _tiny import sized
from bitkin.evaluate import nearest, recall

N_QUERIES, K, FOUND = sized(1000, 50), 10, sized(100, 20)

EPOCH_ROWS = sized(5_000, 100)
OF_FROZEN, OF_REENCODED = 1.10, 0.95  # wanted

Floats = npt.NDArray[np.float32]


class Stream(NamedTuple):
    """Rows in the order of the stream, queries of all classes, and their true neighbours."""

    X: Floats
    Q: Floats
    true_ids: Any

    def recall(self, index: bitkin.EpochIndex) -> float:
        """Of the true neighbours, the share that an index finds."""
        return recall(index.search(self.Q, FOUND).ids, self.true_ids)

    def recall_of_one_model(self, model: Any) -> float:
        """The same where one model encodes everything."""
        index = bitkin.EpochIndex()
        index.add(model, self.X)
        return self.recall(index)

    def recall_of_mixed(self, codes: list[bitkin.Codes], last: Any) -> float:
        """Codes of all epochs side by side, asked with the last model: the failure that epochs are
        there to prevent.
        """
        index = bitkin.FlatIndex(last.spec_)
        for part in codes:
            index.add(part.with_fingerprint(None))
        return recall(index.search(last.encode(self.Q), FOUND).ids, self.true_ids)


@lru_cache(maxsize=1)
def turning_stream(seed: int) -> Stream:
    """Return the stream that turns, its rows and queries drawn by `seed`."""
    data = np.load(data_file("fashion_mnist.npz"))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data["y_train"]))
    order = order[np.argsort(data["y_train"][order] >= 5, kind="stable")]
    queries = rng.permutation(len(data["y_test"]))[:N_QUERIES]
    X, Q = data["X_train"][order].astype(np.float32), data["X_test"][queries].astype(np.float32)
    return Stream(X, Q, nearest(X, Q, K).ids)


class Coded(NamedTuple):
    """A stream in an index, its codes as they were emitted, and its first and last model."""

    searched: bitkin.EpochIndex
    codes: list[bitkin.Codes]
    first: Any
    last: Any


def offline(X: Floats, n_bits: int, rotation: str) -> Coded:
    """PCA of the first half for the first half, PCA of everything for the rest: what a stream could
    reach at best.
    """
    half, index = len(X) // 2, bitkin.EpochIndex()
    first, last = (
        bitkin.ProjectionHash(n_bits, rotation=rotation).fit(rows) for rows in (X[:half], X)
    )
    index.add(first, X[:half])
    index.add(last, X[half:])
    return Coded(index, [first.encode(X[:half]), last.encode(X[half:])], first, last)


def streamed(X: Floats, n_bits: int, rotation: str, forgetting: float) -> Coded:
    """OPAST: fitted on the first 5,000 vectors, then one pass over the rest, with a new epoch every
    5,000.
    """
    start, rest = X[:EPOCH_ROWS], X[EPOCH_ROWS:]

    def fitted() -> Any:
        opast = bitkin.projections.OPAST(forgetting)
        return bitkin.ProjectionHash(
            n_bits, projection=opast, rotation=rotation, epochs=EPOCH_ROWS
        ).fit(start)

    index, live = bitkin.EpochIndex(), fitted()
    first = live.epoch_
    index.add(first, start)
    index.follow(live, rest)
    codes = [first.encode(start), *fitted().sketch_stream(rest)]  # the same codes once more
    return Coded(index, codes, first, live.epoch_)


def turning(seed: int, n_bits: int, rotation: str, forgetting: float | None) -> None:
    """Without `forgetting` the models are offline ones."""
    stream = turning_stream(seed)
    X = stream.X
    coded = (
        offline(X, n_bits, rotation)
        if forgetting is None
        else streamed(X, n_bits, rotation, forgetting)
    )
    kept = stream.recall(coded.searched)
    frozen, anew = (stream.recall_of_one_model(model) for model in (coded.first, coded.last))
    report(
        "a stream that turns half way",
        data="fashion_mnist",
        models=f"{'pca' if forgetting is None else 'opast'} + {rotation}",
        forgetting=None if forgetting is None else f"{forgetting:.4f}",
        n_bits=n_bits,
        seed=seed,
        n_epochs=len(coded.searched.epochs),
        frozen=frozen,
        epochs=kept,
        reencoded=anew,
        mixed=stream.recall_of_mixed(coded.codes, coded.last),
        ratio=kept / frozen,
        wanted=OF_FROZEN,
        of_reencoded=kept / anew,
        of_reencoded_wanted=OF_REENCODED,
        of_reencoded_met=kept / anew >= OF_REENCODED,
    )


def estimate(n_bits: int) -> None:
    """The estimate against Hamming distance, on the same codes."""
    X, Q, true_ids = turning_stream(0)
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
    for bits in sized((64, 128, 256), (64,)):
        estimate(bits)
    # A model that forgets within an epoch follows the turn; one that never does is half way there
    # at the end.
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        for bits in (32, 64):
            for turn in ("unifdiag", "random"):
                for beta in (None, 1.0, 1 - 1 / EPOCH_ROWS):
                    turning(number, bits, turn, beta)
