"""Arguments that several commands share, how they become vectors, codes and models, and how
messages name them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.arguments import ArgumentSpelling
from bitkin.errors import ArgumentError, InvalidInputError

if TYPE_CHECKING:
    from bitkin.hashers.base import Hasher
    from bitkin.index.base import RowIndex
    from bitkin.io.vectors import VectorSource

FORMATS = ".npy, .npz, .fvecs, .bvecs, .ivecs, .parquet, .h5, .hdf5, .svm, .svmlight, .libsvm"

Vectors = Annotated[
    list[Path],
    typer.Argument(help=f"Files of vectors, read as one: {FORMATS}.", show_default=False),
]
Column = Annotated[str | None, typer.Option(help="List column of a .parquet file.")]
Dataset = Annotated[str | None, typer.Option(help="Array of an .npz or HDF5 file.")]
Features = Annotated[
    int | None, typer.Option("--features", min=1, help="Number of columns of svmlight text.")
]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based", help="How svmlight text counts columns; guessed if absent."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]


STDOUT = Path("-")


class OptionSpelling(ArgumentSpelling):
    """Arguments of the library as options of the command line."""

    _OTHER_NAMES = {  # noqa: RUF012  # never changed
        "allow": "--filter",
        "hasher": "--model",
        "k": "-k",
        "n_bits": "--bits",
        "n_features": "--features",
        "random_state": "--seed",
    }

    def name(self, argument: str) -> str:
        """Return the option that stands for an argument."""
        return self._OTHER_NAMES.get(argument, "--" + argument.replace("_", "-"))

    def given(self, argument: str, value: object = True) -> str:
        """Return how the option is given."""
        option = self.name(argument)
        return option if value is True else f"{option} {'none' if value is None else value}"


OPTIONS = OptionSpelling()


@contextmanager
def usage_errors() -> Iterator[None]:
    """Let an argument that does not go with others be a usage error of its option."""
    try:
        yield
    except ArgumentError as error:
        option = OPTIONS.name(error.argument or "")
        raise typer.BadParameter(error.reason, param_hint=f"'{option}'") from None


def out_option(default_help: str) -> Any:
    """Return the option for the file to write, which must be one: nothing that it holds is text."""
    return typer.Option("--out", "-o", help=default_help, show_default=False, callback=a_file)


def a_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Return the path of an option that must name a file: `-` stands for stdout everywhere else."""
    if path == STDOUT:
        option = param.opts[0]
        raise typer.BadParameter(
            f"{option} cannot write to stdout. Give a file.", param_hint=f"'{option}'"
        )
    return path


def file_or_stdout(path: Path | None) -> Path | None:
    """Return the path of an option whose default is stdout: None for `-` too."""
    return None if path == STDOUT else path


def open_files(
    paths: list[Path],
    column: str | None,
    dataset: str | None,
    features: int | None,
    zero_based: bool | None,
    hasher: Hasher | None = None,
) -> VectorSource:
    """Open vector files with the options given; svmlight text for a model has as many columns as
    that was fitted on.
    """
    from bitkin.io.vectors import open_vectors
    from bitkin.io.vectors.formats import is_svmlight

    if hasher is not None and features is None and any(map(is_svmlight, paths)):
        # a MinHash may be fitted without columns
        features = getattr(hasher, "n_features_in_", None)
    return open_vectors(
        paths, column=column, dataset=dataset, n_features=features, zero_based=zero_based
    )


def require_other_file(out: Path, inputs: list[Path], option: str = "--out") -> None:
    """End with a usage error when the output would replace an input."""
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise typer.BadParameter(
                f"{out} is an input and would be replaced.", param_hint=f"'{option}'"
            )


def load_hasher(path: Path) -> Hasher:
    """Load a fitted model."""
    from bitkin._load import load
    from bitkin.hashers.base import Hasher

    model = load(path)
    if not isinstance(model, Hasher):
        raise InvalidInputError(
            f"{path} holds {type(model).__name__}, not a model. Make one with bitkin fit."
        )
    return model


def load_index(path: Path) -> RowIndex:
    """Map an index of any kind."""
    from bitkin._load import load
    from bitkin.index.base import RowIndex

    opened = load(path, mmap=True)
    if not isinstance(opened, RowIndex):
        raise InvalidInputError(
            f"{path} holds {type(opened).__name__}, not an index. Make one with bitkin index."
        )
    return opened


def repeated_options(column: str | None, dataset: str | None, features: int | None) -> str:
    """Write the options that the next command needs too."""
    options = {"--column": column, "--dataset": dataset, "--features": features}
    return "".join(f" {option} {value}" for option, value in options.items() if value is not None)


def one_of_choices(value: str, option: str, choices: list[str]) -> str:
    """Return `value` when it is one of `choices`, else end with a usage error that suggests the
    nearest.
    """
    if value in choices:
        return value
    near = difflib.get_close_matches(value, choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise typer.BadParameter(
        f"{value!r} is not one of {', '.join(choices)}.{hint}", param_hint=f"'{option}'"
    )
