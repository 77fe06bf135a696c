"""`bitkin collection`: a collection made, filled, searched and kept from the shell."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import bitkin
from bitkin.cli.collection.commands import app
from bitkin.collection import fitting
from bitkin.embedding import open_embedder
from tests.cli.conftest import Outcome, Run
from tests.cli.streams import stdin_of
from tests.cli.test_failures import require_failure, require_usage_error
from tests.cli.test_help import examples_in

COMMANDS = [
    "create", "add", "search", "get", "remove", "stats", "verify", "compact", "backup", "export",
    "reencode",
]  # fmt: skip
N, D = 203, 17


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with vectors, texts and metadata."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)).astype(np.float32)
    np.save("vectors.npy", X)
    np.save("queries.npy", rng.standard_normal((9, D)).astype(np.float32))
    lines("metadata.jsonl", [{"year": 2000 + i % 7, "n": i} for i in range(N)])
    lines(
        "rows.jsonl",
        [{"id": i, "vector": x.tolist(), "year": 2000 + i % 7} for i, x in enumerate(X)],
    )
    lines("notes.jsonl", [{"id": f"n{i}", "body": text} for i, text in enumerate(texts())])
    return tmp_path


@pytest.fixture
def filled(here: Path, run: Run) -> bitkin.Collection:
    """The folder `c`, with all vectors and metadata; opened to be read."""
    assert run("collection", "create", "c", "--fit", "vectors.npy", "--field", "year:int").code == 0
    done = run("collection", "add", "c", "vectors.npy", "--metadata", "metadata.jsonl")
    assert (done.code, done.err) == (0, "")
    return bitkin.Collection.open("c", read_only=True)


def lines(name: str, records: list[Any]) -> None:
    Path(name).write_text("".join(json.dumps(one) + "\n" for one in records))


def texts() -> list[str]:
    words = ["rain", "boats", "harbour", "winter", "bread", "garden", "letters", "music", "stones"]
    words.append("rivers")
    return [
        f"{words[i % 10]} and {words[(i // 10) % 10]} in {words[(i * 7 + 3) % 10]} {i}"
        for i in range(99)
    ]


def test_two_commands_are_a_search_over_texts(here: Path, run: Run) -> None:
    done = run("collection", "add", "notes", "notes.jsonl", "--text", "body", "--embed", "hash:64")
    assert (done.code, done.out, done.err) == (0, "notes: 99 rows added, 99 now\n", "")
    done = run("collection", "search", "notes", "--text", texts()[42], "-k", 3, "--json")
    [found] = done.objects
    assert found["query"] == texts()[42]
    assert found["ids"][0] == "n42"
    assert found["metadata"][0] == {"body": texts()[42]}
    assert found["distances"][0] < 1e-3
    with bitkin.Collection.open("notes") as notes:
        embed = open_embedder("hash:64")
        hits = notes.search(embed([texts()[42]]), k=3)
        assert found["ids"] == hits.ids[0].tolist()
        assert "random=True" not in repr(notes.hasher)
        assert notes.metric == "cosine"
    shown = run("collection", "search", "notes", "--text", texts()[42], "--text", "x").out
    assert "\nx\n" in shown
    assert re.search(r"^ *distance +id  metadata$", shown, flags=re.MULTILINE)


def test_too_few_texts_to_learn_from_are_said_and_searched_all_the_same(
    here: Path, run: Run
) -> None:
    lines("few.jsonl", [{"body": text} for text in texts()[:20]])
    done = run("collection", "add", "few", "few.jsonl", "--text", "body", "--embed", "hash:256")
    assert done.code == 0
    assert "warning: 20 texts are too few to learn 256 bits from" in done.err
    [found] = run("collection", "search", "few", "--text", texts()[7], "-k", 1, "--json").objects
    assert found["ids"] == [7]
    done = run(
        "collection", "add", "short", "few.jsonl", "--text", "body", "--embed", "hash:256",
        "--bits", 8, "--json",
    )  # fmt: skip
    assert (done.err, done.objects) == ("", [{"folder": "short", "added": 20, "rows": 20}])
    assert bitkin.Collection.open("short").hasher.spec_.n_bits == 8


def test_more_texts_than_are_learned_from_come_in_batches(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "ROWS_TO_FIT", 40)
    monkeypatch.setattr("bitkin.collection.transfer.json_rows.TEXTS_AT_ONCE", 16)
    done = run(
        "collection", "add", "notes", "notes.jsonl", "--text", "body", "--embed", "hash:32",
        "--field", "body:str",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    with bitkin.Collection.open("notes") as notes:
        assert notes.ids.tolist() == [f"n{i}" for i in range(99)]
        assert notes.fields == {"body": "str"}
        assert notes.count({"body": {"contains": "harbour"}}) > 0


def test_texts_come_on_stdin_too(here: Path, run: Run) -> None:
    assert run("collection", "create", "notes", "--embed", "hash:32", "--ids", "str").code == 0
    with stdin_of(Path("notes.jsonl").read_bytes()):
        done = run("collection", "add", "notes", "-", "--text", "body", "--json")
    assert done.objects == [{"folder": "notes", "added": 99, "rows": 99}]
    with stdin_of(b'{"id": "a", "body": "x"}\n{"id": "b"}\n'):
        done = run("collection", "add", "notes", "-", "--text", "body")
    require_failure(done, "stdin, line 2: 'body' must hold the text", "Nothing was added")


def test_a_hasher_is_learned_from_texts(here: Path, run: Run) -> None:
    done = run(
        "collection", "create", "notes", "--fit", "notes.jsonl", "--text", "body", "--embed",
        "hash:64", "--bits", 32, "--ids", "str",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    with bitkin.Collection.open("notes") as notes:
        assert "random=True" not in repr(notes.hasher)
        assert len(notes) == 0
    assert run("collection", "add", "notes", "notes.jsonl", "--text", "body").code == 0


def test_the_embedder_stays_the_one_that_the_rows_were_made_by(here: Path, run: Run) -> None:
    assert run("collection", "create", "notes", "--embed", "hash:32").code == 0
    for command in (("add", "notes", "notes.jsonl"), ("search", "notes")):
        done = run("collection", *command, "--text", "body", "--embed", "hash:64")
        require_failure(done, "--embed must be 'hash:32'", "got 'hash:64'")
    assert run("collection", "create", "c", "--fit", "vectors.npy").code == 0
    done = run("collection", "search", "c", "--text", "rain")
    require_failure(done, "c does not say how texts become vectors. Give --embed")
    assert run("collection", "backup", "notes", "copy").code == 0
    [about] = run("collection", "stats", "copy", "--json").objects
    assert about["embed"] == "hash:32"


def test_an_embedder_that_made_no_rows_is_not_remembered(here: Path, run: Run) -> None:
    np.save("eight.npy", np.load("vectors.npy")[:, :8])
    assert run("collection", "create", "c", "--fit", "eight.npy", "--ids", "str").code == 0
    add = ("collection", "add", "c", "notes.jsonl", "--text", "body", "--embed")
    require_failure(run(*add, "hash:64"), "64", "8", "Nothing was added")
    [about] = run("collection", "stats", "c", "--json").objects
    assert about["embed"] is None
    assert run(*add, "hash:8").code == 0
    [about] = run("collection", "stats", "c", "--json").objects
    assert (about["embed"], about["rows"]) == ("hash:8", 99)


def test_an_embedder_is_remembered_though_a_later_batch_fails(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.collection.transfer.json_rows.TEXTS_AT_ONCE", 16)
    np.save("eight.npy", np.load("vectors.npy")[:, :8])
    lines("bad.jsonl", [{"body": text} for text in texts()] + [{"body": 7}])
    assert run("collection", "create", "c", "--fit", "eight.npy").code == 0
    done = run("collection", "add", "c", "bad.jsonl", "--text", "body", "--embed", "hash:8")
    require_failure(done, "line 100", "The 96 rows before were added")
    [about] = run("collection", "stats", "c", "--json").objects
    assert (about["embed"], about["rows"]) == ("hash:8", 96)


def test_a_folder_that_was_made_for_rows_that_fail_is_taken_away(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines("twice.jsonl", [{"id": 1, "body": "a"}, {"id": 1, "body": "b"}])
    add = ("collection", "add", "notes")
    options = ("--text", "body", "--embed", "hash:64", "--bits", 8)
    done = run(*add, "twice.jsonl", *options)
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("Nothing was added.\n")
    assert not Path("notes").exists()
    Path("empty.jsonl").write_bytes(b"")
    require_failure(run(*add, "empty.jsonl", *options), "empty.jsonl: no rows")
    done = run("collection", "create", "notes", "--fit", "empty.jsonl", *options)
    require_failure(done, "empty.jsonl: no rows")
    assert not Path("notes").exists()
    monkeypatch.setattr(fitting, "ROWS_TO_FIT", 16)
    monkeypatch.setattr("bitkin.collection.transfer.json_rows.TEXTS_AT_ONCE", 16)
    lines("late.jsonl", [{"body": text} for text in texts()] + [{"body": 7}])
    require_failure(run(*add, "late.jsonl", *options), "The 96 rows before were added")
    assert len(bitkin.Collection.open("notes")) == 96


@pytest.mark.parametrize(
    "name", ["word2vec:x", "hash:0", "hash:many", "hash", "sentence-transformers:"]
)
def test_an_embedder_that_is_none_is_named(here: Path, run: Run, name: str) -> None:
    done = run("collection", "add", "notes", "notes.jsonl", "--text", "body", "--embed", name)
    require_failure(done, "--embed must be sentence-transformers:MODEL, or hash:DIM", repr(name))
    assert not Path("notes").exists()


def test_sentence_transformers_that_are_absent_say_what_to_install(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    name = "sentence-transformers:all-MiniLM-L6-v2"
    done = run("collection", "create", "notes", "--embed", name)
    require_failure(done, "pip install 'bitkin[embed]'")


class _Library:
    """As sentence_transformers looks from here."""

    opened: list[str]

    def __init__(self) -> None:
        self.opened = []

    def SentenceTransformer(self, name: str) -> Any:  # noqa: N802
        self.opened.append(name)
        if "missing" in name:
            raise OSError("no such model\nand more lines")
        return self

    def encode(self, texts: list[str], **options: Any) -> Any:
        return open_embedder("hash:32")(texts)


def test_a_sentence_transformer_may_be_a_name_a_folder_or_an_installed_package(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _Library()
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    package = here / "site" / "some_model"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it is not imported')")
    (package / "model" / "modules.json").write_text("[]")
    monkeypatch.syspath_prepend(str(here / "site"))
    (here / "folder").mkdir()
    wanted = {"a-name": "a-name", "folder": "folder", "some-model": str(package / "model")}
    for number, name in enumerate(wanted):
        folder = f"notes{number}"
        embed = f"sentence-transformers:{name}"
        assert run("collection", "create", folder, "--embed", embed, "--ids", "str").code == 0
        assert run("collection", "add", folder, "notes.jsonl", "--text", "body").code == 0
    paths = [str(here / "folder") if name == "folder" else path for name, path in wanted.items()]
    assert library.opened[::2] == list(wanted.values())
    assert library.opened[1::2] == paths
    done = run("collection", "create", "x", "--embed", "sentence-transformers:missing")
    require_failure(
        done,
        "--embed sentence-transformers:missing cannot be opened: no such model Give the folder",
    )


def test_vectors_ids_and_metadata_of_three_files(here: Path, run: Run) -> None:
    assert run("collection", "create", "c", "--fit", "vectors.npy").code == 0
    Path("ids.txt").write_text("".join(f"{5 * i}\n" for i in range(N)))
    done = run(
        "collection", "add", "c", "vectors.npy", "--ids", "ids.txt", "--metadata",
        "metadata.jsonl", "--json",
    )  # fmt: skip
    assert done.objects == [{"folder": "c", "added": N, "rows": N}]
    [row] = run("collection", "get", "c", 35, "--json", "--vectors").objects
    assert row["metadata"] == {"year": 2000, "n": 7}
    assert np.array_equal(np.float32(row["vector"]), np.load("vectors.npy")[7])


def test_what_get_prints_can_be_added(filled: bitkin.Collection, run: Run) -> None:
    said = run("collection", "get", "c", "--limit", N, "--json", "--vectors").out
    Path("again.jsonl").write_text(said)
    assert run("collection", "create", "d", "--fit", "vectors.npy").code == 0
    assert run("collection", "add", "d", "again.jsonl").code == 0
    with bitkin.Collection.open("d") as copy:
        assert copy.get().metadata == filled.get().metadata
        assert np.array_equal(copy.get().vectors, filled.get().vectors)


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl", "x.jsonl.gz", "x.npy"])
def test_what_is_exported_can_be_added(filled: bitkin.Collection, run: Run, name: str) -> None:
    where = json.dumps({"year": {"gte": 2003}})
    n = filled.count({"year": {"gte": 2003}})
    done = run("collection", "export", "c", "-o", name, "--where", where)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{name}: {n:,} rows")
    assert run("collection", "create", "d", "--fit", "vectors.npy", "--field", "year:int").code == 0
    assert run("collection", "add", "d", name).code == 0
    with bitkin.Collection.open("d") as copy:
        assert copy.ids.tolist() == filled.get(where={"year": {"gte": 2003}}).ids.tolist()
        assert copy.get().metadata == filled.get(where={"year": {"gte": 2003}}).metadata
    done = run("collection", "export", "c", "-o", name)
    require_usage_error(done, f"{name} is there already. Give --force")
    assert run("collection", "export", "c", "-o", name, "--force", "--json").objects == [
        {"folder": "c", "file": name, "rows": N}
    ]


def test_a_search_finds_what_python_finds(filled: bitkin.Collection, run: Run) -> None:
    Q = np.load("queries.npy")
    hits = filled.search(Q, k=4, where={"year": 2003})
    options = ("-k", 4, "--where", '{"year": 2003}')
    found = run("collection", "search", "c", "queries.npy", *options, "--json").objects
    assert [one["query"] for one in found] == list(range(9))
    assert [one["ids"] for one in found] == hits.ids.tolist()
    assert [one["metadata"] for one in found] == hits.metadata
    np.testing.assert_allclose([one["distances"] for one in found], hits.distances)
    words = json.dumps(Q[2].astype(float).tolist())
    [lone] = run("collection", "search", "c", "--vector", words, *options, "--json").objects
    assert lone["ids"] == hits.ids[2].tolist()
    shown = run("collection", "search", "c", "queries.npy", "--show", 2).out
    assert shown.count("distance") == 2
    assert "7 more queries: --show, or --json for all" in shown
    by_codes = run("collection", "search", "c", "queries.npy", "--stage", "codes", "--json").objects
    assert by_codes[0]["ids"] == filled.search(Q, k=10, stage="codes").ids[0].tolist()


def test_the_neighbours_of_a_row_are_not_the_row(filled: bitkin.Collection, run: Run) -> None:
    hits = filled.search(np.load("vectors.npy")[7], k=4)
    [found] = run("collection", "search", "c", "--id", 7, "-k", 3, "--json").objects
    assert found["ids"] == [one for one in hits.ids[0].tolist() if one != 7]
    assert found["query"] == "neighbours of 7"
    assert run("collection", "create", "d", "--fit", "vectors.npy", "--vectors", "none").code == 0
    assert run("collection", "add", "d", "vectors.npy").code == 0
    [found] = run("collection", "search", "d", "--id", 7, "-k", 3, "--json").objects
    assert 7 not in found["ids"]
    assert len(found["ids"]) == 3


def test_a_stage_that_needs_vectors_is_refused_beside_the_code_of_a_row(
    here: Path, run: Run
) -> None:
    assert run("collection", "create", "d", "--fit", "vectors.npy", "--vectors", "none").code == 0
    assert run("collection", "add", "d", "vectors.npy").code == 0
    for stage in ("exact", "estimate"):
        done = run("collection", "search", "d", "--id", 7, "--stage", stage)
        require_failure(done, f"--stage must be codes with --id, got {stage}", "keeps no vectors")
    assert run("collection", "search", "d", "--id", 7, "--stage", "codes").code == 0


def test_a_search_is_explained(filled: bitkin.Collection, run: Run) -> None:
    said = run("collection", "search", "c", "queries.npy", "--explain").out
    assert re.search(r"^first stage: ", said, flags=re.MULTILINE)
    last = run("collection", "search", "c", "queries.npy", "--explain", "--json").objects[-1]
    assert last["explain"]["queries"] == 9
    assert set(last["explain"]["stages"]) >= {"encode", "exact"}


def test_rows_are_shown_a_page_at_a_time(filled: bitkin.Collection, run: Run) -> None:
    done = run("collection", "get", "c")
    assert len(done.out.splitlines()) == 12
    assert done.out.endswith("193 more: --limit, --offset\n")
    rows = run(
        "collection", "get", "c", "--where", '{"year": 2001}', "--limit", 3, "--offset", 2, "--json"
    ).objects
    assert [row["id"] for row in rows] == [15, 22, 29]
    assert "vector" not in rows[0]
    assert run("collection", "get", "c", "--where", '{"year": 1}').out == "no rows\n"
    assert [row["id"] for row in run("collection", "get", "c", 9, 3, "--json").objects] == [9, 3]


def test_rows_are_removed_by_ids_or_by_where(
    filled: bitkin.Collection, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run("collection", "remove", "c", 3, 5, 3, "--json")
    assert done.objects == [{"folder": "c", "removed": 2, "rows": N - 2}]
    require_failure(run("collection", "remove", "c", 4, 3), "not there: 3")
    assert 4 in filled
    monkeypatch.setattr("bitkin.cli.collection.remove._ROWS_AT_ONCE", 10)
    monkeypatch.setattr("bitkin.cli.collection.remove._MOST_NUMBERS", 11 * D)
    where = ("--where", '{"year": 2002}')
    n = filled.count({"year": 2002})
    with stdin_of(b""):
        done = run("collection", "remove", "c", *where)
    require_usage_error(done, f"{n} rows of c would be removed. Give --yes")
    done = run("collection", "remove", "c", *where, "--yes")
    assert done.out == f"c: {n} rows removed, {N - 2 - n} left\n"
    assert filled.count({"year": 2002}) == 0
    require_usage_error(run("collection", "remove", "c"), "give ids, or --where")
    require_usage_error(run("collection", "remove", "c", 4, *where), "give ids, or --where")


def test_the_whole_is_described_checked_packed_and_copied(
    filled: bitkin.Collection, run: Run
) -> None:
    [about] = run("collection", "stats", "c", "--json").objects
    assert about["rows"] == N
    assert (about["metric"], about["vectors"], about["fields"]) == (
        "l2",
        "float32",
        {"year": "int"},
    )
    assert about["bytes_on_disk"] == sum(path.stat().st_size for path in Path("c").iterdir())
    shown = run("collection", "stats", "c").out
    assert "203" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert run("collection", "verify", "c").out == f"c: {N} rows, all whole\n"
    assert run("collection", "compact", "c").code == 0
    done = run("collection", "backup", "c", "copy")
    assert done.out == f"copy: a copy of c, {N} rows\n"
    require_failure(run("collection", "backup", "c", "copy"), "copy is there already")
    with bitkin.Collection.open("copy") as copy:
        assert copy.get().metadata == filled.get().metadata
    assert run("collection", "backup", "c", "more", "--json").objects == [
        {"folder": "c", "backup": "more"}
    ]


def test_rows_are_encoded_again_by_what_is_learned_from_them(here: Path, run: Run) -> None:
    assert run("collection", "create", "notes", "--embed", "hash:64", "--ids", "str").code == 0
    assert run("collection", "add", "notes", "notes.jsonl", "--text", "body").code == 0
    assert "random=True" in repr(bitkin.Collection.open("notes", read_only=True).hasher)
    done = run("collection", "reencode", "notes", "--learn", "--bits", 48)
    assert (done.code, done.out) == (0, "notes: 99 rows encoded again, 48 × 1-bit codes\n")
    assert "random=True" not in repr(bitkin.Collection.open("notes", read_only=True).hasher)
    [found] = run("collection", "search", "notes", "--text", texts()[7], "-k", 1, "--json").objects
    assert found["ids"] == ["n7"]
    np.save("like.npy", np.random.default_rng(0).random((99, 64)))
    assert run("fit", "like.npy", "-o", "model", "--bits", 16).code == 0
    [done_by] = run(
        "collection", "reencode", "notes", "-m", "model", "--index", "multi", "--json"
    ).objects
    [about] = run("collection", "stats", "notes", "--json").objects
    assert about["index"] == "MultiIndex"
    assert done_by == {"folder": "notes", "reencoded": 99, "rows": 99, "codes": "16 × 1-bit"}
    assert run("collection", "reencode", "notes").out.startswith("notes: 0 rows encoded again")
    assert run("collection", "verify", "notes").code == 0
    assert run("collection", "create", "d", "--fit", "vectors.npy", "--vectors", "none").code == 0
    require_failure(run("collection", "reencode", "d", "--learn"), "--learn needs vectors")


def test_damage_is_found(filled: bitkin.Collection, run: Run) -> None:
    filled.close()
    path = Path("c/collection.db")
    data = bytearray(path.read_bytes())
    data[-9000:-4000] = bytes(5000)
    path.write_bytes(data)
    done = run("collection", "verify", "c")
    assert done.code == 1
    assert "collection.db" in done.err
    assert "damaged" in done.err or "Restore a backup" in done.err


def test_reading_goes_on_beside_a_writer(filled: bitkin.Collection, run: Run) -> None:
    with bitkin.Collection.open("c") as writer:
        writer.remove([0])
        [about] = run("collection", "stats", "c", "--json").objects
        assert about["rows"] == N - 1
        done = run("collection", "add", "c", "vectors.npy")
        assert done.code == 1
        assert len(done.err.splitlines()) == 1


def test_a_model_may_be_given(here: Path, run: Run) -> None:
    assert run("fit", "vectors.npy", "-o", "model", "--bits", 16).code == 0
    [made] = run(
        "collection", "create", "c", "-m", "model", "--vectors", "int8", "--metric", "cosine",
        "--ids", "str", "--index", "multi", "--synchronous", "full", "--json",
    ).objects  # fmt: skip
    assert (made["codes"], made["vectors"], made["ids"]) == ("16 × 1-bit", "int8", "str")
    done = run("collection", "create", "d", "-m", "model")
    assert done.out.splitlines() == [
        "d: 16 × 1-bit codes, float32 vectors, l2, int ids",
        "next: bitkin collection add d FILE",
    ]


def test_a_table_is_added_by_its_columns(here: Path, run: Run) -> None:
    table = {"key": [4, 2], "e": np.load("vectors.npy")[:2].tolist(), "lang": ["en", None]}
    pyarrow.parquet.write_table(pyarrow.table(table), "t.parquet")
    assert run("collection", "create", "c", "--fit", "vectors.npy").code == 0
    assert run("collection", "add", "c", "t.parquet", "--id", "key").code == 0
    rows = run("collection", "get", "c", 2, 4, "--json").objects
    assert rows == [{"id": 2, "metadata": {}}, {"id": 4, "metadata": {"lang": "en"}}]


# --- what goes wrong -------------------------------------------------------------------------


def test_a_file_that_stops_half_way_is_ended_by_upsert(filled: bitkin.Collection, run: Run) -> None:
    good = Path("rows.jsonl").read_text().splitlines()
    Path("bad.jsonl").write_text("\n".join([*good[:5], '{"id": 7, "vector": [1, 2]}']))
    done = run("collection", "add", "c", "bad.jsonl", "--upsert")
    require_failure(
        done, "bad.jsonl, line 6: 'vector' must have 17 numbers, got 2.", "Nothing was added"
    )
    require_failure(
        run("collection", "add", "c", "rows.jsonl"), "already in the collection", "upsert"
    )
    assert run("collection", "add", "c", "rows.jsonl", "--upsert").code == 0
    assert len(filled) == N


@pytest.mark.parametrize(
    "line, words",
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: must be a JSON object, got a list"),
        ('{"id": 900}', "line 2: no 'vector' for the vector"),
        ('{"id": null, "vector": []}', "line 2: no 'id' for the id"),
        ('{"id": 900, "vector": "x"}', "line 2: 'vector' must be a list of numbers, got a string"),
        ('{"id": "a", "vector": [VVV]}', "ids must be"),
        ('{"id": 900, "vector": [VVV], "year": "x"}', "'year' is declared int, got 'x'"),
    ],
)
def test_a_bad_line_is_named_by_its_number(
    filled: bitkin.Collection, run: Run, line: str, words: str
) -> None:
    vector = ", ".join(["1"] * D)
    first = '{"id": 901, "vector": [VVV]}'
    Path("bad.jsonl").write_text(f"{first}\n{line}\n".replace("VVV", vector))
    done = run("collection", "add", "c", "bad.jsonl")
    require_failure(done, "bad.jsonl, line", words)
    assert 901 not in filled


def test_vectors_of_another_width_are_refused(filled: bitkin.Collection, run: Run) -> None:
    np.save("wide.npy", np.ones((3, D + 1), dtype=np.float32))
    for command in (("add", "c", "wide.npy"), ("search", "c", "wide.npy")):
        require_failure(run("collection", *command), "18", "17")
    require_failure(run("collection", "search", "c", "--vector", "[1, 2]"), "17")


def calls(folder: str) -> list[tuple[Any, ...]]:
    return [
        ("add", folder, "vectors.npy"),
        ("search", folder, "queries.npy"),
        ("get", folder),
        ("remove", folder, 1),
        ("stats", folder),
        ("verify", folder),
        ("compact", folder),
        ("backup", folder, "x"),
        ("export", folder, "-o", "x.jsonl"),
        ("reencode", folder),
    ]


def test_every_command_says_where_there_is_no_collection(here: Path, run: Run) -> None:
    Path("other").mkdir()
    Path("other/file").write_text("something")
    assert [call[0] for call in calls("x")] == COMMANDS[1:]
    for command in calls("nowhere"):
        require_failure(run("collection", *command), "nowhere is not there", "collection create")
    for command in calls("other"):
        require_failure(run("collection", *command), "other is no collection")
    done = run("collection", "create", "other", "--fit", "vectors.npy")
    require_failure(done, "other is there already")
    done = run("collection", "add", "other", "notes.jsonl", "--text", "body", "--embed", "hash:8")
    require_failure(done, "other is no collection")
    done = run("collection", "add", "new", "notes.jsonl", "--text", "body")
    require_failure(done, "new is not there. Give --embed")
    Path("broken").mkdir()
    Path("broken/collection.db").write_text("this is no database " * 100)
    for command in calls("broken"):
        require_failure(run("collection", *command), "collection.db")


@pytest.mark.parametrize("command", ["search", "get", "remove", "export"])
@pytest.mark.parametrize(
    "where, words",
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"year": {"above": 1}}', "'above'"),
        ('{"year": {"gte": [1]}}', "gte"),
        ('{"and": 1}', "and"),
    ],
)
def test_a_filter_that_is_none_is_wrong_usage(
    filled: bitkin.Collection, run: Run, command: str, where: str, words: str
) -> None:
    more = {"search": ("queries.npy",), "export": ("-o", "x.jsonl")}.get(command, ())
    done = run("collection", command, "c", *more, "--where", where)
    require_usage_error(done, "'--where'", words)


def test_unknown_ids_are_named(filled: bitkin.Collection, run: Run) -> None:
    require_failure(run("collection", "get", "c", 1, 900), "not there: 900")
    require_failure(run("collection", "remove", "c", 900), "not there: 900")
    require_failure(run("collection", "search", "c", "--id", 900), "not there: 900")
    for command in (("get", "c", "x"), ("remove", "c", "x"), ("search", "c", "--id", "x")):
        require_usage_error(run("collection", *command), "'x' is not the id of a row")
    for digits in ("1" * 5000, "1" * 20, str(2**63)):
        for command in (("get", "c", digits), ("remove", "c", digits)):
            require_usage_error(run("collection", *command), "is not the id of a row")
    require_failure(run("collection", "get", "c", 2**63 - 1), f"not there: {2**63 - 1}")


def test_the_current_folder_is_not_replaced(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("empty").mkdir()
    monkeypatch.chdir("empty")
    done = run("collection", "create", ".", "--fit", "../vectors.npy")
    require_failure(done, "empty is the current folder", "Give another path")
    done = run("collection", "create", "../empty", "--fit", "../vectors.npy")
    require_failure(done, "empty is the current folder")
    assert run("collection", "create", "../empty/new", "--fit", "../vectors.npy").code == 0
    monkeypatch.chdir("new")
    require_failure(run("collection", "create", ".", "--fit", "../../vectors.npy"), "there already")
    require_failure(run("collection", "backup", ".", "."), "there already")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("create", "x"), "give --model, or --fit"),
        (("create", "x", "--fit", "vectors.npy", "-m", "y"), "one of --model and --fit"),
        (("create", "x", "-m", "y", "--bits", 3), "a model has its own"),
        (("create", "x", "--fit", "vectors.npy", "--text", "y"), "belongs to --fit with --embed"),
        (("create", "x", "--fit", "vectors.npy", "--field", "year"), "must be name:type"),
        (("create", "x", "--fit", "vectors.npy", "--field", "a:date"), "'date' is not one of"),
        (
            ("create", "x", "--fit", "vectors.npy", "--field", "a:int", "--field", "a:str"),
            "declared twice",
        ),
        (("create", "x", "--fit", "vectors.npy", "--metric", "cos"), "Did you mean 'cosine'"),
        (("create", "x", "--fit", "vectors.npy", "--vectors", "float"), "--vectors"),
        (("add", "c", "vectors.npy", "--field", "a:int"), "c is there, and has its own"),
        (("add", "c", "vectors.npy", "--bits", 3), "c is there, and has its own"),
        (("search", "c"), "give one of FILE, --vector, --text and --id"),
        (("search", "c", "queries.npy", "--id", 3), "give one of FILE, --vector, --text and --id"),
        (("search", "c", "--vector", "[1"), "must be a JSON list of numbers"),
        (("search", "c", "--vector", "[[1]]"), "must be a JSON list of numbers"),
        (("search", "c", "--vector", "7"), "must be a JSON list of numbers"),
        (("search", "c", "queries.npy", "--stage", "exakt"), "Did you mean 'exact'"),
        (("search", "c", "queries.npy", "-k", 0), "-k"),
        (("get", "c", 1, "--limit", 2), "goes without ids"),
        (("get", "c", "--vectors"), "needs --json"),
        (("get", "c", "--limit", 0), "--limit"),
        (("reencode", "c", "--index", "flat"), "belongs to --model or --learn"),
        (("reencode", "c", "--learn", "--index", "flet"), "Did you mean 'flat'"),
        (("reencode", "c", "--learn", "-m", "x"), "one of --model and --learn"),
        (("reencode", "c", "--bits", 3), "belongs to --learn"),
        (("export", "c", "-o", "x.csv"), "must end in one of .parquet, .npy, .jsonl"),
        (("export", "c", "-o", "-"), "cannot write to stdout"),
    ],
)
def test_wrong_usage_says_what_to_give(
    filled: bitkin.Collection, run: Run, arguments: tuple[Any, ...], words: str
) -> None:
    done = run("collection", *arguments)
    assert words in " ".join(done.err.split()), done.err
    require_usage_error(done)
    assert not Path("x").exists()


def test_files_that_are_not_there_are_named(filled: bitkin.Collection, run: Run) -> None:
    for command in (
        ("add", "c", "none.npy"),
        ("add", "c", "none.jsonl"),
        ("add", "c", "none.parquet"),
        ("add", "c", "vectors.npy", "--ids", "none.txt"),
        ("add", "c", "vectors.npy", "--metadata", "none.jsonl"),
        ("search", "c", "none.npy"),
        ("create", "x", "--fit", "none.npy"),
        ("create", "x", "-m", "none.bitkin"),
    ):
        require_failure(run("collection", *command), "none.")
    assert not Path("x").exists()
    assert len(filled) == N


# --- help ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples_that_can_be_copied(run: Run, command: str) -> None:
    done = run("collection", command, "--help")
    assert (done.code, done.err) == (0, "")
    examples = examples_in(done.out)
    assert examples
    for example in examples:
        assert example.lstrip().startswith(f"bitkin collection {command}")
        assert all(len(line) <= 79 for line in example.split("\n"))


def test_all_commands_are_registered() -> None:
    names = [one.callback.__name__ for one in app.registered_commands if one.callback is not None]
    assert names == COMMANDS


def test_the_examples_of_the_help_run(here: Path, run: Run) -> None:
    def examples(command: str) -> list[list[str]]:
        found = examples_in(run("collection", *command.split(), "--help").out)
        joined = [" ".join(one.replace("\\\n", " ").split()) for one in found]
        return [shlex.split(step)[1:] for one in joined for step in one.split(" && ")]

    def must(arguments: list[str]) -> Outcome:
        done = run(*arguments)
        assert done.code == 0, (arguments, done.err)
        return done

    for arguments in examples(""):
        must(arguments)
    with bitkin.Collection.open("notes") as notes:
        assert len(notes) == 99
    __import__("shutil").rmtree("notes")
    for arguments in reversed(examples("create")):
        must(arguments)
        __import__("shutil").rmtree("notes")
    must(["collection", "create", "notes", "--fit", "vectors.npy"])
    Path("ids.txt").write_text("".join(f"{i}\n" for i in range(N)))
    must(examples("add")[1])
    for command in ("get", "export", "stats", "verify", "compact", "backup", "reencode", "remove"):
        for arguments in examples(command):
            must(arguments)
    must(examples("search")[1])


def test_ctrl_c_says_what_was_added_until_then(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": i, "body": f"number {i}"} for i in range(5000)]
    Path("notes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run("collection", "add", "notes", "notes.jsonl", "--text", "body", "--embed", "hash:64")
    put = bitkin.Collection._put
    n_puts = [0]

    def put_once(*given: Any, **others: Any) -> Any:
        n_puts[0] += 1
        if n_puts[0] > 1:
            raise KeyboardInterrupt
        return put(*given, **others)

    monkeypatch.setattr(bitkin.Collection, "_put", put_once)
    done = run("collection", "add", "notes", "notes.jsonl", "--text", "body", "--upsert")
    assert done.code == 130
    assert " rows of notes.jsonl were added: run it again." in done.err
    assert not done.err.startswith("bitkin: 0 rows")
