"""Is finding near-duplicate texts faster than datasketch's MinHashLSH, and does it find as many?

    python bench/dedup.py            20 Newsgroups against datasketch, then licence texts
    python bench/dedup.py --quick    the first 2,000 documents of each

Both sides start from the same .jsonl.gz file and the same shingles (3 words, 128 hashes, Jaccard
0.8). The truth is the Jaccard similarity of all pairs, by sparse matrix products. datasketch gives
candidates; they are judged as they come, and after an exact comparison in Python like ours. It runs
once or twice only: it takes long.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import datasketch
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import bitkin
from _data import data_file
from _timing import interleaved, report
from _tiny import sized
from bitkin.dedup.files import add_files
from bitkin.io.json_lines import JsonLines
from bitkin.sets.sets import Sets

SETS = (("newsgroups20_bodies", "body"), ("license_texts", "text"))
THRESHOLD, SIZE, N_HASHES = 0.8, 3, 128
# The highest the memory of this process has been; what the system reports of a child may be its
# parent's.
_PEAK = """
import sys
from bitkin.__main__ import main
try:
    main()
finally:
    status = open("/proc/self/status")
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""

PairKeys = npt.NDArray[np.int64]


def ours(path: Path, field: str, pairs: str = "links") -> bitkin.dedup.Duplicates:
    with bitkin.dedup.DuplicateFinder(
        THRESHOLD, shingle="words", size=SIZE, n_hashes=N_HASHES
    ) as finder:
        add_files(finder, JsonLines([path], field))
        return finder.find(pairs=pairs)


def read_texts(path: Path, field: str) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)[field] for line in file]


def words_of(text: str) -> set[str]:
    words = text.split()
    if len(words) < SIZE:
        return {" ".join(words)} if words else set()
    return {" ".join(words[i : i + SIZE]) for i in range(len(words) - SIZE + 1)}


def peer_candidates(path: Path, field: str) -> tuple[list[tuple[int, int]], list[set[str]]]:
    """Datasketch as its documentation shows it, with the faster `update_batch`: look up, then
    insert.
    """
    sets = [words_of(text) for text in read_texts(path, field)]
    lsh = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=N_HASHES)
    found = []
    for i, members in enumerate(sets):
        if not members:
            continue
        minhash = datasketch.MinHash(num_perm=N_HASHES)
        minhash.update_batch([member.encode() for member in members])
        found += [(j, i) for j in lsh.query(minhash)]
        lsh.insert(i, minhash)
    return found, sets


def verified(candidates: list[tuple[int, int]], sets: list[set[str]]) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, j in candidates
        if len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= THRESHOLD
    ]


def exact_pairs(sets: Sets) -> PairKeys:
    """Return all pairs at or above the threshold, each as first · n + second, by products of sparse
    matrices.
    """
    n, sizes = len(sets), sets.sizes()
    columns = np.unique(sets.members, return_inverse=True)[1]
    matrix = csr_array(
        (np.ones(len(columns), np.float32), columns, sets.offsets), shape=(n, columns.max() + 1)
    )
    transposed = matrix.T.tocsr()
    keys = []
    for first in range(0, n, 500):
        shared = (matrix[first : first + 500] @ transposed).tocoo()
        i, j = shared.row + first, shared.col.astype(np.int64)
        similar = (i < j) & (shared.data / (sizes[i] + sizes[j] - shared.data) >= THRESHOLD)
        keys.append(i[similar] * n + j[similar])
    return np.sort(np.concatenate(keys))


def expanded(found: bitkin.dedup.Duplicates, sets: Sets) -> PairKeys:
    """Return all pairs that ours stands for: documents with equal shingles are represented by the
    first of them.
    """
    n = len(found)
    first_equal = bitkin.dedup.equal_sets.first_equals(
        sets, bitkin.dedup.equal_sets.set_digests(sets)
    )
    order = np.argsort(first_equal, kind="stable")
    cuts = np.searchsorted(first_equal[order], np.arange(n + 1))
    keys = [
        i * n + j
        for a in range(n)
        for i, j in itertools.combinations(order[cuts[a] : cuts[a + 1]].tolist(), 2)
    ]
    for a, b in zip(found.pairs.first.tolist(), found.pairs.second.tolist(), strict=True):
        if first_equal[b] == b:
            groups = order[cuts[a] : cuts[a + 1]].tolist(), order[cuts[b] : cuts[b + 1]].tolist()
            keys += [min(i, j) * n + max(i, j) for i, j in itertools.product(*groups)]
    return np.unique(np.array(keys, dtype=np.int64))


