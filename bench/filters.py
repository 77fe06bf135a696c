"""What do filters, removals and upserts cost on 1,000,000 codes, and are filtered answers exact?

    python bench/filters.py                       FlatIndex
    python bench/filters.py MultiIndex FlatIndex  any index class that is made from a spec alone
    python bench/filters.py --quick               100,000 rows

One thread. A filter keeps a random hundredth of the rows; its answers are compared with those of an
index of these rows alone. Times are medians; a search has 100 queries, the filter's own cost
included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from _timing import interleaved, report
from _tiny import sized
from bitkin import Codes

BITS = (64, 256)
K = 10


def random_codes(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    return Codes.from_bytes(rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8), n_bits)


def filtered(name: str, n: int, n_bits: int, rng: np.random.Generator) -> None:
    codes, queries = random_codes(rng, n, n_bits), random_codes(rng, 100, n_bits)
    index: Any = getattr(bitkin, name)(codes.spec)
    index.add(codes)
    allow, tenth = rng.permutation(n)[: n // 100], rng.permutation(n)[: n // 10]
    alone = bitkin.FlatIndex(codes.spec)
    alone.add(codes[np.sort(allow)], np.sort(allow))
    found, truth = index.search(queries, K, allow=allow), alone.search(queries, K)
    exact = np.array_equal(found.ids, truth.ids) and np.array_equal(
        found.distances, truth.distances
    )
    if not exact and name != "BandIndex":
        raise SystemExit(f"filtered answers of {name} are not exact")
    seconds = interleaved(
        {
            "all": lambda: index.search(queries, K),
            "filtered": lambda: index.search(queries, K, allow=allow),
            "one, all": lambda: index.search(queries[:1], K),
            "one, filtered": lambda: index.search(queries[:1], K, allow=allow),
            "one, tenth": lambda: index.search(queries[:1], K, allow=tenth),
        },
        rounds=9,
    )
    report(
        "a filter that keeps 10 %, one query",
        index=name,
        n_bits=n_bits,
        rows=n,
        all_ms=1e3 * seconds["one, all"],
        filtered_ms=1e3 * seconds["one, tenth"],
        ratio=seconds["one, all"] / seconds["one, tenth"],
    )
    for many, once in (("all", "filtered"), ("one, all", "one, filtered")):
        report(
            "a filter that keeps 1 %" + (", 100 queries" if many == "all" else ", one query"),
            index=name,
            n_bits=n_bits,
            rows=n,
            exact=bool(exact),
            all_ms=1e3 * seconds[many],
            filtered_ms=1e3 * seconds[once],
            ratio=seconds[many] / seconds[once],
            wanted=1.0,
        )


def changed(name: str, n: int, n_bits: int, rng: np.random.Generator) -> None:
    codes = random_codes(rng, n, n_bits)
    some = rng.permutation(n)[: n // 100]

    def fresh() -> Any:
        index = getattr(bitkin, name)(codes.spec)
        index.add(codes)
        return index

    changes: dict[str, Callable[[Any], object]] = {
        "remove": lambda index: index.remove(some),
        "upsert": lambda index: index.upsert(codes[some], some),
    }
    for verb, change in changes.items():
        taken = []
        for _ in range(5):
            index = fresh()
            start = time.perf_counter()
            change(index)
            taken.append(1e3 * (time.perf_counter() - start))
        require_gone_or_there(index, some, there=verb == "upsert")
        report(
            f"{verb} 1 % of all ids",
            index=name,
            n_bits=n_bits,
            rows=n,
            ids=len(some),
            ms=float(np.median(taken)),
            worst_ms=max(taken),
            wanted_at_most_ms=50.0 if verb == "remove" else None,
            bytes_a_vector=index.nbytes / n,
        )


def require_gone_or_there(index: Any, ids: npt.NDArray[np.int64], *, there: bool) -> None:
    if any((int(i) in index) != there for i in ids[:100]):
        raise SystemExit("what was changed does not show")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("indexes", nargs="*", default=["FlatIndex"], help="names of index classes")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    arguments = parser.parse_args()
    bitkin.set_threads(1)
    rng = np.random.default_rng(0)
    n = sized(100_000 if arguments.quick else 1_000_000, 2000)
    for name in arguments.indexes:
        for n_bits in BITS:
            filtered(name, n, n_bits, rng)
            changed(name, n, n_bits, rng)


if __name__ == "__main__":
    main()
