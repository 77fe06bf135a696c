"""What `bitkin demo` shows: the data, the figures, the picture."""

from __future__ import annotations

import importlib.resources
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import MissingExtraError
from bitkin.evaluate import nearest, recall
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.index.flat import FlatIndex
from bitkin.index.results import Neighbors

_N_QUERIES = 500
_SHOWN = (18, 2, 13, 0, 16, 9)  # a bag, trousers, a dress, a boot, a pullover, a sneaker
_ACROSS = 7
_SCALE, _CELL, _GAP = 3, 100, 40  # pixels
_GREEN, _GRAY, _BLACK = (42, 157, 74), (205, 205, 205), (0, 0, 0)


@dataclass(frozen=True, eq=False, slots=True)
class DemoImages:
    """Images to search, others to search for, and the exact answer."""

    pictures: npt.NDArray[np.uint8]
    queries: npt.NDArray[np.uint8]
    truth: Neighbors

    @property
    def n_rows(self) -> int:
        """Images searched."""
        return len(self.pictures)

    @property
    def n_queries(self) -> int:
        """Images searched for."""
        return len(self.queries)


@dataclass(frozen=True, eq=False, slots=True)
class DemoResult:
    """What codes of one length gave."""

    bits: int
    vector_bytes: int
    recall: float
    microseconds: float
    found: Neighbors

    @property
    def code_bytes(self) -> int:
        """Bytes of one code."""
        return self.bits // 8

    def figures(self) -> dict[str, Any]:
        """Return the numbers alone."""
        return {
            "bits": self.bits,
            "bytes_a_code": self.code_bytes,
            "bytes_saved": self.vector_bytes - self.code_bytes,
            "true_10_in_best_100": round(self.recall, 4),
            "microseconds_a_query": round(self.microseconds, 1),
        }


def load_images() -> DemoImages:
    """Return the images that ship with the package, with their true neighbours."""
    with (importlib.resources.files("bitkin.data") / "fashion_mnist_10k.npz").open("rb") as file:
        pictures = np.load(file, allow_pickle=False)["images"]
    rows, queries = pictures[_N_QUERIES:], pictures[:_N_QUERIES]
    return DemoImages(rows, queries, nearest(_flat(rows), _flat(queries), k=10))


def measure(data: DemoImages, bits: int) -> DemoResult:
    """Encode, search, and compare with the truth."""
    rows, queries = _flat(data.pictures), _flat(data.queries)
    hasher = ProjectionHash(bits, projection="pca", rotation="random").fit(rows)
    index = FlatIndex(hasher.spec_)
    index.add(hasher.encode(rows))
    codes = hasher.encode(queries)
    index.search(codes[:3], 100)  # compiles, the first time
    start = time.perf_counter()
    found = index.search(codes, 100)
    each = (time.perf_counter() - start) / len(queries)
    return DemoResult(bits, 4 * rows.shape[1], recall(found.ids, data.truth.ids), 1e6 * each, found)


def draw(data: DemoImages, result: DemoResult, path: Path) -> None:
    """Draw some queries, their exact neighbours and those by codes; true neighbours are framed in
    green.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "the picture needs matplotlib: pip install 'bitkin[plot]'"
        ) from None
    from bitkin.io.writer import write_aside

    rows = []
    for query in _SHOWN:
        true = data.truth.ids[query].tolist()
        by_pixels = [_framed(data.pictures[i], _GREEN) for i in true[:_ACROSS]]
        by_codes = [
            _framed(data.pictures[i], _GREEN if i in true else _GRAY)
            for i in result.found.ids[query, :_ACROSS].tolist()
        ]
        rows.append(
            np.hstack([_framed(data.queries[query], _BLACK), _gap(), *by_pixels, _gap(), *by_codes])
        )
    mosaic = np.vstack(rows)
    height, width = mosaic.shape[:2]
    figure = Figure(figsize=(11, 0.35 + 11 * height / width))
    axes = figure.add_axes((0, 0, 1, (11 * height / width) / (0.35 + 11 * height / width)))
    axes.set_axis_off()
    axes.imshow(mosaic, interpolation="nearest", aspect="auto")
    left, middle = _CELL + _GAP, _CELL + 2 * _GAP + _ACROSS * _CELL
    for x, text in (
        (_CELL / 2, "query"),
        (left + _ACROSS * _CELL / 2, f"nearest by all {data.pictures[0].size} pixels"),
        (
            middle + _ACROSS * _CELL / 2,
            f"nearest by {result.bits}-bit codes (green: among the true ten)",
        ),
    ):
        axes.text(x, -4, text, ha="center", va="bottom", fontsize=12)
    write_aside(path, lambda file: figure.savefig(file, format="png", dpi=110))


def _framed(picture: npt.NDArray[np.uint8], frame: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """Return a picture, dark on white, in a frame with a margin around it: (cell, cell, 3)."""
    cell = np.full((_CELL, _CELL, 3), 255, dtype=np.uint8)
    edge = (_CELL - 2 * _SCALE * 14) // 2
    cell[edge - 4 : edge - 4 + 8 + 28 * _SCALE, edge - 4 : edge - 4 + 8 + 28 * _SCALE] = frame
    dark = np.kron(255 - picture, np.ones((_SCALE, _SCALE), dtype=np.uint8))
    cell[edge : edge + 28 * _SCALE, edge : edge + 28 * _SCALE] = dark[:, :, None]
    return cell


def _gap() -> npt.NDArray[np.uint8]:
    return np.full((_CELL, _GAP, 3), 255, dtype=np.uint8)


def _flat(pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return pictures.reshape(len(pictures), -1)
