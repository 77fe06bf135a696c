"""Input that cannot be deduplicated on a cluster, and what is said of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dask.array
import pandas as pd
import pytest
from dask import dataframe
from distributed import Client

from bitkin.distributed import dedup
from bitkin.errors import ArgumentError, FileAccessError, InvalidInputError
from tests.distributed.test_dedup import bag_of


@pytest.mark.parametrize("cell", [None, 7, b"bytes", ["list"]])
def test_a_cell_that_is_no_string_is_named(two_workers: Client, cell: Any) -> None:
    bag = bag_of(["a", "b"], [], ["c", cell])
    with pytest.raises(InvalidInputError, match=r"texts must be strings, got .*") as refused:
        dedup(bag, client=two_workers)
    assert "in partition 2, row 1. Decode bytes first" in str(refused.value)


def test_a_missing_cell_of_a_data_frame_is_named(here: Client) -> None:
    frame = dataframe.from_pandas(pd.DataFrame({"text": ["a", "b", "c", None]}), npartitions=2)
    with pytest.raises(InvalidInputError, match=r"in partition 1, row 1\."):
        dedup(frame, client=here)


def test_an_unknown_column_is_told_with_those_there(here: Client) -> None:
    frame = dataframe.from_pandas(pd.DataFrame({"title": ["a"], "body": ["b"]}), npartitions=1)
    with pytest.raises(ArgumentError, match=r"column: no column 'text'. It has 'title', 'body'."):
        dedup(frame, client=here)
    with pytest.raises(ArgumentError, match=r"no column 'txt'"):
        dedup(frame, column="txt", client=here)
    with pytest.raises(ArgumentError, match=r"column: got 'body' for the series 'title'"):
        dedup(frame["title"], column="body", client=here)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (dask.array.ones(3), "texts must be a dask bag of strings, a dask data frame"),
        (pd.DataFrame({"text": ["a"]}), "texts must be a list of strings, got a data frame"),
        ("a text", "texts must be a list of texts, got one: 'a text'"),
        (7, "texts must be a list of texts, got int"),
        (["a", None], "texts must be strings, got None at position 1"),
    ],
)
def test_what_holds_no_texts_is_refused(here: Client, texts: Any, words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        dedup(texts, client=here)
    assert str(refused.value).startswith(words)


@pytest.mark.parametrize("texts", [["a"], bag_of(["a"])])
def test_a_column_of_what_has_none_is_refused(here: Client, texts: Any) -> None:
    with pytest.raises(ArgumentError, match="column: names a column of data frames"):
        dedup(texts, column="text", client=here)


def test_missing_files_and_folders_are_told_at_once(here: Client, tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="there"):
        dedup(tmp_path / "there", client=here)
    (tmp_path / "one.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(FileAccessError, match=r"two.jsonl"):
        dedup([tmp_path / "one.jsonl", tmp_path / "two.jsonl"], client=here)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileAccessError, match="empty must hold files of texts, and has none"):
        dedup(tmp_path / "empty", client=here)


def test_files_without_a_document_are_refused(here: Client, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "b.jsonl").write_text("\n\n")
    with pytest.raises(InvalidInputError, match=r"a\.jsonl, .*b\.jsonl: no documents\."):
        dedup(tmp_path, client=here)


def test_a_line_that_is_no_document_is_named(two_workers: Client, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\n{"txt": "b"}\n')
    with pytest.raises(InvalidInputError, match=r"b\.jsonl, line 2: no field 'text'"):
        dedup(tmp_path, client=two_workers)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 0}, "threshold must be a number above 0 and up to 1, got 0"),
        ({"threshold": 1.1}, "threshold must be a number above 0 and up to 1, got 1.1"),
        ({"pairs": "some"}, "pairs must be one of 'links', 'all', got 'some'"),
        ({"shingle": "lines"}, "shingle must be one of 'words', 'chars', got 'lines'"),
        ({"size": 0}, "size must be between 1 and 2147483647, got 0"),
        ({"n_hashes": 0}, "n_hashes must be between 1 and 1048576, got 0"),
        ({"lower": "yes"}, "lower must be True or False, got 'yes'"),
        ({"client": "tcp://there"}, "client must be a distributed.Client, got a str"),
    ],
)
def test_arguments_are_checked_before_any_work(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        dedup(["a"], **options)
    assert str(refused.value).startswith(words)


def test_without_a_client_it_says_how_to_make_one() -> None:
    code = (
        "from bitkin.distributed import dedup\n"
        "try: dedup(['a'])\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ClusterError There is no Dask client. Make one first")
