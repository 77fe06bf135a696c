"""Damaged and forged files of a folder: a clear error or the right rows, and `verify` knows."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitkin import Collection, ProjectionHash
from bitkin.collection.folder.database import checksum_of
from bitkin.errors import CorruptFileError
from tests.collection.damaging import Damaging, spoil, statement
from tests.collection.killed import HASHER, POOL

DATABASE = "collection.db"


@pytest.mark.parametrize(
    ("id_kind", "vectors"), [("int", "float16"), ("str", "int8"), ("str", "csr"), ("int", None)]
)
def test_a_damaged_database_is_refused_right_or_found_by_verify(
    tmp_path: Path, id_kind: str, vectors: str | None
) -> None:
    damaging = Damaging(tmp_path / "rows", id_kind, vectors)
    rng = np.random.default_rng(1)
    for number in range(120):
        damaging.trial(f"{number}", lambda folder: spoil(folder / DATABASE, rng))
    assert not damaging.wrong, damaging.wrong
    assert min(damaging.outcomes.values()) > 0, damaging.outcomes


def test_a_damaged_log_is_cut_where_the_damage_begins_or_refused(tmp_path: Path) -> None:
    """SQLite's own checksums end a log where they do not fit: what was written before is there."""
    folder = tmp_path / "rows"
    Collection.create(folder, HASHER, vectors="float16").close()
    code = (
        "import os, sys, bitkin; from tests.collection.killed import POOL; "
        "c = bitkin.Collection.open(sys.argv[1]); "
        "[c.add(POOL[i : i + 10]) for i in range(0, 200, 10)]; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    whole, rng = tmp_path / "whole", np.random.default_rng(0)
    folder.rename(whole)
    counts = set()
    for number in range(30):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        (folder / "collection.db-shm").unlink(missing_ok=True)
        spoil(folder / "collection.db-wal", rng)
        with Collection.open(folder, read_only=bool(number % 2)) as collection:
            n = len(collection)
            assert n % 10 == 0
            collection.verify()
            np.testing.assert_array_equal(collection.get().vectors, POOL[:n].astype(np.float16))
            counts.add(n)
    assert len(counts) > 3


ROW = "WHERE row_id = 7"
STATEMENTS: list[tuple[str, list[Any]]] = [
    *[
        (f"UPDATE rows SET {column} = ? {ROW}", [value])
        for column in ("code", "corrections", "metadata", "name", "f0", "f1", "f2", "f3")
        for value in (None, "text", b"", b"\xff" * 8, 2**62, -1, 1e300)
    ],
    *[
        (f"UPDATE rows SET metadata = ? {ROW}", [text])
        for text in ("[1]", "{", '{"a": NaN}', "[" * 5000, '{"year": 3}', b'{"a": 1}', "")
    ],
    *[
        (f"UPDATE vectors SET vector = ? {ROW}", [value])
        for value in ("text", b"", b"\xff" * 32, b"\0" * 31, 5, 1.5)
    ],
    *[
        (f"UPDATE state SET {column} = ?", [value])
        for column in ("version", "n_rows", "next_id", "lengths")
        for value in ("text", b"", -1, 0, 2**62, 1.5, "[1]", "{}", "[null, 1, 2]", 10**6)
    ],
    *[(f"UPDATE rows SET {c} = CAST(x'ff' AS TEXT) {ROW}", []) for c in ("metadata", "name", "f3")],
    ("DELETE FROM state", []),
    ("UPDATE rows SET row_id = -5 WHERE row_id = 7", []),
    ("UPDATE rows SET row_id = 9000000000000000000 WHERE row_id = 7", []),
    ("UPDATE vectors SET row_id = 1000 WHERE row_id = 7", []),
    ("DELETE FROM vectors WHERE row_id = 7", []),
    ("DELETE FROM rows WHERE row_id = 7", []),
    ("INSERT INTO vectors SELECT 5000, vector, checksum FROM vectors WHERE row_id = 7", []),
    ("UPDATE writes SET put = ?", [b"123"]),
    ("UPDATE writes SET put = ?", ["text"]),
    ("UPDATE writes SET removed = ?", [b"\0" * 8]),
    ("DELETE FROM writes WHERE version = (SELECT max(version) FROM writes)", []),
    ("DELETE FROM settings WHERE name = 'metric'", []),
    ("DELETE FROM settings", []),
    ("DROP TABLE vectors", []),
    ("DROP TABLE state", []),
    ("DROP TABLE writes", []),
    ("DROP TABLE settings", []),
    ("ALTER TABLE rows RENAME COLUMN code TO other", []),
    ("CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM rows WHERE row_id = 3; END", []),
    ("CREATE VIEW v AS SELECT load_extension('x') FROM rows", []),
    ("CREATE UNIQUE INDEX i ON rows(f0)", []),
    ("PRAGMA user_version = 0", []),
    ("PRAGMA application_id = 5", []),
]


@pytest.mark.parametrize("id_kind", ["int", "str"])
@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_database_of_wrong_types_is_refused_right_or_found_by_verify(
    tmp_path: Path, id_kind: str, checkpoint: bool
) -> None:
    damaging = Damaging(tmp_path / "rows", id_kind, "float16")
    if not checkpoint:
        (damaging.whole / "checkpoint.bitkin").unlink()
    for sql, values in STATEMENTS:
        try:
            damaging.trial(f"{sql} {values!r}"[:200], statement(sql, *values))
        except sqlite3.IntegrityError:
            assert "NULL" not in sql  # SQLite itself refuses it
    assert not damaging.wrong, "\n".join(damaging.wrong)


SETTINGS: list[tuple[str, Any]] = [
    ("metric", "L2"),
    ("metric", 5),
    ("vectors", "float64"),
    ("vectors", None),
    ("vectors", "csr"),
    ("ids", "str"),
    ("ids", None),
    ("fields", {"year": "date"}),
    ("fields", ["year"]),
    ("fields", {}),
    ("fields", {"and": "int"}),
    ("stage", "nearest"),
    ("oversample", 0),
    ("oversample", "many"),
    ("first", 5),
    ("query_bits", 900),
    ("synchronous", "off; DROP TABLE rows"),
    ("synchronous", None),
    ("checkpoint", 5),
    ("checkpoint", ["x"]),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=lambda one: str(one)[:20])
def test_forged_settings_are_refused_or_change_nothing(
    tmp_path: Path, name: str, value: Any
) -> None:
    damaging = Damaging(tmp_path / "rows", "int", "float16")
    text = json.dumps(value)
    forge = statement(
        "INSERT OR REPLACE INTO settings VALUES(?, ?, ?)", name, text, checksum_of(name, text)
    )
    damaging.trial(name, forge)
    assert not damaging.wrong, damaging.wrong
    assert damaging.outcomes["right"] == (name == "checkpoint")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("model", "other.bitkin"),
        ("model", 5),
        ("model", ""),
        ("fingerprint", "f" * 32),
        ("way", "flatter"),
        ("way", None),
        ("way_file", "model.bitkin"),
        ("way_file", 7),
    ],
)
def test_a_forged_epoch_is_refused(tmp_path: Path, column: str, value: Any) -> None:
    damaging = Damaging(tmp_path / "rows", "int", "float16")

    def forge(folder: Path) -> None:
        statement(f"UPDATE epochs SET {column} = ?", value)(folder)
        names = "number, model, fingerprint, way, way_file"
        connection = sqlite3.connect(folder / DATABASE)
        (row,) = connection.execute(f"SELECT {names} FROM epochs").fetchall()
        connection.execute("UPDATE epochs SET checksum = ?", (checksum_of(*row),))
        connection.commit()
        connection.close()

    damaging.trial(column, forge)
    assert not damaging.wrong, damaging.wrong
    assert damaging.outcomes["refused"] == 1


