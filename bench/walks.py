"""How far a reader walks: the functions and files of the package that one call passes through.

Everything runs on one thread, and kernels as plain Python, so that every step is seen. Kernels
themselves are where a walk ends: they are not counted. A first call is made outside the count, so
that what is loaded or prepared once is not part of the walk.

    python bench/walks.py            # a table of JSON lines
    python bench/walks.py --list search   # every step of walks with that name
"""

from __future__ import annotations

import json
import os
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"  # read when Numba is loaded
os.environ["BITKIN_NUM_THREADS"] = "1"

from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from scipy import sparse

import bitkin

PACKAGE = str(Path(bitkin.__file__).parent)

# Functions and files that a walk may pass through at most: the goals we set ourselves.
GOALS = {
    "FlatIndex.search": (24, 10),
    "Collection.search, exact": (90, 30),
    "ProjectionHash.fit, PCA × ITQ": (100, 26),
    "WTAHash.encode, one sparse row": (40, 14),
    "HeshingClassifier.fit": (65, 18),
}


def steps_of(call: Callable[[], object]) -> list[tuple[str, str]]:
    """The functions of the package that `call` passes through, as (file, name), in the order of
    first use.
    """
    seen: dict[CodeType, None] = {}

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            seen.setdefault(frame.f_code)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    named = [(str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname) for code in seen]
    # A comprehension is part of the function that holds it.
    inline = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
    return [
        step for step in named if not step[1].endswith(inline) and not step[0].startswith("kernels")
    ]


def walks() -> dict[str, Callable[[], object]]:
    """The calls that are traced, on data small enough for kernels in plain Python."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 16)).astype(np.float32)
    hasher = bitkin.ProjectionHash(8).fit(X)
    codes = hasher.encode(X)
    index = bitkin.FlatIndex(codes.spec)
    index.add(codes)
    query = codes[:1]

    collection = bitkin.Collection.create(None, hasher, vectors="float32", metric="l2")
    collection.add(X)

    bags = sparse.random(50, 100, density=0.2, format="csr", random_state=0, dtype=np.float32)
    wta = bitkin.WTAHash(8, 4).fit(bags)
    row = bags[:1]

    labels = np.array([f"{number % 2}.{number % 4}" for number in range(40)])
    rows = sparse.csr_matrix(rng.random((40, 12)).astype(np.float32))
    taxonomy = bitkin.Taxonomy.from_labels(sorted(set(labels)), sep=".")
    classifier = bitkin.HeshingClassifier(taxonomy, n_buckets=64, max_iter=2, alpha=1e-4)
    return {
        "FlatIndex.search": lambda: index.search(query, 3),
        "Collection.search, exact": lambda: collection.search(X[:1], 3),
        "ProjectionHash.fit, PCA × ITQ": lambda: bitkin.ProjectionHash(8, rotation="itq").fit(X),
        "WTAHash.encode, one sparse row": lambda: wta.encode(row),
        "HeshingClassifier.fit": lambda: classifier.fit(rows, labels),
    }


def main() -> None:
    wanted = sys.argv[sys.argv.index("--list") + 1] if "--list" in sys.argv else None
    for name, call in walks().items():
        call()
        steps = steps_of(call)
        files = {file for file, _ in steps}
        most = GOALS[name]
        print(json.dumps({
            "walk": name, "functions": len(steps), "files": len(files),
            "goal_functions": most[0], "goal_files": most[1],
        }, ensure_ascii=False))  # fmt: skip
        if wanted is not None and wanted.lower() in name.lower():
            for file, function in steps:
                print(f"  {file:45} {function}")


if __name__ == "__main__":
    main()
