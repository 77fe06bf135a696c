"""`bitkin doctor`: what this machine has, and whether search runs at the speed it should."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bitkin.cli.arguments import Json
from bitkin.cli.output import print_json, print_table

_PACKAGES = {
    "numpy": None,
    "numba": None,
    "scipy": None,
    "scikit-learn": None,
    "typer": "cli",
    "rich": "cli",
    "pyarrow": "io",
    "h5py": "io",
    "matplotlib": "plot",
}
_FEATURES = ("popcnt", "avx2", "avx512f", "avx512vpopcntdq", "neon", "sve")
_SLOW_SHARE = 0.5  # of the read bandwidth; 0.85 and more is usual


def doctor(
    speed: Annotated[bool, typer.Option(help="Measure the speed of memory and of search.")] = True,
    json: Json = False,
) -> None:
    """Show versions, processor, threads, cache folder, and a speed test against this machine's
    memory.

    Example: bitkin doctor
    """
    sections: dict[str, dict[str, Any]] = {
        "versions": find_versions(),
        "processor": describe_processor(),
        "kernels": find_kernel_cache(),
    }
    if speed:
        sections["speed"] = measure_speed()
    if json:
        print_json(**sections)
        return
    for title, values in sections.items():
        print_table(title, None, [_describe(key, value) for key, value in values.items()])
    if speed:
        print(judge_speed(sections["speed"]))


# How figures are called for people, and their units; JSON has the short names.
_LABELS = {
    "name": ("name", "{}"),
    "architecture": ("as LLVM calls it", "{}"),
    "features": ("instructions that kernels use", "{}"),
    "cores": ("cores available", "{}"),
    "threads": ("threads in use (--threads, BITKIN_NUM_THREADS)", "{}"),
    "matrix_products": ("library of matrix products (BLAS)", "{}"),
    "folder": ("folder of compiled kernels (NUMBA_CACHE_DIR)", "{}"),
    "bytes": ("bytes in it", "{:,}"),
    "writable": ("kept for the next process", "{}"),
    "read_gb_s": ("reading memory, one thread", "{} GB/s"),
    "one_query_ms": ("one query, one thread", "{} ms"),
    "one_query_gb_s": ("codes that it reads", "{} GB/s"),
    "share_of_read": ("as a share of reading", "{:.0%}"),
    "query_in_a_batch_ms": ("each of 100 queries at once", "{} ms"),
    "matrix_product_gflops": ("matrix product, float32", "{} GFLOP/s"),
    "measured": ("searched", "{}"),
}


def _describe(key: str, value: Any) -> tuple[str, str]:
    """Return a label and a value as a person reads them."""
    label, form = _LABELS.get(key, (key, "{}"))
    if isinstance(value, bool):
        return label, "yes" if value else "no"
    return label, form.format(value)


def find_versions() -> dict[str, str]:
    """Return versions, and for what is missing the line that installs it."""
    from bitkin._version import __version__

    found = {
        "bitkin": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    }
    for package, extra in _PACKAGES.items():
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = f"missing: pip install 'bitkin[{extra}]'" if extra else "missing"
    return found


def describe_processor() -> dict[str, Any]:
    """Return the processor, the features that matter here, and the threads in use."""
    import llvmlite.binding as llvm
    from threadpoolctl import threadpool_info

    from bitkin.threads import available_cores, get_threads

    has = llvm.get_host_cpu_features()
    blas = [
        f"{info['internal_api']} {info['version']}"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    ]
    return {
        "name": processor_name(),
        "architecture": llvm.get_host_cpu_name(),
        "features": ", ".join(name for name in _FEATURES if has.get(name))
        or "none of those we use",
        "cores": available_cores(),
        "threads": get_threads(),
        "matrix_products": ", ".join(sorted(set(blas))) or "unknown",
    }


def processor_name() -> str:
    """Return what the processor is sold as, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # there is none but on Linux
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def find_kernel_cache() -> dict[str, Any]:
    """Return where compiled kernels are kept."""
    from bitkin.kernels._kernel import JIT_DISABLED
    from bitkin.kernels.search.scan import k_smallest_into

    if JIT_DISABLED:
        return {"state": "NUMBA_DISABLE_JIT is set: kernels run as plain Python, very slowly"}
    dispatcher: Any = k_smallest_into  # for the type checker a plain function
    folder = dispatcher.stats.cache_path
    if not folder:
        return {"state": "no folder is writable: kernels are compiled again in every process"}
    size = sum(file.stat().st_size for file in Path(folder).glob("*.nb?"))
    return {"folder": folder, "bytes": size, "writable": os.access(folder, os.W_OK)}


def measure_speed(n: int = 1_000_000) -> dict[str, Any]:
    """Measure reading, a scan of 256-bit codes by one query and by many, and a matrix product."""
    import numpy as np

    from bitkin.codes import Codes
    from bitkin.index.flat import FlatIndex
    from bitkin.threads import get_threads, threads_held_at

    rng = np.random.default_rng(0)
    codes = Codes.from_bytes(rng.integers(0, 256, (n, 32), dtype=np.uint8), 256)
    index = FlatIndex(codes.spec)
    index.add(codes)
    square = rng.standard_normal((1500, 1500), dtype=np.float32)
    read = read_bandwidth()
    with threads_held_at(1):
        one = _median_seconds(lambda: index.search(codes[:1], 10))
    many = _median_seconds(lambda: index.search(codes[:100], 10)) / 100
    product = 2 * 1500**3 / _median_seconds(lambda: square @ square)
    return {
        "read_gb_s": round(read / 1e9, 1),
        "one_query_ms": round(1e3 * one, 2),
        "one_query_gb_s": round(32 * n / one / 1e9, 1),
        "share_of_read": round(32 * n / one / read, 2),
        "query_in_a_batch_ms": round(1e3 * many, 3),
        "matrix_product_gflops": round(product / 1e9),
        "measured": f"{n:,} codes of 256 bits, {get_threads()} threads",
    }


def read_bandwidth(n_bytes: int = 1 << 27) -> float:
    """Return the bytes a second at which one thread reads memory, by a sum."""
    import numpy as np

    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.reading import sum_words

    words = read_only(np.ones(n_bytes // 8, dtype=np.uint64))
    return n_bytes / _median_seconds(lambda: sum_words(words))


def judge_speed(measured: dict[str, Any]) -> str:
    """Say in a sentence whether the speed is as it should be."""
    share = measured["share_of_read"]
    found = f"A query reads codes at {share:.0%} of the speed at which this machine reads memory"
    if share >= _SLOW_SHARE:
        return f"{found}: as it should."
    return f"{found}: slow. Is something else running?"


def _median_seconds(work: Callable[[], Any], rounds: int = 7) -> float:
    work()  # compiles, the first time
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
