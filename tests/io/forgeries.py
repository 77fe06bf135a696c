"""Files that are whole and rightly signed, and make no sense: the reader must not rely on
checksums.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import bitkin
from bitkin import Codes, FlatIndex
from bitkin.errors import CorruptFileError
from bitkin.io.layout import DTYPES, Header, checksum, place_tensors

VALUES: list[Any] = [
    0,
    1,
    2,
    -1,
    9,
    64,
    65,
    512,
    2**31 - 65,
    2**31 - 64,
    2**62,
    2**63 - 1,
    2**63,
    2**64,
    True,
    None,
]
VALUES += ["1", 1.0, 1e300, [1], {"a": 1}, 10**400]
NAMES = ["words", "empty", "blocks", "ids", "searchable", "_pad1", "x"]
SIZES = [0, 1, 2, 3, 2**20, 2**40, 2**62, 2**63 - 1]


def forge(rng: np.random.Generator) -> bytes | None:
    """Return a file with up to three absurd changes and right checksums, or None where none can be
    written.
    """
    class_name = str(rng.choice(["Codes", "FlatIndex"]))
    n_symbols, bits, rows = (
        int(rng.choice([1, 9, 64, 65])),
        int(rng.integers(1, 3)),
        int(rng.integers(0, 4)),
    )
    words, n_blocks = -(-n_symbols // 64), -(-rows // 512)
    parameters: dict[str, Any] = {"n_symbols": n_symbols, "bits_per_symbol": bits}
    tensors: list[tuple[str, str, tuple[int, ...]]] = [
        ("words", "U64", (rows, bits, words)),
        ("empty", "BOOL", (rows,)),
    ]
    if class_name == "FlatIndex":
        parameters["next_id"] = rows
        tensors = [("blocks", "U64", (n_blocks, bits, words, 512)), ("ids", "I64", (rows,))]
        tensors.append(("searchable", "U64", (8 * n_blocks,)))
    for _ in range(int(rng.integers(0, 4))):
        _change(parameters, tensors, rng)
    if len({name for name, _, _ in tensors}) < len(tensors):
        return None
    entries = place_tensors((name, DTYPES[dtype], shape) for name, dtype, shape in tensors)
    size = entries[-1].stop if entries else 0
    data = bytearray(size if size < 2**20 else 0)
    for entry in entries if data else []:
        if entry.name == "ids" and entry.dtype == np.int64:
            data[entry.start : entry.stop] = np.arange(entry.n_bytes // 8).astype("<i8").tobytes()
        elif not entry.is_padding and rng.random() < 0.5:
            data[entry.start : entry.stop] = rng.bytes(entry.n_bytes)
    entries = [replace(e, crc=checksum(bytes(data[e.start : e.stop]))) for e in entries]
    return Header(class_name, parameters, None, tuple(entries)).encode() + bytes(data)


def require_harmless(path: Path, data: bytes) -> bool:
    """Load and use a forgery both ways; return whether it was refused when read whole."""
    path.write_bytes(data)
    refused = False
    for mmap in (True, False):
        try:
            loaded = bitkin.load(path, mmap=mmap)
            refused = False
        except CorruptFileError:
            refused = True
            continue
        if loaded.spec.n_symbols > 1000:
            continue
        queries = Codes.from_symbols(
            np.zeros((2, loaded.spec.n_symbols), dtype=int), loaded.spec.bits_per_symbol
        )
        if isinstance(loaded, FlatIndex):
            loaded.search(queries, 3)
            loaded.search_radius(queries, 1)
        else:
            bitkin.distances(queries, loaded)
            loaded.symbols()
        try:
            loaded.verify()
        except CorruptFileError:
            assert mmap
    return refused


def _change(
    parameters: dict[str, Any],
    tensors: list[tuple[str, str, tuple[int, ...]]],
    rng: np.random.Generator,
) -> None:
    kind = int(rng.integers(0, 6))
    if kind == 0:
        parameters[str(rng.choice(list(parameters)))] = VALUES[int(rng.integers(0, len(VALUES)))]
        return
    if kind == 5 or not tensors:
        shape = (int(rng.integers(0, 3)),) * int(rng.integers(0, 5))
        tensors.insert(0, (str(rng.choice(NAMES)), str(rng.choice(list(DTYPES))), shape))
        return
    i = int(rng.integers(0, len(tensors)))
    name, dtype, shape = tensors.pop(i)
    if kind == 1 and shape:
        at = int(rng.integers(0, len(shape)))
        tensors.insert(
            i,
            (name, dtype, (*shape[:at], SIZES[int(rng.integers(0, len(SIZES)))], *shape[at + 1 :])),
        )
    elif kind == 2:
        tensors.insert(i, (name, str(rng.choice(list(DTYPES))), shape))
    elif kind == 3:
        tensors.insert(i, (str(rng.choice(NAMES)), dtype, shape))
