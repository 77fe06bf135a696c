"""Are exact neighbours faster than scikit-learn's brute force, and how near to the bare matrix
product?

    python bench/truth.py

Ours, the peer and one float32 product of the same size run interleaved in this process; the answers
are compared.
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from _timing import interleaved, report
from _tiny import sized
from bitkin.evaluate import nearest
from bitkin.randomness import Draws
from bitkin.threads import get_threads

PEER_METRICS = {"l2": "euclidean", "cosine": "cosine"}
N_ROWS, N_QUERIES, N_COLUMNS, K = sized((20_000, 500, 784, 10), (300, 10, 20, 10))


def compare(metric: str) -> None:
    draws = Draws(0, "bench truth")
    X = draws.normals((N_ROWS, N_COLUMNS)).astype(np.float32)
    Q = draws.normals((N_QUERIES, N_COLUMNS)).astype(np.float32)
    peer = NearestNeighbors(n_neighbors=K, algorithm="brute", metric=PEER_METRICS[metric]).fit(X)
    seconds = interleaved(
        {
            "ours": lambda: nearest(X, Q, K, metric),
            "peer": lambda: peer.kneighbors(Q),
            "product": lambda: Q @ X.T,
        },
        rounds=9,
    )
    report(
        f"exact neighbours, {metric}",
        peer="scikit-learn brute",
        n_rows=N_ROWS,
        n_queries=N_QUERIES,
        n_columns=N_COLUMNS,
        k=K,
        threads=get_threads(),
        ours_ms=1e3 * seconds["ours"],
        peer_ms=1e3 * seconds["peer"],
        ratio=seconds["peer"] / seconds["ours"],
        share_of_sgemm_rate=seconds["product"] / seconds["ours"],
        same_ids=float((nearest(X, Q, K, metric).ids == peer.kneighbors(Q)[1]).mean()),
    )


if __name__ == "__main__":
    for name in PEER_METRICS:
        compare(name)
