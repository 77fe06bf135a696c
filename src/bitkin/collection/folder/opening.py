"""Making a folder for a collection, and opening it again.

A folder holds `collection.db`, the model of every epoch that has rows, an index without rows where
one was given, what follows a stream, `writer.lock`, and perhaps a checkpoint. It is made aside and
renamed in place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from bitkin.checks import named_path, one_of
from bitkin.collection.encoding import Encoder
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.folder.database import (
    SYNCHRONOUS,
    Database,
    RowLayout,
    create_database,
    open_settings,
    require_schema,
)
from bitkin.collection.folder.epochs import save_epoch, save_learner
from bitkin.collection.folder.lock import DATABASE, FolderLock
from bitkin.collection.folder.store import FolderStore
from bitkin.collection.learning import Learner
from bitkin.collection.metadata.documents import check_fields
from bitkin.collection.settings import CollectionSettings
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.index.base import RowIndex
from bitkin.io.writer import remove_leftovers, sync_folder


def create_folder(
    path: str | os.PathLike[str],
    encoder: Encoder,
    settings: CollectionSettings,
    index: str | RowIndex,
    synchronous: str,
    learner: Learner | None,
) -> Path:
    """Make a folder with a collection without rows; raise where there is something already."""
    target = _as_path(path)
    epoch = CollectionEpoch.begin(0, encoder, settings, index, grows=False)  # checks it
    layout = RowLayout(settings.fields, settings.ids == "str", settings.vectors)
    if target.is_symlink() or (target.exists() and not _is_empty_folder(target)):
        advice = "Open it with bitkin.Collection.open" if _is_ours(target) else "Give another path"
        raise FileAccessError(f"{target} is there already. {advice}.")
    if target.exists() and target.samefile("."):  # else whoever stands in it stands nowhere
        raise FileAccessError(
            f"{target} is the current folder, which cannot be replaced by that of a collection. "
            "Give another path, such as a new folder in it."
        )
    aside = target.with_name(f".{target.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        aside.mkdir(parents=True)
        stored = save_epoch(aside, epoch, index)
        learner_file = None if learner is None else save_learner(aside, learner)
        create_database(
            aside / DATABASE,
            layout,
            {
                **dataclasses.asdict(settings),
                "synchronous": synchronous,
                "learner": learner_file,
                "followed": None if learner is None else learner.followed,
            },
            stored,
            getattr(encoder.hasher, "n_features_in_", None),
        )
        sync_folder(aside)
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


def open_folder(path: str | os.PathLike[str], *, read_only: bool) -> FolderStore:
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
        given = open_settings(folder / DATABASE)
        try:
            names = [field.name for field in dataclasses.fields(CollectionSettings)]
            settings = CollectionSettings(
                **{name: given[name] for name in names if name != "fields"},
                fields=check_fields(given["fields"]),
            )
            synchronous = one_of(given["synchronous"], "synchronous", SYNCHRONOUS)
        except (KeyError, TypeError, InvalidInputError) as error:
            raise CorruptFileError(
                f"{folder / DATABASE} has settings that make no collection: {error}"
            ) from None
        layout = RowLayout(settings.fields, settings.ids == "str", settings.vectors)
        require_schema(folder / DATABASE, layout)
        database = Database(
            folder / DATABASE, layout, writes=not read_only, synchronous=synchronous
        )
        undo.callback(database.close)
        store = FolderStore(folder, database, settings, lock)
        undo.pop_all()
        return store


def copy_folder(store: FolderStore, path: str | os.PathLike[str], progress: Any = None) -> Path:
    """Write a copy of a collection in use to a new folder."""
    target = _as_path(path)
    if target.exists() or target.is_symlink():
        raise FileAccessError(f"{target} is there already. Give a path that is not.")
    aside = target.with_name(f".{target.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        aside.mkdir(parents=True)
        store.copy_to(aside, DATABASE, progress)
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


def _as_path(path: Any) -> Path:
    return named_path(path, what="folder").absolute()  # whatever becomes of the current folder


def _is_ours(folder: Path) -> bool:
    return (folder / DATABASE).is_file()


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
