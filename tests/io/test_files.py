from __future__ import annotations

import json
import os
import pickle
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import Codes, FlatIndex
from bitkin.errors import CorruptFileError, FileAccessError, FileTooLargeError, InvalidInputError
from bitkin.io.layout import ALIGNMENT, Header, TensorEntry, place_tensors
from bitkin.io.reader import read_file
from bitkin.io.writer import TensorChunks, write_file
from tests.io.forgeries import forge, require_harmless
from tests.io.mutations import make_index, mutate, require_safe
from tests.truth import random_codes


def test_two_thousand_random_damages_give_an_equal_object_or_a_clear_error(tmp_path: Path) -> None:
    index = make_index()
    index.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    rng = np.random.default_rng(2)
    noticed = sum(require_safe(tmp_path / "bad", index, mutate(data, rng)) for _ in range(2000))
    assert noticed > 1900


def test_every_single_bit_of_a_small_file_is_guarded(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 3, 12, 2)
    codes.save(tmp_path / "codes")
    data = (tmp_path / "codes").read_bytes()
    for at in range(len(data)):
        raw = bytearray(data)
        raw[at] ^= 1 << (at % 8)
        (tmp_path / "bad").write_bytes(raw)
        with pytest.raises(CorruptFileError):
            bitkin.load(tmp_path / "bad")


def test_the_safetensors_library_reads_our_files(tmp_path: Path) -> None:
    safetensors = pytest.importorskip(
        "safetensors.numpy", reason="safetensors comes with the extra `dev`"
    )
    index = make_index()
    index.save(tmp_path / "index")
    tensors = safetensors.load_file(tmp_path / "index")
    assert np.array_equal(tensors["ids"], index.ids)
    codes = random_codes(np.random.default_rng(0), 5, 9, empty=False)
    codes.save(tmp_path / "codes")
    assert np.array_equal(safetensors.load_file(tmp_path / "codes")["words"], codes.words)


def test_every_tensor_starts_at_a_multiple_of_64_bytes(tmp_path: Path) -> None:
    arrays = {
        f"a{i}": np.ones(i, dtype=dtype)
        for i, dtype in enumerate(["u1", "<i2", "<f4", "<u8", "?", "<f2"])
    }
    write_file(tmp_path / "file", "Anything", {}, None, arrays)
    data = (tmp_path / "file").read_bytes()
    header = Header.decode(data[: 8 + int.from_bytes(data[:8], "little")], "file")
    offset = len(header.encode())
    assert offset % ALIGNMENT == 0
    assert all(e.start % ALIGNMENT == 0 for e in header.entries if not e.is_padding)
    stored = read_file(tmp_path / "file", mmap=True)
    for name, array in arrays.items():
        got = stored.tensor(name, array.dtype, (None,))
        assert got.ctypes.data % ALIGNMENT == 0 or got.size == 0
        assert np.array_equal(got, array)
    stored.require_no_more_tensors()


def test_a_tensor_in_pieces_is_the_tensor(tmp_path: Path) -> None:
    whole = np.arange(30).reshape(10, 3)
    chunks = TensorChunks(
        whole.dtype, whole.shape, lambda: iter([whole[:4], whole[4:4], whole[4:]])
    )
    write_file(tmp_path / "a", "Anything", {"p": [1, None, "ü"]}, "f", {"t": whole})
    write_file(tmp_path / "b", "Anything", {"p": [1, None, "ü"]}, "f", {"t": chunks})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_file(tmp_path / "b").parameter("p") == [1, None, "ü"]


def test_a_tensor_of_another_size_than_announced_leaves_no_file(tmp_path: Path) -> None:
    short = TensorChunks(np.dtype(np.int64), (4,), lambda: iter([np.arange(3)]))
    with pytest.raises(RuntimeError, match="24 bytes where 32 were announced"):
        write_file(tmp_path / "a", "Anything", {}, None, {"t": short})
    assert list(tmp_path.iterdir()) == []


def foreign_files() -> dict[str, bytes]:
    huge = {"t": {"dtype": "U8", "shape": [2**45], "data_offsets": [0, 2**45]}}
    text = json.dumps(huge).encode()
    entry = place_tensors([("words", np.dtype(np.uint64), (2**40, 1, 1))])
    terabytes = Header(
        "Codes", {"n_symbols": 64, "bits_per_symbol": 1}, None, tuple(entry)
    ).encode()
    deep = b'{"__metadata__":' + b"[" * 50_000
    return {
        "empty": b"",
        "seven bytes": b"1234567",
        "pickle": pickle.dumps({"a": np.arange(3)}),
        "text": b"hello, this is not a file of ours at all",
        "zip": b"PK\x03\x04" + bytes(60),
        "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
        "plain safetensors": struct.pack("<Q", len(text)) + text,
        "terabytes": terabytes,
        "header of terabytes": struct.pack("<Q", 2**43) + b"{}",
        "not json": struct.pack("<Q", 8) + b"{{{{{{{{",
        "deep": struct.pack("<Q", len(deep)) + deep,
        "a number": struct.pack("<Q", 2) + b"17",
        "nul": bytes(100),
    }


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("kind", foreign_files())
def test_foreign_files_are_refused(tmp_path: Path, kind: str, mmap: bool) -> None:
    (tmp_path / "file").write_bytes(foreign_files()[kind])
    with pytest.raises(CorruptFileError, match=r"file (is|has)"):
        bitkin.load(tmp_path / "file", mmap=mmap)


