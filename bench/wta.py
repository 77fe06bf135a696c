"""How fast is winner-take-all hashing: against NumPy and a random projection, and on ever wider
sparse rows? What does it find when rows are centred first?

python bench/wta.py           times
python bench/wta.py center    of the true 10 neighbours, how many are in the best 100
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import bitkin
from _data import data_file
from _timing import interleaved, report
from _tiny import sized

N_HASHES = sized(256, 16)


def dense() -> None:
    n, d, window = sized((8192, 512, 4), (200, 64, 4))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    hasher = bitkin.WTAHash(N_HASHES, window, center=False).fit(X)
    centred = bitkin.WTAHash(N_HASHES, window, center=True).fit(X)
    theta = hasher._windows.features.reshape(N_HASHES, window)
    directions = rng.standard_normal((d, N_HASHES), dtype=np.float32)
    product = np.empty((n, N_HASHES), dtype=np.float32)
    if not np.array_equal(hasher.transform(X), X[:, theta].argmax(2)):
        raise SystemExit("codes are not the winners")
    times = interleaved(
        {
            "ours": lambda: hasher.encode(X),
            "centred": lambda: centred.encode(X),
            "fit": lambda: bitkin.WTAHash(N_HASHES, window).fit(X),
            "numpy": lambda: X[:, theta].argmax(2),
            "product": lambda: np.matmul(X, directions, out=product),
        },
        rounds=11,
    )
    sizes = {
        "rows": n,
        "d": d,
        "n_hashes": N_HASHES,
        "window": window,
        "us_a_row": times["ours"] / n * 1e6,
    }
    report("dense codes against NumPy", **sizes, ratio=times["numpy"] / times["ours"], wanted=3.0)
    report(
        "dense codes against a sign projection's product",
        **sizes,
        ratio=times["product"] / times["ours"],
        wanted=1.0,
    )

    report(
        "centred codes against codes of rows as they are",
        **{**sizes, "us_a_row": times["centred"] / n * 1e6},
        ratio=times["ours"] / times["centred"],
        fit_us_a_row=times["fit"] / n * 1e6,
    )


def sparse_rows(n: int, d: int, nonzeros: int = 100, seed: int = 0) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, d, (n, 2 * nonzeros)), axis=1)
    columns = np.stack([rng.permutation(np.unique(row))[:nonzeros] for row in columns])
    columns.sort(axis=1)
    data = rng.exponential(size=n * nonzeros).astype(np.float32)
    return scipy.sparse.csr_array(
        (data, columns.reshape(-1), np.arange(n + 1) * nonzeros), shape=(n, d)
    )


def sparse() -> None:
    n = sized(4000, 300)
    rows = {d: sparse_rows(n, d) for d in (10**4, 10**5, 10**6, 10**7)}
    hashers = {d: bitkin.WTAHash(N_HASHES, "auto").fit(X) for d, X in rows.items()}
    times = interleaved(
        {f"{d}": functools.partial(hashers[d].encode, rows[d]) for d in rows}, rounds=11
    )
    for d in rows:
        report(
            "sparse codes, time a row",
            rows=n, d=d, nonzeros=100, n_hashes=N_HASHES, window=hashers[d].window_,
            empty_share=hashers[d].empty_share_, us_a_row=times[f"{d}"] / n * 1e6,
            times_of_d_1e4=times[f"{d}"] / times["10000"], wanted_at_most=1.5,
        )  # fmt: skip
    few = rows[10**5][:200]
    hasher = hashers[10**5]
    if hasher.encode(few) != hasher.encode(few.toarray()):
        raise SystemExit("a sparse row and its dense copy differ")
    times = interleaved(
        {"sparse": lambda: hasher.encode(few), "dense": lambda: hasher.encode(few.toarray())},
        rounds=7,
    )
    report(
        "sparse codes against densifying",
        rows=200,
        d=10**5,
        ratio=times["dense"] / times["sparse"],
        wanted=20.0,
    )


def center() -> None:
    """Rows as they are, centred, and both centred and scaled, at equal numbers of codes."""
    warnings.simplefilter("ignore")
    for name in ("fashion_mnist", "cifar10_gist960", "glove100_100k", "onet_tasks_minilm384"):
        X, Q = dense_set(name)
        truth = bitkin.evaluate.nearest(X, Q, k=10).ids
        for n_hashes in sized((64, 256), (16,)):
            for label, center_, scale in (
                ("as they are", False, False),
                ("centred", True, False),
                ("centred and scaled", True, True),
                ("auto", "auto", "auto"),
            ):
                found = []
                for seed in range(sized(3, 1)):
                    hasher = bitkin.WTAHash(
                        n_hashes, center=center_, scale=scale, random_state=seed
                    ).fit(X)
                    index = bitkin.FlatIndex(hasher.spec_)
                    index.add(hasher.encode(X))
                    ids = index.search(hasher.encode(Q), 100).ids
                    found.append(float(bitkin.evaluate.recall(ids, truth)))
                report(
                    "centring, of the true 10 in the best 100",
                    set=name,
                    rows=len(X),
                    n_hashes=n_hashes,
                    bytes=hasher.spec_.n_bytes,
                    how=label,
                    recall=float(np.mean(found)),
                    empty_share=hasher.empty_share_,
                )


def dense_set(name: str) -> tuple[Any, Any]:
    """Return rows and queries of a set; word and sentence vectors at length 1."""
    held = np.load(data_file(f"{name}.npz"), allow_pickle=False)
    n_queries = sized(1000, 40)
    if name == "fashion_mnist":
        X, Q = held["X_train"], held["X_test"][:n_queries]
    elif "Q" in held.files:
        X, Q = held["X"], held["Q"][:n_queries]
    else:
        X = held["X"][np.random.default_rng(0).permutation(len(held["X"]))].astype(np.float32)
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        X, Q = X[n_queries:], X[:n_queries]
    return (
        X.reshape(len(X), -1)[:20_000].astype(np.float32),
        Q.reshape(len(Q), -1).astype(np.float32),
    )


def peak_mb() -> float:
    """Return the peak of this process's memory; what `getrusage` gives includes the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


def memory() -> None:
    """Peak memory of a process that fits and encodes rows of ten million features."""
    n_features = sized(10**7, 10**5)
    X = sparse_rows(sized(1000, 10), n_features)
    before = peak_mb()
    bitkin.WTAHash(N_HASHES, "auto").fit(X).encode(X)
    peak = peak_mb()
    report(
        f"memory for {n_features:,} features", peak_mb=peak, before_mb=before, wanted_at_most=500
    )


if __name__ == "__main__":
    bitkin.set_threads(1)
    if sys.argv[1:] == ["memory"]:
        memory()
    elif sys.argv[1:] == ["center"]:
        center()
    else:
        dense()
        sparse()
        subprocess.run([sys.executable, __file__, "memory"], check=True)
