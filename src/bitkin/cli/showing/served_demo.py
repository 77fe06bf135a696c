"""`bitkin demo --serve`: the images that ship with bitkin, in the explorer page."""

from __future__ import annotations

import importlib.resources
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bitkin.cli.output import progress_bar
from bitkin.cli.serving.serve import import_service, run_service
from bitkin.evaluate.reporting.pictures import data_uri, encode_png
from bitkin.hashers.projection.projection_hash import ProjectionHash

if TYPE_CHECKING:
    from bitkin.collection.collection import Collection

N_BITS = 128
_AT_ONCE = 1000
_LABELS = (
    "T-shirt", "trousers", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def serve_images(port: int, *, open_browser: bool) -> None:
    """Serve the images in memory, and open the page."""
    service = import_service()
    with progress_bar("encoding", 10_000, "images") as done:
        images = collect_images(done)
    app = service.create_app({"fashion": images})

    def look(url: str) -> None:
        if open_browser:
            webbrowser.open(url)

    run_service(app, "127.0.0.1", port, "auto", look)


def collect_images(done: Callable[[int], None] = lambda n_images: None) -> Collection:
    """Return the images as a collection in memory, with kind and picture of each as metadata."""
    from bitkin.collection.collection import Collection

    with (importlib.resources.files("bitkin.data") / "fashion_mnist_10k.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        pictures, labels = stored["images"], stored["labels"]
    rows = pictures.reshape(len(pictures), -1).astype(np.float32)
    hasher = ProjectionHash(N_BITS).fit(rows)
    images = Collection.create(None, hasher, fields={"kind": "str"})
    for first in range(0, len(rows), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        metadata = [
            # dark on white, as on paper
            {"kind": _LABELS[label], "image": data_uri(encode_png(255 - picture))}
            for picture, label in zip(pictures[some], labels[some], strict=True)
        ]
        images.add(rows[some], metadata=metadata)
        done(first + len(metadata))
    return images
