"""How large a bench is: as large as it says, or tiny, so that a test can run every line of it.

    BITKIN_BENCH=tiny python bench/truth.py

Tiny benches take data made here in place of the real sets, and their figures mean nothing.
"""

from __future__ import annotations

import atexit
import functools
import gzip
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

TINY = os.environ.get("BITKIN_BENCH") == "tiny"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
_ROWS, _QUERIES, _CLASSES = 400, 60, 8
_FEATURES = {
    "fashion_mnist": 289,
    "cifar10_gist960": 150,
    "glove100_100k": 40,
    "onet_tasks_minilm384": 48,
}
_WORDS = [
    "to",
    "be",
    "or",
    "not",
    "that",
    "is",
    "the",
    "question",
    "whether",
    "it",
    "nobler",
    "in",
    "mind",
    "suffer",
    "slings",
    "arrows",
]

Size = TypeVar("Size")


def sized(full: Size, tiny: Size) -> Size:
    """Return the size of this run."""
    return tiny if TINY else full


@functools.cache
def folder() -> Path:
    """Return where a tiny run writes; it is gone when the process ends."""
    made = tempfile.mkdtemp(prefix="bitkin-bench-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def picture(name: str) -> Path:
    """Return where a picture goes: among those of the documentation, unless the run is tiny."""
    return folder() / name if TINY else IMAGES / name


def made_file(name: str) -> Path:
    """Return the path of a made data set that has the form of the real one of this name."""
    path = folder() / name
    if not path.exists():
        _make(path, name.partition(".")[0])
    return path


def _make(path: Path, stem: str) -> None:
    rng = np.random.default_rng(0)
    if path.name.endswith(".jsonl.gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(task) + "\n" for task in _texts(rng))
    elif stem == "tinyimagenet_paths":
        paths = {
            f"n{c}": {"path": [["n", ""], [f"n_{c % 2}", ""], [f"n{c}", ""]]} for c in _numbers()
        }
        path.write_text(json.dumps(paths))
    elif stem.startswith(("bow_", "newsgroups20_bow")) and not stem.endswith("labels"):
        n_words = int(stem.split("_")[2]) if stem.startswith("bow_") else 300
        n = _QUERIES if stem.endswith("_test") else _ROWS
        scipy.sparse.save_npz(path, _bags(rng, n, n_words))
    else:
        arrays: dict[str, Any] = _arrays(stem, rng)
        np.savez(path, **arrays)


def _numbers() -> range:
    return range(_CLASSES)


def _texts(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Texts of which every third repeats the one before it, with a word changed."""
    texts: list[str] = []
    for number in range(120):
        words = rng.choice(_WORDS, 40).tolist() if number % 3 else [*texts[-1:], "again"]
        texts.append(" ".join(words))
    return [
        {
            "text": text,
            "body": text,
            "path": [f"{n % 2}", f"{n % 2}-{n % 4}", f"{n % 2}-{n % 4}.{n % _CLASSES}"],
        }
        for n, text in enumerate(texts)
    ]


def _bags(rng: np.random.Generator, n: int, n_words: int) -> Any:
    """Counts whose words depend on the class: the row number modulo the number of classes."""
    counts = (rng.random((n, n_words)) < 0.1).astype(np.int32)
    share = max(1, n_words // _CLASSES)
    for row in range(n):
        first = (row % _CLASSES) * share
        counts[row, first : first + share] += rng.integers(
            0, 3, min(share, n_words - first), dtype=np.int32
        )
    return scipy.sparse.csr_matrix(counts)


def _arrays(stem: str, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    y, yq = np.arange(_ROWS) % _CLASSES, np.arange(_QUERIES) % _CLASSES
    if stem == "newsgroups20_labels":
        groups = np.array([f"{c % 2}.group{c}" for c in y])
        split = np.where(np.arange(_ROWS) // _CLASSES % 4 == 3, "test", "train")
        return {"y": y, "classes": np.unique(groups), "split": split, "group": groups}
    if stem == "tinyimagenet_labels":
        return {"y_train": y, "y_test": yq, "wnids": np.array([f"n{c}" for c in _numbers()])}
    if stem == "imclef07a":
        labels = np.array([f"{c}@{c % 2}/{c % 4}/{c}" for c in _numbers()])
        rows, tests = (_vectors(rng, n, 20).astype(np.float32) for n in (_ROWS, _QUERIES))
        return {"X_train": rows, "X_test": tests, "y_train": labels[y], "y_test": labels[yq]}
    if stem.endswith("labels"):
        return {"y_train": y, "y_test": yq}
    X, Q = (_vectors(rng, n, _FEATURES[stem]) for n in (_ROWS, _QUERIES))
    if stem == "fashion_mnist":
        return {"X_train": X, "y_train": y, "X_test": Q, "y_test": yq}
    if stem == "cifar10_gist960":
        return {"X": X, "y": y, "Q": Q, "yq": yq}
    return {"X": X.astype(np.int16) - 128}


def _vectors(rng: np.random.Generator, n: int, d: int) -> npt.NDArray[np.uint8]:
    rows = rng.standard_normal((n, d)) * np.geomspace(60, 5, d) + 128
    return np.clip(rows, 0, 255).astype(np.uint8)
