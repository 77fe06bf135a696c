"""Reading bitkin files: nothing is trusted unchecked, and nothing larger than the file itself is
ever allocated.
"""

from __future__ import annotations

import mmap as mmap_module
import os
from dataclasses import replace
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bitkin import memory
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, FileTooLargeError
from bitkin.io.layout import ALIGNMENT, MAX_HEADER_BYTES, Header, TensorEntry, checksum, damaged
from bitkin.io.regular import open_regular


class StoredFile:
    """A file whose header and sizes are checked; the tensors too, unless they are mapped.

    Tensors are read-only views of one buffer: the file's bytes in memory, or the mapped file.
    """

    def __init__(
        self, name: str, header: Header, data: npt.NDArray[np.uint8], mapped: bool
    ) -> None:
        self.name = name
        self.class_name = header.class_name
        self.fingerprint = header.fingerprint
        self.mapped = mapped
        self._parameters = header.parameters
        self._entries = {entry.name: entry for entry in header.entries}
        self._data = data
        self._taken: set[str] = set()

    def part(self, prefix: str, class_name: str, parameters: dict[str, Any]) -> StoredFile:
        """Return the tensors whose names begin with `prefix`, without it, as a file of their own
        that holds one object.
        """
        entries = tuple(
            replace(entry, name=entry.name.removeprefix(prefix))
            for entry in self._entries.values()
            if entry.name.startswith(prefix)
        )
        header = Header(class_name, parameters, str(parameters.get("fingerprint")), entries)
        return StoredFile(self.name, header, self._data, self.mapped)

    @property
    def tensor_names(self) -> list[str]:
        """The names of all tensors but padding, sorted."""
        return sorted(entry.name for entry in self._entries.values() if not entry.is_padding)

    @property
    def contents(self) -> str:
        """What the file holds in a few words: class, parameters, shapes and checksums."""
        tensors = [
            f"{entry.name} {entry.dtype.str} {entry.shape} {entry.crc:08x}"
            for entry in self._entries.values()
        ]
        parameters = sorted(self._parameters.items())
        return f"{self.class_name} {self.fingerprint} {parameters} {tensors}"

    def parameter(self, key: str) -> Any:
        """Return one of the class's parameters."""
        if key not in self._parameters:
            raise damaged(self.name, f"lacks the parameter {key}")
        return self._parameters[key]

    def optional_parameter(self, key: str) -> Any:
        """Return one of the class's parameters, or None where the file has none of that name."""
        return self._parameters.get(key)

    def shape_of(self, key: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor, or None where the file has none of that name."""
        entry = self._entries.get(key)
        return None if entry is None else entry.shape

    def tensor(
        self, key: str, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
    ) -> npt.NDArray[Any]:
        """Return a tensor that must have this dtype and shape; None stands for any size."""
        entry = self._entries.get(key)
        if entry is None:
            raise damaged(self.name, f"lacks the tensor {key}")
        fits = len(entry.shape) == len(shape) and all(
            want is None or want == got for want, got in zip(shape, entry.shape, strict=True)
        )
        if not fits or entry.dtype != np.dtype(dtype):
            raise damaged(
                self.name,
                f"has a tensor {key} of {entry.dtype} {entry.shape} where {shape} must be",
            )
        # what nothing asks for is found by `require_no_more_tensors`
        self._taken.add(key)
        raw = self._data[entry.start : entry.stop]
        # NumPy takes any byte for a bool, and one that is
        # neither 0 nor 1 breaks sums and comparisons
        if entry.dtype == np.bool_ and raw.size and raw.max() > 1:
            raise damaged(self.name, f"has bytes in {key} that are neither true nor false")
        return raw.view(entry.dtype).reshape(entry.shape)

    def optional_tensor(
        self, key: str, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
    ) -> npt.NDArray[Any] | None:
        """Return a tensor, or None where the file has none of that name."""
        return self.tensor(key, dtype, shape) if key in self._entries else None

    def require_no_more_tensors(self) -> None:
        """Raise when the file holds a tensor that was not asked for."""
        extra = [name for name in self.tensor_names if name not in self._taken]
        if extra:
            raise damaged(self.name, f"has tensors that do not belong there: {', '.join(extra)}")

    def verify(self, *keys: str) -> None:
        """Compare the checksums of these tensors, or of all."""
        for entry in self._entries.values():
            if keys and entry.name not in keys:
                continue
            self._verify(entry)

    def _verify(self, entry: TensorEntry) -> None:
        raw = self._data[entry.start : entry.stop]
        if checksum(raw.data) != entry.crc or (entry.is_padding and raw.any()):
            raise damaged(self.name, f"is damaged: the checksum of {entry.name} does not fit")


def read_file(path: str | os.PathLike[str], *, mmap: bool = False) -> StoredFile:
    """Open one of our files. Without `mmap` everything is verified, with it the header and all
    sizes.
    """
    name = os.fspath(path)
    try:
        with open_regular(path) as file:
            header, start = _read_header(file, name)
            data = _map(file, start) if mmap else _read(file, start, name)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, BitkinError):
            raise
        raise FileAccessError(
            f"{name} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    stored = StoredFile(name, header, data, mapped=mmap)
    if not mmap:
        stored.verify()
    return stored


# What files of others begin with; as a bitkin file, each would have an impossible header length.
_OTHER_FILES = {
    b"\x93NUMPY": "a NumPy array",
    b"PK\x03\x04": "a zip archive, such as an .npz file of arrays",
    b"PAR1": "a Parquet file",
    b"\x89HDF": "an HDF5 file",
}

_TEXT_BYTES = 56  # that are looked at, beside the first 8


def _read_header(file: IO[bytes], name: str) -> tuple[Header, int]:
    size = os.fstat(file.fileno()).st_size
    length_bytes = file.read(8)
    length = int.from_bytes(length_bytes, "little")
    if len(length_bytes) < 8 or not 2 <= length <= MAX_HEADER_BYTES or 8 + length > size:
        for begin, kind in _OTHER_FILES.items():
            if length_bytes.startswith(begin):
                raise CorruptFileError(
                    f"{name} is {kind}, not a bitkin file. Are two arguments swapped? Models come "
                    "from bitkin fit, codes from bitkin encode, indexes from bitkin index."
                )
        if _is_text(length_bytes + file.read(_TEXT_BYTES)):
            raise CorruptFileError(
                f"{name} is not a bitkin file, but text. Models come from bitkin fit, codes from "
                "bitkin encode, indexes from bitkin index."
            )
        raise damaged(name, "is not a bitkin file, or is cut short")
    text = file.read(length)
    if len(text) < length:
        raise damaged(name, "is cut short")
    header = Header.decode(length_bytes + text, name)
    expected = 8 + length + header.data_bytes
    # the size of the file proves all sizes in the header: nothing larger is ever allocated
    if size != expected:
        raise damaged(name, f"has {size:,} bytes where its header announces {expected:,}")
    return header, 8 + length


def _is_text(begin: bytes) -> bool:
    """Tell whether a file that begins so is for people to read; one of ours has bytes of zero
    there.
    """
    text = begin.decode("utf-8", errors="ignore")  # the last character may be cut
    whole = len(text.encode()) > len(begin) - 4
    return bool(text) and whole and all(c.isprintable() or c.isspace() for c in text)


def _map(file: IO[bytes], start: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(
        mmap_module.mmap(file.fileno(), 0, access=mmap_module.ACCESS_READ), dtype=np.uint8
    )[start:]


def _read(file: IO[bytes], start: int, name: str) -> npt.NDArray[np.uint8]:
    n_bytes = os.fstat(file.fileno()).st_size - start
    if n_bytes > memory.physical_memory():
        raise FileTooLargeError(
            f"{name} needs {n_bytes:,} bytes and this machine has {memory.physical_memory():,}. "
            "Load it with mmap=True."
        )
    try:
        room = np.empty(n_bytes + ALIGNMENT, dtype=np.uint8)
    except MemoryError:
        raise FileTooLargeError(
            f"{name} needs {n_bytes:,} bytes of memory. Load it with mmap=True."
        ) from None
    # Tensors start at multiples of 64 bytes from here: align the first, and all of them are.
    first = -room.ctypes.data % ALIGNMENT
    data = room[first : first + n_bytes]
    file.seek(start)
    done = 0
    while done < n_bytes:
        got = file.readinto(data[done:].data)  # type: ignore[attr-defined]
        if not got:
            raise damaged(name, "became shorter while it was read")
        done += got
    data.flags.writeable = False
    return data
