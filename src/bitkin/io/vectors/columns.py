"""The names of columns: which a data frame has, and whether two sides that meet have the same in
the same order.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from bitkin.checks import MOST_CHARACTERS
from bitkin.errors import InvalidInputError, cut_text

Columns: TypeAlias = tuple[Any, ...]

_MOST_NAMES = 5


def column_names(value: Any) -> Columns | None:
    """Return the names of a data frame's columns, or None: arrays have none, and numbers are not
    names.
    """
    columns = getattr(value, "columns", None)
    if columns is None or not hasattr(value, "to_numpy"):
        return None
    names = tuple(columns)
    return names if any(isinstance(name, str) for name in names) else None


def require_columns(
    given: Columns | None, wanted: Columns | None, name: str, other: str | None = None
) -> None:
    """Raise where both sides have names and they differ, or stand in another order.

    `name` is the argument that was given, `other` the one that it must be like: by default, what
    was fitted. The words are scikit-learn's, whose own check knows its estimators only and prints
    names of any length.
    """
    if given is None or wanted is None or given == wanted:
        return
    if other is None:
        message = f"{name}: The feature names should match those that were passed during fit.\n"
        when, order = "at fit time", "as they were in fit"
    else:
        message = f"{name}: The feature names should match those of {other}.\n"
        when, order = f"in {other}", f"as in {other}"
    unseen, missing = set(given) - set(wanted), set(wanted) - set(given)
    if unseen:
        message += f"Feature names unseen {when}:\n{_listed(unseen)}"
    if missing:
        message += f"Feature names seen {when}, yet now missing:\n{_listed(missing)}"
    if not unseen and not missing:
        message += f"Feature names must be in the same order {order}.\n"
    raise InvalidInputError(message)


def _listed(names: set[Any]) -> str:
    texts = sorted(map(str, names))[:_MOST_NAMES]
    lines = [cut_text(text, MOST_CHARACTERS) for text in texts]
    return "".join(f"- {line}\n" for line in lines) + (
        "- ...\n" if len(names) > _MOST_NAMES else ""
    )
