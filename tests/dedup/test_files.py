"""Files that come out: lines to keep byte for byte, reports of what was dropped and why."""

from __future__ import annotations

import codecs
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bitkin.dedup import DuplicateFinder, Duplicates
from bitkin.dedup.files import DocumentPlaces, add_files, write_dropped, write_kept, write_pairs
from bitkin.errors import CorruptFileError, FileAccessError
from bitkin.io.json_lines import JsonLines
from tests.dedup.texts import jaccard, related_texts


def found_in(
    source: JsonLines, pairs: str = "links", threshold: float = 0.6
) -> tuple[Duplicates, DocumentPlaces]:
    with DuplicateFinder(threshold) as finder:
        places = add_files(finder, source)
        return finder.find(pairs=pairs), places


def read_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def texts() -> list[str]:
    return related_texts(61, seed=8)


@pytest.fixture
def source(tmp_path: Path, texts: list[str]) -> JsonLines:
    """Two files, the first without a newline at its end, odd spacing and blank lines in the
    second.
    """
    lines = [
        json.dumps({"id": f"é{i}", "text": text}, ensure_ascii=False).encode()
        for i, text in enumerate(texts)
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines[:29]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"\n" + b" \r\n\n".join(lines[29:])))
    return JsonLines([tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"], id_field="id")


def test_kept_lines_come_out_byte_for_byte(tmp_path: Path, source: JsonLines) -> None:
    found, _ = found_in(source)
    write_kept(tmp_path / "kept.jsonl", source, found.kept, len(found))
    data = (tmp_path / "kept.jsonl").read_bytes()
    every = list(source.lines())
    assert 5 < len(found.kept) < 50
    last_of_first = every[28]
    assert 28 in found.kept
    assert not last_of_first.endswith(b"\n")
    as_written = [line + b"\n" if line == last_of_first else line for line in every]
    assert data == b"".join(as_written[i] for i in found.kept)


def test_a_packed_output_is_the_same_bytes_every_time(tmp_path: Path, source: JsonLines) -> None:
    found, _ = found_in(source)
    for name in ("kept.jsonl", "one.jsonl.gz", "two.JSONL.GZ"):
        write_kept(tmp_path / name, source, found.kept, len(found))
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.JSONL.GZ").read_bytes()
    assert (
        gzip.decompress((tmp_path / "one.jsonl.gz").read_bytes())
        == (tmp_path / "kept.jsonl").read_bytes()
    )


def test_the_report_names_every_dropped_line_and_why(
    tmp_path: Path, source: JsonLines, texts: list[str]
) -> None:
    found, places = found_in(source)
    write_dropped(tmp_path / "dropped.jsonl", found, places)
    records = read_records(tmp_path / "dropped.jsonl")
    assert [record["id"] for record in records] == [f"é{i}" for i in found.dropped]
    clusters = {
        document: number
        for number, cluster in enumerate(found.clusters)
        for document in cluster.tolist()
    }
    for record in records:
        dropped, kept, like = (
            int(record[key].removeprefix("é")) for key in ("id", "kept_id", "like_id")
        )
        assert kept == found.cluster_of[dropped]
        assert record["jaccard"] == jaccard(texts[dropped], texts[kept])
        assert record["like_jaccard"] == jaccard(texts[dropped], texts[like]) >= 0.6
        assert record["cluster"] == clusters[dropped]
        for prefix, document in (("", dropped), ("kept_", kept), ("like_", like)):
            file, line = (0, document + 1) if document < 29 else (1, 2 * document - 56)
            assert (record[f"{prefix}file"], record[f"{prefix}line"]) == (
                str(source.paths[file]),
                line,
            )


def test_pairs_come_with_both_places(tmp_path: Path, source: JsonLines, texts: list[str]) -> None:
    found, places = found_in(source, pairs="all")
    write_pairs(tmp_path / "pairs.jsonl", found, places)
    records = read_records(tmp_path / "pairs.jsonl")
    assert len(records) == len(found.pairs.first) > len(found.dropped)
    for record in records:
        first, second = (int(record[key].removeprefix("é")) for key in ("id", "other_id"))
        assert first < second
        assert record["jaccard"] == jaccard(texts[first], texts[second]) >= 0.6


def test_without_an_id_field_records_have_none(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a b c"}\n{"text": "a b c"}\n')
    found, places = found_in(JsonLines([path]))
    write_dropped(tmp_path / "dropped.jsonl", found, places)
    [record] = read_records(tmp_path / "dropped.jsonl")
    assert record == {
        "file": str(path),
        "line": 2,
        "cluster": 0,
        "kept_file": str(path),
        "kept_line": 1,
        "jaccard": 1.0,
        "like_file": str(path),
        "like_line": 1,
        "like_jaccard": 1.0,
    }
    assert (places.name(1), places.name(0)) == ("line 2", "line 1")


def test_names_of_documents_for_people(source: JsonLines) -> None:
    _, places = found_in(source)
    assert places.name(31) == "é31"
    without_ids = JsonLines(source.paths)
    _, places = found_in(without_ids)
    assert places.name(30) == "b.jsonl.gz, line 4"


def test_a_file_that_changed_leaves_the_old_output(tmp_path: Path, source: JsonLines) -> None:
    found, _ = found_in(source)
    (tmp_path / "kept.jsonl").write_text("old")
    source.paths[0].write_text("{}")
    with pytest.raises(CorruptFileError, match="changed while it was read"):
        write_kept(tmp_path / "kept.jsonl", source, found.kept, len(found))
    assert (tmp_path / "kept.jsonl").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "b.jsonl.gz", "kept.jsonl"}


def test_an_output_that_cannot_be_written_is_one_error(tmp_path: Path, source: JsonLines) -> None:
    found, places = found_in(source)
    with pytest.raises(FileAccessError, match="cannot be written"):
        write_kept(tmp_path / "no" / "kept.jsonl", source, found.kept, len(found))
    with pytest.raises(FileAccessError, match="cannot be written"):
        write_dropped(tmp_path, found, places)


def test_byte_order_marks_within_the_output_are_left_out(tmp_path: Path) -> None:
    mark = codecs.BOM_UTF8
    contents = [
        mark + b'{"text": "a b c"}\n',
        mark + b'{"text": "a b c"}\n{"text": "d e f"}',
        mark + b'{"text": "g"}\n',
    ]
    paths = [tmp_path / f"{i}.jsonl" for i in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    source = JsonLines(paths)
    found, _ = found_in(source)
    write_kept(tmp_path / "kept.jsonl", source, found.kept, len(found))
    data = (tmp_path / "kept.jsonl").read_bytes()
    assert data == mark + b'{"text": "a b c"}\n{"text": "d e f"}\n{"text": "g"}\n'
    assert [d.text for d in JsonLines([tmp_path / "kept.jsonl"]).documents()] == [
        "a b c",
        "d e f",
        "g",
    ]


def test_reports_are_ascii_whatever_ids_and_paths_hold(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"undecodable\xff.jsonl")
    path.write_text('{"text": "a b c", "id": "\\ud800"}\n{"text": "a b c", "id": "\\u2603"}\n')
    found, places = found_in(JsonLines([path], id_field="id"), pairs="all")
    write_dropped(tmp_path / "dropped.jsonl", found, places)
    write_pairs(tmp_path / "pairs.jsonl", found, places)
    for name in ("dropped.jsonl", "pairs.jsonl"):
        [record] = [
            json.loads(line) for line in (tmp_path / name).read_bytes().decode("ascii").splitlines()
        ]
        assert {record["id"], record.get("kept_id", record.get("other_id"))} == {"\u2603", "\ud800"}
        assert record["file"] == str(path)
