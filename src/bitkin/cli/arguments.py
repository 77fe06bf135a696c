"""Arguments that several commands share, and how they become vectors, codes and models."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.hashers import Hasher
    from bitkin.io.vectors import VectorSource

FORMATS = ".npy, .npz, .fvecs, .bvecs, .ivecs, .parquet, .h5, .hdf5, .svm, .svmlight, .libsvm"

Vectors = Annotated[list[Path], typer.Argument(help=f"Files of vectors, read as one: {FORMATS}.", show_default=False)]
Column = Annotated[str | None, typer.Option(help="List column of a .parquet file.")]
Dataset = Annotated[str | None, typer.Option(help="Array of an .npz or HDF5 file.")]
Features = Annotated[int | None, typer.Option("--features", min=1, help="Number of columns of svmlight text.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]


def out_option(default_help: str) -> Any:
    """Return the option for the file to write."""
    return typer.Option("--out", "-o", help=default_help, show_default=False)


def open_files(paths: list[Path], column: str | None, dataset: str | None, features: int | None) -> VectorSource:
    """Open vector files with the options given."""
    from bitkin.io.vectors import open_vectors

    return open_vectors(paths, column=column, dataset=dataset, n_features=features)


def load_hasher(path: Path) -> Hasher:
    """Load a fitted model."""
    from bitkin._load import load
    from bitkin.hashers import Hasher

    model = load(path)
    if not isinstance(model, Hasher):
        raise InvalidInputError(f"{path} holds {type(model).__name__}, not a model. Make one with bitkin fit.")
    return model


def one_of_choices(value: str, option: str, choices: list[str]) -> str:
    """Return `value` when it is one of `choices`, else end with a usage error that suggests the nearest."""
    if value in choices:
        return value
    near = difflib.get_close_matches(value, choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.{hint}", param_hint=f"'{option}'")
