"""Arguments that several commands share, how they become vectors, codes and models, and how
messages name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.arguments import ArgumentSpelling
from bitkin.cli.methods import options_of_parameters
from bitkin.cli.shared import require_new
from bitkin.errors import ArgumentError

if TYPE_CHECKING:
    from bitkin.input_files import VectorFileOptions

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
Forgetting = Annotated[
    str | None,
    typer.Option(
        help="Weight of the past at each vector, up to 1, or auto (about the last 32 vectors per "
        "bit count): opast. [default: auto]"
    ),
]
RotationStart = Annotated[
    str | None,
    typer.Option(
        help="What the rotation starts from: identity or random: unifdiag. [default: identity]"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]


STDOUT = Path("-")


# Options that are not called as their arguments, and commands that do what a function does.
_OTHER_NAMES = {
    "allow": "--filter",
    "embed": "--embed",
    "fresh": "--fresh",
    "hasher": "--model",
    "k": "-k",
    "n_bits": "--bits",
    "n_features": "--features",
    "random_state": "--seed",
    "zero_based": "--zero-based or --one-based",
}
_OPPOSITES = {"from_start": "--continue"}
_COMMANDS = {"save_corrections": "bitkin encode --corrections"}


class OptionSpelling(ArgumentSpelling):
    """Arguments of the library as options of the command line."""

    def name(self, argument: str) -> str:
        """Return the option that stands for an argument."""
        return _OTHER_NAMES.get(argument, "--" + argument.replace("_", "-"))

    def given(self, argument: str, value: object = True) -> str:
        """Return how the option is given."""
        option = self.name(argument)
        if value is False:
            return _OPPOSITES[argument]
        return option if value is True else f"{option} {'none' if value is None else value}"

    def command(self, function: str, **arguments: object) -> str:
        """Return the command that does what a function does."""
        words = [_COMMANDS[function]]
        words += [self.given(name, value) for name, value in arguments.items()]
        return " ".join(words)


OPTIONS = OptionSpelling()
# Arguments of the classes behind a command that its messages may name.
_SPELLED = {**options_of_parameters(), "metric": "--metric", **_OTHER_NAMES}
# Names that are no words of English, so that a message means the argument wherever they stand;
# n_features also names a dimension of arrays.
_IDENTIFIERS = re.compile(
    r"(?<![\w/.'\"])("
    + "|".join(name for name in _SPELLED if "_" in name and name != "n_features")
    + r")(?![\w/=('\"])"
)
_ASSIGNED = re.compile(r"(?<![\w/.])(\w+)=('[^']*'|\"[^\"]*\"|True|False|None|[\d.]+)(?![\w/])")


def spell_options(message: str) -> str:
    """Return a message of the library with arguments as options: `projection='random'` is
    `--projection random`, `n_bits` is `--bits`, and a message that begins with the name of an
    argument begins with that option.
    """

    def spell(found: re.Match[str]) -> str:
        argument, value = found.groups()
        option = _SPELLED.get(argument)
        if option is None:
            return found.group()
        if value in ("True", "False"):
            return option if value == "True" else option.replace("--", "--no-", 1)
        return f"{option} {'none' if value == 'None' else value.strip(chr(39) + chr(34))}"

    spelled = _IDENTIFIERS.sub(lambda found: _SPELLED[found[1]], _ASSIGNED.sub(spell, message))
    first, space, rest = spelled.partition(" ")
    return (
        _SPELLED.get(first, first) + space + rest
        if rest.startswith("must ")
        else (first + space + rest)
    )


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


def require_other_file(out: Path, inputs: list[Path], option: str = "--out") -> None:
    """End with a usage error when the output would replace an input or, without --force, any
    file.
    """
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise typer.BadParameter(
                f"{out} is an input and would be replaced.", param_hint=f"'{option}'"
            )
    require_new(out, option)


def repeat_options(options: VectorFileOptions) -> str:
    """Write the options that the next command needs too."""
    given = [
        OPTIONS.given(name, value)
        for name, value in options._replace(zero_based=None)._asdict().items()
        if value is not None
    ]
    return "".join(f" {option}" for option in given)


def parse_forgetting(text: str, projection: str) -> float | str:
    """Return the weight of the past at each vector that --forgetting gives: a number, or "auto"."""
    if projection != "opast":
        raise typer.BadParameter(
            "means nothing for this projection; it belongs to opast.", param_hint="'--forgetting'"
        )
    try:
        value = text if text == "auto" else float(text)
    except ValueError:
        value = 0.0
    if not (isinstance(value, str) or 0 < value <= 1):
        raise typer.BadParameter(
            f"{text!r} is neither 'auto' nor a number above 0 and up to 1. 1 forgets nothing, "
            "0.999 all but about the last 1,000 vectors.",
            param_hint="'--forgetting'",
        )
    return value


def parse_rotation(rotation: str, start: str | None) -> Any:
    """Return the rotation that --rotation and --rotation-start give, as `ProjectionHash` takes
    it.
    """
    if start is not None:
        one_of_choices(start, "--rotation-start", ["identity", "random"])
        if rotation != "unifdiag":
            raise typer.BadParameter(
                "means nothing for this rotation; it belongs to --rotation unifdiag.",
                param_hint="'--rotation-start'",
            )
        from bitkin.hashers.projection.rotations import UnifDiag

        return UnifDiag(start)
    return None if rotation == "none" else rotation


def one_of_choices(value: str, option: str, choices: list[str]) -> str:
    """Return `value` when it is one of `choices`, else end with a usage error that suggests the
    nearest.
    """
    if value in choices:
        return value
    from bitkin.checks import suggest  # which loads NumPy

    hint = suggest(value, choices)
    raise typer.BadParameter(
        f"{value!r} is not one of {', '.join(choices)}.{hint}", param_hint=f"'{option}'"
    )
