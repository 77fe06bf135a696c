"""All epochs of an index at one moment, and how that becomes the next moment. Pure functions.

A state never changes, so a search needs no lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bitkin.checks import id_array
from bitkin.codes import Codes
from bitkin.errors import CodeMismatchError, DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.index.epoch import Epoch
from bitkin.index.estimate import Corrections, Scorer
from bitkin.index.segment import Ids
from bitkin.index.snapshot import some_of

MAX_ID = 2**63 - 1


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """All epochs at one moment, in the order in which they began; no id is in two of them."""

    epochs: tuple[Epoch, ...] = ()
    next_id: int = 0

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
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(epoch.rows.ids() for epoch in self.epochs)]))

    def require_length(self, n_features: int, name: str) -> None:
        """Raise unless vectors of this length can be compared with those here."""
        wanted = {len(epoch.scorer.model.components) for epoch in self.epochs}
        if wanted - {n_features}:
            raise InvalidInputError(
                f"{name} must have {wanted.pop()} features, like all epochs of the index, got {n_features}."
            )

    def put(self, epoch: Epoch) -> State:
        """Return the state with this epoch in the place of the one of the same model, or at the end."""
        if self.find(epoch.fingerprint) is None:
            return replace(self, epochs=(*self.epochs, epoch))
        same = tuple(epoch if old.fingerprint == epoch.fingerprint else old for old in self.epochs)
        return replace(self, epochs=same)


def begun(state: State, scorer: Scorer) -> State:
    """Return the state with an epoch of this model, new or old."""
    if state.find(scorer.model.fingerprint) is not None:
        return state
    state.require_length(len(scorer.model.components), "snapshot")
    return state.put(Epoch.of(scorer))


def with_codes(
    state: State, codes: Codes, numbers: Corrections, ids: npt.ArrayLike | None
) -> tuple[State, npt.NDArray[np.int64]]:
    """Return the state with new rows, and their ids."""
    epoch = state.find(codes.fingerprint)
    if epoch is None:
        raise CodeMismatchError(
            f"codes must carry the fingerprint of an epoch of this index, got {codes.fingerprint}. Begin the epoch "
            "with begin(snapshot), or add vectors by a snapshot."
        )
    if codes.spec != epoch.rows.spec:
        raise CodeMismatchError(f"codes must be {epoch.rows.spec} codes like their epoch's, got {codes.spec}.")
    if ids is None:
        if state.next_id + len(codes) - 1 > MAX_ID:
            raise InvalidInputError("ids are used up to 2**63 - 1. Give ids of your own.")
        new = np.arange(state.next_id, state.next_id + len(codes), dtype=np.int64)
    else:
        new = id_array(ids).copy()
        if len(new) != len(codes):
            raise InvalidInputError(f"ids must be one a row, got {len(new)} for {len(codes)} rows.")
        values, counts = np.unique(new, return_counts=True)
        if len(values) < len(new):
            raise DuplicateIdError(f"ids must differ, given more than once: {some_of(values[counts > 1])}.")
        there = state.present(new)
        if there.any():
            raise DuplicateIdError(f"ids must be new, already in the index: {some_of(new[there])}. Remove them first.")
    next_id = max(state.next_id, int(new.max()) + 1) if len(new) else state.next_id
    return replace(state.put(epoch.with_codes(codes, numbers, new)), next_id=next_id), new


def require_epoch(state: State, fingerprint: str) -> Epoch:
    """Return the epoch of a model that must be here."""
    epoch = state.find(fingerprint)
    if epoch is None:
        known = ", ".join(each.fingerprint for each in state.epochs) or "none"
        raise UnknownIdError(f"fingerprint must be of an epoch of this index ({known}), got {fingerprint!r}.")
    return epoch
