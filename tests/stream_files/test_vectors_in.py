"""Vectors in bytes: however its bytes are cut on the way, the same vectors come out, as soon as
they can.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.stream_files.vectors_in import ByteStream, StreamBlock, StreamFormat, file_reader

RNG = np.random.default_rng(3)
X = RNG.standard_normal((9, 5)).astype(np.float32)


class Pieces:
    """A pipe that delivers bytes in given pieces."""

    def __init__(self, data: bytes, cuts: Sequence[int]) -> None:
        ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
        self.pieces = [data[a:b] for a, b in zip([0, *ends], ends, strict=False) if a < b]
        self.n_read = 0

    def read_into(self, room: memoryview) -> int:
        if not self.pieces:
            return 0
        piece = self.pieces.pop(0)
        if len(piece) > len(room):
            self.pieces.insert(0, piece[len(room) :])
            piece = piece[: len(room)]
        room[: len(piece)] = piece
        self.n_read += len(piece)
        return len(piece)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def json_lines(rows: Any) -> bytes:
    return b"".join(json.dumps(row.tolist()).encode() + b"\n" for row in rows)


def read_blocks(
    pipe: Pieces, form: str, dim: int | None, width: int | None = None, before: str = ""
) -> Iterator[StreamBlock]:
    return ByteStream(pipe.read_into, StreamFormat(form, dim), width, before, name="stdin").blocks()


def blocks_of(
    data: bytes, form: str = "auto", dim: int | None = None, cuts: Sequence[int] = ()
) -> Iterator[StreamBlock]:
    return read_blocks(Pieces(data, cuts), form, dim)


def rows_of(
    data: bytes, form: str = "auto", dim: int | None = None, cuts: Sequence[int] = ()
) -> Any:
    return np.concatenate([block.rows.copy() for block in blocks_of(data, form, dim, cuts)])


CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@given(cuts=CUTS, d=st.integers(1, 7), given_format=st.sampled_from(["f32", "auto"]))
def test_raw_float32_is_the_same_however_it_is_cut(
    cuts: list[int], d: int, given_format: str
) -> None:
    rows = np.arange(13 * d, dtype=np.float32).reshape(13, d)
    assert np.array_equal(rows_of(rows.tobytes(), given_format, d, cuts), rows)


@given(
    cuts=CUTS, dtype=st.sampled_from(["<f4", ">f4", "<f2", "<f8", ">f8", "u1", "<i8", ">i2", "?"])
)
def test_an_npy_stream_of_any_numbers_is_the_same_however_it_is_cut(
    cuts: list[int], dtype: str
) -> None:
    rows = (100 * X).astype(np.int8).astype(dtype)
    assert np.array_equal(rows_of(npy(rows), "auto", None, cuts), rows.astype(np.float32))


@given(cuts=CUTS, blanks=st.lists(st.integers(0, 2), min_size=9, max_size=9), newline=st.booleans())
def test_json_lines_are_the_same_however_they_are_cut_and_every_byte_is_counted(
    cuts: list[int], blanks: list[int], newline: bool
) -> None:
    lines = [
        b"\n" * n + json.dumps({"vector": row.tolist()}).encode()
        for n, row in zip(blanks, X, strict=True)
    ]
    data = b"\n".join(lines) + b"\n" * newline
    blocks = [block._replace(rows=block.rows.copy()) for block in blocks_of(data, cuts=cuts)]
    assert np.array_equal(np.concatenate([block.rows for block in blocks]), X)
    starts = np.cumsum([0, *(int(block.ends[-1]) for block in blocks)])
    ends = np.concatenate(
        [start + block.ends for start, block in zip(starts, blocks, strict=False)]
    )
    for row, end in enumerate(ends):
        assert json.loads(data[:end].splitlines()[-1])["vector"] == X[row].tolist()
        assert (
            np.array_equal(rows_of(data[end:]), X[row + 1 :])
            if row + 1 < len(X)
            else end == len(data)
        )


@pytest.mark.parametrize("form, dim", [("f32", 5), ("npy", None), ("jsonl", None)])
def test_a_vector_is_handed_on_before_more_is_read(form: str, dim: int | None) -> None:
    data = {"f32": X.tobytes(), "npy": npy(X), "jsonl": json_lines(X)}[form]
    rest = {"f32": X[2:].tobytes(), "npy": X[2:].tobytes(), "jsonl": json_lines(X[2:])}[form]
    pipe = Pieces(data, [len(data) - len(rest)])
    block = next(read_blocks(pipe, form, dim))
    assert np.array_equal(block.rows, X[:2])
    assert pipe.n_read == len(data) - len(rest)


def test_the_first_bytes_decide_what_a_stream_is() -> None:
    for data, dim in ((X.tobytes(), 5), (npy(X), None), (json_lines(X), None)):
        assert np.array_equal(rows_of(data, "auto", dim), X)
    like_json = np.frombuffer(b"[1, 2, 3", dtype="<f4").reshape(1, 2)
    # dim says that it is raw
    assert np.array_equal(rows_of(like_json.tobytes(), "auto", 2), like_json)
    other_words = b'{"name": "caf\xc3\xa9", "vector": [1, 2, 3]}\n'
    assert np.array_equal(rows_of(other_words), [[1, 2, 3]])
    with pytest.raises(
        InvalidInputError, match="looks like JSON lines, and dim says that it is raw float32"
    ):
        rows_of(json_lines(X), "auto", 5)


def test_no_bytes_are_no_vectors() -> None:
    assert (
        list(blocks_of(b"", "f32", 5))
        == list(blocks_of(b"", "auto", 5))
        == list(blocks_of(b"", "jsonl"))
        == []
    )
    assert list(blocks_of(npy(np.empty((0, 5))), "npy")) == []


def test_bytes_of_an_npy_stream_count_its_header() -> None:
    data = npy(X)
    blocks = [block._replace(rows=block.rows.copy()) for block in blocks_of(data, cuts=[200, 250])]
    assert len(blocks) == 3
    assert blocks[0].ends[0] == len(data) - X.nbytes + 20
    assert sum(int(block.ends[-1]) for block in blocks) == len(data)
    assert [block.form for block in blocks] == ["npy <f4"] * 3
    assert next(blocks_of(npy(X.astype(">f8")))).form == "npy >f8"
    assert next(blocks_of(X.tobytes(), dim=5)).form == "f32"
    assert next(blocks_of(json_lines(X))).form == "jsonl"


def test_bytes_without_a_header_do_not_go_on_after_an_npy_array_unless_told() -> None:
    def after_npy(data: bytes, form: str) -> list[StreamBlock]:
        return list(read_blocks(Pieces(data, []), form, None, 5, "npy >f8"))

    with pytest.raises(
        InvalidInputError, match=r"the stream so far was an [.]npy array of float64 numbers"
    ):
        after_npy(X.tobytes(), "auto")
    assert [len(block.rows) for block in after_npy(X.tobytes(), "f32")] == [9]
    assert [len(block.rows) for block in after_npy(npy(X), "auto")] == [9]
    assert [len(block.rows) for block in after_npy(json_lines(X), "auto")] == [9]
    assert after_npy(b"", "auto") == []


def test_numbers_that_float32_cannot_hold_are_infinite() -> None:
    rows = rows_of(npy(np.array([[1.0, 1e300], [-1e300, 2.0]])))
    assert np.array_equal(rows, [[1, np.inf], [-np.inf, 2]])
    assert np.array_equal(
        rows_of(b"[1, 1e999]\n[NaN, -Infinity]\n"), [[1, np.inf], [np.nan, -np.inf]], equal_nan=True
    )
    assert np.array_equal(rows_of(b"[1" + b"0" * 10_000 + b", 2]\n"), [[np.inf, 2]])


def test_whole_numbers_in_json_may_be_beyond_64_bits() -> None:
    assert np.array_equal(
        rows_of(b"[100000000000000000000, -3]\n"), np.array([[1e20, -3]], dtype=np.float32)
    )


def flaw_of(data: bytes, form: str = "auto", dim: int | None = None) -> tuple[int, str]:
    """How many vectors come before the flaw, and what is said of it."""
    n = 0
    try:
        for block in blocks_of(data, form, dim):
            n += len(block.rows)
    except (InvalidInputError, CorruptFileError) as flaw:
        return n, str(flaw)
    raise AssertionError("nothing was said")


@pytest.mark.parametrize(
    "data, n_before, words",
    [
        (
            b"[1, 2]\n[3, 4]\n[5]\n[6, 7]\n",
            2,
            "stdin, line 3: must be a vector of 2 numbers, got 1",
        ),
        (b"[1, 2]\n\n[3, 4\n", 1, "stdin, line 3: not JSON: "),
        (b"[1, 2]\n[3, 4", 1, "stdin, line 2: not JSON: "),
        (
            b"[1, 2]\nnull\n",
            1,
            "line 2: must be a list of numbers, or an object with one as 'vector'",
        ),
        (b'["1", "2"]\n', 0, "line 1: must be a list of numbers"),
        (b"[1, null]\n", 0, "line 1: must be a list of numbers"),
        (b"[true, false]\n", 0, "line 1: must be a list of numbers"),
        (b"[[1, 2]]\n", 0, "line 1: must be a list of numbers"),
        (b"[[1, 2], [3]]\n", 0, "line 1: must be a list of numbers"),
        (b"[]\n", 0, "line 1: must be a list of numbers"),
        (
            b'{"v": [1], "id": 2}\n',
            0,
            "line 1: no field 'vector'. It has 'v', 'id'. Name the field by field.",
        ),
        (b"[" * 100_000, 0, "line 1: JSON that cannot be read"),
        (b"[true, 1, 2]\n", 0, "line 1: must be a list of numbers"),
        (b"[1, 2]\n[\xff]\n", 1, "line 2: not UTF-8 at byte 1"),
    ],
    ids=[f"flaw{i}" for i in range(14)],
)
def test_a_flaw_in_json_lines_is_named_after_the_vectors_before_it(
    data: bytes, n_before: int, words: str
) -> None:
    n, said = flaw_of(data, "jsonl")
    assert (n, words in said) == (n_before, True), said


@pytest.mark.parametrize(
    "data, n_before, words",
    [
        (
            npy(X)[:-1],
            8,
            "ends in the middle of a vector: 19 of 20 bytes after 8 vectors of 5 float32 numbers",
        ),
        (npy(X)[:-20], 8, "ends after 8 of the 9 vectors that its .npy header announces"),
        (npy(X) + b"\0", 9, "continues after the 9 vectors"),
        (npy(X)[:50], 0, "must have a whole header"),
        (b"\x93NUM", 0, "is not an .npy array"),
        (b"no .npy at all", 0, "is not an .npy array: its first bytes are b'no .np'"),
        (b"", 0, "is not an .npy array"),
        (npy(np.asfortranarray(X)), 0, "Fortran order"),
        (npy(X[0]), 0, "must have shape (n, d), one vector a row, got (5,)"),
        (npy(X.astype(complex)), 0, "got complex numbers"),
        (npy(np.array([["a"]])), 0, "got text"),
    ],
    ids=[f"flaw{i}" for i in range(11)],
)
def test_a_flaw_in_an_npy_stream_is_named_after_the_vectors_before_it(
    data: bytes, n_before: int, words: str
) -> None:
    n, said = flaw_of(data, "npy")
    assert (n, words in said) == (n_before, True), said


def test_raw_float32_must_end_with_a_vector_and_have_a_length() -> None:
    n, said = flaw_of(X.tobytes()[:-3], "f32", 5)
    assert n == 8
    assert (
        "stdin ends in the middle of a vector: 17 of 20 bytes after 8 vectors of 5 float32 numbers"
        in said
    )
    assert "dim is missing" in flaw_of(X.tobytes(), "f32")[1]
    assert "dim is missing" in flaw_of(b"\x01\x02", "auto")[1]


def test_the_length_of_vectors_must_be_that_of_the_model() -> None:
    for data, form, dim in (
        (npy(X), "npy", None),
        (json_lines(X), "jsonl", None),
        (X.tobytes(), "f32", 5),
    ):
        with pytest.raises(InvalidInputError, match=r"must be .*6|of 6 numbers"):
            list(read_blocks(Pieces(data, []), form, dim, 6))


@pytest.mark.parametrize(
    ("data", "dim"),
    [
        (b"hello world\n", None),
        (b"a,b,c\n1,2,3\n", None),
        (b"0.5 0.25 0.125 0.75\n" * 8, 4),
    ],
)
def test_text_is_not_taken_for_raw_numbers(data: bytes, dim: int | None) -> None:
    first = data.decode().splitlines()[0]
    with pytest.raises(InvalidInputError, match=f"begins with the text '{first}'.*JSON lines"):
        list(ByteStream(file_reader(io.BytesIO(data), "in"), StreamFormat(dim=dim), None).blocks())
    if dim is not None:  # unless that is said
        layout = StreamFormat("f32", dim)
        assert list(ByteStream(file_reader(io.BytesIO(data), "in"), layout, None).blocks())
