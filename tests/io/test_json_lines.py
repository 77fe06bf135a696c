"""Reading texts from JSON lines."""

from __future__ import annotations

import codecs
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io import line_files
from bitkin.io.json_lines import JsonLines

RECORDS = [{"text": f"number {i} é ☃ \u2028", "id": i} for i in range(7)]


def as_lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.GZ", "a"])
def test_texts_come_in_order_with_their_places(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    data = as_lines(RECORDS)
    path.write_bytes(gzip.compress(data) if name.lower().endswith("gz") else data)
    source = JsonLines([path], id_field="id")
    documents = list(source.documents())
    assert [d.text for d in documents] == [record["text"] for record in RECORDS]
    assert [(d.file, d.line, d.id) for d in documents] == [(0, i + 1, i) for i in range(7)]
    assert b"".join(source.lines()) == data
    assert source.n_bytes == path.stat().st_size


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    paths = [
        written(tmp_path / "a.jsonl", as_lines(RECORDS[:3])),
        written(tmp_path / "b.jsonl.gz", as_lines(RECORDS[3:])),
    ]
    source = JsonLines(paths)
    documents = list(source.documents())
    assert [(d.file, d.line) for d in documents] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 4),
    ]
    assert {d.id for d in documents} == {None}
    assert b"".join(source.lines()) == as_lines(RECORDS)


def test_blank_lines_are_no_documents_but_count_as_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'\n{"text": "a"}\n  \r\n\n{"text": "b"}')
    source = JsonLines([path])
    assert [(d.text, d.line) for d in source.documents()] == [("a", 2), ("b", 5)]
    assert list(source.lines()) == [b'{"text": "a"}\n', b'{"text": "b"}']


def test_a_byte_order_mark_and_windows_newlines_are_no_flaw(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}\r\n')
    assert [d.text for d in JsonLines([path]).documents()] == ["a", "b"]


def test_progress_ends_at_the_number_of_bytes(tmp_path: Path) -> None:
    paths = [
        written(tmp_path / "a.jsonl", as_lines(RECORDS * 100)),
        written(tmp_path / "b.jsonl.gz", as_lines(RECORDS)),
    ]
    source = JsonLines(paths)
    told: list[int] = []
    for _ in source.documents(told.append):
        pass
    assert told == sorted(told)
    assert len(told) > 3
    assert told[-1] == source.n_bytes


@pytest.mark.parametrize(
    "line, words",
    [
        (b'{"text": "a"', "not JSON: Expecting ',' delimiter at column 13."),
        (
            b"{'text': 'a'}",
            "not JSON: Expecting property name enclosed in double quotes at column 2.",
        ),
        (b'{"text": "\xff"}', "not UTF-8 at byte 10. Convert the file to UTF-8."),
        (b'["text"]', "must be a JSON object with a field for the text, got a list."),
        (b"7", "must be a JSON object with a field for the text, got the number 7."),
        (b"null", "must be a JSON object with a field for the text, got null."),
        (b'{"body": "a", "id": 1}', "no field 'text'. It has 'body', 'id'."),
        (b"{}", "no field 'text'. It has no fields."),
        (b'{"text": 7.5}', "field 'text' must be a string, got the number 7.5."),
        (b'{"text": null}', "field 'text' must be a string, got null."),
        (b'{"text": true}', "field 'text' must be a string, got true or false."),
        (b'{"text": ["a"]}', "field 'text' must be a string, got a list."),
        (b'{"text": {"a": 1}}', "field 'text' must be a string, got an object."),
        (b'{"text": ' + b"9" * 5000 + b"}", "JSON that cannot be read: "),
        (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "JSON that cannot be read: "),
    ],
    ids=lambda value: str(value[:24]),
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: bytes, words: str) -> None:
    path = written(tmp_path / "a.jsonl", b'{"text": "fine"}\n\n' + line + b"\n")
    with pytest.raises(InvalidInputError) as raised:
        list(JsonLines([path]).documents())
    assert str(raised.value).startswith(f"{path}, line 3: {words}")
    assert len(str(raised.value).splitlines()) == 1


def test_a_missing_id_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'{"text": "a"}\n')
    with pytest.raises(InvalidInputError, match=r"line 1: no field 'id'\. It has 'text'\."):
        list(JsonLines([path], id_field="id").documents())


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_a_file_without_documents_is_refused(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path / "a.jsonl", data)
    with pytest.raises(InvalidInputError, match=r"a\.jsonl: no documents"):
        list(JsonLines([path]).documents())


def test_a_line_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "MAX_LINE", 100)
    path = written(tmp_path / "a.jsonl", as_lines([{"text": "a"}, {"text": "b" * 100}]))
    with pytest.raises(CorruptFileError, match=r"a\.jsonl, line 2 is longer than 100 bytes"):
        list(JsonLines([path]).documents())


@pytest.mark.parametrize("cut", [5, 30, -4])
def test_a_packed_file_that_is_not_whole_is_one_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(as_lines(RECORDS))[:cut])
    with pytest.raises(
        CorruptFileError, match=r"a\.jsonl\.gz is damaged or not what its suffix says"
    ):
        list(JsonLines([path]).documents())


def test_a_plain_file_with_the_suffix_of_a_packed_one_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(as_lines(RECORDS))
    with pytest.raises(CorruptFileError, match=r"a\.jsonl\.gz is damaged"):
        list(JsonLines([path]).documents())


def test_a_file_that_changes_between_the_passes_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", as_lines(RECORDS))
    source = JsonLines([path])
    list(source.documents())
    path.write_bytes(as_lines(RECORDS[:2]))
    with pytest.raises(CorruptFileError, match="changed while it was read"):
        list(source.lines())


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name, words in (
        ("none.jsonl", "No such file"),
        (".", "it is a directory"),
        ("pipe.jsonl", "not a regular file"),
    ):
        with pytest.raises(FileAccessError, match=f"cannot be read: .*{words}"):
            JsonLines([tmp_path / name])
    wrong: list[Any] = [[], "a.jsonl", tmp_path]
    for paths in wrong:
        with pytest.raises(InvalidInputError, match="paths must be a list of at least one path"):
            JsonLines(paths)


@pytest.mark.parametrize("blank", [b"\n", b" \r\n\n", b""])
def test_a_byte_order_mark_may_stand_alone_in_its_line(tmp_path: Path, blank: bytes) -> None:
    path = written(tmp_path / "a.jsonl", codecs.BOM_UTF8 + blank + b'{"text": "a"}\n')
    assert [d.text for d in JsonLines([path]).documents()] == ["a"]


def test_a_file_of_a_byte_order_mark_has_no_documents(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", codecs.BOM_UTF8)
    with pytest.raises(InvalidInputError, match="no documents"):
        list(JsonLines([path]).documents())


def test_a_packed_file_without_the_suffix_is_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", gzip.compress(as_lines(RECORDS)))
    with pytest.raises(
        CorruptFileError, match=r"a\.jsonl is packed by gzip\. Give it a name that ends in \.gz\."
    ):
        list(JsonLines([path]).documents())


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '{"a": [NaN]}'])
def test_an_id_that_json_cannot_hold_is_refused(tmp_path: Path, value: str) -> None:
    path = written(tmp_path / "a.jsonl", f'{{"text": "a", "id": {value}}}'.encode())
    with pytest.raises(
        InvalidInputError,
        match="line 1: field 'id' must be an id that JSON can hold, got NaN or Inf",
    ):
        list(JsonLines([path], id_field="id").documents())
    assert [d.text for d in JsonLines([path]).documents()] == ["a"]
