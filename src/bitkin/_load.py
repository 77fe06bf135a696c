"""`bitkin.load`: a fixed table from class name to module; no file can name anything else."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.reader import read_file

if TYPE_CHECKING:
    from bitkin.hashers.base import Hasher

_MODULES = {
    "BandIndex": "bitkin.index.bands.band_index",
    "CellIndex": "bitkin.index.cells.cell_index",
    "Codes": "bitkin.codes",
    "EpochIndex": "bitkin.epochs.epoch_index",
    "FlatIndex": "bitkin.index.flat",
    "HeshingClassifier": "bitkin.learn.heshing.heshing_classifier",
    "KernelMap": "bitkin.hashers.kernel_map.kernel_map",
    "MinHash": "bitkin.hashers.minhash.minhash",
    "MultiIndex": "bitkin.index.multi.multi_index",
    "ProjectionHash": "bitkin.hashers.projection.projection_hash",
    "SignHash": "bitkin.hashers.sign_hash.sign_hash",
    "WTAHash": "bitkin.hashers.wta",
}


def load(path: str | os.PathLike[str], mmap: bool = False) -> Any:
    """Load whatever bitkin saved at `path`: codes, an index or a fitted hasher.

    Without `mmap` the whole file is read and verified. With it the file is mapped: header, sizes
    and ids are verified now, the rest by `.verify()` of codes and indexes; the file must stay as it
    is while it is in use.

    Examples
    --------
    >>> import bitkin, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.bitkin"
    >>> codes = bitkin.Codes.from_symbols([[0, 1, 1]], bits_per_symbol=1)
    >>> codes.save(path)
    >>> bitkin.load(path) == codes
    True
    """
    stored = read_file(path, mmap=mmap)
    if stored.class_name == "Corrections":
        raise InvalidInputError(
            f"{stored.name} holds corrections, which bitkin search takes by --corrections and "
            "bitkin.load_corrections reads."
        )
    if stored.class_name not in _MODULES:
        raise CorruptFileError(
            f"{stored.name} holds a {stored.class_name!r}, which this bitkin does not know. A "
            "newer one may."
        )
    home = importlib.import_module(_MODULES[stored.class_name])
    return getattr(home, stored.class_name).from_stored(stored)


def load_hasher(path: str | os.PathLike[str]) -> Hasher:
    """Load a fitted hasher; a file of anything else is an error that names it."""
    from bitkin.hashers.base import Hasher

    model = load(path)
    if not isinstance(model, Hasher):
        raise InvalidInputError(
            f"{os.fspath(path)} holds {type(model).__name__}, not a model. Make one with bitkin "
            "fit."
        )
    return model