@pytest.mark.parametrize("value", ["", "{", "[1", "\x00", "NaN"])
def test_settings_that_are_no_json_are_refused(tmp_path: Path, value: str) -> None:
    damaging = Damaging(tmp_path / "rows", "int", "float16")
    damaging.trial(
        value,
        statement(
            "UPDATE settings SET value = ?, checksum = ? WHERE name = 'metric'",
            value,
            checksum_of("metric", value),
        ),
    )
    assert not damaging.wrong, damaging.wrong
    assert damaging.outcomes["refused"] == 1


def test_the_model_of_another_hasher_is_refused(tmp_path: Path) -> None:
    damaging = Damaging(tmp_path / "rows", "int", "float16")
    other = ProjectionHash(40, rotation="random", projection="random", random_state=1).fit(POOL)
    damaging.trial("model", lambda folder: other.save(folder / "model.bitkin"))
    damaging.trial("index", lambda folder: HASHER.encode(POOL[:3]).save(folder / "model.bitkin"))
    assert not damaging.wrong, damaging.wrong
    assert damaging.outcomes["refused"] == 2


def test_an_error_of_a_database_that_queries_come_from_is_not_ours(tmp_path: Path) -> None:
    damaging = Damaging(tmp_path / "rows", "int", "float16")

    def queries() -> Iterator[Any]:
        yield POOL[:2]
        sqlite3.connect(":memory:").execute("SELECT * FROM elsewhere")

    with (
        Collection.open(damaging.whole) as collection,
        pytest.raises(sqlite3.OperationalError, match="elsewhere"),
    ):
        collection.search(queries(), 3)


def test_verify_finds_a_vector_that_was_changed_under_a_right_length(tmp_path: Path) -> None:
    damaging = Damaging(tmp_path / "rows", "int", "float16")
    damaging.trial(
        "vector", statement(f"UPDATE vectors SET vector = ? {ROW}", POOL[5].astype("<f2").tobytes())
    )
    damaging.trial(
        "exchanged",
        statement(
            "UPDATE vectors SET (vector, checksum) = "
            f"(SELECT vector, checksum FROM vectors WHERE row_id = 8) {ROW}"
        ),
    )
    assert not damaging.wrong, damaging.wrong
    assert damaging.outcomes == {"refused": 0, "right": 0, "found by verify": 2}


def test_verify_finds_what_memory_holds_otherwise_than_the_database(tmp_path: Path) -> None:
    damaging = Damaging(tmp_path / "rows", "str", "float16")
    shutil.copytree(damaging.whole, tmp_path / "rows")
    changes: list[Callable[[Any], Any]] = [
        lambda kept: kept.corrections.array.__setitem__((3, 0), 7.0),
        lambda kept: kept.metadata.columns.columns[0].values.array.__setitem__(3, 12),
        lambda kept: kept.metadata.columns.columns[3].codes.array.__setitem__(3, 1),
    ]
    (tmp_path / "rows" / "checkpoint.bitkin").unlink()  # its arrays are mapped read-only
    for change in changes:
        with Collection.open(tmp_path / "rows", read_only=True) as collection:
            collection.verify()
            store: Any = collection._store
            change(store.snapshot.kept)
            with pytest.raises(CorruptFileError, match="what was made of it differ"):
                collection.verify()