def crafted(
    class_name: str, parameters: Mapping[str, object], tensors: Mapping[str, Any], path: Path
) -> Path:
    write_file(path, class_name, parameters, None, tensors)
    return path


@pytest.mark.parametrize("mmap", [False, True])
def test_whole_files_with_impossible_contents_are_refused(tmp_path: Path, mmap: bool) -> None:
    path = tmp_path / "file"
    spec = {"n_symbols": 9, "bits_per_symbol": 1}
    words = np.zeros((2, 1, 1), dtype=np.uint64)
    blocks = np.zeros((1, 1, 1, 512), dtype=np.uint64)
    marks = np.full(8, 3, dtype=np.uint64)
    cases: list[tuple[str, Mapping[str, object], Mapping[str, Any], str]] = [
        ("os.system", spec, {"words": words}, "does not know"),
        ("Codes", {"n_symbols": 9}, {"words": words}, "lacks the parameter bits_per_symbol"),
        (
            "Codes",
            {"n_symbols": -9, "bits_per_symbol": 1},
            {"words": words},
            "impossible code spec",
        ),
        (
            "Codes",
            {"n_symbols": 1e300, "bits_per_symbol": 1},
            {"words": words},
            "impossible code spec",
        ),
        ("Codes", spec, {}, "lacks the tensor words"),
        ("Codes", spec, {"words": words[:, :, [0, 0]]}, "has a tensor words"),
        ("Codes", spec, {"words": words.astype(np.int64)}, "has a tensor words of int64"),
        ("Codes", spec, {"words": words, "more": words}, "do not belong there: more"),
        ("Codes", spec, {"words": words, "empty": np.zeros(3, dtype=bool)}, "has a tensor empty"),
    ]
    index = spec | {"next_id": 9}
    good = {"blocks": blocks, "ids": np.array([3, 5]), "searchable": marks}
    cases += [
        ("FlatIndex", index, good | {"ids": np.array([5, 3])}, "not in order"),
        ("FlatIndex", index, good | {"ids": np.array([3, 3])}, "not in order"),
        ("FlatIndex", index, good | {"ids": np.array([-3, 3])}, "not in order"),
        ("FlatIndex", index, good | {"ids": np.arange(513)}, "has a tensor blocks"),
        ("FlatIndex", spec | {"next_id": 5}, good, "impossible next id, 5"),
        ("FlatIndex", spec | {"next_id": "9"}, good, "impossible next id"),
        ("FlatIndex", spec | {"next_id": True}, good, "impossible next id"),
        ("FlatIndex", index, good | {"searchable": marks[:7]}, "has a tensor searchable"),
    ]
    for class_name, parameters, tensors, words_of_error in cases:
        crafted(class_name, parameters, tensors, path)
        with pytest.raises(CorruptFileError, match=words_of_error):
            bitkin.load(path, mmap=mmap)
    assert len(bitkin.load(crafted("FlatIndex", index, good, path), mmap=mmap)) == 2


@pytest.mark.parametrize("mmap", [False, True])
def test_wide_codes_in_the_layout_of_an_earlier_bitkin_are_refused_with_the_way_out(
    tmp_path: Path, mmap: bool
) -> None:
    spec = {"n_symbols": 320, "bits_per_symbol": 1, "next_id": 9}
    rest = {"ids": np.array([3, 5]), "searchable": np.full(8, 3, dtype=np.uint64)}
    before = {"blocks": np.zeros((1, 1, 5, 512), dtype=np.uint64)} | rest
    path = crafted("FlatIndex", spec, before, tmp_path / "index")
    with pytest.raises(InvalidInputError, match=r"codes of 320 bits .* Build the index again"):
        bitkin.load(path, mmap=mmap)
    now = {"blocks": np.zeros((32, 1, 5, 16), dtype=np.uint64)} | rest
    assert len(bitkin.load(crafted("FlatIndex", spec, now, path), mmap=mmap)) == 2
    for shape in ((31, 1, 5, 16), (16, 1, 5, 32)):
        wrong = {"blocks": np.zeros(shape, dtype=np.uint64)} | rest
        with pytest.raises(CorruptFileError, match="has a tensor blocks"):
            bitkin.load(crafted("FlatIndex", spec, wrong, path), mmap=mmap)


