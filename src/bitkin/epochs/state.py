"""All epochs of an index at one moment, and how that becomes the next moment. Pure functions.

A state never changes, so a search needs no lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import some_of
from bitkin.codes import Codes
from bitkin.epochs.epoch import Epoch
from bitkin.errors import CodeMismatchError, DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.estimators.vector_input import fitted_names
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.hashers.sign_hash.sign_hash import SignHash
from bitkin.index.rows.ids import next_ids
from bitkin.io.vectors.columns import Columns, require_columns
from bitkin.rescoring.corrections import scorer_for
from bitkin.rescoring.estimate import Corrections, Scorer


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """All epochs at one moment, in the order in which they began; no id is in two of them."""

    epochs: tuple[Epoch, ...] = ()
    next_id: int = 0
    lengths: Lengths = NO_LENGTHS
    """Of the rows that came as vectors, where lengths can spoil codes."""

    def find(self, fingerprint: str | None) -> Epoch | None:
        """Return the epoch of a model, or None."""
        return next((epoch for epoch in self.epochs if epoch.fingerprint == fingerprint), None)

    def present(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Return for every id whether it is in any epoch."""
        found = np.zeros(len(ids), dtype=bool)
        for epoch in self.epochs:
            found |= epoch.rows.present(ids)
        return found

    def ids(self) -> Ids:
        """Return all ids, ascending."""
        return np.sort(
            np.concatenate(
                [np.empty(0, dtype=np.int64), *(epoch.rows.ids() for epoch in self.epochs)]
            )
        )

    def require_features(self, n_features: int, names: Columns | None, name: str) -> None:
        """Raise unless vectors of this length, with such columns, can be compared with those
        here.
        """
        for epoch in self.epochs:
            require_columns(names, epoch.scorer.feature_names, name)
        wanted = {len(epoch.scorer.model.components) for epoch in self.epochs}
        if wanted - {n_features}:
            raise InvalidInputError(
                f"{name} must have {wanted.pop()} features, like all epochs of the index, got "
                f"{n_features}."
            )

    def put(self, epoch: Epoch) -> State:
        """Return the state with this epoch in the place of the one of the same model, or at the
        end.
        """
        if self.find(epoch.fingerprint) is None:
            return replace(self, epochs=(*self.epochs, epoch))
        same = tuple(epoch if old.fingerprint == epoch.fingerprint else old for old in self.epochs)
        return replace(self, epochs=same)


def with_epoch(state: State, scorer: Scorer) -> State:
    """Return the state with an epoch of this model, new or old."""
    if state.find(scorer.model.fingerprint) is not None:
        return state
    state.require_features(len(scorer.model.components), scorer.feature_names, "snapshot")
    return state.put(Epoch.without_rows(scorer))


def find_scorer(state: State, snapshot: Any, metric: str, name: str) -> Scorer:
    """Return the scorer of a snapshot: the one that is here already where there is one, of the
    snapshot's columns.
    """
    if isinstance(snapshot, SignHash):
        raise InvalidInputError(
            f"{name} must be a ProjectionHash, got a SignHash, whose model never changes. Put its "
            "codes into a Collection or a FlatIndex."
        )
    known = state.find(getattr(snapshot, "fingerprint_", None))
    if known is None:
        return scorer_for(snapshot, metric, name)
    names = fitted_names(snapshot)
    require_columns(names, known.scorer.feature_names, name)
    return known.scorer if names is None else replace(known.scorer, feature_names=names)


def new_ids(state: State, n_rows: int, given: Ids | None) -> Ids:
    """Return the ids of so many new rows: those of `given_ids`, none of them in any epoch, or the
    next numbers.
    """
    if given is None:
        return next_ids(n_rows, state.next_id)
    there = state.present(given)
    if there.any():
        raise DuplicateIdError(
            f"ids must be new, already in the index: {some_of(given[there])}. Remove them first."
        )
    return given


def with_codes(state: State, codes: Codes, numbers: Corrections, new: Ids) -> State:
    """Return the state with new rows; `new` are their ids, from `new_ids`."""
    epoch = state.find(codes.fingerprint)
    if epoch is None:
        raise CodeMismatchError(
            f"codes must carry the fingerprint of an epoch of this index, got {codes.fingerprint}. "
            "Begin the epoch with begin(snapshot), or add vectors by a snapshot."
        )
    if codes.spec != epoch.rows.spec:
        raise CodeMismatchError(
            f"codes must be {epoch.rows.spec} codes like their epoch's, got {codes.spec}."
        )
    next_id = max(state.next_id, int(new.max()) + 1) if len(new) else state.next_id
    return replace(state.put(epoch.with_codes(codes, numbers, new)), next_id=next_id)


def without(state: State, ids: Ids) -> State:
    """Return the state without these rows, all of which must be there; empty epochs stay."""
    missing = ids[~state.present(ids)]
    if len(missing):
        raise UnknownIdError(f"ids must be in the index; not there: {some_of(missing)}.")
    return replace(state, epochs=tuple(epoch.without(ids) for epoch in state.epochs))


def require_epoch(state: State, fingerprint: str) -> Epoch:
    """Return the epoch of a model that must be here."""
    epoch = state.find(fingerprint)
    if epoch is None:
        known = ", ".join(each.fingerprint for each in state.epochs) or "none"
        raise UnknownIdError(
            f"fingerprint must be of an epoch of this index ({known}), got {fingerprint!r}."
        )
    return epoch
