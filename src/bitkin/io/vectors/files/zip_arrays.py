"""The arrays of an .npz archive: sizes are proven before anything is read into memory, pickles
never loaded.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.closing import Closes
from bitkin.errors import BitkinError, CorruptFileError, InvalidInputError
from bitkin.io.stable import StableFile, Stamp, as_bytes, failure_is_corruption
from bitkin.io.vectors.files.npy_header import PREFIX_BYTES, NpyHeader, read_npy_header
from bitkin.io.vectors.limits import MAX_RATIO, require_fits_memory, too_large

_ZIP_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
)


class ZipArrays(Closes):
    """An open .npz archive."""

    def __init__(self, path: Path, stamp: Stamp | None = None) -> None:
        self.path = path
        self._file = StableFile(path, stamp)
        self.stamp = self._file.stamp
        try:
            with failure_is_corruption(path, *_ZIP_FAILURES):
                self._archive = zipfile.ZipFile(self._file.buffered)
        except BitkinError:
            self._file.close()
            raise
        self.keys = [
            name.removesuffix(".npy") for name in self._archive.namelist() if name.endswith(".npy")
        ]

    def header(self, key: str) -> NpyHeader:
        """Return the header of one array, which its member's size must fit."""
        info = self._info(key)
        with failure_is_corruption(self.path, *_ZIP_FAILURES), self._archive.open(info) as member:
            return read_npy_header(
                member.read(PREFIX_BYTES), info.file_size, f"{self.path}, array {key!r}"
            )

    def array(self, key: str) -> npt.NDArray[Any]:
        """Return one whole array."""
        header = self.header(key)
        require_fits_memory(header.n_bytes, f"{self.path}, array {key!r}")
        order = header.shape[::-1] if header.fortran_order else header.shape
        try:
            # Fortran order is C order of the transpose: read it so, and return a view.
            out = np.empty(order, dtype=header.dtype)
        except MemoryError:
            raise too_large(header.n_bytes, f"{self.path}, array {key!r}") from None
        with ZipMember(self, key) as member:
            member.read_into(header.offset, out)
        return out.T if header.fortran_order else out

    def open_member(self, key: str) -> Any:
        """Open the bytes of one array, header first, as a file object."""
        return self._archive.open(self._info(key))

    def require_unchanged(self) -> None:
        """Raise when the archive was written to since it was first seen."""
        self._file.require_unchanged()

    def _info(self, key: str) -> zipfile.ZipInfo:
        if key not in self.keys:
            raise InvalidInputError(
                f"dataset must be one of {self.keys} in {self.path}, got {key!r}."
            )
        info = self._archive.getinfo(f"{key}.npy")
        if info.flag_bits & 1 or info.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            raise CorruptFileError(
                f"{self.path}, array {key!r}, is encrypted or packed in a way NumPy never writes."
            )
        # Deflate packs at most about 1,030 to 1, so a larger
        # claim is a lie, found before it is allocated.
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else MAX_RATIO
        if info.compress_size > self.stamp.size or info.file_size > info.compress_size * ratio:
            raise CorruptFileError(
                f"{self.path}, array {key!r}, claims {info.file_size} bytes packed in "
                f"{info.compress_size} bytes of a file of {self.stamp.size} bytes."
            )
        return info

    def close(self) -> None:
        """Close the archive and its file."""
        self._archive.close()
        self._file.close()


class ZipMember(Closes):
    """One array of an archive, unpacked as it is read; fast only forwards."""

    def __init__(self, archive: ZipArrays, key: str) -> None:
        self._archive = archive
        with failure_is_corruption(archive.path, *_ZIP_FAILURES):
            self._member = archive.open_member(key)

    def read_into(self, offset: int, out: npt.NDArray[Any]) -> None:
        """Fill the C-contiguous array `out` from byte `offset` of the member on."""
        view = as_bytes(out)
        done = 0
        with failure_is_corruption(self._archive.path, *_ZIP_FAILURES):
            # seeking back unpacks again from the start; reading on costs nothing more
            if self._member.tell() != offset:
                self._member.seek(offset)
            while done < len(view):
                count = self._member.readinto(view[done : done + 2**20])
                if not count:
                    raise EOFError(
                        f"an array ends at byte {offset + done}, expected {offset + len(view)}"
                    )
                done += count
        # after reading, or a file that was overwritten meanwhile would give a mix of two
        self._archive.require_unchanged()

    def close(self) -> None:
        """Close the array; the archive stays open."""
        self._member.close()
