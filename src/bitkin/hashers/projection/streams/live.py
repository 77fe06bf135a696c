"""A model that learns from every vector, and the epochs that hold still while it does.

Everything happens by counts of vectors: however a stream is cut into calls, models and codes are
the same bit for bit.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Batch, Words
from bitkin.code_spec import WORD
from bitkin.hashers.projection.rotations import CovarianceRotation, RandomRotation, UnifDiag
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.streams.drift import Drift, Earlier, RecentStream, bits_flipped
from bitkin.hashers.projection.streams.probe import Probe
from bitkin.hashers.projection.streams.rows import stream_rows
from bitkin.hashers.projection.streams.settings import Settings
from bitkin.hashers.projection.trackers import FrozenSigns, OPASTTracker, Tracker
from bitkin.locks import ModelLock
from bitkin.randomness import Draws

_CHECK_EVERY = 256  # vectors, at least, between two looks at the drift
_RECENT = 1024  # vectors after which most of what is known of the recent stream is of the epoch
_WARM_UP = 32  # vectors a bit, after which the first directions are worth an epoch
_ALL = 1 << 62
_STRETCH_PRODUCTS = 1 << 24  # of numbers: about 10 ms of learning
_STRETCH_ROTATIONS = 16  # found one after another, some 0.1 to 1 ms each


class LiveModel:
    """Tracker, rotation and epochs of a stream, moved on by `advance`.

    One thread at a time learns; others may read meanwhile, and see the model between two calls of
    `advance`.

    Parameters
    ----------
    tracker : Tracker
        Follows directions, mean and covariance.
    rotation : CovarianceRotation or None
        Turns the directions; found anew every `settings.refresh` vectors.
    settings : Settings
    """

    def __init__(
        self, tracker: Tracker, rotation: CovarianceRotation | None, settings: Settings
    ) -> None:
        self.tracker = tracker
        self.rotation = rotation
        self.settings = settings
        self.turn: npt.NDArray[np.float64] | None = None
        self.epoch: SignModel | None = None
        self.n_epochs = 0
        self.epoch_start = 0
        self.captured_at_start = 1.0
        self.n_skipped = 0
        self.warming_up = True
        self.probe = Probe(tracker.n_features)
        self._ready = tracker.ready
        # The kernel of OPAST refreshes UnifDiag by itself, so that no batch need be cut for it.
        plain = isinstance(rotation, UnifDiag) and rotation.start == "identity"
        in_kernel = plain and isinstance(tracker, OPASTTracker)
        self._refresh_inside = settings.refresh if in_kernel else 0
        self._refreshes_here = not (
            in_kernel or rotation is None or isinstance(rotation, RandomRotation)
        )
        self._check_every = max(_CHECK_EVERY, settings.refresh)
        self._now: SignModel | None = None
        self._frozen: FrozenSigns | None = None
        self._watched: Earlier | None = None
        self.lock = ModelLock()
        self._find_turn()
        if settings.epochs is not None:
            self.begin_epoch()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again: it would be a third copy of the directions."""
        with self.lock:
            moving = {
                name: copy.deepcopy(getattr(self, name)) for name in ("tracker", "turn", "probe")
            }
            made_again = {"_now": None, "_frozen": None, "_watched": None, "lock": None}
            return self.__dict__ | moving | made_again

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=ModelLock())

    @property
    def n_seen(self) -> int:
        """Vectors learned from."""
        return self.tracker.n_seen

    @property
    def model(self) -> SignModel:
        """The model as it is now."""
        with self.lock:
            if self._now is None:
                components = self.tracker.directions
                if self.turn is not None:
                    with threads.blas_in_one_thread():
                        components = (components.astype(np.float64) @ self.turn).astype(np.float32)
                mean = self.tracker.mean if self.settings.center else None
                self._now = SignModel(
                    components, mean, self.settings.normalize, random=not self.tracker.ready
                )
            return self._now

    def learn(self, batches: Iterable[Batch]) -> None:
        """Learn from float32 batches, normalized already, and begin one epoch after all of them.

        No other thread knows of the model yet.
        """
        for batch in batches:
            for rows, _ in stream_rows(batch, normalize=False):
                self.advance(rows, emit=False, epochs=False)
        known = self.tracker.covariance
        self.tracker.settle()
        self._ready = self.tracker.ready
        self._forget_now()
        if (self.tracker.covariance != known).any():
            self._find_turn()
        self.model.require_smaller_mean()
        if self.epoch is not None:
            self.n_epochs = 0
            self.begin_epoch()

    def go_on(
        self,
        tracker: Tracker,
        turn: npt.NDArray[np.float64] | None,
        epoch: SignModel | None,
        probe: Probe,
        now: SignModel,
        *,
        warming_up: bool,
    ) -> None:
        """Become what another live model was; `now` is its model, which another machine might round
        otherwise.
        """
        self.tracker, self.turn, self.epoch, self.probe, self.warming_up = (
            tracker,
            turn,
            epoch,
            probe,
            warming_up,
        )
        self._ready, self._now, self._frozen, self._watched = tracker.ready, now, None, None

    def begin_epoch(self) -> SignModel:
        """Let the model of now make the codes from here on."""
        with self.lock:
            self.epoch, self._frozen, self._watched = self.model, None, None
            self.epoch_start = self.n_seen
            self.n_epochs += 1
            self.warming_up = not self.tracker.ready
            if isinstance(self.settings.epochs, float):
                self.captured_at_start = RecentStream(self.tracker).variance_captured(
                    self._watch(self.epoch)
                )
            return self.epoch

    def drift(self, earlier: SignModel) -> Drift:
        """Return how far the model of now is from an earlier one."""
        model = Earlier(earlier)
        with self.lock:
            stream = RecentStream(self.tracker)
            return Drift(
                variance_kept=stream.variance_kept(model),
                variance_captured=stream.variance_captured(model),
                bits_flipped=bits_flipped(earlier, self.model, self.probe.rows),
                diagonal_spread=stream.diagonal_spread(model),
                n_vectors=self.n_seen,
            )

    def advance(
        self, rows: npt.NDArray[np.float32], *, emit: bool, epochs: bool = True
    ) -> list[tuple[SignModel | None, Words]]:
        """Learn from rows, one after another, and return the codes each had before: packed, with
        what made them.

        There is one part for every epoch, or one of no model where there are none. Without `emit`
        codes are not made; without `epochs` none begins. An interrupt comes between two stretches
        of rows: those before it are learned.
        """
        words = np.empty((len(rows), -(-self.tracker.n_bits // 64) if emit else 0), dtype=WORD)
        # epochs, and up to which row they made the codes
        ended: list[tuple[SignModel | None, int]] = []
        step = self._rows_per_stretch()
        for first in range(0, len(rows), step):
            with self.lock:
                ended += self._advance(rows, words, first, min(first + step, len(rows)), epochs)
        ends = [0, *(end for _, end in ended), len(rows)]
        makers = [*(model for model, _ in ended), self.epoch]
        parts = [
            (model, words[begin:end])
            for model, (begin, end) in zip(makers, pairwise(ends), strict=True)
        ]
        return [(model, part) for model, part in parts if len(part)]

    def _advance(
        self, rows: npt.NDArray[np.float32], words: Words, first: int, last: int, epochs: bool
    ) -> list[tuple[SignModel | None, int]]:
        """Learn from rows `first` … `last`; return the epochs that end among them, and after which
        row.
        """
        ended: list[tuple[SignModel | None, int]] = []
        emit, at = words.shape[1] > 0, first
        while at < last:
            stop = min(last, at + self._vectors_to_next_event(emit=emit, epochs=epochs))
            changes = stop - at >= self.tracker.vectors_to_next_change()
            self._follow(rows[at:stop], words[at:stop])
            if changes:
                self._forget_now()
            self.probe.update(rows[at:stop])
            at = stop
            self._refresh_where_due()
            if epochs and self._epoch_is_due():
                ended.append((self.epoch, at))
                self.begin_epoch()
        return ended

    def _rows_per_stretch(self) -> int:
        """Return how many rows to learn while signals wait: some milliseconds' worth, however they
        are learned.
        """
        rows = max(64, _STRETCH_PRODUCTS // (self.tracker.n_features * self.tracker.n_bits))
        return (
            min(rows, _STRETCH_ROTATIONS * self.settings.refresh) if self._refreshes_here else rows
        )

    def _find_turn(self) -> None:
        """Find the rotation for the covariance of now; nothing else decides it."""
        if self.rotation is not None:
            self.turn = self.rotation.rotation_of(
                self.tracker.covariance, Draws(self.settings.seed, "rotation")
            )
            self._forget_now()

    def _forget_now(self) -> None:
        """Let what was made of the model of now be made again."""
        self._now = None
        if self.epoch is None:
            self._frozen = None

    def _refresh_where_due(self) -> None:
        was_ready, self._ready = self._ready, self.tracker.ready
        if (
            self._refreshes_here
            and self._ready
            and (not was_ready or self.n_seen % self.settings.refresh == 0)
        ):
            self._find_turn()

    def _vectors_to_next_event(self, *, emit: bool, epochs: bool) -> int:
        """Return after how many vectors to look up: a rotation may be due, or an epoch."""
        n, waits = self.n_seen, [_ALL]
        if self._refreshes_here:
            waits.append(self.settings.refresh - n % self.settings.refresh if self._ready else 1)
        if emit and self.epoch is None and not isinstance(self.tracker, OPASTTracker):
            # the model that codes is another one from there on
            waits.append(self.tracker.vectors_to_next_change())
        if epochs and self.epoch is not None:
            if self.warming_up:
                waits.append(_WARM_UP * self.tracker.n_bits - n)
            elif isinstance(self.settings.epochs, int):
                waits.append(self.epoch_start + self.settings.epochs - n)
            elif isinstance(self.settings.epochs, float):
                waits.append(self._check_every - n % self._check_every)
        return max(1, min(waits))

    def _epoch_is_due(self) -> bool:
        n, epochs = self.n_seen, self.settings.epochs
        if self.epoch is None or not self._ready:
            return False
        if self.warming_up:
            return n >= _WARM_UP * self.tracker.n_bits
        if isinstance(epochs, int):
            return n - self.epoch_start >= epochs
        if isinstance(epochs, float) and n % self._check_every == 0:
            stream, watched = RecentStream(self.tracker), self._watch(self.epoch)
            return stream.variance_kept(watched) < 1 - epochs or (
                n - self.epoch_start >= _RECENT
                and stream.variance_captured(watched) < (1 - epochs) * self.captured_at_start
            )
        return False

    def _watch(self, epoch: SignModel) -> Earlier:
        """Return the directions of the current epoch, prepared once to be compared with."""
        if self._watched is None:
            self._watched = Earlier(epoch)
        return self._watched

    def _follow(self, rows: npt.NDArray[np.float32], words: Words) -> None:
        """Write codes, if words have room for them, and learn: each vector is coded before it is
        learned from.
        """
        if isinstance(self.tracker, OPASTTracker):
            frozen = self._signs() if words.shape[1] and self.epoch is not None else None
            self.tracker.follow(
                rows, words, frozen=frozen, rotation=self.turn, refresh=self._refresh_inside
            )
            return
        if words.shape[1]:
            self._signs().write(rows, words)
        self.tracker.update(rows)

    def _signs(self) -> FrozenSigns:
        """Return what makes codes: the epoch, or else the model of now."""
        if self._frozen is None:
            maker = self.model if self.epoch is None else self.epoch
            self._frozen = FrozenSigns(maker.components, maker.exact_offset)
        return self._frozen
