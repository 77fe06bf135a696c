"""From options to a hasher that learns from a stream: a new one, or one from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bitkin.cli.arguments import load_hasher, one_of_choices
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash

PROJECTIONS = ["opast", "frequent-directions"]
ROTATIONS = ["unifdiag", "isohash", "random", "none"]

_DEFAULTS: dict[str, Any] = {
    "--bits": 32,
    "--projection": "opast",
    "--rotation": "unifdiag",
    "--forgetting": 1.0,
    "--refresh": 100,
    "--epochs": "request",
    "--center": True,
    "--normalize": False,
    "--seed": 0,
}


def hasher_for(
    model: Path | None, given: Mapping[str, Any]
) -> tuple[ProjectionHash, dict[str, Any]]:
    """Return the hasher that the options describe, and the options in full, which a state keeps.

    `given` has every option of a hasher, None where it is absent.
    """
    if model is not None:
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(
                    "means nothing with --model, which has its own.", param_hint=f"'{option}'"
                )
        hasher = _from_file(model)
        return hasher, {"--model": hasher.fingerprint_}
    options = {
        name: default if given[name] is None else given[name] for name, default in _DEFAULTS.items()
    }
    one_of_choices(options["--projection"], "--projection", PROJECTIONS)
    one_of_choices(options["--rotation"], "--rotation", ROTATIONS)
    options["--epochs"] = _epochs(options["--epochs"])
    if options["--projection"] != "opast":
        if given["--forgetting"] is not None:
            raise typer.BadParameter(
                "means nothing for this projection; it belongs to opast.",
                param_hint="'--forgetting'",
            )
        options["--forgetting"] = None
    return _new(options), options


def _new(options: Mapping[str, Any]) -> ProjectionHash:
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.hashers.projection.projections import OPAST

    is_opast = options["--projection"] == "opast"
    hasher = ProjectionHash(
        options["--bits"],
        projection=OPAST(forgetting=options["--forgetting"])
        if is_opast
        else options["--projection"],
        rotation=None if options["--rotation"] == "none" else options["--rotation"],
        center=options["--center"],
        normalize=options["--normalize"],
        refresh=options["--refresh"],
        epochs=options["--epochs"],
        random_state=options["--seed"],
    )
    if is_opast:
        hasher.projection.require_parameters()
    return hasher


def _from_file(path: Path) -> ProjectionHash:
    from bitkin.hashers.projection.projection_hash import ProjectionHash

    hasher = load_hasher(path)
    if not isinstance(hasher, ProjectionHash) or not hasattr(hasher, "partial_fit"):
        raise InvalidInputError(
            f"{path} holds a model that does not go on learning. Fit one by bitkin fit "
            "--projection opast --rotation "
            "unifdiag, or begin without --model."
        )
    return hasher


def _epochs(text: Any) -> Any:
    """Return what the word or the number stands for, as `ProjectionHash` takes it."""
    if text in ("request", "none"):
        return None if text == "none" else text
    try:
        number = int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        number = 0
    if not (number >= 1 if isinstance(number, int) else 0 < number < 1):
        raise typer.BadParameter(
            f"{text!r} is not request, none, a number of vectors from 1 on or a share between 0 "
            "and 1.",
            param_hint="'--epochs'",
        )
    return number
