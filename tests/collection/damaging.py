"""Files of a collection in a folder, damaged or forged, and what may come of it: a clear error, or
the right rows; what `verify` passes is right.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bitkin import Collection
from bitkin.errors import CorruptFileError, FileAccessError
from tests.collection.killed import HASHER, POOL, QUERIES

FIELDS = {"year": int, "score": float, "free": bool, "lang": str}
N = 200
WHERE: dict[str, Any] = {"lang": ["en", "fr"], "year": {"gte": 1910}, "note": {"contains": "1"}}


class Damaging:
    """A closed folder with rows of all kinds, damaged again and again.

    Parameters
    ----------
    folder : path
        Where it is to be.
    id_kind : {"int", "str"}
    vectors : str or None
    """

    def __init__(self, folder: Path, id_kind: str, vectors: str | None) -> None:
        self.folder, self.whole = folder, folder.with_name("whole")
        kinds: dict[str, Any] = {"vectors": vectors, "ids": id_kind, "fields": FIELDS}
        rng = np.random.default_rng(0)
        metadata = [
            {
                "year": 1900 + int(rng.integers(0, 30)),
                "score": float(rng.standard_normal()),
                "free": bool(i % 2),
                "lang": ["en", "de", "fr", "ä ☂"][i % 4],
                "note": f"{i}" * (1 + i % 40),
            }
            for i in range(N)
        ]
        for one in metadata[::5]:
            one.clear()
        with Collection.create(self.whole, HASHER, **kinds) as collection:
            names: Any = range(N) if id_kind == "int" else [f"ä{i}" for i in range(N)]
            names = list(names)
            collection.add(POOL[: N - 50], ids=names[: N - 50], metadata=metadata[: N - 50])
            collection.checkpoint()
            collection.add(POOL[N - 50 : N], ids=names[N - 50 :], metadata=metadata[N - 50 :])
            collection.remove(names[40:60])
            collection.update_metadata(names[:40], {"year": 1, "note": None})
            self.right = _answers(collection)
        self.outcomes = {"refused": 0, "right": 0, "found by verify": 0}
        self.wrong: list[str] = []

    def trial(self, what: str, damage: Callable[[Path], object]) -> None:
        """Damage a copy of the folder, and note what came of it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.whole, self.folder)
        damage(self.folder)
        try:
            self.outcomes[self._outcome(what)] += 1
        except Exception as error:  # noqa: BLE001  # any other error is a fault
            self.wrong.append(f"{what}: {type(error).__name__}: {error}")

    def _outcome(self, what: str) -> str:
        read_only = hash(what) % 2 == 0
        try:
            collection = Collection.open(self.folder, read_only=read_only)
        except (CorruptFileError, FileAccessError):
            return "refused"
        with collection:
            try:
                collection.verify()
            except CorruptFileError:
                sound = False
            else:
                sound = True
            try:
                answers = _answers(collection)
            except (CorruptFileError, FileAccessError):
                if sound:
                    raise
                return "refused"
            if not sound:
                return "found by verify"
            if answers != self.right:
                self.wrong.append(f"{what}: verify passes wrong rows")
        return "right"


def _answers(collection: Collection) -> Any:
    """Return all that a collection can be asked for, to be compared."""
    records = collection.get()
    vectors = None
    if records.vectors is not None:
        vectors = np.asarray(getattr(records.vectors, "todense", lambda: records.vectors)())
    found = [records.ids.tolist(), records.metadata, records.codes.words.tobytes()]
    found.append(None if vectors is None else vectors.tobytes())
    found += [collection.count(WHERE), collection.get(where=WHERE, limit=3).ids.tolist()]
    for stage in ("codes", "estimate", *(("exact",) if vectors is not None else ())):
        for where in (None, WHERE):
            hits = collection.search(QUERIES, 5, stage=stage, where=where)
            found += [hits.ids.tolist(), hits.distances.tobytes(), hits.metadata]
    return found


def flip_bits(path: Path, rng: np.random.Generator, n: int) -> None:
    """Flip some bits of a file."""
    data = bytearray(path.read_bytes())
    for place in rng.integers(0, len(data), n).tolist():
        data[place] ^= 1 << int(rng.integers(0, 8))
    path.write_bytes(data)


def spoil(path: Path, rng: np.random.Generator) -> None:
    """Damage a file in one of the ways that disks and copies do."""
    data = bytearray(path.read_bytes())
    kind, page = int(rng.integers(0, 6)), 8192
    first, other = (int(i) * page for i in rng.integers(0, max(1, len(data) // page), 2))
    if kind < 2:
        flip_bits(path, rng, 1 if kind == 0 else 20)
        return
    if kind == 2:
        data[first : first + page] = data[other : other + page]
    elif kind == 3:
        data[first : first + page] = bytes(min(page, len(data) - first))
    elif kind == 4:
        del data[int(rng.integers(0, len(data))) :]
    else:
        place = int(rng.integers(0, len(data)))
        some = rng.integers(0, 256, 8, dtype=np.uint8).tobytes()
        data[place : place + 8] = some[: len(data) - place]
    path.write_bytes(data)


def statement(sql: str, *values: Any) -> Callable[[Path], None]:
    """Return what runs a statement on the database of a folder."""

    def run(folder: Path) -> None:
        connection = sqlite3.connect(folder / "collection.db")
        try:
            connection.execute(sql, values)
            connection.commit()
        finally:
            connection.close()

    return run