def quality(found: PairKeys, truth: PairKeys) -> dict[str, Any]:
    right = len(np.intersect1d(found, truth))
    return {
        "pairs": len(found),
        "precision": right / max(1, len(found)),
        "recall": right / max(1, len(truth)),
    }


def ours_against_truth(name: str, path: Path, field: str) -> PairKeys:
    sets = bitkin.shingles(read_texts(path, field), kind="words", size=SIZE).unique()
    start = time.perf_counter()
    truth = exact_pairs(sets)
    exact_s = time.perf_counter() - start
    found = ours(path, field, "all")
    same = np.array_equal(found.cluster_of, ours(path, field).cluster_of)
    plan = found.plan
    report(
        "ours against all pairs",
        data=name,
        documents=len(found),
        true_pairs=len(truth),
        exact_by_matrix_products_s=exact_s,
        **quality(expanded(found, sets), truth),
        compared=found.n_compared,
        links_give_the_same_clusters=same,
        kept=len(found.kept),
        bands=plan.bands,
        rows=plan.rows,
        expected_miss_rate=f"{plan.miss_rate(THRESHOLD):.1e}",
        expected_false_alarm_rate=plan.false_alarm_rate(THRESHOLD),
    )
    return truth


def ours_by_threads(name: str, path: Path, field: str, rounds: int = 5) -> float:
    def run(n_threads: int) -> None:
        bitkin.set_threads(n_threads)
        ours(path, field)

    times = interleaved({"one": lambda: run(1), "two": lambda: run(2)}, rounds=rounds)
    report(
        "threads",
        data=name,
        one_s=times["one"],
        two_s=times["two"],
        gain=times["one"] / times["two"],
    )
    bitkin.set_threads(1)
    return times["one"]


def against_datasketch(name: str, path: Path, field: str, truth: PairKeys, n_runs: int) -> None:
    our_times, peer_times, verify_times = [], [], []
    for _ in range(n_runs):
        for _ in range(3):
            start = time.perf_counter()
            ours(path, field, "all")
            our_times.append(time.perf_counter() - start)
        start = time.perf_counter()
        candidates, sets = peer_candidates(path, field)
        peer_times.append(time.perf_counter() - start)
        start = time.perf_counter()
        checked = verified(candidates, sets)
        verify_times.append(time.perf_counter() - start)
    n = len(sets)
    our_s, peer_s, verify_s = (
        float(np.median(times)) for times in (our_times, peer_times, verify_times)
    )
    for what, pairs, seconds in (
        ("candidates", candidates, peer_s),
        ("verified", checked, peer_s + verify_s),
    ):
        keys = np.unique(np.array([min(pair) * n + max(pair) for pair in pairs], dtype=np.int64))
        report(
            f"datasketch, {what}",
            data=name,
            version=datasketch.__version__,
            runs=n_runs,
            peer_s=seconds,
            ours_s=our_s,
            **quality(keys, truth),
            ratio=seconds / our_s,
            wanted=10.0,
        )


