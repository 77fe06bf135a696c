"""The collections of a service, by name: those that it was given, or all in a folder."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from fastapi import HTTPException

from bitkin._load import load_hasher
from bitkin.checks import shown, suggest
from bitkin.collection.collection import Collection
from bitkin.collection.fitting import draw_hasher, learn_hasher
from bitkin.embedding import ATTRIBUTE, absolute_name, open_embedder
from bitkin.errors import BitkinError, FileAccessError, InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.service.asked import read_vectors
from bitkin.service.schemas import CollectionBody
from bitkin.service.served import ServedCollection, WorkerThreads
from bitkin.service.settings import ServiceLimits

_DATABASE = "collection.db"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_LISTED = 10

logger = logging.getLogger("bitkin.service")


def is_collection(path: Path) -> bool:
    """Tell whether a folder holds a collection."""
    return (path / _DATABASE).is_file()


def require_name(name: Any) -> str:
    """Return a name for a new folder; raise for what could be a path, or be hidden."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInputError(
            "name must be up to 64 letters, digits, dots, dashes and underscores, and begin with a "
            f"letter or digit, got {shown(name)}."
        )
    return name


class Shelf:
    """Collections by name, opened once and closed together.

    Parameters
    ----------
    given : Collection, mapping of names to collections, or path
        A path is the folder of one collection, or one whose folders are collections: then others
        may be made and dropped.
    limits : ServiceLimits
    read_only : bool
        Open folders without the right to write.
    embed : str, optional
        What makes vectors of texts in collections that do not remember it.
    observe : callable, optional
        Told the number of queries of every batch.
    """

    def __init__(
        self,
        given: Any,
        limits: ServiceLimits,
        *,
        read_only: bool = False,
        embed: str | None = None,
        observe: Callable[[int], None] = lambda n_queries: None,
    ) -> None:
        self._limits = limits
        self._read_only = read_only
        self._embed = None if embed is None else absolute_name(embed)
        self._observe = observe
        self._workers = WorkerThreads.start()
        self._served: dict[str, ServedCollection] = {}
        self._changing = threading.Lock()
        self.folder: Path | None = None
        """Whose folders are collections; None where there are just those given."""
        try:
            self._open_given(given)
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> list[str]:
        """Names of all collections, in order."""
        return sorted(self._served)

    @property
    def all(self) -> list[ServedCollection]:
        """All collections, by name."""
        return [served for _, served in sorted(self._served.items(), key=itemgetter(0))]

    @property
    def workers(self) -> WorkerThreads:
        """Threads for what no collection does by itself."""
        return self._workers

    def find(self, name: str | None) -> ServedCollection:
        """Return the collection of a name, or the only one; raise where there is none."""
        served = self._served
        if name is None:
            if len(served) == 1 and self.folder is None:
                [only] = served.values()
                return only
            raise HTTPException(
                404,
                "this service has several collections, so say which: /v1/collections/NAME/… "
                f"There are: {self._listed()}.",
            )
        found = served.get(name)
        if found is None:
            raise HTTPException(
                404,
                f"there is no collection {shown(name)}.{suggest(name, self.names)} There are: "
                f"{self._listed()}.",
            )
        return found

    def may_hold(self, name: str) -> bool:
        """Tell whether a collection that is not served yet may have come into the folder."""
        return (
            self.folder is not None
            and name not in self._served
            and _NAME.fullmatch(name) is not None
            and is_collection(self.folder / name)
        )

    def take_in(self, name: str) -> None:
        """Open a collection that another process has put into the folder, which may take long."""
        with self._changing:
            if self.may_hold(name) and self.folder is not None:
                try:
                    self._open(name, self.folder / name)
                except FileAccessError:  # such as that its writer is still at work: not now
                    raise
                except BitkinError as error:
                    self._warn(name, error)

    def refresh(self) -> None:
        """Open what has come into the folder since, and close what has gone."""
        folder = self.folder
        if folder is None:
            return
        with self._changing:
            there = {path.name for path in folder.iterdir() if is_collection(path)}
            for name in self._served.keys() - there:
                self._served.pop(name).close()
            for name in sorted(there - self._served.keys()):
                try:
                    self._open(name, folder / name)
                except BitkinError as error:
                    self._warn(name, error)

    def create(self, body: CollectionBody) -> ServedCollection:
        """Make a collection in the folder."""
        if self.folder is None:
            raise HTTPException(
                405, "this service has just the collections that it was started with."
            )
        name = require_name(body.name)
        hasher = self._make_hasher(body)
        texts = body.embed
        vectors: str | None = body.vectors or ("float16" if texts else "float32")
        with self._changing:
            if name in self._served or (self.folder / name).exists():
                raise HTTPException(409, f"name must be new, there is a {name!r} already.")
            made = Collection.create(
                self.folder / name,
                hasher,
                vectors=None if vectors == "none" else vectors,
                metric=body.metric or ("cosine" if texts else "l2"),
                ids=body.ids,
                fields=body.fields or None,
                index=body.index,
                stage=body.stage,
                oversample=body.oversample,
            )
            if texts:
                made.set_attribute(ATTRIBUTE, self._embed)
            return self._serve(name, made)

    def drop(self, name: str) -> None:
        """Close a collection, and delete its folder."""
        served = self.find(name)
        if self.folder is None or served.collection.path is None:
            raise HTTPException(
                405, "this service has just the collections that it was started with."
            )
        with self._changing:
            if self._served.get(name) is not served:  # dropped by another request meanwhile
                raise HTTPException(404, f"there is no collection {shown(name)} any more.")
            self._served.pop(name)
            path = served.collection.path
            served.close()
            # out of sight at once: a folder that is half deleted is no collection
            aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            try:
                path.rename(aside)
            except FileNotFoundError:
                return
            except OSError as error:
                raise FileAccessError(f"{name} cannot be deleted: {error.strerror}.") from error
            shutil.rmtree(aside, ignore_errors=True)

    def close(self) -> None:
        """End what was begun, and close all collections."""
        self._workers.stop()
        for name in list(self._served):
            self._served.pop(name).close()

    def _open_given(self, given: Any) -> None:
        if isinstance(given, Collection):
            path = given.path
            self._serve("default" if path is None else path.name, given)
        elif isinstance(given, Mapping):
            for name, collection in given.items():
                if not isinstance(name, str) or not isinstance(collection, Collection):
                    raise InvalidInputError(
                        "collections must be a Collection, a dictionary of names and collections, "
                        f"or a path, got {shown({name: collection})}."
                    )
                self._serve(name, collection)
        elif isinstance(given, (str, os.PathLike)):
            self._open_path(Path(given).absolute())
        else:
            raise InvalidInputError(
                "collections must be a Collection, a dictionary of names and collections, or a "
                f"path, got {shown(given)}."
            )

    def _open_path(self, path: Path) -> None:
        if is_collection(path):
            self._open(path.name, path)
            return
        if not path.is_dir():
            what = "is no folder" if path.exists() else "is not there"
            raise FileAccessError(
                f"{path} {what}. Give the folder of a collection, or one that holds several; "
                "bitkin collection create makes one."
            )
        found = [one for one in sorted(path.iterdir()) if is_collection(one)]
        if not found and any(path.iterdir()):
            raise FileAccessError(
                f"{path} is no collection, and holds none. Give the folder of a collection, or "
                "one that holds collections, or an empty one to make them in."
            )
        self.folder = path
        for one in found:
            self._open(one.name, one)

    def _open(self, name: str, path: Path) -> ServedCollection:
        return self._serve(name, Collection.open(path, read_only=self._read_only))

    def _warn(self, name: str, error: BitkinError) -> None:
        logger.warning("collection %r is not served: %s", name, error)

    def _serve(self, name: str, collection: Collection) -> ServedCollection:
        served = ServedCollection(
            name, collection, self._limits, self._workers, self._embed, self._observe
        )
        self._served[name] = served
        return served

    def _make_hasher(self, body: CollectionBody) -> Hasher:
        given = [
            name
            for name, there in (
                ("sample", body.sample is not None),
                ("model", body.model is not None),
                ("embed", body.embed),
                ("n_features", body.n_features is not None and body.sample is None),
            )
            if there
        ]
        if len(given) != 1:
            raise InvalidInputError(
                "n_features: give one of n_features, sample, model and embed, got "
                f"{' and '.join(given) or 'none of them'}."
            )
        if body.sample is not None:
            sample = read_vectors(body.sample, body.n_features, "sample")
            return learn_hasher(sample, body.n_bits, normalize=body.metric == "cosine")
        if body.model is not None:
            if body.n_bits is not None:
                raise InvalidInputError("n_bits must not be given with model, which has its own.")
            return _hasher_in(body.model)
        if body.embed:
            if self._embed is None:
                raise InvalidInputError(
                    "embed must be false: this service embeds no texts. Start it with --embed."
                )
            return draw_hasher(open_embedder(self._embed)(["a"]).shape[1], body.n_bits)
        return draw_hasher(int(body.n_features or 0), body.n_bits)

    def _listed(self) -> str:
        names = self.names
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        return (", ".join(names[:_MOST_LISTED]) or "none yet") + more


def _hasher_in(text: str) -> Hasher:
    """Return the hasher in a file that came as base64."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError(f"model must be base64 text: {error}.") from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(data)
        try:
            return load_hasher(path)
        except (BitkinError, ValueError) as error:
            reason = str(error).replace(str(path), "it")
            raise InvalidInputError(f"model must be a fitted hasher: {reason}") from None
