"""`bitkin dedup`, whole."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from tests.cli.conftest import Run
from tests.cli.test_failures import require_failure, require_usage_error
from tests.cli.test_help import example_in
from tests.dedup.test_vectors import related_rows
from tests.dedup.texts import related_texts

TEXTS = related_texts(97, seed=9)


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of texts in the folder we are in."""
    monkeypatch.chdir(tmp_path)
    records = [json.dumps({"key": f"k{i}", "text": text}) for i, text in enumerate(TEXTS)]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(records) + "\n")
    return path


def test_lines_are_kept_dropped_and_explained(texts: Path, run: Run) -> None:
    done = run(
        "dedup",
        "texts.jsonl",
        "-t",
        0.6,
        "-o",
        "kept.jsonl",
        "--report",
        "dropped.jsonl",
        "--pairs",
        "pairs.jsonl",
    )
    assert (done.code, done.err) == (0, "")
    found = bitkin.dedup.find_duplicates(TEXTS, 0.6, pairs="all")
    lines = texts.read_text().splitlines(keepends=True)
    assert Path("kept.jsonl").read_text() == "".join(lines[i] for i in found.kept)
    dropped = [json.loads(line) for line in Path("dropped.jsonl").read_text().splitlines()]
    assert [record["line"] for record in dropped] == [i + 1 for i in found.dropped]
    assert [record["jaccard"] for record in dropped] == found.jaccard.tolist()
    assert len(Path("pairs.jsonl").read_text().splitlines()) == len(found.pairs.first)
    for words in (
        f"{len(found.kept)} ",
        f"{len(found.dropped)} ",
        "Jaccard 0.6 or more",
        "128 hashes in ",
    ):
        assert words in done.out
    for name in ("kept.jsonl", "dropped.jsonl", "pairs.jsonl"):
        assert name in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_json_has_the_figures_and_nothing_else(texts: Path, run: Run) -> None:
    done = run("dedup", "texts.jsonl", "-t", 0.6, "--json")
    assert (done.code, done.err) == (0, "")
    [figures] = done.objects
    found = bitkin.dedup.find_duplicates(TEXTS, 0.6)
    assert figures["documents"] == 97 == figures["kept"] + figures["dropped"]
    assert (
        figures["dropped"]
        == len(found.dropped)
        == figures["dropped_equal"] + figures["dropped_similar"]
    )
    assert figures["empty"] == found.n_empty > 0
    assert figures["clusters"] == len(found.clusters)
    assert figures["largest_cluster"] == max(map(len, found.clusters))
    assert (figures["bands"], figures["rows"]) == (found.plan.bands, found.plan.rows)
    assert figures["expected_miss_rate"] == found.plan.miss_rate(0.6)
    assert figures["expected_miss_rate_at_threshold"] == 1 - found.plan.probability(0.6)
    assert figures["expected_false_alarm_rate"] == found.plan.false_alarm_rate(0.6)
    assert (figures["threshold"], figures["shingle"], figures["size"], figures["hashes"]) == (
        0.6,
        "words",
        3,
        128,
    )


