"""The files of a folder beside its database: models of epochs, and what follows a stream.

A file is written, whole and to the disk, before the database refers to it, and never changed; what
follows a stream takes the place of itself.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from bitkin._load import load
from bitkin.collection.encoding import Encoder
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.folder.database import StoredEpoch
from bitkin.collection.learning import Learner
from bitkin.collection.settings import INDEXES, CollectionSettings
from bitkin.errors import CorruptFileError
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.index.base import RowIndex


def save_epoch(folder: Path, epoch: CollectionEpoch, index: str | RowIndex) -> StoredEpoch:
    """Write the files of an epoch, and return what the database says of it; `index` is how its
    codes are searched, as a caller said it.
    """
    tail = "" if epoch.number == 0 else f"-{epoch.number}"
    model, way_file = f"model{tail}.bitkin", None
    epoch.encoder.hasher.save(folder / model)
    if not isinstance(index, str):
        way_file = f"index{tail}.bitkin"
        epoch.index.save(folder / way_file)
    way = index if isinstance(index, str) else None
    return StoredEpoch(epoch.number, model, epoch.fingerprint, way, way_file)


def load_epoch(folder: Path, stored: StoredEpoch, settings: CollectionSettings) -> CollectionEpoch:
    """Read the files of an epoch."""
    hasher = load(folder / Path(stored.model).name)
    if not isinstance(hasher, Hasher) or hasher.fingerprint_ != stored.fingerprint:
        raise CorruptFileError(
            f"{folder / stored.model} is not the hasher that made the codes of this collection. "
            "Restore a backup."
        )
    encoder = Encoder.from_hasher(hasher, settings.metric, settings.query_bits)
    way = index_of(folder, stored)
    return CollectionEpoch.begin(stored.number, encoder, settings, way, grows=False)


def index_of(folder: Path, stored: StoredEpoch) -> str | RowIndex:
    """Return how codes of an epoch are searched, as a caller said it."""
    if stored.way_file is None:
        if stored.way not in INDEXES:
            raise CorruptFileError(f"{folder} does not say how its codes are searched.")
        return str(stored.way)
    found = load(folder / Path(stored.way_file).name)
    if not isinstance(found, RowIndex):
        raise CorruptFileError(f"{folder / stored.way_file} holds no index. Restore a backup.")
    return found


def file_names(epochs: list[StoredEpoch], learner: str | None) -> set[str]:
    """Return the names of the files that epochs need, and of what follows a stream, if it does."""
    named = [name for one in epochs for name in (one.model, one.way_file)]
    return {Path(name).name for name in [*named, learner] if name is not None}


def save_learner(folder: Path, learner: Learner, number: int = 0) -> str:
    """Write what follows a stream, under a name of its own for every epoch, so that the one before
    stays whole until the database names this one; return the name.
    """
    name = "learner.bitkin" if number == 0 else f"learner-{number}.bitkin"
    learner.hasher.save(folder / name)
    return name


def load_learner(folder: Path, name: str, followed: str | None) -> Learner:
    """Read what follows a stream."""
    path = folder / Path(name).name
    hasher = load(path)
    if not isinstance(hasher, ProjectionHash) or not hasattr(hasher, "stream_"):
        raise CorruptFileError(f"{path} follows no stream. Restore a backup.")
    return Learner(hasher, followed)


def remove_unused(folder: Path, used: set[str]) -> None:
    """Delete files of epochs that are no more, as far as that is possible."""
    for pattern in ("model*.bitkin", "index*.bitkin", "learner*.bitkin"):
        for path in folder.glob(pattern):
            if path.name not in used:
                with contextlib.suppress(OSError):
                    path.unlink()
