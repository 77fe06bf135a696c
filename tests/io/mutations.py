"""Random damage to a file, and what must come of it: an equal object or a CorruptFileError."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bitkin import FlatIndex
from bitkin.errors import CorruptFileError
from tests.truth import random_codes


def make_index(seed: int = 0) -> FlatIndex:
    """A small index with everything in it: planes, unused bits, empty rows, gaps between ids, a
    fingerprint.
    """
    rng = np.random.default_rng(seed)
    rows = random_codes(rng, 40, 70, 2, empty=True).with_fingerprint("0123456789abcdef")
    index = FlatIndex(rows.spec)
    index.add(rows, rng.permutation(100)[:40])
    return index


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, overwrite, cut, extend, insert, delete or swap, mostly in the header where it hurts."""
    raw = bytearray(data)
    header = min(len(raw), 8 + int.from_bytes(data[:8], "little"))
    at = int(rng.integers(0, header if rng.random() < 0.6 else len(raw)))
    kind = rng.integers(0, 8)
    if kind == 0:
        raw[at] ^= 1 << int(rng.integers(0, 8))
    elif kind == 1:
        raw[at] = int(rng.integers(0, 256))
    elif kind == 2:
        raw[at : at + 8] = rng.bytes(8)
    elif kind == 3:
        del raw[at:]
    elif kind == 4:
        raw += rng.bytes(int(rng.integers(1, 100)))
    elif kind == 5:
        raw[at:at] = rng.bytes(int(rng.integers(1, 9)))
    elif kind == 6:
        del raw[at : at + int(rng.integers(1, 9))]
    else:
        digits = [i for i in range(header) if chr(raw[i]).isdecimal()]
        for place in rng.permutation(digits)[:1]:
            raw[int(place)] = ord("0") + int(rng.integers(0, 10))
    return bytes(raw)


def same_index(a: FlatIndex, b: FlatIndex) -> bool:
    """Whether both hold the same rows under the same ids, from the same hasher."""
    return (
        a.spec == b.spec
        and a.fingerprint == b.fingerprint
        and np.array_equal(a.ids, b.ids)
        and a.codes(a.ids) == b.codes(b.ids)
        and a.snapshot.next_id == b.snapshot.next_id
    )


def require_safe(path: Path, original: FlatIndex, data: bytes) -> bool:
    """Load `data` both ways, each to its own promise; return whether the damage was noticed at
    all.
    """
    path.write_bytes(data)
    try:
        whole = FlatIndex.load(path, mmap=False)
    except CorruptFileError:
        noticed = True
    else:
        noticed = False
        assert same_index(whole, original)
    try:
        mapped = FlatIndex.load(path, mmap=True)
    except CorruptFileError:
        return noticed
    # Mapped: the header, all sizes and the ids are right; searching is safe whatever the codes are;
    # verify tells.
    assert np.array_equal(mapped.ids, original.ids)
    assert mapped.spec == original.spec
    mapped.search(original.codes(original.ids[:2]), 5)
    try:
        mapped.verify()
    except CorruptFileError:
        assert noticed
    else:
        assert same_index(mapped, original)
    return noticed
