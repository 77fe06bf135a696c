"""What codes in a file do not say: which model made which rows, and which rows are empty.

A folder with one model per file, `00000-FINGERPRINT.bitkin` and so on, and `rows.jsonl`: a line
`{"row", "model", "fingerprint"}` for the first row of each epoch, and a line `{"row", "empty":
true}` for each vector that was skipped.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bitkin.errors import CorruptFileError, FileAccessError
from bitkin.io.growing import GrowingFile, has_content
from bitkin.io.writer import remove_leftovers, sync_folder

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.hashers.projection.projection_hash import ProjectionHash

_MODEL = re.compile(r"(\d{5,})-([0-9a-f]{32})\.bitkin")


class EpochFolder:
    """The folder, made where it is missing; what is in it stays until it is `cut`.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.n_epochs = 0
        self._fingerprint: str | None = None
        with self._name_failures():
            self._is_new = not folder.is_dir()
            if self._is_new:
                folder.mkdir(exist_ok=True)
                sync_folder(folder.parent)
            self._rows = GrowingFile(rows_file(folder))

    def require_epochs(self, n_epochs: int, rows_bytes: int, hasher: ProjectionHash | None) -> None:
        """Raise CorruptFileError unless the models of so many epochs are there, as listed, and are
        this hasher's.
        """
        listed = self._list_models(rows_bytes)
        if len(listed) != n_epochs:
            raise self._changed_error(f"lists {len(listed)} models where {n_epochs} were kept")
        for epoch, name in enumerate(listed):
            found = _MODEL.fullmatch(name)
            if found is None or int(found[1]) != epoch:
                raise self._changed_error(f"lists {name!r} as the model of epoch {epoch}")
            if not (self._folder / name).is_file():
                raise CorruptFileError(
                    f"{self._folder} lacks the model of epoch {epoch}, {name}. Restore it, or "
                    "begin again."
                )
        if listed and hasher is not None and not _may_be_last(hasher, _fingerprint_in(listed[-1])):
            raise self._changed_error(
                f"ends with {listed[-1]}, which is not the model that the state continues with"
            )

    def cut(self, n_epochs: int, rows_bytes: int) -> None:
        """Drop what came after so many epochs and so many bytes of `rows.jsonl`, which
        `require_epochs` has found there.
        """
        listed = self._list_models(rows_bytes)
        with self._name_failures():
            self._rows.cut(rows_bytes)
            remove_leftovers(self._folder, "*.bitkin")
            for path in list(self._folder.iterdir()):
                if _MODEL.fullmatch(path.name) and path.name not in listed:
                    path.unlink()
        self.n_epochs = n_epochs
        self._fingerprint = _fingerprint_in(listed[-1]) if listed else None

    @property
    def rows_bytes(self) -> int:
        """Length of `rows.jsonl`."""
        return self._rows.length

    def add(self, first_row: int, codes: Codes, made_by: ProjectionHash | None) -> None:
        """Keep the model of these codes, if it is a new one, and which of them are empty; before
        they are written.
        """
        lines = []
        empty = codes.empty_rows()
        if made_by is not None and codes.fingerprint != self._fingerprint and not empty.all():
            # From the first row that it did code: which epoch an empty row falls in depends on how
            # the stream was cut.
            name = f"{self.n_epochs:05d}-{codes.fingerprint}.bitkin"
            made_by.save(self._folder / name)
            row = first_row + int(np.argmin(empty))
            lines.append({"row": row, "model": name, "fingerprint": codes.fingerprint})
            self.n_epochs += 1
            self._fingerprint = codes.fingerprint
        lines += [{"row": first_row + int(row), "empty": True} for row in np.flatnonzero(empty)]
        lines.sort(key=lambda line: line["row"])  # type: ignore[arg-type, return-value]
        if lines:
            self._rows.append("".join(json.dumps(line) + "\n" for line in lines).encode())

    def sync(self) -> None:
        """Make sure that all of it survives a power cut."""
        self._rows.sync()

    def remove_if_new(self) -> None:
        """Take away what was made here: the folder with its models, or `rows.jsonl` in one that
        was there.
        """
        self._rows.remove_if_new()
        if self._is_new:
            with contextlib.suppress(OSError):  # somebody else put files there
                for name in list_models(self._folder):
                    (self._folder / name).unlink()
                self._folder.rmdir()

    def close(self) -> None:
        """Let go of the files."""
        self._rows.close()

    def _list_models(self, rows_bytes: int) -> list[str]:
        """Return the names of models in so many bytes of `rows.jsonl`."""
        try:
            lines = [json.loads(line) for line in self._rows.begin(rows_bytes).splitlines()]
            return [str(line["model"]) for line in lines if "model" in line]
        except (ValueError, TypeError):
            raise self._changed_error("has lines that are not those of a stream") from None

    def _changed_error(self, how: str) -> CorruptFileError:
        return CorruptFileError(
            f"{rows_file(self._folder)} {how}: it was changed since. Restore it from a copy, or "
            "begin again."
        )

    @contextlib.contextmanager
    def _name_failures(self) -> Iterator[None]:
        try:
            yield
        except FileAccessError:
            raise
        except OSError as error:
            raise FileAccessError(
                f"{self._folder} cannot be written: {error.strerror or error}."
            ) from error


def _fingerprint_in(name: str) -> str:
    return name.partition("-")[2].removesuffix(".bitkin")


def _may_be_last(hasher: ProjectionHash, fingerprint: str) -> bool:
    """Tell whether a model can be the last that a hasher coded by: its epoch, or any where that has
    coded nothing.
    """
    stream = getattr(hasher, "stream_", None)
    coded_nothing = stream is not None and stream.epoch_start == stream.n_seen
    return coded_nothing or hasher.epoch_.fingerprint_ == fingerprint


def rows_file(folder: Path) -> Path:
    """Return where the rows of a folder are listed."""
    return folder / "rows.jsonl"


def list_models(folder: Path) -> list[str]:
    """Return the names of the models in a folder, in the order of their epochs."""
    return sorted(path.name for path in folder.iterdir() if _MODEL.fullmatch(path.name))


def is_begun(folder: Path) -> bool:
    """Tell whether the folder belongs to a stream that has begun."""
    return has_content(rows_file(folder))