def planted_changes(name: str, path: Path, field: str) -> None:
    """What share of copies with other case and punctuation is found, by what counts in the
    comparison?
    """
    rng = np.random.default_rng(1)
    texts = [text for text in read_texts(path, field) if len(text.split()) >= sized(30, 1)]
    texts = texts[: sized(2000, 40)]
    copies = []
    for text in texts[: len(texts) // 2]:
        words = [word.upper() if rng.random() < 0.04 else word for word in text.split()]
        marks = [rng.choice(list(",.;!")) if rng.random() < 0.03 else "" for _ in words]
        copies.append(" ".join(map("".join, zip(words, marks, strict=True))))
    for options in ((), ("lower",), ("strip_punctuation",), ("lower", "strip_punctuation")):
        found = bitkin.dedup.find_duplicates(
            [*texts, *copies],
            THRESHOLD,
            lower="lower" in options,
            strip_punctuation="strip_punctuation" in options,
        ).cluster_of
        report(
            "planted changes of case and punctuation",
            data=name,
            options=" ".join(options),
            found=float(np.mean(found[len(texts) :] == found[: len(copies)])),
        )


def vectors() -> None:
    """Near-duplicate vectors against all pairs by matrix products: clusters and seconds."""
    for name in ("onet_tasks_minilm384", "glove100_100k"):
        with np.load(data_file(f"{name}.npz")) as arrays:
            rows = max((arrays[key] for key in arrays.files), key=np.size)
        rows = rows[:20_000].astype(np.float32)
        rng = np.random.default_rng(0)
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        # planted at cosines of 0.951 to 1: c of a row, and the rest at a right angle to it
        of = unit[rng.integers(0, len(unit), len(unit) // 10)]
        other = rng.standard_normal(of.shape)
        other -= (other * of).sum(axis=1, keepdims=True) * of
        other /= np.linalg.norm(other, axis=1, keepdims=True)
        c = rng.uniform(0.951, 1.0, (len(of), 1))
        every = np.concatenate([unit, c * of + np.sqrt(1 - c * c) * other]).astype(np.float32)

        def by_codes(every: npt.NDArray[np.float32] = every) -> bitkin.dedup.DuplicateVectors:
            return bitkin.dedup.find_duplicate_vectors(every, 0.95)

        def by_products(every: npt.NDArray[np.float32] = every) -> npt.NDArray[np.int64]:
            parts = []
            for first in range(0, len(every), 1000):
                near = np.argwhere(every[first : first + 1000] @ every.T >= 0.95)
                parts.append(near + np.array([first, 0]))
            return np.concatenate(parts)

        times = interleaved({"ours": by_codes, "products": by_products}, rounds=3)
        i, j = by_products().T
        graph = csr_array((np.ones(len(i)), (i, j)), shape=(len(every), len(every)))
        labels = connected_components(graph, directed=False)[1]
        first = np.full(labels.max() + 1, len(every))
        np.minimum.at(first, labels, np.arange(len(every)))
        found = by_codes()
        report(
            "vectors against all pairs by matrix products",
            data=name,
            rows=len(every),
            kept=len(found.kept),
            in_other_clusters=int(np.count_nonzero(first[labels] != found.cluster_of)),
            compared=found.n_compared,
            ours_s=times["ours"],
            products_s=times["products"],
            ratio=times["products"] / times["ours"],
            wanted=1.0,
        )


def command(name: str, path: Path, field: str, *options: str) -> None:
    """The whole command in a process of its own, start of Python included."""
    with tempfile.TemporaryDirectory() as folder:
        out = [
            "--out",
            f"{folder}/kept.jsonl",
            "--report",
            f"{folder}/dropped.jsonl",
            "--json",
            *options,
        ]
        arguments = [sys.executable, "-c", _PEAK, "dedup", str(path), "--field", field, *out]
        start = time.perf_counter()
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - start
    figures = json.loads(done.stdout)
    report(
        "the command, files written",
        data=name,
        options=" ".join(options),
        seconds=seconds,
        peak_mb=int(done.stderr.split()[-1]) / 1024,
        **{key: figures[key] for key in ("documents", "kept", "pairs_compared")},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the first 2,000 documents")
    parser.add_argument("--peer-runs", type=int, default=1, help="times that datasketch runs")
    options = parser.parse_args()
    bitkin.set_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name, field in sized(SETS, SETS[:1]):
            path = data_file(f"{name}.jsonl.gz")
            if options.quick:
                with gzip.open(path) as whole, gzip.open(Path(folder) / path.name, "wb") as part:
                    part.writelines(itertools.islice(whole, 2000))
                path = Path(folder) / path.name
            truth = ours_against_truth(name, path, field)
            ours_by_threads(name, path, field)
            command(name, path, field)
            command(name, path, field, "--shingle", "chars")
            planted_changes(name, path, field)
            against_datasketch(name, path, field, truth, options.peer_runs)
    vectors()


if __name__ == "__main__":
    main()
