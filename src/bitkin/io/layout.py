"""The layout of bitkin's files: safetensors, in one canonical form.

    8 bytes   length of the header, little-endian
    header    JSON, padded with spaces so that the data starts at a multiple of 64 bytes
    data      tensors one after another, each starting at a multiple of 64 bytes

Gaps are not allowed in safetensors, so padding is a named tensor of zeros (`_pad0`, …); any
safetensors reader opens our files. `__metadata__` holds the format version, the class, its
parameters as JSON, the fingerprint, a CRC-32 of every tensor and one of the header itself. There is
exactly one header for given contents: what does not come out byte for byte when written again is
refused.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitkin.errors import CorruptFileError

FORMAT_VERSION = 1
ALIGNMENT = 64
MAX_HEADER_BYTES = 1 << 24
MAX_DIMENSIONS = 8
DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_PADDING_NAME = re.compile(r"_pad\d+")
_ADVICE = "Restore it from a copy, or write it again."


def damaged(name: str, what: str) -> CorruptFileError:
    """Return the error for a file that cannot be trusted."""
    return CorruptFileError(f"{name} {what}. {_ADVICE}")


def checksum(data: Any, so_far: int = 0) -> int:
    """CRC-32 of a buffer, continuing from `so_far`."""
    return zlib.crc32(data, so_far)


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where one tensor lies, from the start of the data."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    crc: int = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the tensor."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def stop(self) -> int:
        """First byte after it."""
        return self.start + self.n_bytes

    @property
    def is_padding(self) -> bool:
        """Whether it only fills the gap before the next one."""
        return _PADDING_NAME.fullmatch(self.name) is not None


def place_tensors(
    tensors: Iterable[tuple[str, np.dtype[Any], tuple[int, ...]]],
) -> list[TensorEntry]:
    """Lay tensors out after one another, with padding tensors where alignment needs them."""
    entries: list[TensorEntry] = []
    end = 0
    for name, dtype, shape in tensors:
        # bytes up to the next multiple of 64
        gap = -end % ALIGNMENT
        if gap:
            entries.append(
                TensorEntry(f"_pad{len(entries)}", DTYPES["U8"], (gap,), end, checksum(bytes(gap)))
            )
        entry = TensorEntry(name, dtype.newbyteorder("<"), tuple(map(int, shape)), end + gap)
        entries.append(entry)
        end = entry.stop
    return entries


@dataclass(frozen=True, slots=True)
class Header:
    """All that a file says about itself."""

    class_name: str
    parameters: dict[str, Any]
    fingerprint: str | None
    entries: tuple[TensorEntry, ...]

    @property
    def data_bytes(self) -> int:
        """Bytes after the header."""
        return self.entries[-1].stop if self.entries else 0

    def encode(self) -> bytes:
        """Return the bytes before the data: the length, the JSON and its padding."""
        # The header's checksum is taken with eight zeros in its place, then written over them.
        own_crc = checksum(self._json("0" * 8))
        text = self._json(f"{own_crc:08x}")
        # JSON allows spaces at its end, and safetensors readers skip them
        text += b" " * (-(8 + len(text)) % ALIGNMENT)
        return len(text).to_bytes(8, "little") + text

    def _json(self, own_crc: str) -> bytes:
        metadata = {
            "bitkin_format": str(FORMAT_VERSION),
            "class": self.class_name,
            "crc32": _dump({entry.name: f"{entry.crc:08x}" for entry in self.entries}),
            "header_crc32": own_crc,
            "parameters": _dump(self.parameters),
        }
        if self.fingerprint is not None:
            metadata["fingerprint"] = self.fingerprint
        tensors = {
            entry.name: {
                "dtype": _DTYPE_NAMES[entry.dtype],
                "shape": list(entry.shape),
                "data_offsets": [entry.start, entry.stop],
            }
            for entry in self.entries
        }
        return _dump({"__metadata__": metadata, **tensors}).encode("ascii")

    @classmethod
    def decode(cls, prefix: bytes, name: str) -> Header:
        """Read what `encode` wrote; anything else is a CorruptFileError."""
        try:
            content = json.loads(
                prefix[8:], object_pairs_hook=_no_duplicates, parse_constant=_no_constants
            )
            metadata = content.pop("__metadata__")
            version = metadata["bitkin_format"]
            if version != str(FORMAT_VERSION):
                raise CorruptFileError(
                    f"{name} has format version {version}, and this bitkin reads {FORMAT_VERSION}. "
                    "Upgrade bitkin."
                )
            crcs = json.loads(metadata["crc32"], object_pairs_hook=_no_duplicates)
            # offsets hold the end too; it follows from type and
            # shape, and `same` proves that they agree
            entries = tuple(
                TensorEntry(
                    key,
                    DTYPES[item["dtype"]],
                    _sizes(item["shape"]),
                    _sizes(item["data_offsets"])[0],
                    int(crcs[key], 16),
                )
                for key, item in content.items()
            )
            parameters = json.loads(metadata["parameters"], object_pairs_hook=_no_duplicates)
            fingerprint = metadata.get("fingerprint")
            if not isinstance(parameters, dict) or not all(
                isinstance(value, str) for value in metadata.values()
            ):
                raise TypeError("metadata are strings, and parameters an object")
            header = cls(metadata["class"], parameters, fingerprint, entries)
            # Written again it must come out byte for byte, its own checksum included: so no two
            # headers mean the same, and a flipped bit anywhere shows.
            same = header.encode() == prefix
        except CorruptFileError:
            raise
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            RecursionError,
            OverflowError,
        ):
            raise damaged(name, "is not a bitkin file, or its header is damaged") from None
        if not same:
            raise damaged(name, "has a damaged header")
        header._require_layout(name)
        return header

    def _require_layout(self, name: str) -> None:
        """Raise unless the tensors lie exactly as `place_tensors` lays them."""
        wanted = place_tensors((e.name, e.dtype, e.shape) for e in self.entries if not e.is_padding)
        if [(e.name, e.start, e.stop) for e in wanted] != [
            (e.name, e.start, e.stop) for e in self.entries
        ]:
            raise damaged(name, "has tensors that do not lie one after another")


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > MAX_DIMENSIONS:
        raise TypeError("not a short list")
    if not all(type(value) is int and 0 <= value < 2**63 for value in values):
        raise ValueError("not sizes")
    return tuple(values)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    # json.loads keeps the last of equal keys, so two readers could see two files
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_constants(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
