"""Vector files as an attacker would write them: small good files of every format, changed where it
hurts.

File `number` of a seed is always the same, so that one that fails can be made again alone.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.errors import BitkinError
from bitkin.io.vectors import open_vectors
from bitkin.io.vectors.files.npy_header import parse_npy_header

ROWS, COLUMNS = 9, 6
MOST_ROWS_READ = 1 << 24
INTEGERS = [
    0,
    1,
    2,
    5,
    6,
    7,
    8,
    9,
    10,
    63,
    64,
    127,
    128,
    255,
    256,
    2**15,
    2**16,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
]
INTEGERS += [
    2**32,
    2**40,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -1,
    -2,
    -5000,
    -(2**31),
    -(2**63),
    -(2**63) + 5000,
]
FLOATS = [0.0, -0.0, 1e300, -1e300, 5e-324, float("nan"), float("inf"), float("-inf"), 1.5, 2.0**63]
DESCRS = [
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<f16",
    "|b1",
    "|i1",
    "|u1",
    "<i2",
    "<i4",
    "<i8",
    "<u8",
    ">i4",
    "<c16",
    "|S3",
    "<U2",
]
DESCRS += ["|O", "|V4", "<M8[s]", "f8", "<f3", "<U0", "<i16", "<x4"]

Rng = np.random.Generator


def good_files() -> dict[str, bytes]:
    """Return a small good file of every format and layout, by name."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    sparse = scipy.sparse.random_array((ROWS + 1, COLUMNS), density=0.4, rng=rng, format="csr")
    files = {
        "c.npy": _npy(dense),
        "fortran.npy": _npy(np.asfortranarray(dense.astype(np.float64))),
        "integers.npy": _npy(rng.integers(0, 99, (ROWS, COLUMNS))),
        "stored.npz": _zip({"a": _npy(dense), "b": _npy(np.arange(3))}, zipfile.ZIP_STORED),
        "packed.npz": _zip({"a": _npy(dense)}, zipfile.ZIP_DEFLATED),
        "fortran.npz": _zip({"a": _npy(np.asfortranarray(dense))}, zipfile.ZIP_DEFLATED),
        "x.fvecs": _vecs(dense),
        "x.bvecs": _vecs(rng.integers(0, 256, (ROWS, COLUMNS)).astype(np.uint8)),
        "x.ivecs": _vecs(rng.integers(-5, 5, (ROWS, COLUMNS)).astype(np.int32)),
    }
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        # arrays and matrices
        for matrix in (sparse.asformat(kind), scipy.sparse.csr_matrix(sparse).asformat(kind)):
            out = io.BytesIO()
            scipy.sparse.save_npz(out, matrix, compressed=kind != "coo")
            files[f"{kind}-{type(matrix).__name__.split('_')[-1]}.npz"] = out.getvalue()
    lines = [
        f"{row % 3} "
        + " ".join(f"{1 + column}:{value:.4g}" for column, value in enumerate(values) if value > 0)
        for row, values in enumerate(dense)
    ]
    text = ("\n".join(lines) + "\n1 qid:3 2:0.5 # a comment\n").encode()
    files |= {"x.svm": text, "x.libsvm.gz": gzip.compress(text, mtime=0)}
    return files | _parquet_files(dense) | _hdf5_files(dense)


def hostile_file(files: dict[str, bytes], seed: int, number: int) -> tuple[str, bytes]:
    """Return the name and the bytes of one hostile file."""
    with np.errstate(all="ignore"):  # numbers that do not fit their type are meant to be there
        return _hostile_file(files, np.random.default_rng([seed, number]))


def _hostile_file(files: dict[str, bytes], rng: Rng) -> tuple[str, bytes]:
    if rng.random() < 0.25:
        return _FORGERS[int(rng.integers(0, len(_FORGERS)))](rng)
    name = list(files)[int(rng.integers(0, len(files)))]
    data = files[name]
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        change = _CHANGES[Path(name).suffix] if rng.random() < 0.6 else _change_bytes
        data = change(data, rng)
    return name, data


