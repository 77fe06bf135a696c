"""Collections of every kind that a service may have: what is attacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from scipy.sparse import csr_array

import bitkin
from bitkin.service import create_app
from tests.collection.model import rows_like

KINDS = ("int", "str", "codes", "csr", "folder")
D, N = 8, 130
X = rows_like(N, D)
HASHER = bitkin.ProjectionHash(64, rotation="random", projection="random", random_state=0).fit(X)
NAMES = ("notes", "texts")
"""Of the collections of a folder."""


def new_collection(kind: str, folder: Path | None = None) -> bitkin.Collection:
    """Make a collection of a kind, with rows."""
    if kind == "codes":
        hasher = bitkin.MinHash(64, bits_per_symbol=1).fit()
        collection = bitkin.Collection.create(folder, hasher, vectors=None)
        sets = [[i, i + 1, 2 * i, i % 7] for i in range(N)]
        collection.add_codes(hasher.encode(sets), metadata=metadata_like(N))
        return collection
    options: dict[str, Any] = {"fields": {"year": int}}
    if kind == "csr":
        options["vectors"] = "csr"
    collection = bitkin.Collection.create(
        folder, HASHER, ids="str" if kind == "str" else "int", **options
    )
    ids = text_ids(N) if kind == "str" else list(range(N))
    rows: Any = csr_array(np.where(np.abs(X) > 1, X, 0)) if kind == "csr" else X
    collection.add(rows, ids=ids, metadata=metadata_like(N))
    return collection


def text_ids(n: int) -> list[str]:
    """Return ids that are awkward in addresses."""
    odd = ["a/b", "ä ö", "..", "50%", "%2F", "?", "#", "get", "remove", "\u2028", "🙂", "+", " "]
    return [*odd, *(f"row {i}" for i in range(n))][:n]


def metadata_like(n: int) -> list[dict[str, Any]]:
    """Return metadata of all types."""
    rows: list[dict[str, Any]] = [
        {"year": 2000 + i % 9, "title": f"note {i}", "deep": {"by": [i, None, 0.5]}, "good": i > 9}
        for i in range(n)
    ]
    for one in rows[::5]:
        del one["year"]
    return rows


def new_app(kind: str, tmp_path: Path, **options: Any) -> FastAPI:
    """Return a service of a collection of a kind; of several where it is "folder"."""
    options = {"embed": f"hash:{D}", **options}
    if kind != "folder":
        # one of them is on a disk
        return create_app(
            new_collection(kind, tmp_path / "rows" if kind == "int" else None), **options
        )
    folder = tmp_path / "collections"
    folder.mkdir()
    for name, of_kind in zip(NAMES, ("int", "str"), strict=True):
        new_collection(of_kind, folder / name).close()
    backups = tmp_path / "backups"
    backups.mkdir()
    return create_app(folder, **{"backups": backups, **options})
