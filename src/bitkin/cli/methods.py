"""From options to a hasher: which options each method of `bitkin fit` takes, and which parameter
each one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from bitkin.cli.arguments import one_of_choices

if TYPE_CHECKING:
    from bitkin.hashers.base import Hasher

# Method -> the class's public name, and its options with the parameters they set.
METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "projection": (
        "ProjectionHash",
        {
            "--bits": "n_bits",
            "--projection": "projection",
            "--rotation": "rotation",
            "--center": "center",
            "--normalize": "normalize",
        },
    ),
    "wta": (
        "WTAHash",
        {
            "--hashes": "n_hashes",
            "--window": "window",
            "--degree": "degree",
            "--densify": "densify",
            "--alphabet": "alphabet_size",
            "--layout": "layout",
        },
    ),
    "minhash": ("MinHash", {"--hashes": "n_hashes", "--symbol-bits": "bits_per_symbol"}),
}


def make_hasher(method: str, options: Mapping[str, Any], seed: int) -> Hasher:
    """Return the hasher that `method` and the options given (those not None) describe."""
    import bitkin

    one_of_choices(method, "--method", list(METHODS))
    class_name, known = METHODS[method]
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in known:
            owners = [name for name, (_, theirs) in METHODS.items() if option in theirs]
            raise typer.BadParameter(
                f"means nothing for --method {method}; it belongs to {' and '.join(owners)}.",
                param_hint=f"'{option}'",
            )
    _require_choices(given)
    parameters: dict[str, Any] = {known[option]: value for option, value in given.items()}
    for name in ("rotation", "densify"):
        if parameters.get(name) == "none":
            parameters[name] = None
    if parameters.get("window", "auto") != "auto":
        parameters["window"] = _whole(parameters["window"])
    hasher: Hasher = getattr(bitkin, class_name)(**parameters, random_state=seed)
    return hasher


def most_bits(projection: str | None, n_features: int) -> int:
    """Return how many bits vectors of so many features can have; learned directions are no more
    than features.
    """
    from bitkin.code_spec import MAX_SYMBOLS
    from bitkin.hashers.projection.projections.base import StreamingProjection
    from bitkin.hashers.projection.registry import projection_for

    if projection == "random":
        return MAX_SYMBOLS
    follows = isinstance(projection_for(projection or "pca"), StreamingProjection)
    return max(1, n_features - follows)


def _require_choices(given: Mapping[str, Any]) -> None:
    """End with a usage error where a word is not among an option's words."""
    from bitkin.hashers.projection.registry import PROJECTIONS, ROTATIONS

    choices = {
        "--projection": list(PROJECTIONS),
        "--rotation": ["none", *ROTATIONS],
        "--densify": ["auto", "rotation", "optimal", "none"],
        "--layout": ["partition", "independent"],
    }
    for option, words in choices.items():
        if option in given:
            one_of_choices(given[option], option, words)


def _whole(window: str) -> int:
    if not window.strip().isdecimal() or int(window) < 2:
        raise typer.BadParameter(
            f"{window!r} is neither a number from 2 on nor 'auto'.", param_hint="'--window'"
        )
    return int(window)