def test_codes_with_bits_beyond_their_symbols_are_refused_or_at_least_harmless(
    tmp_path: Path,
) -> None:
    spec = {"n_symbols": 9, "bits_per_symbol": 1}
    bad = np.full((1, 1, 1, 512), 2**64 - 1, dtype=np.uint64)
    tensors = {"blocks": bad, "ids": np.array([3, 5]), "searchable": np.full(8, 3, dtype=np.uint64)}
    path = crafted("FlatIndex", spec | {"next_id": 9}, tensors, tmp_path / "index")
    with pytest.raises(CorruptFileError, match="bits set where none may be"):
        bitkin.load(path)
    mapped = FlatIndex.load(path)
    queries = Codes.from_symbols(np.zeros((3, 9), dtype=int), 1)
    assert mapped.search(queries, 5).ids.shape == (3, 5)
    with pytest.raises(CorruptFileError, match="bits set where none may be"):
        mapped.verify()
    path = crafted("Codes", spec, {"words": bad[0, 0]}, tmp_path / "codes")
    with pytest.raises(CorruptFileError):
        bitkin.load(path)
    path = crafted("Codes", spec, {"words": bad[0, 0, :, :2].reshape(2, 1, 1)}, tmp_path / "codes")
    with pytest.raises(CorruptFileError, match="bits set where none may be"):
        bitkin.load(path)


def test_a_flag_that_is_neither_true_nor_false_is_refused(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 30, 9, empty=True)
    codes.save(tmp_path / "codes")
    data = bytearray((tmp_path / "codes").read_bytes())
    data[-1] = 7
    (tmp_path / "codes").write_bytes(data)
    for mmap in (False, True):
        with pytest.raises(CorruptFileError):
            bitkin.load(tmp_path / "codes", mmap=mmap)


def test_a_newer_format_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.io.layout.FORMAT_VERSION", 2)
    random_codes(np.random.default_rng(0), 3, 9).save(tmp_path / "codes")
    monkeypatch.undo()
    with pytest.raises(
        CorruptFileError, match=r"has format version 2, and this bitkin reads 1\. Upgrade"
    ):
        bitkin.load(tmp_path / "codes")


def test_a_class_is_loaded_only_as_itself(tmp_path: Path) -> None:
    random_codes(np.random.default_rng(0), 3, 9).save(tmp_path / "codes")
    with pytest.raises(InvalidInputError, match=r"holds Codes, not FlatIndex\. Use bitkin\.load"):
        FlatIndex.load(tmp_path / "codes")


def test_a_file_larger_than_memory_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_index().save(tmp_path / "index")
    monkeypatch.setattr("bitkin.memory.physical_memory", lambda: 1000)
    with pytest.raises(FileTooLargeError, match=r"this machine has 1,000\. Load it with mmap=True"):
        bitkin.load(tmp_path / "index")
    assert len(bitkin.load(tmp_path / "index", mmap=True)) == 40


def test_paths_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"nowhere cannot be read: No such file"):
        bitkin.load(tmp_path / "nowhere")
    with pytest.raises(FileAccessError, match="cannot be read"):
        bitkin.load(tmp_path)


def test_a_write_that_fails_leaves_the_old_file_whole_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index()
    path = tmp_path / "index"
    index.save(path)
    before = path.read_bytes()

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bitkin.io.writer.os.fsync", no_space)
    index.remove(index.ids[:5])
    with pytest.raises(
        FileAccessError,
        match=r"cannot be written: No space left on device\. What was there is unch",
    ):
        index.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


def test_paths_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    with pytest.raises(FileAccessError, match="is a folder"):
        codes.save(tmp_path)
    with pytest.raises(FileAccessError, match="No such file or directory"):
        codes.save(tmp_path / "no" / "folder")
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(FileAccessError, match="Permission denied"):
            codes.save(tmp_path / "codes")
        tmp_path.chmod(0o700)


def test_a_nul_in_a_path_is_an_access_error() -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    with pytest.raises(FileAccessError, match="cannot be written"):
        codes.save("a\0b")
    with pytest.raises(FileAccessError, match="cannot be read"):
        bitkin.load("a\0b")


def test_a_long_name_can_be_saved(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    codes.save(tmp_path / ("n" * 250))
    assert bitkin.load(tmp_path / ("n" * 250)) == codes


def test_saving_over_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    codes.save(tmp_path / "codes")
    (tmp_path / "codes").chmod(0o600)
    codes.save(tmp_path / "codes")
    assert (tmp_path / "codes").stat().st_mode & 0o777 == 0o600


def test_the_folder_is_synced_after_the_rename_and_may_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    synced = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        if synced[-1]:
            raise OSError(22, "folders cannot be synced here")
        fsync(handle)

    monkeypatch.setattr("bitkin.io.writer.os.fsync", watched)
    codes.save(tmp_path / "codes")
    assert synced == [False, True]
    assert bitkin.load(tmp_path / "codes") == codes


def test_saving_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    codes.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert bitkin.load(tmp_path / "real") == codes


def test_padding_names_are_ours_alone() -> None:
    assert TensorEntry("_pad3", np.dtype("u1"), (3,), 0).is_padding
    assert not TensorEntry("pads", np.dtype("u1"), (3,), 0).is_padding


def test_rightly_signed_nonsense_is_refused_or_harmless(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    forgeries = [data for data in (forge(rng) for _ in range(400)) if data is not None]
    refused = sum(require_harmless(tmp_path / "file", data) for data in forgeries)
    assert 0 < refused < len(forgeries)
