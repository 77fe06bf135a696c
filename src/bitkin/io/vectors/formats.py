"""Files of vectors by suffix: which reader takes which, and which options it uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.io.stable import stamp_of
from bitkin.io.vectors.files.hdf5 import Hdf5Rows
from bitkin.io.vectors.files.npy import open_npy
from bitkin.io.vectors.files.npz import open_npz
from bitkin.io.vectors.files.parquet import ParquetRows
from bitkin.io.vectors.files.several import SeveralSources
from bitkin.io.vectors.files.svmlight import open_svmlight
from bitkin.io.vectors.files.vecs import open_vecs
from bitkin.io.vectors.stored import StoredSource

FORMAT_OPTIONS = ("column", "dataset", "n_features", "zero_based")


class FormatOptions(NamedTuple):
    """What only some formats use; None when not given."""

    column: str | None
    dataset: str | None
    n_features: int | None
    zero_based: bool | str | None
    batch_rows: int | None


_Opener = Callable[[list[Path], FormatOptions], list[StoredSource]]


def _each(opener: Callable[[Path, FormatOptions], StoredSource]) -> _Opener:
    return lambda paths, options: [opener(path, options) for path in paths]


_npy = _each(lambda path, options: open_npy(path, options.batch_rows))
_npz = _each(lambda path, options: open_npz(path, options.dataset, options.batch_rows))
_vecs = _each(lambda path, options: open_vecs(path, options.batch_rows))
_parquet = _each(lambda path, options: ParquetRows(path, options.column, options.batch_rows))
_hdf5 = _each(lambda path, options: Hdf5Rows(path, options.dataset, options.batch_rows))


def _svmlight(paths: list[Path], options: FormatOptions) -> list[StoredSource]:
    zero_based = "auto" if options.zero_based is None else options.zero_based
    return [*open_svmlight(paths, options.n_features, zero_based, options.batch_rows)]


# Suffix -> its reader and the options that reader uses.
_FORMATS: dict[str, tuple[_Opener, tuple[str, ...]]] = {
    ".npy": (_npy, ()),
    ".npz": (_npz, ("dataset",)),
    ".fvecs": (_vecs, ()),
    ".bvecs": (_vecs, ()),
    ".ivecs": (_vecs, ()),
    ".parquet": (_parquet, ("column",)),
    ".h5": (_hdf5, ("dataset",)),
    ".hdf5": (_hdf5, ("dataset",)),
}
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
for _suffix in _SVMLIGHT:
    _FORMATS[_suffix] = _FORMATS[f"{_suffix}.gz"] = (_svmlight, ("n_features", "zero_based"))


def open_paths(paths: Sequence[Path], options: FormatOptions) -> StoredSource:
    """Open one file, or several as one; files of one format are opened together, as svmlight
    needs.
    """
    groups: dict[_Opener, list[int]] = {}
    used: set[str] = set()
    for i, path in enumerate(paths):
        if _suffix_of(path) not in _FORMATS and not _is_there(path):
            raise FileAccessError(
                f"{path} cannot be read: No such file or directory. If it is a text and no file, "
                "make a vector of it first, such as with sentence-transformers."
            )
        stamp_of(path)  # a missing file is named before its suffix is judged
        opener, options_used = _format_of(path)
        used.update(options_used)
        groups.setdefault(opener, []).append(i)
    refuse_unused(options, [key for key in FORMAT_OPTIONS if key not in used], str(paths[0]))
    found: dict[int, StoredSource] = {}
    for opener, places in groups.items():
        found.update(zip(places, opener([paths[i] for i in places], options), strict=True))
    sources = [found[i] for i in range(len(paths))]
    return sources[0] if len(sources) == 1 else SeveralSources(sources, options.batch_rows)


def _is_there(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # a null byte, which reading names
        return True


def _suffix_of(path: Path) -> str:
    return (
        "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    )


def _format_of(path: Path) -> tuple[_Opener, tuple[str, ...]]:
    suffix = _suffix_of(path)
    if suffix == ".bitkin":
        raise InvalidInputError(
            f"{path} must be a file of vectors ({', '.join(_FORMATS)}), and looks like a file of "
            "bitkin's own. Are two arguments swapped?"
        )
    if suffix not in _FORMATS:
        raise InvalidInputError(
            f"{path} must end in one of {', '.join(_FORMATS)}, got {suffix or 'no suffix'!r}."
        )
    return _FORMATS[suffix]


def refuse_unused(options: FormatOptions, unused: Sequence[str], what: str) -> None:
    """Raise for an option that was given but would be ignored."""
    for key in unused:
        if (value := getattr(options, key)) is not None:
            raise InvalidInputError(f"{key} means nothing for {what}: leave it out, got {value!r}.")


def has_vector_suffix(path: Path) -> bool:
    """Return whether `path` ends like a file of vectors."""
    return _suffix_of(path) in _FORMATS


def is_svmlight(path: Path) -> bool:
    """Return whether `path` ends like svmlight text."""
    return _suffix_of(path).removesuffix(".gz") in _SVMLIGHT
