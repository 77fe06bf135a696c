"""Rows leave a collection and come back: ids, metadata and vectors, to the last bit."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import scipy.sparse

import bitkin
from bitkin.collection.transfer import leaving
from bitkin.collection.transfer.export import number_texts
from bitkin.errors import (
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    FileAccessError,
    InvalidInputError,
    MissingExtraError,
)

SUFFIXES = [".parquet", ".npy", ".jsonl", ".jsonl.gz"]
N, D = 203, 17
FIELDS = {"year": "int", "lang": "str", "score": "float", "seen": "bool", "metadata": "str"}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "ROWS_AT_ONCE", 64)


@pytest.fixture
def rows() -> Any:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, D)) * 10.0 ** rng.integers(-3, 3, (N, D))).astype(np.float32)
    X[5, 3], X[6, 2], X[7] = 1e-30, -0.0, 0.1
    return X


def metadata_of(n: int) -> list[dict[str, Any]]:
    some: list[dict[str, Any]] = []
    for i in range(n):
        one: dict[str, Any] = {"n": i, "text": f"“{i}”, a\nline \\u0000 \U0001f600"}
        if i % 2:
            one |= {"year": 2000 + i, "lang": "en", "seen": i % 3 == 0, "score": i / 7}
        if i % 5 == 0:
            one |= {"id": "not this", "vector": [1], "deep": {"a": [None, {"b": 2.0}]}}
        if i % 7 == 0:
            one["metadata"] = "a field of that name"
        some.append({} if i == 3 else one)
    return some


def hasher_for(X: Any) -> Any:
    return bitkin.ProjectionHash(n_bits=16).fit(X)


def made(path: Path | None, X: Any, **settings: Any) -> bitkin.Collection:
    collection = bitkin.Collection.create(path, hasher_for(X), **settings)
    names = [f"id {i} ' \U0001f600" for i in range(len(X))]
    ids = names if settings.get("ids") == "str" else np.arange(len(X)) * 3 + 2
    collection.add(X, ids=ids, metadata=metadata_of(len(X)))
    collection.remove(ids[10:20])
    return collection


def require_same(a: bitkin.Collection, b: bitkin.Collection) -> None:
    assert a.ids.tolist() == b.ids.tolist()
    one, other = a.get(), b.get()
    assert one.metadata == other.metadata
    assert one.codes == other.codes
    if one.vectors is None:
        assert other.vectors is None
    elif scipy.sparse.issparse(one.vectors):
        assert (one.vectors != other.vectors).nnz == 0
    else:
        assert one.vectors.tobytes() == np.asarray(other.vectors).tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("ids", ["int", "str"])
@pytest.mark.parametrize("vectors", ["float32", "float16"])
def test_what_is_exported_comes_back_as_it_was(
    tmp_path: Path, rows: Any, suffix: str, ids: str, vectors: str
) -> None:
    if vectors == "float16":
        rows = (rows / 100 + 1).astype(np.float16).astype(np.float32)
    settings: dict[str, Any] = {"ids": ids, "fields": FIELDS, "vectors": vectors}
    path = tmp_path / f"all{suffix}"
    told: list[tuple[int, int]] = []
    with made(tmp_path / "a", rows, **settings) as a:
        n = len(a)
        assert a.export(path, progress=lambda *done: told.append(done)) == n == N - 10
        with bitkin.Collection.create(tmp_path / "b", a.hasher, **settings) as b:
            done: list[int] = []
            got = b.import_file(path, batch_rows=50, progress=done.append)
            assert (got, done) == (n, [50, 100, 150, n])
            require_same(a, b)
            b.verify()
    assert told == [(64, n), (128, n), (192, n), (n, n)]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_collection_in_memory_is_exported_too(tmp_path: Path, rows: Any, suffix: str) -> None:
    a = made(None, rows)
    path = tmp_path / f"all{suffix}"
    a.export(path)
    b = bitkin.Collection.create(None, a.hasher)
    assert b.import_file(path) == len(a)
    require_same(a, b)
    if suffix == ".npy":  # by its name too
        assert b.import_file(path, metadata=tmp_path / "all.rows.jsonl", upsert=True) == len(a)
        require_same(a, b)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_sparse_vectors_stay_sparse(tmp_path: Path, suffix: str) -> None:
    X = scipy.sparse.random_array(
        (99, 1000), density=0.01, rng=np.random.default_rng(0), dtype=np.float32, format="csr"
    )
    hasher = bitkin.ProjectionHash(n_bits=16, projection="random", rotation=None).fit(X)
    path = tmp_path / f"all{suffix}"
    with bitkin.Collection.create(tmp_path / "a", hasher, vectors="csr") as a:
        a.add(X)
        a.export(path)
        with bitkin.Collection.create(tmp_path / "b", hasher, vectors="csr") as b:
            b.import_file(path, batch_rows=20)
            require_same(a, b)
        with pytest.raises(InvalidInputError, match=r"must not end in \.npy.*sparse vectors"):
            a.export(tmp_path / "all.npy")


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize("kind", ["projection", "minhash"])
def test_codes_and_corrections_leave_where_no_vectors_are_kept(
    tmp_path: Path, rows: Any, suffix: str, kind: str
) -> None:
    X = rows
    hasher: Any = hasher_for(X)
    if kind == "minhash":  # of which some rows have nothing to hash
        X = scipy.sparse.csr_array(X > 1)
        hasher = bitkin.MinHash(16, bits_per_symbol=2).fit(X)
    path = tmp_path / f"all{suffix}"
    with bitkin.Collection.create(tmp_path / "a", hasher, vectors=None) as a:
        a.add(X, metadata=metadata_of(N))
        a.export(path)
        with bitkin.Collection.create(tmp_path / "b", hasher, vectors=None) as b:
            assert b.import_file(path, batch_rows=50) == N
            require_same(a, b)
            found = [c.search(X[:9], k=5) for c in (a, b)]
            assert found[0].ids.tolist() == found[1].ids.tolist()
            assert found[0].distances.tolist() == found[1].distances.tolist()
        with pytest.raises(InvalidInputError, match="this collection keeps no vectors"):
            a.export(tmp_path / "all.npy")
        with (
            bitkin.Collection.create(tmp_path / "c", hasher) as c,
            pytest.raises(InvalidInputError, match=r"codes have no vectors.*Nothing was added"),
        ):
            c.import_file(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_of_several_epochs_leave_with_codes_of_the_last(
    tmp_path: Path, rows: Any, suffix: str
) -> None:
    stream = bitkin.ProjectionHash(8, projection="opast").fit(rows[:100])
    path = tmp_path / f"all{suffix}"
    with (
        bitkin.Collection.create(tmp_path / "a", stream) as a,
        bitkin.Collection.create(tmp_path / "none", stream, vectors=None) as none,
    ):
        for one in (a, none):
            one.add(rows[:100])
            one.learn(rows[100:] ** 2)
            one.new_epoch()
            one.add(rows[100:])
            assert len(one.epochs) == 2
        a.export(path)
        with bitkin.Collection.create(tmp_path / "b", a.hasher) as b:
            b.import_file(path)
            require_same(a, b)
            if suffix == ".parquet":
                codes = pyarrow.parquet.read_table(path)["code"].to_pylist()
                assert codes == [one.tobytes() for one in b.get().codes.to_bytes()]
        with pytest.raises(InvalidInputError, match="rows of several epochs must have vectors"):
            none.export(path, overwrite=True)


def test_int8_comes_back_within_the_last_bit_of_the_scale(tmp_path: Path, rows: Any) -> None:
    path = tmp_path / "all.parquet"
    with made(tmp_path / "a", rows, vectors="int8") as a:
        a.export(path)
        with bitkin.Collection.create(tmp_path / "b", a.hasher, vectors="int8") as b:
            b.import_file(path)
            one, other = a.get().vectors, b.get().vectors
    np.testing.assert_allclose(one, other, rtol=3e-7, atol=0)


def test_decimals_are_short_and_read_back_to_the_same_float() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32)
    numbers = bits.view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    texts = number_texts(numbers)
    back = np.array([json.loads(text) for text in texts]).astype(np.float32)
    assert back.tobytes() == numbers.tobytes()
    assert np.mean([len(text) for text in texts]) < 14


def test_a_part_is_exported_by_where(tmp_path: Path, rows: Any) -> None:
    with made(tmp_path / "a", rows, fields=FIELDS) as a:
        n = a.count({"year": {"gte": 2100}})
        assert 0 < n < len(a)
        assert a.export(tmp_path / "some.jsonl", where={"year": {"gte": 2100}}) == n
        assert a.export(tmp_path / "none.parquet", where={"year": 1}) == 0
    years = [
        json.loads(line)["metadata"]["year"]
        for line in (tmp_path / "some.jsonl").read_text().splitlines()
    ]
    assert len(years) == n
    assert min(years) >= 2100
    assert pyarrow.parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_columns_have_the_types_of_declared_fields(tmp_path: Path, rows: Any) -> None:
    with made(tmp_path / "a", rows, fields=FIELDS) as a:
        a.export(tmp_path / "all.parquet")
        seven = a.get([7 * 3 + 2])
    table = pyarrow.parquet.read_table(tmp_path / "all.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds == {
        "id": "int64",
        "year": "int64",
        "lang": "string",
        "score": "double",
        "seen": "bool",
        "metadata": "string",
        "vector": "fixed_size_list<element: float>[17]",
        "code": "binary",
    }
    [row] = [row for row in table.to_pylist() if row["id"] == 23]
    assert (row["year"], row["lang"], row["seen"]) == (2007, "en", False)
    assert json.loads(row["metadata"])["metadata"] == "a field of that name"
    assert np.float32(row["vector"]).tolist() == seven.vectors[0].tolist()
    assert row["code"] == seven.codes.to_bytes()[0].tobytes()


def test_an_npy_file_holds_the_vectors_and_nothing_else(tmp_path: Path, rows: Any) -> None:
    with made(tmp_path / "a", rows, vectors="float16", index="flat") as a:
        a.export(tmp_path / "all.npy")
        kept = a.get()
    array = np.load(tmp_path / "all.npy")
    assert array.dtype == np.float16
    assert np.array_equal(array, kept.vectors)
    lines = (tmp_path / "all.rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == kept.ids.tolist()


def test_what_stands_beside_an_npy_file_must_belong_to_it(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    a = made(None, rows)
    a.export(tmp_path / "all.npy")
    path, beside = tmp_path / "all.npy", tmp_path / "all.rows.jsonl"
    whole, lines = np.load(path), beside.read_text().splitlines(keepends=True)

    def require_refused(message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            empty.import_file(path)
        assert len(empty) == 0

    np.save(path, whole[:-1])
    require_refused(r"all\.rows\.jsonl stands beside .*all\.npy .*192 vectors, .*193 lines")
    np.save(path, whole * 2)
    require_refused("written beside other vectors than are there now")
    np.save(path, whole)
    beside.write_text("".join(lines[:-1]))
    require_refused(r"193 vectors, .* 192 lines")
    beside.write_text("{\n" + "".join(lines[1:]))
    require_refused(r"all\.rows\.jsonl, line 1: not JSON")
    beside.write_text("".join(lines))
    assert empty.import_file(path) == len(a)
    require_same(a, empty)
    np.save(path, whole * 2)  # by its name it is taken as it is
    assert empty.import_file(path, metadata=beside, upsert=True) == len(a)
    assert np.array_equal(empty.get([2]).vectors, 2 * a.get([2]).vectors)
    assert empty.get().metadata == a.get().metadata
    (tmp_path / "ids.txt").write_text("".join(f"{9000 + i}\n" for i in range(len(a))))
    assert empty.import_file(path, ids=tmp_path / "ids.txt") == len(a)
    assert empty.get([9000]).metadata == [{}]


def test_lines_of_others_beside_an_npy_file_are_read_too(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    np.save(tmp_path / "v.npy", rows[:3])
    records = [{"key": 7 - i, "npy": {"rows": i}, "metadata": {"a": i}} for i in range(3)]
    write_lines(tmp_path / "v.rows.jsonl", records)
    assert empty.import_file(tmp_path / "v.npy", id="key") == 3
    assert empty.ids.tolist() == [5, 6, 7]
    assert empty.get([7, 5]).metadata == [{"npy": {"rows": i}, "a": i} for i in (0, 2)]
    np.save(tmp_path / "v.npy", rows[:4])
    with pytest.raises(InvalidInputError, match=r"4 vectors, and it has 3 lines"):
        empty.import_file(tmp_path / "v.npy", id="key")


def test_metadata_that_is_called_as_the_mark_of_the_array_comes_back(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    a = bitkin.Collection.create(None, empty.hasher)
    a.add(rows[:2], metadata=[{"npy": {"rows": 1, "crc32": 2}}, {"npy": 3}])
    a.export(tmp_path / "all.npy")
    empty.import_file(tmp_path / "all.npy")
    require_same(a, empty)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("fails", ["all.npy", "all.rows.jsonl"])
def test_an_npy_export_of_which_a_file_cannot_take_its_place_says_what_is_there(
    tmp_path: Path, rows: Any, monkeypatch: pytest.MonkeyPatch, fails: str, there: bool
) -> None:
    a = made(None, rows)
    if there:
        a.export(tmp_path / "all.npy")
        a.remove([2])
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if target.name == fails:
            raise PermissionError(13, "Permission denied")
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(FileAccessError, match=rf"{fails} cannot be written: Perm") as caught:
            a.export(tmp_path / "all.npy", overwrite=True)
    after = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    if fails == "all.rows.jsonl":
        assert after == before
        assert str(caught.value).endswith("What was there is unchanged.")
        return
    state = "all.npy is as it was before: they do not" if there else "all.npy is not there. Write"
    assert "all.rows.jsonl is the new one already" in str(caught.value)
    assert state in str(caught.value)
    assert set(after) == ({"all.npy", "all.rows.jsonl"} if there else {"all.rows.jsonl"})
    assert after.get("all.npy") == before.get("all.npy")
    if there:
        b = bitkin.Collection.create(None, a.hasher)
        with pytest.raises(InvalidInputError, match="does not belong to it"):
            b.import_file(tmp_path / "all.npy")
    a.export(tmp_path / "all.npy", overwrite=True)
    b = bitkin.Collection.create(None, a.hasher)
    b.import_file(tmp_path / "all.npy")
    require_same(a, b)


def test_a_file_that_is_there_is_replaced_only_when_asked(tmp_path: Path, rows: Any) -> None:
    a = made(None, rows)
    for suffix in SUFFIXES:
        path = tmp_path / f"all{suffix}"
        path.write_bytes(b"precious")
        with pytest.raises(FileAccessError, match=r"is there already.*overwrite=True"):
            a.export(path)
        assert path.read_bytes() == b"precious"
        assert a.export(path, overwrite=True) == len(a)
        assert path.read_bytes() != b"precious"
    (tmp_path / "new.rows.jsonl").write_bytes(b"precious")
    with pytest.raises(FileAccessError, match=r"new\.rows\.jsonl is there already"):
        a.export(tmp_path / "new.npy")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_export_that_fails_leaves_what_was_there(
    tmp_path: Path, rows: Any, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = made(None, rows)
    path = tmp_path / f"all{suffix}"
    a.export(path)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        a.export(path, overwrite=True, progress=stop)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
    with pytest.raises(FileAccessError, match="cannot be written"):
        a.export(tmp_path / "no such folder" / path.name)


def test_an_export_is_of_one_moment(tmp_path: Path, rows: Any) -> None:
    with made(tmp_path / "a", rows) as a:
        before = a.ids.tolist()

        def write(done: int, total: int) -> None:
            a.remove([int(a.ids[-1])])
            a.upsert(rows[:1] * 2, ids=[10_000 + done])

        a.export(tmp_path / "all.jsonl", progress=write)
        assert a.ids.tolist() != before
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == before


@pytest.mark.parametrize("path", ["all.csv", "all", "all.gz", "", "a\0.npy", 7])
def test_a_path_that_says_no_format_is_refused(rows: Any, path: Any) -> None:
    with pytest.raises(InvalidInputError, match="path must "):
        made(None, rows).export(path)


def test_without_pyarrow_the_install_line_is_said(
    tmp_path: Path, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bitkin\[io\]'"):
        made(None, rows).export(tmp_path / "all.parquet")
    assert not list(tmp_path.iterdir())


# --- files that others wrote -----------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: Path, rows: Any) -> Iterator[bitkin.Collection]:
    with bitkin.Collection.create(tmp_path / "c", hasher_for(rows)) as collection:
        yield collection


def write_lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def test_keys_of_json_lines_are_metadata_but_for_id_and_vector(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    records = [
        {"n": 4, "embedding": rows[0].tolist(), "year": 1, "metadata": {"a": 2}, "none": None},
        {"n": 9, "embedding": rows[1].tolist(), "code": "X12"},
    ]
    path = write_lines(tmp_path / "rows.ndjson", records)
    assert empty.import_file(path, id="n", vector="embedding") == 2
    got = empty.get([4, 9])
    assert got.metadata == [{"a": 2, "year": 1}, {"code": "X12"}]
    assert np.array_equal(got.vectors, rows[:2])


def test_rows_without_ids_are_numbered(tmp_path: Path, rows: Any, empty: bitkin.Collection) -> None:
    records = [{"vector": row.tolist()} for row in rows[:5]]
    path = write_lines(tmp_path / "rows.jsonl", records)
    assert empty.import_file(path) == empty.import_file(path) == 5
    assert empty.ids.tolist() == list(range(10))
    with pytest.raises(InvalidInputError, match="upsert must be False for rows without ids"):
        empty.import_file(path, upsert=True)


def embed(texts: list[str]) -> Any:
    return np.array([[len(text), text.count("a"), 1, *range(D - 3)] for text in texts], np.float32)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_texts_are_embedded(tmp_path: Path, empty: bitkin.Collection, suffix: str) -> None:
    records = [{"id": i, "body": "a" * i} for i in range(1, 8)]
    path = tmp_path / f"texts{suffix}"
    if suffix == ".jsonl":
        write_lines(path, records)
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
    assert empty.import_file(path, text="body", embed=embed) == 7
    got = empty.get([3])
    assert got.vectors[0, :3].tolist() == [3, 3, 1]
    assert got.metadata == [{"body": "aaa"}]
    with pytest.raises(InvalidInputError, match="embed must return one vector per text"):
        empty.import_file(path, text="body", embed=lambda texts: np.zeros(3), upsert=True)
    with pytest.raises(InvalidInputError, match="text must come with embed"):
        empty.import_file(path, text="body")
    with pytest.raises(InvalidInputError, match="'title'"):
        empty.import_file(path, text="title", embed=embed)


def test_a_table_of_others_is_read_by_its_columns(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    table = pyarrow.table(
        {
            "key": [3, 5],
            "e": pyarrow.array(rows[:2].tolist(), pyarrow.list_(pyarrow.float64())),
            "lang": ["en", None],
            "code": ["X1", "X2"],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    assert empty.import_file(tmp_path / "t.parquet", id="key") == 2
    got = empty.get([3, 5])
    assert got.metadata == [{"lang": "en", "code": "X1"}, {"code": "X2"}]
    assert np.array_equal(got.vectors, rows[:2])
    two = table.append_column("f", table["e"])
    pyarrow.parquet.write_table(two, tmp_path / "two.parquet")
    with pytest.raises(InvalidInputError, match="must have one column of vectors, got 2"):
        empty.import_file(tmp_path / "two.parquet", id="key")
    empty.import_file(tmp_path / "two.parquet", id="key", vector="f", upsert=True)
    with pytest.raises(InvalidInputError, match="no column 'g' of vectors"):
        empty.import_file(tmp_path / "two.parquet", vector="g")


def lists(*rows: Any) -> Any:
    return pyarrow.array([list(rows)] * 5)


def sparse(indices: list[Any], values: list[Any]) -> Any:
    return pyarrow.array([{"indices": indices, "values": values}] * 5)


@pytest.mark.parametrize(
    "vectors, column, values, message",
    [
        (None, "code", pyarrow.array(range(5)), "column 'code' must have bytes, got int64"),
        (None, "code", pyarrow.array(["ab"] * 5), "column 'code' must have bytes, got string"),
        (
            None,
            "corrections",
            pyarrow.array(["x"] * 5),
            "'corrections' must have lists of two.*str",
        ),
        (None, "corrections", lists("x", "y"), "'corrections' must have lists of two.*string"),
        (None, "corrections", lists(1.0, 2.0, 3.0), "'corrections' must have two numbers.*row 0"),
        (None, "corrections", lists(1.0, None), "'corrections' must have numbers only, got null"),
        ("csr", "vector", pyarrow.array(["x"] * 5), "'vector' must have lists of numbers, got str"),
        ("csr", "vector", pyarrow.array([1.0] * 5), "'vector' must have lists of numbers, got dou"),
        ("csr", "vector", lists([1.0]), "'vector' must have lists of numbers, got list<"),
        ("csr", "vector", lists(True), "'vector' must have lists of numbers, got list<.*bool"),
        ("csr", "vector", sparse([0], ["x"]), "'vector' must have lists of whole.*got struct"),
        ("csr", "vector", sparse([0.5], [1.0]), "'vector' must have lists of whole.*double"),
        ("csr", "vector", sparse([3, 1, 3], [1.0, 2.0, 3.0]), "'vector'.*got 3 twice in row 0"),
        (
            "csr",
            "vector",
            pyarrow.array([{"indices": 1, "values": 1.0}] * 5),
            "'vector' must have lists of whole numbers as indices.*got struct",
        ),
        ("csr", "metadata", pyarrow.array([1] * 5), "'metadata' must have text, got int64"),
        ("csr", "metadata", pyarrow.array(["x"] * 5), "row 0: metadata must be a JSON object"),
        ("csr", "id", pyarrow.array([b"x"] * 5), "ids must be whole numbers"),
    ],
)
def test_a_column_of_another_type_is_named(
    tmp_path: Path, rows: Any, vectors: str | None, column: str, values: Any, message: str
) -> None:
    hasher = hasher_for(rows)
    a = bitkin.Collection.create(None, hasher, vectors=vectors)
    a.add(rows[:5], metadata=[{"a": 1}] * 5)
    path = tmp_path / "all.parquet"
    a.export(path)
    table = pyarrow.parquet.read_table(path)
    changed = table.set_column(table.schema.names.index(column), column, values)
    pyarrow.parquet.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    b = bitkin.Collection.create(None, hasher, vectors=vectors)
    with pytest.raises((InvalidInputError, CorruptFileError), match=message) as caught:
        b.import_file(path)
    assert str(path) in str(caught.value)
    assert len(b) == 0


def test_a_fingerprint_that_is_no_text_is_refused(tmp_path: Path, rows: Any) -> None:
    a = bitkin.Collection.create(None, hasher_for(rows), vectors=None)
    a.add(rows[:5])
    path = tmp_path / "all.parquet"
    a.export(path)
    table = pyarrow.parquet.read_table(path)
    about = json.loads(table.schema.metadata[b"bitkin"]) | {"fingerprint": 5}
    changed = table.replace_schema_metadata({"bitkin": json.dumps(about)})
    pyarrow.parquet.write_table(changed, path)
    b = bitkin.Collection.create(None, a.hasher, vectors=None)
    with pytest.raises(CorruptFileError, match=r"all\.parquet must name the hasher.*got 5"):
        b.import_file(path)


def test_indices_in_any_order_make_the_same_vectors(tmp_path: Path, rows: Any) -> None:
    hasher = hasher_for(rows)
    table = pyarrow.table({"vector": sparse([9, 0, 4], [1.0, 2.0, 3.0])})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    b = bitkin.Collection.create(None, hasher, vectors="csr")
    assert b.import_file(tmp_path / "t.parquet") == 5
    vectors: Any = b.get([2]).vectors
    wanted = np.zeros(D)
    wanted[[9, 0, 4]] = 1, 2, 3
    assert vectors.toarray()[0].tolist() == wanted.tolist()


def test_vectors_ids_and_metadata_may_be_in_three_files(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    np.save(tmp_path / "v.npy", rows[:5])
    (tmp_path / "ids.txt").write_text("5\n3\n9\n1\n0\n")
    about = write_lines(tmp_path / "m.jsonl", [{"n": i} for i in range(5)])
    files: dict[str, Any] = {"ids": tmp_path / "ids.txt", "metadata": about}
    assert empty.import_file(tmp_path / "v.npy", **files) == 5
    assert empty.get([9]).metadata == [{"n": 2}]
    assert np.array_equal(empty.get([9]).vectors[0], rows[2])
    for wrong in (4, 6):
        np.save(tmp_path / "w.npy", rows[:wrong])
        with pytest.raises(InvalidInputError, match="must hold an id for each of"):
            empty.import_file(tmp_path / "w.npy", ids=tmp_path / "ids.txt", upsert=True)
        with pytest.raises(InvalidInputError, match="must have a line for each of"):
            empty.import_file(tmp_path / "w.npy", metadata=about)


def test_ids_of_text_may_be_in_a_file(tmp_path: Path, rows: Any) -> None:
    names = ["a b", "ü", "'; --"]
    np.save(tmp_path / "v.npy", rows[:3])
    (tmp_path / "ids.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    with bitkin.Collection.create(tmp_path / "s", hasher_for(rows), ids="str") as strings:
        strings.import_file(tmp_path / "v.npy", ids=tmp_path / "ids.txt")
        assert strings.ids.tolist() == names
        (tmp_path / "ids.txt").write_text("a\n\nb\n")
        with pytest.raises(InvalidInputError, match=r"ids\.txt, line 2: no id"):
            strings.import_file(tmp_path / "v.npy", ids=tmp_path / "ids.txt")


def test_a_binary_index_of_faiss_brings_its_codes(tmp_path: Path, rows: Any) -> None:
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    hasher = bitkin.ProjectionHash(n_bits=16, projection="random", rotation=None).fit(rows)
    codes = bitkin.SignHash().fit(rows[:, :16]).encode(rows[:, :16])
    sign = bitkin.SignHash().fit(rows[:, :16])
    flat = bitkin.interop.to_faiss(codes.with_fingerprint(None))
    faiss.write_index_binary(flat, str(tmp_path / "flat.faiss"))
    mapped = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(16))
    mapped.add_with_ids(codes.to_bytes(), np.arange(N)[::-1] * 5)
    faiss.write_index_binary(mapped, str(tmp_path / "ids.faiss"))
    settings: dict[str, Any] = {"vectors": None, "metric": "cosine"}
    with bitkin.Collection.create(tmp_path / "a", sign, **settings) as a:
        assert a.import_file(tmp_path / "flat.faiss", batch_rows=50) == N
        assert a.get().codes == codes
    with bitkin.Collection.create(tmp_path / "b", sign, **settings) as b:
        assert b.import_file(tmp_path / "ids.faiss") == N
        assert b.get([5]).codes == codes[N - 2]
        (tmp_path / "bad.faiss").write_bytes(b"nothing")
        with pytest.raises(CorruptFileError, match="cannot be read as a binary index of FAISS"):
            b.import_file(tmp_path / "bad.faiss")
        with pytest.raises(FileAccessError, match="cannot be read"):
            b.import_file(tmp_path / "missing.faiss")
    with (
        bitkin.Collection.create(tmp_path / "c", hasher) as c,
        pytest.raises(InvalidInputError, match="codes have no vectors"),
    ):
        c.import_file(tmp_path / "flat.faiss")


def test_codes_of_another_hasher_are_refused(tmp_path: Path, rows: Any) -> None:
    with bitkin.Collection.create(tmp_path / "a", hasher_for(rows), vectors=None) as a:
        a.add(rows)
        a.export(tmp_path / "all.parquet")
    other = bitkin.ProjectionHash(n_bits=16).fit(rows[:100])
    longer = bitkin.ProjectionHash(n_bits=17).fit(rows)
    for hasher in (other, longer):
        with (
            bitkin.Collection.create(tmp_path / hasher.fingerprint_, hasher, vectors=None) as b,
            pytest.raises(CodeMismatchError),
        ):
            b.import_file(tmp_path / "all.parquet")


def test_an_import_that_stops_says_how_far_it_came_and_upsert_ends_it(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    records = [{"id": i, "vector": row.tolist()} for i, row in enumerate(rows)]
    good = write_lines(tmp_path / "good.jsonl", records)
    records[150] = {"id": 150, "vector": [1.0]}
    bad = write_lines(tmp_path / "bad.jsonl", records)
    stopped = (
        r"bad\.jsonl, line 151: 'vector' must have 17 numbers, got 1\. "
        r"The 150 rows before were added: run it again with upsert, which replaces them\."
    )
    with pytest.raises(InvalidInputError, match=stopped):
        empty.import_file(bad, batch_rows=50)
    assert len(empty) == 150
    with pytest.raises(DuplicateIdError, match=r"row 0 is line 1.*Nothing was added"):
        empty.import_file(good, batch_rows=50)
    assert empty.import_file(good, batch_rows=50, upsert=True) == N
    assert len(empty) == N


def test_without_ids_the_error_names_those_that_were_made(
    tmp_path: Path, rows: Any, empty: bitkin.Collection
) -> None:
    records: list[Any] = [{"vector": row.tolist()} for row in rows[:7]]
    path = write_lines(tmp_path / "bad.jsonl", [*records, {"vector": None}])
    with pytest.raises(InvalidInputError, match="The 6 rows before were added, as ids 0 to 5"):
        empty.import_file(path, batch_rows=3)


V = [0.5] * D


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object, got a list"),
        ('{"id": 1}', "no 'vector' for the vector. It has 'id'"),
        ('{"id": 1, "vector": [1, 2]}', "must have 17 numbers, got 2"),
        ('{"id": 1, "vector": []}', "must have 17 numbers, got 0"),
        (json.dumps({"id": 1, "vector": ["1", *V[1:]]}), "must hold numbers only, got a string"),
        (json.dumps({"id": 1, "vector": [True, *V[1:]]}), "must hold numbers only, got true"),
        (json.dumps({"id": 1, "vector": [[1], *V[1:]]}), "must hold numbers only, got a list"),
        (json.dumps({"id": 1, "vector": [10**400, *V[1:]]}), "must hold finite numbers"),
        (json.dumps({"id": 1, "vector": [float("nan"), *V[1:]]}), "must hold finite numbers"),
        (json.dumps({"id": 1, "vector": [1e39, *V[1:]]}), "vectors must .*float32"),
        (json.dumps({"id": 1.5, "vector": V}), "must be a whole number or a string"),
        (json.dumps({"id": -1, "vector": V}), "ids must be 0 or more"),
        (json.dumps({"id": "a", "vector": V}), "ids must be whole numbers"),
        (json.dumps({"id": 1, "vector": V, "a": 1, "metadata": {"a": 2}}), "'a' stands beside"),
        (json.dumps({"id": 1, "vector": V, "a": 2**70}), "metadata of row 0"),
        (json.dumps({"id": 1, "vector": {"indices": [1]}}), "indices and values"),
        (
            json.dumps({"id": 1, "vector": {"indices": [17], "values": [1]}}),
            "indices from 0 to 16",
        ),
        (
            json.dumps({"id": 1, "vector": {"indices": [1, 1], "values": [1, 2]}}),
            "all of these different",
        ),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, empty: bitkin.Collection, line: str, message: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(InvalidInputError, match=message) as caught:
        empty.import_file(path)
    assert f"{path}, line 2" in str(caught.value)
    assert len(empty) == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_export_without_rows_comes_back_too(
    tmp_path: Path, empty: bitkin.Collection, suffix: str
) -> None:
    path = tmp_path / f"none{suffix}"
    assert empty.export(path) == 0
    assert empty.import_file(path) == 0
    assert len(empty) == 0


@pytest.mark.parametrize(
    "line, key",
    [
        ('{"id": 1, "id": 2, "vector": VVV}', "'id' stands 2 times"),
        ('{"id": 1, "vector": [], "vector": VVV}', "'vector' stands 2 times"),
        ('{"id": 1, "vector": VVV, "a": [{"b": 1, "b": 1, "c": 0, "b": 2}]}', "'b' stands 3 times"),
    ],
)
def test_a_key_that_stands_twice_is_refused(
    tmp_path: Path, rows: Any, empty: bitkin.Collection, line: str, key: str
) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text(line.replace("VVV", json.dumps(V)))
    with pytest.raises(InvalidInputError, match=rf"line 1: .*{key}.*Nothing was added"):
        empty.import_file(path)
    np.save(tmp_path / "v.npy", rows[:1])
    with pytest.raises(InvalidInputError, match=rf"line 1: .*{key}"):
        empty.import_file(tmp_path / "v.npy", metadata=path)


@pytest.mark.parametrize("bad", [7, "", "a\0b", b"rows.jsonl"])
def test_a_path_that_names_no_file_is_refused(
    tmp_path: Path, rows: Any, empty: bitkin.Collection, bad: Any
) -> None:
    np.save(tmp_path / "v.npy", rows[:3])
    with pytest.raises(InvalidInputError, match="path must name a file, got "):
        empty.import_file(bad)
    for name in ("ids", "metadata"):
        given: Any = {name: bad}
        with pytest.raises(InvalidInputError, match=f"{name} must name a file, got "):
            empty.import_file(tmp_path / "v.npy", **given)


def test_ids_are_in_all_rows_or_in_none(tmp_path: Path, empty: bitkin.Collection) -> None:
    for records in (
        [{"id": 1, "vector": V}, {"vector": V}],
        [{"vector": V}, {"id": 1, "vector": V}],
    ):
        path = write_lines(tmp_path / "rows.jsonl", records)
        with pytest.raises(InvalidInputError, match=r"line 2: .*all must, or none"):
            empty.import_file(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path, empty: bitkin.Collection) -> None:
    for name in ("missing.jsonl", "missing.parquet", "missing.npy", "missing.txt"):
        with pytest.raises(FileAccessError, match=rf"{name} cannot be read"):
            empty.import_file(tmp_path / name)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InvalidInputError, match=r"no rows\. Every line must hold one JSON object"):
        empty.import_file(tmp_path / "empty.jsonl")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing")
    with pytest.raises(CorruptFileError, match=r"bad\.parquet"):
        empty.import_file(tmp_path / "bad.parquet")
    with gzip.open(tmp_path / "cut.jsonl.gz", "wt") as file:
        file.write(json.dumps({"vector": V}) * 1000)
    data = (tmp_path / "cut.jsonl.gz").read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(data[:-20])
    with pytest.raises(CorruptFileError):
        empty.import_file(tmp_path / "cut.jsonl.gz")
    with pytest.raises(InvalidInputError, match="ids means nothing for JSON lines"):
        empty.import_file(tmp_path / "empty.jsonl", ids="x")


def test_an_attribute_stays_with_the_folder_and_its_backups(
    tmp_path: Path, empty: bitkin.Collection
) -> None:
    assert empty.attribute("embed") is None
    empty.set_attribute("embed", "hash:256")
    empty.set_attribute("embed", {"name": "hash:512"})
    backup = empty.backup(tmp_path / "backup")
    with bitkin.Collection.open(backup, read_only=True) as copy:
        assert copy.attribute("embed") == {"name": "hash:512"}
        with pytest.raises(InvalidInputError, match="reading only"):
            copy.set_attribute("embed", None)
    for value in (float("nan"), {1: 2}, (1, 2), object()):
        with pytest.raises(InvalidInputError, match="value must be something that JSON holds"):
            empty.set_attribute("x", value)
    name: Any
    for name in ("", 7, "a\0"):
        with pytest.raises(InvalidInputError, match="name must be a string"):
            empty.attribute(name)
    assert os.path.exists(tmp_path / "backup" / "collection.db")  # noqa: PTH110
