"""How should rows of a collection lie in SQLite: one row per vector, or chunks of many packed?

    python bench/collection_schema.py

Rows of 384 float16 numbers, 16 bytes of code and 8 of corrections are written in batches of 10,000
and one by one, read back as a search reads 100 scattered vectors, read whole as opening without a
checkpoint reads codes, and changed one by one. A chunk holds 256 rows as blobs; to change one row
is to write its chunk again.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _timing import report
from _tiny import sized

N, BATCH, LONE = sized((200_000, 10_000, 500), (2_000, 500, 10))
CHUNK, WIDTH = 256, 768
Rows = tuple[bytes, bytes]  # codes with corrections, and vectors, of some rows one after another


def connect(path: Path, schema: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        f"PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; {schema}"
    )
    return db


class RowPerVector:
    """A table of codes and a table of vectors, both by row id."""

    name = "row per vector"

    def __init__(self, path: Path) -> None:
        self.db = connect(
            path,
            "CREATE TABLE rows(row_id INTEGER PRIMARY KEY, code BLOB);"
            "CREATE TABLE vectors(row_id INTEGER PRIMARY KEY, vector BLOB);",
        )

    def add(self, first: int, n: int, rows: Rows) -> None:
        """Write new rows."""
        codes, vectors = rows
        self.db.execute("BEGIN IMMEDIATE")
        ids = range(first, first + n)
        self.db.executemany(
            "INSERT INTO rows VALUES(?, ?)",
            ((i, codes[24 * j : 24 * j + 24]) for j, i in enumerate(ids)),
        )
        self.db.executemany(
            "INSERT INTO vectors VALUES(?, ?)",
            ((i, vectors[WIDTH * j : WIDTH * j + WIDTH]) for j, i in enumerate(ids)),
        )
        self.db.execute("COMMIT")

    def gather(self, ids: list[int]) -> bytes:
        """Return the vectors of some rows, one after another."""
        found = self.db.execute(
            "SELECT vector FROM json_each(?) AS w CROSS JOIN vectors AS v ON v.row_id = w.value",
            (str(ids),),
        )
        return b"".join(vector for (vector,) in found)

    def read_codes(self) -> int:
        """Return how many bytes all codes are."""
        return len(b"".join(c for (c,) in self.db.execute("SELECT code FROM rows")))

    def change(self, row_id: int, code: bytes, vector: bytes) -> None:
        """Write another code and vector of a row."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("UPDATE rows SET code = ? WHERE row_id = ?", (code, row_id))
        self.db.execute("UPDATE vectors SET vector = ? WHERE row_id = ?", (vector, row_id))
        self.db.execute("COMMIT")


class Chunks:
    """A table of chunks of rows, codes and vectors as one blob each."""

    name = "packed chunks"

    def __init__(self, path: Path) -> None:
        self.db = connect(
            path,
            "CREATE TABLE chunks(chunk INTEGER PRIMARY KEY, codes BLOB);"
            "CREATE TABLE vectors(chunk INTEGER PRIMARY KEY, vectors BLOB);",
        )

    def add(self, first: int, n: int, rows: Rows) -> None:
        """Write new rows."""
        codes, vectors = rows
        self.db.execute("BEGIN IMMEDIATE")
        done = 0
        while done < n:
            chunk, inside = divmod(first + done, CHUNK)
            some = min(n - done, CHUNK - inside)
            new = [
                blob[width * done : width * (done + some)]
                for width, blob in ((24, codes), (WIDTH, vectors))
            ]
            if inside:  # behind rows that the chunk has already
                sql = "SELECT codes, vectors FROM chunks JOIN vectors USING (chunk) WHERE chunk = ?"
                old = self.db.execute(sql, (chunk,)).fetchone()
                new = [a + b for a, b in zip(old, new, strict=True)]
            self.db.execute("INSERT OR REPLACE INTO chunks VALUES(?, ?)", (chunk, new[0]))
            self.db.execute("INSERT OR REPLACE INTO vectors VALUES(?, ?)", (chunk, new[1]))
            done += some
        self.db.execute("COMMIT")

    def gather(self, ids: list[int]) -> bytes:
        """Return the vectors of some rows, one after another."""
        wanted = [i // CHUNK for i in ids]
        offsets = [1 + WIDTH * (i % CHUNK) for i in ids]
        found = self.db.execute(
            f"SELECT substr(v.vectors, o.value, {WIDTH}) FROM json_each(?) AS w "
            "CROSS JOIN json_each(?) AS o ON o.key = w.key "
            "CROSS JOIN vectors AS v ON v.chunk = w.value",
            (str(wanted), str(offsets)),
        )
        return b"".join(vector for (vector,) in found)

    def read_codes(self) -> int:
        """Return how many bytes all codes are."""
        return len(b"".join(c for (c,) in self.db.execute("SELECT codes FROM chunks")))

    def change(self, row_id: int, code: bytes, vector: bytes) -> None:
        """Write another code and vector of a row."""
        chunk, inside = divmod(row_id, CHUNK)
        self.db.execute("BEGIN IMMEDIATE")
        for table, column, width, new in (
            ("chunks", "codes", 24, code),
            ("vectors", "vectors", WIDTH, vector),
        ):
            sql = f"SELECT {column} FROM {table} WHERE chunk = ?"
            (old,) = self.db.execute(sql, (chunk,)).fetchone()
            blob = old[: width * inside] + new + old[width * (inside + 1) :]
            sql = f"UPDATE {table} SET {column} = ? WHERE chunk = ?"
            self.db.execute(sql, (blob, chunk))
        self.db.execute("COMMIT")


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(kind: type[RowPerVector] | type[Chunks], folder: Path) -> None:
    """Print what one schema does."""
    rng = np.random.default_rng(0)
    codes, vectors = rng.bytes(24 * BATCH), rng.bytes(WIDTH * BATCH)
    path = folder / f"{kind.__name__}.db"
    store = kind(path)
    adds = [
        seconds(lambda i=i: store.add(i, BATCH, (codes, vectors)))  # type: ignore[misc]
        for i in range(0, N, BATCH)
    ]
    lone = seconds(
        lambda: [store.add(N + i, 1, (codes[:24], vectors[:WIDTH])) for i in range(LONE)]
    )
    scattered = rng.integers(0, N, (50, 100))
    gathers = [seconds(lambda r=r: store.gather(r.tolist())) for r in scattered]  # type: ignore[misc]
    if store.gather([0, 1]) != vectors[: WIDTH * 2]:
        raise ValueError(f"{kind.name} does not return what was written")
    changed = seconds(
        lambda: [store.change(int(i), codes[:24], vectors[:WIDTH]) for i in scattered[:, 0]]
    )
    report(
        f"schema, {kind.name}",
        rows=N,
        added_per_second=BATCH / float(np.median(adds)),
        lone_adds_per_second=LONE / lone,
        microseconds_per_100_vectors=1e6 * float(np.median(gathers)),
        codes_read_per_second=N / seconds(store.read_codes),
        changes_per_second=len(scattered) / changed,
        megabytes=path.stat().st_size / 1e6,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind in (RowPerVector, Chunks):
            measure(kind, Path(folder))


if __name__ == "__main__":
    main()