def read_all(path: Path) -> bool:
    """Read a file in batches and by row; return whether it was read, and not refused by an error of
    ours.
    """
    try:
        source = open_vectors(path)
        n, d = source.shape
        assert n is not None
        assert n <= MOST_ROWS_READ, f"{n} rows are announced and nobody can read them"
        done = 0
        for first, batch in source.batches():
            assert (first, batch.shape[1]) == (done, d)
            assert batch.dtype == source.dtype
            numbers = batch.data if source.sparse else batch
            assert np.isfinite(numbers).all()
            if source.sparse:
                assert batch.has_canonical_format
                assert (
                    batch.indices.size == 0 or 0 <= batch.indices.min() <= batch.indices.max() < d
                )
            done += batch.shape[0]
        assert done == n
        some = [row for row in (n - 1, 0, n // 2) if n]
        assert source.gather(some).shape == (len(some), d)
    except BitkinError:
        return False
    return True


def _npy(array: npt.NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _zip(members: dict[str, bytes], packing: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data, packing)
    return out.getvalue()


def _vecs(rows: npt.NDArray[Any]) -> bytes:
    return b"".join(np.int32(len(row)).tobytes() + row.tobytes() for row in rows)


def _parquet_files(dense: npt.NDArray[np.float32]) -> dict[str, bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    files = {}
    for name, kind, options in (
        ("list.parquet", pa.list_(pa.float32()), {"row_group_size": 4}),
        ("fixed.parquet", pa.list_(pa.float64(), COLUMNS), {"compression": "gzip"}),
        ("plain.parquet", pa.list_(pa.float32()), {"compression": "none", "use_dictionary": False}),
        ("checked.parquet", pa.list_(pa.int32()), {"write_page_checksum": True}),
    ):
        rows = (
            np.round(dense * 9).tolist() if pa.types.is_integer(kind.value_type) else dense.tolist()
        )
        rows = (
            [list(map(int, row)) for row in rows] if pa.types.is_integer(kind.value_type) else rows
        )
        out = io.BytesIO()
        parquet.write_table(
            pa.table({"id": range(ROWS), "v": pa.array(rows, kind)}), out, **options
        )
        files[name] = out.getvalue()
    return files


def _hdf5_files(dense: npt.NDArray[np.float32]) -> dict[str, bytes]:
    import h5py

    files = {}
    for name, options, version in (
        ("whole.h5", {}, None),
        ("chunks.h5", {"chunks": (4, COLUMNS), "compression": "gzip", "shuffle": True}, None),
        ("grows.hdf5", {"chunks": (2, 3), "maxshape": (None, COLUMNS)}, "latest"),
    ):
        out = io.BytesIO()
        with h5py.File(out, "w", libver=version) as file:
            file.create_dataset("v", data=dense, **options)
            file["other"] = np.arange(3)
        files[name] = out.getvalue()
    return files


def _pick(values: list[Any], rng: Rng) -> Any:
    return values[int(rng.integers(0, len(values)))]


def _number_bytes(rng: Rng) -> bytes:
    """Return a number that hurts, as a file may hold it."""
    if rng.random() < 0.2:
        return np.array(_pick(FLOATS, rng)).astype(_pick(["<f4", "<f8"], rng)).tobytes()
    size: int = _pick([1, 2, 4, 8], rng)
    number: bytes = (int(_pick(INTEGERS, rng)) % 256**size).to_bytes(size, "little")
    return number if rng.random() < 0.9 else number[::-1]


def _change_bytes(data: bytes, rng: Rng) -> bytes:
    """Flip, overwrite, cut, extend, insert, delete or repeat."""
    raw = bytearray(data)
    at = int(rng.integers(0, len(raw))) if raw else 0
    kind = int(rng.integers(0, 9))
    if kind == 0 and raw:
        raw[at] ^= 1 << int(rng.integers(0, 8))
    elif kind == 1 and raw:
        raw[at] = int(rng.integers(0, 256))
    elif kind in (2, 3, 4):
        new = _number_bytes(rng)
        raw[at : at + len(new)] = new
    elif kind == 5:
        del raw[at:]
    elif kind == 6:
        raw[at:at] = rng.bytes(int(rng.integers(1, 20)))
    elif kind == 7:
        del raw[at : at + int(rng.integers(1, 20))]
    else:
        raw[at:at] = raw[at : at + int(rng.integers(1, 200))]
    return bytes(raw)


def _change_npy(data: bytes, rng: Rng) -> bytes:
    """Change the header of an array, with or without the size of its numbers, or its numbers."""
    try:
        shape, fortran, dtype, begin = parse_npy_header(data, "it")
    except BitkinError:  # changed before
        return _change_bytes(data, rng)
    numbers = bytearray(data[begin:])
    descr: str = dtype.str
    kind = int(rng.integers(0, 6))
    if kind == 0 and shape:
        at = int(rng.integers(0, len(shape)))
        shape = (*shape[:at], abs(int(_pick(INTEGERS, rng))), *shape[at + 1 :])
    elif kind == 1:
        shape = tuple(shape[::-1]) if rng.random() < 0.5 else (*shape, 1)
    elif kind == 2:
        descr = _pick(DESCRS, rng)
    elif kind == 3:
        fortran = not fortran
    elif numbers:
        new = _number_bytes(rng)
        step = max(1, dtype.itemsize) if rng.random() < 0.8 else 1
        at = int(rng.integers(0, len(numbers))) // step * step
        if dtype.kind in "iu":
            new = (int(_pick(INTEGERS, rng)) % 256**dtype.itemsize).to_bytes(
                dtype.itemsize, "little"
            )
        elif dtype.kind == "f":
            new = np.array(_pick(FLOATS, rng)).astype(dtype).tobytes()
        numbers[at : at + len(new)] = new
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    if kind < 3 and rng.random() < 0.5:  # let the size fit again, where it can
        wanted = int(np.prod([min(size, 4096) for size in shape], dtype=np.float64)) * max(
            1, dtype.itemsize
        )
        numbers = (numbers * (1 + min(wanted, 1 << 20) // max(1, len(numbers))))[
            : min(wanted, 1 << 20)
        ]
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(numbers)


def _change_npz(data: bytes, rng: Rng) -> bytes:
    """Change members and pack them again, checksums and all."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {
                info.filename.removesuffix(".npy"): archive.read(info)
                for info in archive.infolist()
            }
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        OSError,
        EOFError,
        RuntimeError,
        MemoryError,
    ):
        return _change_bytes(data, rng)
    if not members:
        return _change_bytes(data, rng)
    name = _pick(sorted(members), rng)
    kind = int(rng.integers(0, 12))
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[
            _pick(
                ["data", "indices", "indptr", "row", "col", "coords", "offsets", "shape", "x"], rng
            )
        ] = members[name]
    elif kind == 2 and "format" in members:
        members["format"] = _npy(
            np.array(_pick([b"csr", b"csc", b"coo", b"bsr", b"dia", b"lil", "csr"], rng))
        )
    elif kind == 3 and "shape" in members:
        sides = [
            abs(int(_pick(INTEGERS, rng))) % 2**63 if rng.random() < 0.5 else ROWS + 1
            for _ in range(2)
        ]
        members["shape"] = _npy(np.array(sides))
    elif kind in (4, 5) and {"indptr", "indices"} & set(members):
        key = "indptr" if "indptr" in members and kind == 4 else "indices"
        members[key] = _npy(_wild_integers(rng))
    else:
        members[name] = (
            _change_npy(members[name], rng)
            if rng.random() < 0.8
            else _change_bytes(members[name], rng)
        )
    return _zip(members, _pick([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], rng))


def _wild_integers(rng: Rng) -> npt.NDArray[Any]:
    wild = [
        int(_pick(INTEGERS, rng)) % 2**63 * int(rng.choice([1, -1]))
        for _ in range(int(rng.integers(0, 14)))
    ]
    if rng.random() < 0.5:
        wild = [0, *wild, int(rng.integers(0, 30))]
    numbers = np.array(wild, dtype=np.int64)
    return (
        numbers if rng.random() < 0.7 else numbers.astype(_pick(["<i4", "<u8", ">i8", "<i2"], rng))
    )


def _change_vecs(data: bytes, rng: Rng) -> bytes:
    """Change a dimension, of the first row or of another."""
    raw = bytearray(data)
    width = max(1, len(raw) // ROWS)
    at = width * int(rng.integers(0, ROWS)) if rng.random() < 0.5 else 0
    raw[at : at + 4] = (int(_pick(INTEGERS, rng)) % 2**32).to_bytes(4, "little")
    return bytes(raw)


def _change_text(data: bytes, rng: Rng) -> bytes:
    tokens = data.split(b" ")
    at = int(rng.integers(0, len(tokens)))
    value = _pick([str(one).encode() for one in (*INTEGERS, *FLOATS)], rng)
    kind = int(rng.integers(0, 5))
    if kind == 0:
        tokens[at] = value + b":1"
    elif kind == 1:
        tokens[at] = b"3:" + value
    elif kind == 2:
        tokens[at] = _pick(
            [
                b"",
                b":",
                b"::",
                b"1:1:1",
                b"#",
                b"qid:1",
                b"\x00",
                b"\xff",
                b"1e5:1",
                b"2:1_0",
                b"\n",
            ],
            rng,
        )
    elif kind == 3:
        tokens.insert(at, tokens[int(rng.integers(0, len(tokens)))])
    else:
        del tokens[at]
    return b" ".join(tokens)


def _change_packed_text(data: bytes, rng: Rng) -> bytes:
    try:
        text = gzip.decompress(data)
    except (OSError, EOFError, ValueError, zlib.error):
        return _change_bytes(data, rng)
    return gzip.compress(_change_text(text, rng), mtime=0)


def _forged_sparse(rng: Rng) -> tuple[str, bytes]:
    """A sparse matrix whose arrays fit one another, but for a number or two."""
    kind = _pick(["csr", "csc", "coo", "bsr", "dia"], rng)
    n, d, nnz = int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(0, 12))
    side, across = (n, d) if kind != "csc" else (d, n)
    block = (
        (int(rng.integers(0, 3)), int(rng.integers(0, 3)))
        if kind == "bsr" and rng.random() < 0.5
        else (1, 1)
    )
    offsets = np.sort(np.concatenate([[0], rng.integers(0, nnz + 1, side - 1), [nnz]])).astype(
        np.int64
    )
    parts: dict[str, Any] = {"format": np.array(kind.encode()), "shape": np.array([n, d])}
    if kind == "coo":
        parts |= {
            "data": np.ones(nnz),
            "row": rng.integers(0, n, nnz),
            "col": rng.integers(0, d, nnz),
        }
    elif kind == "dia":
        parts |= {"data": np.ones((2, d)), "offsets": np.array([0, 1])}
    else:
        parts |= {
            "data": np.ones((nnz, *block) if kind == "bsr" else nnz),
            "indices": rng.integers(0, across, nnz),
        }
        parts["indptr"] = offsets
    for _ in range(int(rng.integers(1, 4))):
        key = _pick(
            [key for key in parts if key not in ("format", "data") and parts[key].size], rng
        )
        inside = (
            slice(1, -1)
            if key == "indptr" and len(parts[key]) > 2 and rng.random() < 0.8
            else slice(None)
        )
        numbers = parts[key][inside]
        value = int(_pick(INTEGERS, rng)) % 2**64
        numbers[int(rng.integers(0, len(numbers)))] = value - 2**64 if value >= 2**63 else value
    if rng.random() < 0.2:
        key = _pick([key for key in parts if key != "format"], rng)
        parts[key] = parts[key].astype(_pick(["<i4", "<u8", ">i8", "<f2", ">f8", "?"], rng))
    packing = _pick([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], rng)
    return f"forged-{kind}.npz", _zip({key: _npy(array) for key, array in parts.items()}, packing)


def _forged_dense(rng: Rng) -> tuple[str, bytes]:
    """Zeros, packed a thousandfold."""
    shape = _pick(
        [(2**20, 3), (3, 2**20), (2**20, 1), (1, 2**20), (0, 2**31 - 1), (2**10, 2**10)], rng
    )
    array = np.zeros(
        shape, dtype=_pick(["<f2", "<i8", "<f4", "?"], rng), order=_pick(["C", "F"], rng)
    )
    return "zeros.npz", _zip({"a": _npy(array)}, zipfile.ZIP_DEFLATED)


def _forged_hdf5(rng: Rng) -> tuple[str, bytes]:
    """A dataset that announces what it does not hold: rows of fill values, and chunks larger than
    the file.
    """
    import h5py

    n, d = (
        int(_pick([1, 9, 2**20, 2**31 - 1, 2**40], rng)),
        int(_pick([1, 6, 2**20, 2**31 - 1], rng)),
    )
    chunks = (
        tuple(int(_pick([1, 6, 2**10, 2**20], rng)) for _ in range(2))
        if rng.random() < 0.7
        else None
    )
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        n = min(n, 2**58 // d)  # HDF5 counts bytes in 64 bits
        space = h5py.h5s.create_simple((n, d), (n, d))
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
        if (
            chunks is not None
            and chunks[0] <= n
            and chunks[1] <= d
            and 8 * chunks[0] * chunks[1] < 2**32
        ):
            settings.set_chunk(chunks)
            if rng.random() < 0.5:
                settings.set_deflate(9)
        kind = h5py.h5t.py_create(np.dtype(_pick(["<f4", ">f8", "<i2"], rng)))
        made = h5py.h5d.create(file.id, b"v", kind, space, settings)
        if settings.get_layout() == h5py.h5d.CHUNKED and rng.random() < 0.7 and n * d < 2**22:
            h5py.Dataset(made)[: min(n, 3), : min(d, 3)] = 1
    return "forged.h5", out.getvalue()


def _forged_parquet(rng: Rng) -> tuple[str, bytes]:
    """Columns of few bytes and many numbers, and of types that are no vectors."""
    import pyarrow as pa
    from pyarrow import parquet

    n, d = _pick([(1, 2**20), (2**18, 4), (9, 6), (0, 6), (3, 0)], rng)
    inner = _pick(
        [pa.float32(), pa.float64(), pa.int8(), pa.uint64(), pa.float16(), pa.bool_(), pa.string()],
        rng,
    )
    zero = "" if inner == pa.string() else 0
    values = (
        pa.array([zero] * 1, pa.int64() if zero == 0 else inner).cast(inner)
        if inner != pa.float16()
        else None
    )
    if values is None:
        values = pa.array(np.zeros(1, dtype=np.float16))
    flat = pa.concat_arrays([values.take(pa.array(np.zeros(n * d, dtype=np.int64)))])
    kind = int(rng.integers(0, 3))
    if kind == 0 and d:
        lists: Any = pa.FixedSizeListArray.from_arrays(flat, d)
    elif kind == 1:
        lists = pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * d), flat)
    else:
        lists = pa.LargeListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int64) * d), flat)
    if rng.random() < 0.1 and n:
        lists = pa.concat_arrays([lists, pa.nulls(1, lists.type)])
    out = io.BytesIO()
    parquet.write_table(pa.table({"v": lists}), out)
    data = out.getvalue()
    return "forged.parquet", data if rng.random() < 0.5 else _change_bytes(data, rng)


def _forged_text(rng: Rng) -> tuple[str, bytes]:
    """Long lines and many, packed a thousandfold."""
    pair = _pick(
        [b" 1:0", b" 2147483646:1", b" 2147483647:1", b" 9999999999:1", b" 1:" + b"0" * 4096], rng
    )
    line = b"1" + pair * int(_pick([1, 2, 2**10], rng)) + b"\n"
    text = line * int(_pick([1, 2**6], rng)) if len(line) < 2**20 else line
    if rng.random() < 0.2:
        text = b"1 " + b" ".join(b"%d:1" % column for column in range(1, 2**15)) + b"\n" + text
    return (
        ("forged.svm", text)
        if rng.random() < 0.5
        else ("forged.svm.gz", gzip.compress(text, mtime=0))
    )


_FORGERS: list[Callable[[Rng], tuple[str, bytes]]] = [
    *[_forged_sparse] * 6,
    _forged_dense,
    *[_forged_hdf5] * 2,
    _forged_parquet,
    _forged_text,
]
_CHANGES: dict[str, Callable[[bytes, Rng], bytes]] = {
    ".npy": _change_npy,
    ".npz": _change_npz,
    ".fvecs": _change_vecs,
    ".bvecs": _change_vecs,
    ".ivecs": _change_vecs,
    ".svm": _change_text,
    ".gz": _change_packed_text,
    ".parquet": _change_bytes,
    ".h5": _change_bytes,
    ".hdf5": _change_bytes,
}
