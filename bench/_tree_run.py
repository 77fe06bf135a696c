"""One method on one set, in a process of its own and one thread: errors, bytes, seconds, and the
memory training adds.

python bench/_tree_run.py '{"set": "newsgroups20", "method": "heshing", "n_buckets": 65536, "seeds":
3}'
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bitkin
from _label_trees import TreeSet, load_set
from _rivals import (
    Hashed,
    HiClass,
    HierarchicalSVM,
    OneVsRest,
    Projected,
    Rival,
    TopDown,
    VowpalWabbit,
)
from _tiny import TINY

HASHED = ("heshing", "flat")
# liblinear's seed changes the order of its steps only
SEEDLESS = ("ovr", "crammer_singer", "top_down", "hiclass")
_MOST_ROWS = 20_000


def measured(spec: dict[str, Any], timeout: float = 1800) -> dict[str, Any]:
    """Run `spec` in a process of its own; one that takes too long or fails says so.

    A tiny run stays in this process: to start one takes longer.
    """
    if TINY:
        try:
            return run(dict(spec))
        except ImportError as error:
            return {**spec, "failed": str(error)}
    try:
        done = subprocess.run(
            [sys.executable, __file__, json.dumps(spec)],
            capture_output=True,
            text=True,
            check=True,
            timeout=timeout,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return {**spec, "failed": f"over {timeout:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {**spec, "failed": error.stderr.strip().rpartition("\n")[2][:200]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Choose the strength on held-out rows unless it is given, then train and test with every
    seed.
    """
    data = load_set(spec["set"])
    seen = data.X.shape[1] if spec["method"] in (*HASHED, "vw") else data.n_learned
    X, X_test = data.X[:, :seen], data.X_test[:, :seen]
    make, _ = _maker(data, spec)
    _warm_up(make, X, data.y)
    start, strength = time.perf_counter(), spec.get("strength")
    if strength is None:
        chooser, grid = _maker(data, spec | spec.get("chosen_at", {}))
        strength = _chosen(chooser, grid, X, data.y)
    choosing = time.perf_counter() - start
    runs = []
    for seed in range(spec.get("seeds", 3)):
        before = _restart_peak()
        start, cpu_start = time.perf_counter(), time.process_time()
        made = make(strength, seed).fit(X, data.y)
        learning, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        added = _peak_bytes() - before
        start = time.perf_counter()
        predicted = made.predict(X_test)
        runs.append((*data.errors(predicted), learning, time.perf_counter() - start, cpu, added))
        n_bytes = made.n_bytes
    mean = np.mean(runs, axis=0)
    spread = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros(6)
    return {
        **spec,
        "flat": mean[0],
        "flat_se": spread[0],
        "hier": mean[1],
        "hier_se": spread[1],
        "seconds": mean[2],
        "cpu_seconds": mean[4],
        "predict_seconds": mean[3],
        "choosing_seconds": choosing,
        "bytes": n_bytes,
        "train_peak_bytes": max(0.0, max(run[5] for run in runs)),
        "strength": strength,
    }


def _maker(data: TreeSet, spec: dict[str, Any]) -> tuple[Callable[[Any, int], Rival], list[Any]]:
    method, m, more = spec["method"], spec.get("n_buckets", 0), spec.get("more", {})
    square = (
        float((data.X.data**2).sum() if hasattr(data.X, "indptr") else (data.X**2).sum())
        / data.X.shape[0]
    )
    costs = [c / square for c in (0.1, 1.0, 10.0)]
    if method in HASHED:
        return lambda s, seed: Hashed(data, m, s, seed, tree=method == "heshing", **more), ["auto"]
    if method == "hierarchical_svm":
        return lambda s, seed: HierarchicalSVM(data, s, seed), [
            a * square for a in (1e-6, 1e-5, 1e-4, 1e-3)
        ]
    if method == "vw":
        return lambda s, seed: VowpalWabbit(data, m, s, seed), [0.1, 0.5, 2.5]
    if method == "pca":
        n_components = int(spec.get("n_components") or _components(data, spec["n_bytes"]))
        spec["n_components"] = n_components
        return lambda s, seed: Projected(s, seed, n_components), [c * 10 for c in costs]
    made: dict[str, Callable[[Any, int], Rival]] = {
        "ovr": OneVsRest,
        "crammer_singer": lambda s, seed: OneVsRest(s, seed, "crammer_singer"),
        "top_down": lambda s, seed: TopDown(data, s, seed),
        "hiclass": lambda s, seed: HiClass(data, s, seed),
    }
    return made[method], costs


def _components(data: TreeSet, n_bytes: float) -> int:
    """Return how many principal directions, with one-vs-rest weights on them, fit into as many
    bytes.
    """
    each = 4 * (data.n_learned + data.taxonomy.n_classes)
    return max(1, min(int(n_bytes / each), data.n_learned - 1, 500))


def _chosen(make: Callable[[Any, int], Rival], grid: list[Any], X: Any, y: Any) -> Any:
    if grid == ["auto"]:
        made: Any = make("auto", 0).fit(X, y)
        return float(made.model.alpha_)
    order = np.random.default_rng(0).permutation(len(y))[:_MOST_ROWS]
    held, learned = order[: len(order) // 5], order[len(order) // 5 :]
    errors = [
        (make(s, 0).fit(X[learned], y[learned]).predict(X[held]) != y[held]).mean() for s in grid
    ]
    return grid[int(np.argmin(errors))]


def _warm_up(make: Callable[[Any, int], Rival], X: Any, y: Any) -> None:
    """Compile what is compiled, outside the clock."""
    few = np.unique(np.concatenate([np.unique(y, return_index=True)[1][:8], np.arange(32)]))
    probe = make(1e-4, 0)
    if isinstance(probe, (Hashed, HierarchicalSVM)):
        probe.fit(X[few], y[few]).predict(X[few])


def _restart_peak() -> int:
    """Forget the peak of this process's memory so far, where the system can, and return what is in
    use.
    """
    gc.collect()
    try:
        # else memory that earlier runs have freed would hide what this one takes
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return _peak_bytes()
    return _status("VmRSS")


def _peak_bytes() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {field} here")


if __name__ == "__main__":
    bitkin.set_threads(1)
    print(json.dumps(run(json.loads(sys.argv[1]))))
