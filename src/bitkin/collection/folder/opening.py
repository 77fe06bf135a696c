"""Making a folder for a collection, and opening it again.

A folder holds `collection.db`, the model of its hasher, an index without rows where one was given,
`writer.lock`, and perhaps a checkpoint. It is made aside and renamed in place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from bitkin._load import load
from bitkin.collection.encoding import Encoder
from bitkin.collection.folder.database import Database, RowLayout, create_database, read_settings
from bitkin.collection.folder.lock import FolderLock
from bitkin.collection.folder.store import FolderStore, FolderVectors
from bitkin.collection.ids import StoredStringIds
from bitkin.collection.memory import MemoryStore
from bitkin.collection.metadata.slot_fields import SlotFields
from bitkin.collection.settings import CollectionSettings, new_index
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.index.base import RowIndex
from bitkin.io.writer import remove_leftovers, sync_folder

DATABASE = "collection.db"
_MODEL = "model.bitkin"
_INDEX = "index.bitkin"


class OpenFolder(NamedTuple):
    """All that a collection in a folder is made of."""

    encoder: Encoder
    settings: CollectionSettings
    store: FolderStore


def create_folder(
    path: str | os.PathLike[str],
    encoder: Encoder,
    settings: CollectionSettings,
    index: str | RowIndex,
    synchronous: str,
) -> Path:
    """Make a folder with a collection without rows; raise where there is something already."""
    target = _as_path(path)
    made = new_index(index, encoder.hasher.spec_)  # checks it
    layout = _layout_of(settings, encoder)
    if target.is_symlink() or (target.exists() and not _is_empty_folder(target)):
        advice = "Open it with bitkin.Collection.open" if _is_ours(target) else "Give another path"
        raise FileAccessError(f"{target} is there already. {advice}.")
    aside = target.with_name(f".{target.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        aside.mkdir(parents=True)
        encoder.hasher.save(aside / _MODEL)
        if not isinstance(index, str):
            made.save(aside / _INDEX)
        create_database(
            aside / DATABASE,
            layout,
            {
                **dataclasses.asdict(settings),
                "index": index if isinstance(index, str) else None,
                "synchronous": synchronous,
                "id": secrets.token_hex(16),
                "model": _MODEL,
                "fingerprint": encoder.hasher.fingerprint_,
            },
        )
        aside.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        if isinstance(error, BitkinError):
            raise
        raise FileAccessError(
            f"{target} cannot be made: {error.strerror or error}. Nothing is left of it."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def open_folder(path: str | os.PathLike[str], *, read_only: bool) -> OpenFolder:
    """Open the collection in a folder; raise where there is none, or another process writes it."""
    folder = _as_path(path)
    if not folder.is_dir() or not _is_ours(folder):
        what = "is not there" if not folder.exists() else "is no collection"
        raise FileAccessError(
            f"{folder} {what}: a collection is a folder with a {DATABASE}. Make one with "
            "bitkin.Collection.create(path, hasher)."
        )
    with contextlib.ExitStack() as undo:
        lock = None
        if not read_only:
            lock = FolderLock(folder)
            undo.callback(lock.release)
            with contextlib.suppress(OSError):
                remove_leftovers(folder, "*")
        given = read_settings(folder / DATABASE)
        try:
            names = [field.name for field in dataclasses.fields(CollectionSettings)]
            settings = CollectionSettings(**{name: given[name] for name in names})
            model, index, fingerprint = given["model"], given["index"], given["fingerprint"]
            synchronous, database_id = given["synchronous"], given["id"]
        except (KeyError, TypeError, InvalidInputError) as error:
            raise CorruptFileError(
                f"{folder / DATABASE} has settings that make no collection: {error}"
            ) from None
        hasher = load(folder / Path(model).name)
        if not isinstance(hasher, Hasher) or hasher.fingerprint_ != fingerprint:
            raise CorruptFileError(
                f"{folder / model} is not the hasher that the codes of this collection were made "
                "by. Restore a backup."
            )
        encoder = Encoder.from_hasher(hasher, settings.metric, settings.query_bits)
        way = index if index is not None else load(folder / _INDEX)
        empty = _empty_store(settings, encoder, way).snapshot
        database = Database(
            folder / DATABASE,
            _layout_of(settings, encoder),
            writes=not read_only,
            synchronous=synchronous,
        )
        undo.callback(database.close)
        store = FolderStore(folder, database, empty, database_id, lock)
        undo.pop_all()
        return OpenFolder(encoder, settings, store)


def copy_folder(store: FolderStore, path: str | os.PathLike[str], progress: Any = None) -> Path:
    """Write a copy of a collection in use to a new folder."""
    target = _as_path(path)
    if target.exists() or target.is_symlink():
        raise FileAccessError(f"{target} is there already. Give a path that is not.")
    aside = target.with_name(f".{target.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        aside.mkdir(parents=True)
        for name in (_MODEL, _INDEX):
            if (store.folder / name).exists():
                shutil.copyfile(store.folder / name, aside / name)
                with (aside / name).open("rb+") as file:
                    os.fsync(file.fileno())
        store.database.copy_to(aside / DATABASE, progress)
        sync_folder(aside)
        aside.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        if isinstance(error, BitkinError):
            raise
        raise FileAccessError(
            f"{target} cannot be written: {error.strerror or error}. Nothing is left of it."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def _empty_store(
    settings: CollectionSettings, encoder: Encoder, index: str | RowIndex
) -> MemoryStore:
    """Return a store without rows, as a collection in a folder begins with."""
    vectors = settings.new_vectors(encoder)
    store = MemoryStore.empty(
        new_index(index, encoder.hasher.spec_),
        encoder.hasher.fingerprint_,
        StoredStringIds() if settings.ids == "str" else settings.new_ids(),
        None if vectors is None else FolderVectors(vectors),
        corrections=encoder.scorer is not None,
        metric=settings.metric,
        estimates=settings.estimates_in_cells(encoder),
    )
    if settings.fields:
        now = store.snapshot
        kept = dataclasses.replace(now.kept, fields=SlotFields.empty(settings.fields))
        store.snapshot = dataclasses.replace(now, kept=kept)
    return store


def _layout_of(settings: CollectionSettings, encoder: Encoder) -> RowLayout:
    vectors = settings.new_vectors(encoder)
    n_features = None if vectors is None else vectors.n_features
    return RowLayout(settings.fields, settings.ids == "str", settings.vectors, n_features)


def _as_path(path: Any) -> Path:
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInputError(f"path must name a folder, got {path!r}.")
    return Path(text)


def _is_ours(folder: Path) -> bool:
    return (folder / DATABASE).is_file()


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
