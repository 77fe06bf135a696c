"""Rows of the user's data as a report shows them: as pictures, as texts, or by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError

Picture = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ShownRow:
    """A row of the user's data as a report shows it.

    Attributes
    ----------
    row : int
        Its number.
    distance : float or None
        From the query.
    picture : uint8 (h, w) or (h, w, 3), optional
        Large ones are shown smaller.
    text : str or None
        Cut at 300 characters.
    """

    row: int
    distance: float | None = None
    picture: Picture | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        picture = self.picture
        if picture is None:
            return
        fits = picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] == 3)
        if picture.dtype != np.uint8 or not fits or picture.size == 0:
            raise InvalidInputError(
                "picture must be uint8 of shape (height, width) or (height, width, 3), got "
                f"{picture.dtype} {picture.shape}."
            )


@dataclass(frozen=True, eq=False)
class HardQuery:
    """A query of which much is lost.

    Attributes
    ----------
    query : ShownRow
        What was asked for.
    recall : float
        Share of its true neighbours that was found.
    neighbors : sequence of ShownRow
        The true ones, nearest first.
    found : sequence of ShownRow
        What the search gave instead.
    """

    query: ShownRow
    recall: float
    neighbors: Sequence[ShownRow] = ()
    found: Sequence[ShownRow] = ()


def show_rows(
    ids: npt.ArrayLike,
    distances: npt.ArrayLike | None = None,
    vectors: npt.ArrayLike | None = None,
    picture_shape: tuple[int, ...] | None = None,
    texts: Sequence[str] | None = None,
) -> tuple[ShownRow, ...]:
    """Return rows as a report shows them; ids below 0 stand for no row and are left out.

    Parameters
    ----------
    ids : int (n,)
        Row numbers.
    distances : float (n,), optional
        From the query.
    vectors : (n, d), optional
        Their values, shown as pictures where `picture_shape` is given.
    picture_shape : (height, width) or (height, width, 3), optional
        How the values of a row lie in its picture.
    texts : sequence of str, optional
        One per id.

    Examples
    --------
    >>> [shown.row for shown in show_rows([4, 7, -1], [0.5, 1.25, float("inf")])]
    [4, 7]
    """
    own = np.asarray(ids, dtype=np.int64)
    far = None if distances is None else np.asarray(distances, dtype=np.float64)
    values = None if vectors is None or picture_shape is None else np.asarray(vectors)
    return tuple(
        ShownRow(
            int(row),
            None if far is None else float(far[i]),
            None if values is None or picture_shape is None else _picture(values[i], picture_shape),
            None if texts is None else texts[i],
        )
        for i, row in enumerate(own.tolist())
        if row >= 0
    )


def _picture(values: npt.NDArray[Any], shape: tuple[int, ...]) -> Picture:
    """Return a row as a picture: bytes as they are, other numbers from black (the least) to
    white.
    """
    if values.size != np.prod(shape):
        raise InvalidInputError(
            f"picture_shape must hold the {values.size} values of a row, got {shape}."
        )
    if values.dtype != np.uint8:
        low, high = float(np.min(values)), float(np.max(values))
        values = (values - low) * (255.0 / (high - low) if high > low else 0.0)
        values = np.nan_to_num(values).round().astype(np.uint8)
    return np.asarray(values.reshape(shape))
