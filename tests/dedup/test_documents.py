"""Documents in files: every format gives the same texts, and comes out as it went in."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

import bitkin
from bitkin.dedup import open_documents
from bitkin.dedup.documents.opening import FORMATS, guess_format, spooled
from bitkin.dedup.files import add_files, write_dropped, write_kept
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from tests.dedup.texts import related_texts

TEXTS = [text.replace("w1", 'w"1, ') for text in related_texts(61, seed=3)]


def write_texts(path: Path, form: str, texts: list[str]) -> Path:
    """Write texts and ids k0, k1, … in a format."""
    records = [{"id": f"k{i}", "text": text} for i, text in enumerate(texts)]
    if form == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(records), path, row_group_size=17)
        return path
    out = io.StringIO()
    if form == "jsonl":
        out.writelines(json.dumps(record) + "\n" for record in records)
    elif form == "text":
        out.writelines(text + "\n" for text in texts)
    else:
        dialect: Any = "excel" if form == "csv" else "excel-tab"
        writer = csv.DictWriter(out, ["id", "text"], dialect=dialect)
        writer.writeheader()
        writer.writerows(records)
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_texts_and_takes_back_what_is_kept(
    form: str, tmp_path: Path
) -> None:
    suffix = "txt" if form == "text" else form
    path = write_texts(tmp_path / f"a.{suffix}", form, TEXTS)
    id_field = None if form == "text" else "id"
    source = open_documents([path], id_field=id_field)
    documents = list(source.documents())
    assert [document.text for document in documents] == TEXTS
    if id_field:
        assert [document.id for document in documents] == [f"k{i}" for i in range(61)]
    with bitkin.dedup.DuplicateFinder(0.6) as finder:
        places = add_files(finder, source)
        found = finder.find()
    expected = bitkin.dedup.find_duplicates(TEXTS, 0.6)
    assert found.kept.tolist() == expected.kept.tolist()
    # what is kept is a file of the same format with those texts
    kept = tmp_path / f"kept.{suffix}"
    write_kept(kept, source, found.kept, len(found))
    assert [d.text for d in open_documents([kept]).documents()] == [TEXTS[i] for i in found.kept]
    if form in ("jsonl", "text"):
        lines = path.read_bytes().splitlines(keepends=True)
        assert kept.read_bytes() == b"".join(lines[i] for i in found.kept)
    write_dropped(tmp_path / "report", found, places)
    unit, first = {"parquet": ("row", 0), "csv": ("line", 2), "tsv": ("line", 2)}.get(
        form, ("line", 1)
    )
    records = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [record[unit] for record in records] == [i + first for i in found.dropped]


def test_rows_of_csv_over_several_lines_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b'\xef\xbb\xbfid,text\r\n1,"a b\r\n\r\nc"\r\n\r\n2,"say ""x"""\r\n'
    )
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id,text\n3,plain\n4,last"))
    source = open_documents([tmp_path / "a.csv", tmp_path / "b.csv.gz"], id_field="id")
    found = [(d.text, d.file, d.line, d.id) for d in source.documents()]
    assert found == [
        ("a b\r\n\r\nc", 0, 2, "1"),
        ('say "x"', 0, 6, "2"),
        ("plain", 1, 2, "3"),
        ("last", 1, 3, "4"),
    ]
    write_kept(tmp_path / "kept.csv", source, bitkin.dedup.find_duplicates([]).kept, 4)
    assert (tmp_path / "kept.csv").read_bytes() == b"\xef\xbb\xbfid,text\r\n"
    keep_all = bitkin.dedup.find_duplicates(["a", "b", "c", "d"]).kept
    write_kept(tmp_path / "kept.csv", source, keep_all, 4)
    expected = (tmp_path / "a.csv").read_bytes().replace(b"\r\n\r\n2", b"\r\n2")
    assert (tmp_path / "kept.csv").read_bytes() == expected + b"3,plain\n4,last"


