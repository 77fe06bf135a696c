"""The rows of a shortlist as the estimate takes them, from codes or from an index at one moment."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids, Words
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.index.base import RowIndex
from bitkin.rescoring.estimate import Corrections, below_squares
from bitkin.rescoring.shortlist import Shortlist, rows_of


class ScoredRows(NamedTuple):
    """What `Scorer.nearest` takes of rows, and where the shortlist has them."""

    words: Words
    corrections: Corrections
    places: Ids


def scored_rows(
    shortlist: Shortlist,
    codes: Any,
    corrections: Any,
    ids: npt.ArrayLike | None,
    model: SignModel,
    metric: str,
) -> ScoredRows:
    """Return codes and corrections of shortlisted rows; empty rows, and those an index no longer
    has, are nobody.
    """
    numbers = _as_numbers(corrections)
    wanted = shortlist.wanted
    known = np.ones(len(wanted), dtype=bool)
    if isinstance(codes, RowIndex):
        snapshot = codes._snapshot  # once: what a writer does from here on is not seen
        nothing = np.empty(
            (0, snapshot.spec.bits_per_symbol, snapshot.spec.plane_words), dtype=np.uint64
        )
        require_comparable(
            model.spec,
            model.fingerprint,
            Codes(nothing, snapshot.spec, fingerprint=snapshot.fingerprint),
            "codes",
        )
        _require_two_a_row(numbers, len(numbers))
        known = snapshot.present(wanted)
        rows = rows_of(wanted[known], ids, len(numbers), "corrections")
        taken = snapshot.codes(wanted[known])
    else:
        all_codes = require_codes(codes, "codes")
        require_comparable(model.spec, model.fingerprint, all_codes, "codes")
        _require_two_a_row(numbers, len(all_codes))
        rows = rows_of(wanted, ids, len(all_codes), "codes")
        taken = all_codes if _all_of(all_codes, rows) else all_codes[rows]
    kept = _require_sound(numbers if _all_of(numbers, rows) else numbers[rows], taken, metric, rows)
    words = taken.words[:, 0]
    if known.all() and taken.empty is None:
        return ScoredRows(words, kept, shortlist.at)
    number_of = np.full(len(wanted), -1, dtype=np.int64)
    number_of[known] = np.where(taken.empty_rows(), -1, np.arange(len(taken)))
    return ScoredRows(words, kept, shortlist.spread(number_of))


def _all_of(values: Sized, rows: Ids) -> bool:
    """Whether rows are all that there are, in their order: then nothing has to be copied."""
    return len(rows) == len(values) and bool((rows == np.arange(len(rows))).all())


def require_corrections(corrections: Any, codes: Codes, metric: str) -> Corrections:
    """Return corrections of a metric, two finite numbers a code; those of empty rows do not matter,
    and become 0.
    """
    numbers = _as_numbers(corrections)
    _require_two_a_row(numbers, len(codes))
    return _require_sound(numbers.copy(), codes, metric, np.arange(len(codes)))


def _as_numbers(corrections: Any) -> Corrections:
    try:
        return np.asarray(corrections, dtype=np.float32, order="C")
    except (TypeError, ValueError):
        raise InvalidInputError(
            "corrections must be numbers, as bitkin.corrections makes them."
        ) from None


def _require_two_a_row(numbers: Corrections, n_rows: int) -> None:
    if numbers.shape != (n_rows, 2):
        wanted = f"({n_rows}, 2)" if numbers.ndim else "(n, 2)"
        raise InvalidInputError(
            f"corrections must have shape {wanted}, two numbers a code, got {numbers.shape}. "
            "Make them with bitkin.corrections from the same vectors as the codes."
        )


def _require_sound(numbers: Corrections, codes: Codes, metric: str, rows: Ids) -> Corrections:
    """Return corrections of codes, which are `rows` of what was given: finite, and zeros where a
    code is empty.
    """
    if codes.empty is not None:
        numbers = np.where(codes.empty[:, None], np.float32(0), numbers)
    if not np.isfinite(numbers).all():
        at = int(np.argmin(np.isfinite(numbers).all(axis=1)))
        raise InvalidInputError(
            f"corrections must be finite, got {numbers[at].tolist()} in row {rows[at]}."
        )
    if metric == "l2" and below_squares(numbers).any():
        at = int(np.argmax(below_squares(numbers)))
        raise InvalidInputError(
            f"corrections must be those of l2, squares first, got {numbers[at].tolist()} in row "
            f"{rows[at]}. "
            "Make them with metric='l2'."
        )
    return numbers
