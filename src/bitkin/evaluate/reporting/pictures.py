"""Pictures of a report: scaled down, written as PNG, and put into the page as text."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

_FINE = 8  # so many pixels across are averaged for one; more would take long and look the same


def encode_png(pixels: Pixels, colors: Pixels | None = None, alphas: Pixels | None = None) -> bytes:
    """Return a picture as a PNG file.

    Parameters
    ----------
    pixels : uint8 (h, w) or (h, w, 3)
        Grey, or red, green and blue; numbers of colours where these are given.
    colors : uint8 (n, 3), optional
        The palette.
    alphas : uint8 (n,), optional
        How much each of its colours covers.
    """
    height, width = pixels.shape[:2]
    kind = 3 if colors is not None else 0 if pixels.ndim == 2 else 2
    lines = np.ascontiguousarray(pixels).reshape(height, -1)
    # every line starts with the number of its filter: none
    filtered = np.concatenate([np.zeros((height, 1), dtype=np.uint8), lines], axis=1)
    parts = [
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
    ]
    if colors is not None:
        parts.append(_chunk(b"PLTE", colors.tobytes()))
    if alphas is not None:
        parts.append(_chunk(b"tRNS", alphas.tobytes()))
    parts += [_chunk(b"IDAT", zlib.compress(filtered.tobytes(), 9)), _chunk(b"IEND", b"")]
    return b"".join(parts)


def data_uri(png: bytes) -> str:
    """Return a PNG file as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def scale_down(picture: Pixels, most: int) -> Pixels:
    """Return a picture whose sides have at most so many pixels, each the mean of those it stands
    for; a smaller one as it is.

    Examples
    --------
    >>> scale_down(np.array([[0, 100, 50, 60]], dtype=np.uint8), 2).tolist()
    [[50, 55]]
    """
    longest = max(picture.shape[:2])
    if longest <= most:
        return picture
    step = max(1, longest // (most * _FINE))
    some = picture[::step, ::step]
    height, width = (
        max(1, min(some.shape[axis], round(picture.shape[axis] * most / longest)))
        for axis in (0, 1)
    )
    rows = np.arange(height) * some.shape[0] // height
    columns = np.arange(width) * some.shape[1] // width
    sums = np.add.reduceat(
        np.add.reduceat(some, rows, axis=0, dtype=np.uint32), columns, axis=1, dtype=np.uint32
    )
    counts = np.outer(
        np.diff(rows, append=some.shape[0]), np.diff(columns, append=some.shape[1])
    ).reshape(height, width, *([1] * (picture.ndim - 2)))
    return np.asarray((sums / counts).round().astype(np.uint8))


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