def test_a_long_field_of_csv_is_no_flaw(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\n" + "word " * 50_000 + "\n")
    [document] = open_documents([tmp_path / "a.csv"]).documents()
    assert len(document.text) == 250_000


def test_several_parquet_files_are_read_as_one(tmp_path: Path) -> None:
    paths = [
        write_texts(tmp_path / f"{i}.parquet", "parquet", TEXTS[20 * i : 20 * i + 20])
        for i in range(3)
    ]
    source = open_documents(paths)
    assert [d.text for d in source.documents()] == TEXTS[:60]
    assert [(d.file, d.line) for d in source.documents()][19:21] == [(0, 19), (1, 0)]
    told: list[int] = []
    list(source.documents(told.append))
    assert told[-1] == source.n_bytes


@pytest.mark.parametrize(
    "name, data, words",
    [
        (
            "a.csv",
            b"id,body\n1,x\n",
            "a.csv, line 1: no column 'text'. It has 'id', 'body'. Name one of them by --field",
        ),
        (
            "a.csv",
            b"a text without a header\n",
            "The first line of a CSV file is its header; where it is a text already, write one",
        ),
        ("a.csv", b"id,text\n1,x\n2\n", "a.csv, line 3: 1 values, where the header has 2 columns"),
        ("a.csv", b'text\nfine\n"open\nquote\n', "a.csv, line 3: not CSV: "),
        ("a.csv", b"text\nfine\n\xff\n", "a.csv, line 3: not UTF-8 at byte 0"),
        ("a.csv", b"text\n", "a.csv: no documents"),
        ("a.csv", b"", "a.csv: no documents"),
        ("a.txt", b"", "a.txt: no documents. Every line is one document."),
        ("a.txt", b"fine\na\0b\n", "a.txt, line 2: a zero byte: this is no text"),
        ("a.txt", b"fine\n\xe9t\xe9\n", "a.txt, line 2: not UTF-8 at byte 0"),
        ("a.txt", b"\x1f\x8b\x08", "a.txt is packed by gzip"),
        ("a.jsonl", b'{"text": "x"}\n{"text"\n', "a.jsonl, line 2: not JSON"),
        (
            "a.jsonl",
            b'{"body": "x"}\n',
            "a.jsonl, line 1: no field 'text'. It has 'body'. Name one of them by --field",
        ),
        ("a.parquet", b"nonsense", "a.parquet is damaged or not what its suffix says"),
        ("a.parquet", b"", "a.parquet is damaged or not what its suffix says"),
        ("a.bin", b"\x7fELF\0\0", "a.bin, line 1: a zero byte: this is no text"),
    ],
)
def test_bad_files_are_one_error_that_names_the_place(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(data)
    with pytest.raises((InvalidInputError, CorruptFileError)) as raised:
        list(open_documents([tmp_path / name]).documents())
    assert words in str(raised.value)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not listed here")
@pytest.mark.parametrize("data", [b"title,body\na,b\n", b"id,text\n1,x\n2\n"])
def test_an_error_leaves_no_csv_file_open(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError) as raised:
        list(open_documents([path]).documents())
    assert raised.traceback  # which holds on to all that was being done
    opened = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert path not in opened


def test_columns_of_parquet_that_cannot_be_texts(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"n": [1, 2], "text": ["a", None]}), path)
    for options, words in (
        ({}, r"row 1: column 'text' is null"),
        ({"field": "n"}, "column 'n' must hold strings, got int64"),
        (
            {"field": "body"},
            "no column 'body'. It has 'n', 'text'. Name one of them by --field NAME",
        ),
    ):
        with pytest.raises(InvalidInputError, match=words):
            list(open_documents([path], **options).documents())
    parquet.write_table(arrow.table({"n": [1], "text": ["a"]}), path)
    parquet.write_table(arrow.table({"text": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidInputError, match="other columns than"):
        list(open_documents([path, tmp_path / "b.parquet"], "text").documents())


def test_headers_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,x\n")
    (tmp_path / "b.csv").write_text("text,id\nx,1\n")
    with pytest.raises(InvalidInputError, match=r"b\.csv, line 1: a header unlike that of"):
        list(open_documents([tmp_path / "a.csv", tmp_path / "b.csv"]).documents())


def test_formats_are_told_by_name_and_then_by_content(tmp_path: Path) -> None:
    for name, data, form in (
        ("a.JSONL", b"", "jsonl"),
        ("a.ndjson.gz", b"", "jsonl"),
        ("a.tsv", b"", "tsv"),
        ("corpus", b'  {"text": 1}', "jsonl"),
        ("corpus", b"some words", "text"),
        ("corpus.old", b"PAR1", "parquet"),
    ):
        (tmp_path / name).write_bytes(data)
        assert guess_format(tmp_path / name) == form
    with pytest.raises(FileAccessError, match="missing cannot be read"):
        guess_format(tmp_path / "missing")


def test_arguments_that_do_not_go_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "a.csv").write_text("text\nx\n")
    both = [tmp_path / "a.txt", tmp_path / "a.csv"]
    for arguments, words in (
        (((both[:1]), "body"), "field: plain text has no fields, got 'body'"),
        ((both,), "files must have one format, got text"),
        (([],), "paths must be a list of at least one path"),
        ((str(both[0]),), "paths must be a list of at least one path"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            open_documents(*arguments)
    with pytest.raises(InvalidInputError, match="format must be one of 'auto', 'jsonl'"):
        open_documents(both[:1], format="xml")


def test_a_stream_is_read_once_and_gone_afterwards() -> None:
    data = gzip.compress(b'{"text": "a b"}\n')
    with spooled(io.BytesIO(data)) as path:
        source = open_documents([path], names=["standard input"])
        assert [d.text for d in source.documents()] == ["a b"]
    assert not path.exists()
    with spooled(io.BytesIO(b"")) as path, pytest.raises(BitkinError, match="standard input: no"):
        list(open_documents([path], names=["standard input"]).documents())


@pytest.mark.parametrize("form", ["jsonl", "text"])
def test_packed_files_under_a_name_that_says_nothing(form: str, tmp_path: Path) -> None:
    path = write_texts(tmp_path / "texts.gz", form, TEXTS)
    assert guess_format(path) == form
    assert [document.text for document in open_documents([path]).documents()] == TEXTS
    with spooled(io.BytesIO(path.read_bytes())) as copy:
        assert guess_format(copy) == form


def test_packed_files_that_are_damaged_say_so(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "texts.gz", "text", TEXTS)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CorruptFileError, match=r"texts\.gz"):
        list(open_documents([path]).documents())


@pytest.mark.parametrize("header, name", [("text,text,id", "text"), ("id,text,id", "id")])
def test_two_columns_of_the_wanted_name_are_refused(header: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\none,two,three\n")
    with pytest.raises(InvalidInputError, match=f"a.csv, line 1: 2 columns '{name}'"):
        list(open_documents([tmp_path / "a.csv"], id_field="id").documents())


def test_long_fields_of_csv_leave_the_limit_of_the_process_alone(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "x" * (before + 1)
    (tmp_path / "a.csv").write_text(f"text\n{long}\nshort\n")
    documents = open_documents([tmp_path / "a.csv"]).documents()
    assert next(documents).text == long
    assert csv.field_size_limit() == before
    assert next(documents).text == "short"