def test_several_files_plain_and_packed_give_what_one_gives(texts: Path, run: Run) -> None:
    lines = texts.read_bytes().splitlines(keepends=True)
    Path("a.jsonl").write_bytes(b"".join(lines[:40]))
    Path("b.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[40:])))
    assert run("dedup", "texts.jsonl", "-o", "one.jsonl").code == 0
    assert run("dedup", "a.jsonl", "b.jsonl.gz", "-o", "two.jsonl.gz").code == 0
    assert gzip.decompress(Path("two.jsonl.gz").read_bytes()) == Path("one.jsonl").read_bytes()


def test_ids_name_lines_in_the_table_and_the_report(texts: Path, run: Run) -> None:
    done = run("dedup", "texts.jsonl", "-t", 0.6, "--id", "key", "--report", "dropped.jsonl")
    found = bitkin.dedup.find_duplicates(TEXTS, 0.6)
    assert done.code == 0
    largest = max(found.clusters, key=len)
    assert f" k{largest[0]} " in done.out
    assert "field 'text' by shingles of 3 words" in done.out
    record = json.loads(Path("dropped.jsonl").read_text().splitlines()[0])
    assert record["id"] == f"k{found.dropped[0]}"
    assert record["kept_id"] == f"k{found.cluster_of[found.dropped[0]]}"


def test_other_formats_and_standard_input(
    texts: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = bitkin.dedup.find_duplicates(TEXTS, 0.6)
    plain = "".join(text + "\n" for text in TEXTS)
    kept = "".join(TEXTS[i] + "\n" for i in found.kept)
    Path("texts.txt").write_text(plain)
    Path("texts.csv").write_text("n,body\n" + "".join(f"{i},{t}\n" for i, t in enumerate(TEXTS)))
    assert run("dedup", "texts.txt", "-t", 0.6, "-o", "kept.txt").code == 0
    assert Path("kept.txt").read_text() == kept
    assert "lines by shingles of 3 words" in run("dedup", "texts.txt", "-t", 0.6).out
    done = run("dedup", "texts.csv", "-t", 0.6, "--field", "body", "--id", "n", "-o", "kept.csv")
    assert (done.code, done.err) == (0, "")
    lines = Path("texts.csv").read_text().splitlines(keepends=True)
    assert Path("kept.csv").read_text() == lines[0] + "".join(lines[i + 1] for i in found.kept)
    assert "--out kept.txt" in run("dedup", "texts.txt").out
    for data, options in ((plain, ()), (texts.read_text(), ("--id", "key"))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
        done = run("dedup", "-", "-t", 0.6, "-o", "k", "--report", "r", "--force", *options)
        assert (done.code, done.err) == (0, "")
        assert len(Path("k").read_text().splitlines()) == len(found.kept)
        assert json.loads(Path("r").read_text().splitlines()[0])["file"] == "standard input"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n{broken\n')))
    require_failure(run("dedup", "-"), "standard input, line 2: not JSON")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    require_failure(run("dedup", "-"), "standard input: no documents")


def test_case_and_punctuation_need_not_count_and_the_output_is_the_original(
    texts: Path, run: Run
) -> None:
    original = "It was the best of times, it was the worst of times; really."
    other = "IT WAS THE BEST OF TIMES -- it was the worst of times, really!"
    Path("a.txt").write_text(f"{original}\n{other}\nsomething else\n")
    assert run("dedup", "a.txt", "-o", "kept.txt", "--json").objects[0]["kept"] == 3
    options = ("--lower", "--strip-punctuation", "--normalize")
    [figures] = run("dedup", "a.txt", "-o", "kept.txt", "--json", "--force", *options).objects
    assert figures["kept"] == 2
    assert [figures[name] for name in ("lower", "strip_punctuation", "normalize")] == [True] * 3
    assert Path("kept.txt").read_text() == f"{original}\nsomething else\n"


def test_vectors(texts: Path, run: Run) -> None:
    rows = related_rows(203, 9)
    np.save("rows.npy", rows)
    found = bitkin.dedup.find_duplicate_vectors(rows, 0.9)
    options = ("-o", "kept.npy", "--report", "dropped.jsonl", "--pairs", "pairs.jsonl")
    done = run("dedup", "rows.npy", "-t", 0.9, *options)
    assert (done.code, done.err) == (0, "")
    assert np.array_equal(np.load("kept.npy"), rows[found.kept])
    found_rows = found.dropped.tolist()
    assert len(Path("dropped.jsonl").read_text().splitlines()) == len(found.dropped)
    for words in (f"{len(found.kept)} ", "cosine 0.9 or more with another", "kept.npy"):
        assert words in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "--out kept.npy" in run("dedup", "rows.npy").out
    [figures] = run("dedup", "rows.npy", "--metric", "l2", "-t", 0.5, "--json").objects
    found = bitkin.dedup.find_duplicate_vectors(rows, 0.5, metric="l2")
    assert (figures["kept"], figures["metric"]) == (len(found.kept), "l2")
    assert figures["clusters"] == len(found.clusters)
    first = json.loads(Path("dropped.jsonl").read_text().splitlines()[0])
    assert first["row"] in found_rows  # counted from 0, as in the array
    require_usage_error(run("dedup", "rows.npy", "-o", "kept.jsonl"), "'--out'", "written as .npy")
    require_usage_error(
        run("dedup", "rows.npy", "--lower"), "'--lower'", "does not go with vectors"
    )
    require_usage_error(run("dedup", "rows.npy", "-t", 2), "'--threshold'", "above 0 and up to 1")
    require_usage_error(run("dedup", "rows.npy", "--metric", "l2"), "'--threshold'", "l2 needs one")
    require_usage_error(
        run("dedup", "rows.npy", "--metric", "cosin"), "'--metric'", "Did you mean 'cosine'"
    )
    require_usage_error(run("dedup", "texts.jsonl", "--metric", "l2"), "does not go with texts")
    np.save("nan.npy", np.full((2, 2), np.nan))
    require_failure(run("dedup", "nan.npy"), "nan.npy")


def test_quiet_prints_nothing_but_warnings(texts: Path, run: Run) -> None:
    np.save("rows.npy", related_rows(203, 9))
    for arguments in (("texts.jsonl", "-o", "kept.jsonl"), ("rows.npy", "-o", "kept.npy")):
        done = run("dedup", *arguments, "--quiet")
        assert (done.code, done.out) == (0, "")
        assert "count" in run("dedup", arguments[0]).out
        assert len(run("dedup", arguments[0], "--quiet", "--json").objects) == 1
    Path("short.txt").write_text("".join(f"name {i} here\n" for i in range(40)))
    done = run("dedup", "short.txt", "--quiet")
    assert done.out == ""
    assert done.err.startswith("bitkin: warning: ")


def test_short_texts_get_advice(texts: Path, run: Run) -> None:
    Path("a.txt").write_text("".join(f"name {i} here\n" for i in range(40)))
    done = run("dedup", "a.txt")
    assert "Most texts are short: half have at most 1 shingle of 3 words" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "short" in run("dedup", "a.txt", "--json").objects[0]["advice"]
    assert run("dedup", "texts.jsonl", "-t", 0.4, "--json").objects[0]["advice"] is None


def test_the_number_of_clusters_shown(texts: Path, run: Run) -> None:
    def shown(*options: object) -> int:
        return sum(
            line.startswith(" line ")
            for line in run("dedup", "texts.jsonl", "-t", 0.6, *options).out.splitlines()
        )

    assert (shown(), shown("--show", 0), shown("--show", 7)) == (5, 0, 7)


def test_nothing_alike_shows_no_clusters(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two"}\n')
    done = run("dedup", path)
    assert (done.code, done.err) == (0, "")
    assert "clusters" not in done.out
    assert "100.0%" in done.out


def test_characters_and_sizes(texts: Path, run: Run) -> None:
    [figures] = run(
        "dedup", "texts.jsonl", "--shingle", "chars", "--size", 4, "--hashes", 65, "--json"
    ).objects
    found = bitkin.dedup.find_duplicates(TEXTS, shingle="chars", size=4, n_hashes=65)
    assert (figures["kept"], figures["size"], figures["hashes"]) == (len(found.kept), 4, 65)


def test_the_example_of_the_help_runs(texts: Path, run: Run) -> None:
    program, *arguments = shlex.split(example_in(run("dedup", "--help").out))
    assert program == "bitkin"
    done = run(*arguments)
    assert (done.code, done.err) == (0, "")
    assert {"kept.jsonl", "dropped.jsonl"} <= {path.name for path in texts.parent.iterdir()}


@pytest.mark.parametrize(
    "line, words",
    [
        ("{broken", "bad.jsonl, line 2: not JSON: "),
        ('{"body": "x"}', "bad.jsonl, line 2: no field 'text'. It has 'body'."),
        ('{"text": 3}', "bad.jsonl, line 2: field 'text' must be a string, got the number 3."),
    ],
)
def test_a_bad_line_is_one_line(texts: Path, run: Run, line: str, words: str) -> None:
    Path("bad.jsonl").write_text(f'{{"text": "fine"}}\n{line}\n')
    before = {path.name for path in texts.parent.iterdir()}
    require_failure(
        run("dedup", "bad.jsonl", "-o", "kept.jsonl", "--report", "dropped.jsonl"), words
    )
    require_failure(run("dedup", "texts.jsonl", "bad.jsonl"), words)
    assert {path.name for path in texts.parent.iterdir()} == before


def test_files_that_cannot_be(texts: Path, run: Run) -> None:
    Path("empty.jsonl").write_text("")
    Path("noise.jsonl.gz").write_bytes(b"\x80noise")
    require_failure(
        run("dedup", "missing.jsonl"), "missing.jsonl cannot be read: No such file or directory."
    )
    require_failure(run("dedup", "."), "it is a directory")
    require_failure(run("dedup", "empty.jsonl"), "empty.jsonl: no documents")
    require_failure(run("dedup", "noise.jsonl.gz"), "noise.jsonl.gz is damaged")
    require_failure(
        run("dedup", "texts.jsonl", "-o", "no/kept.jsonl"), "no/kept.jsonl cannot be written"
    )
    require_failure(
        run("dedup", "texts.jsonl", "--id", "name"),
        "line 1: no field 'name'. It has 'key', 'text'.",
    )


@pytest.mark.parametrize("option", ["--out", "--report", "--pairs"])
def test_an_output_that_cannot_be_written_is_found_before_anything_is_read(
    texts: Path, run: Run, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bad.jsonl").write_text("{broken")  # which reading would find
    Path("closed").mkdir()
    require_failure(
        run("dedup", "bad.jsonl", option, "no/x.jsonl"),
        "no/x.jsonl cannot be written: there is no folder",
    )
    require_failure(
        run("dedup", "bad.jsonl", option, "closed"), "closed cannot be written: closed is a folder"
    )
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "closed")
    require_failure(
        run("dedup", "bad.jsonl", option, "closed/x.jsonl"), "closed cannot be written to"
    )


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), ("Missing", "files")),
        (("texts.jsonl", "-t", "0"), ("'--threshold'", "0.0 is not above 0 and up to 1")),
        (("texts.jsonl", "-t", "nan"), ("'--threshold'", "nan is not above 0")),
        (("texts.jsonl", "-t", "high"), ("Invalid value for", "--threshold")),
        (("texts.jsonl", "--shingle", "word"), ("'--shingle'", "Did you mean 'words'?")),
        (("texts.jsonl", "--format", "jsnl"), ("'--format'", "Did you mean 'jsonl'?")),
        (("texts.jsonl", "--format", "text", "--field", "a"), ("'--field'", "has no fields")),
        (("-", "texts.jsonl"), ("'files'", "standard input, which is read alone")),
        (("texts.jsonl", "--size", "0"), ("Invalid value for", "--size")),
        (("texts.jsonl", "--hashes", "0"), ("Invalid value for", "--hashes")),
        (("texts.jsonl", "--hashes", "2000000"), ("Invalid value for", "--hashes", "1048576")),
        (("texts.jsonl", "--size", "2147483648"), ("Invalid value for", "--size")),
        (("texts.jsonl", "-o", "texts.jsonl"), ("'--out'", "is an input and would be replaced")),
        (
            ("texts.jsonl", "--report", "./texts.jsonl"),
            ("'--report'", "is an input and would be replaced"),
        ),
        (
            ("texts.jsonl", "-o", "x.jsonl", "--pairs", "x.jsonl"),
            ("'--pairs'", "x.jsonl is also given to --out"),
        ),
    ],
    ids=str,
)
def test_wrong_usage_is_explained(
    texts: Path, run: Run, arguments: tuple[Any, ...], words: tuple[str, ...]
) -> None:
    before = texts.read_bytes()
    require_usage_error(run("dedup", *arguments), *words)
    assert texts.read_bytes() == before


def test_ids_and_names_are_shown_as_they_are_and_steer_nothing(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"[bold]\xff.jsonl")
    ids = ["[/bold] x", "[red]hid[/red]", "\x1b[31mred\x9b2J", "\ud800", "a\nb\u202e"]
    records = [{"id": name, "text": f"text {i}"} for i, one in enumerate(ids) for name in (one, 7)]
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("other.jsonl").write_text('{"text": "z", "id": 1}\n')
    done = run("dedup", name, "--id", "id", "--report", os.fsdecode(b"\xfe[red].jsonl"))
    assert (done.code, done.err) == (0, "")
    for shown in (
        "[/bold] x",
        "[red]hid[/red]",
        "\ufffd[31mred\ufffd2J",
        " \ufffd ",
        "a\ufffdb\ufffd",
    ):
        assert shown in done.out
    assert "dropped: \ufffd[red].jsonl" in done.out
    assert run("dedup", name, "other.jsonl").code == 0
    assert "[bold]\ufffd.jsonl, line 1" in run("dedup", name, "other.jsonl").out
    [figures] = run("dedup", name, "--json", "--report", os.fsdecode(b"\xfe.jsonl")).objects
    assert figures["report"] == os.fsdecode(b"\xfe.jsonl")
    require_failure(run("dedup", os.fsdecode(b"none\xff.jsonl")), "cannot be read")
