"""A stream that a hasher follows: a model that learns from every vector, and the epochs that hold
still while it does.

Everything happens by counts of vectors: however a stream is cut into calls, models and codes are
the same bit for bit.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Batch, Words
from bitkin.code_spec import WORD, CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.learning import ModelRecipe
from bitkin.hashers.projection.projections.base import StreamingProjection
from bitkin.hashers.projection.rotations import CovarianceRotation, UnifDiag
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.streams.drift import (
    Drift,
    EarlierModel,
    RecentStream,
    share_of_flipped_bits,
)
from bitkin.hashers.projection.streams.epoch_rule import NO_EVENT, RECENT, EpochRule
from bitkin.hashers.projection.streams.probe import Probe
from bitkin.hashers.projection.streams.rows import (
    SkippedVectors,
    align_with_rows,
    require_finite,
    stream_rows,
)
from bitkin.hashers.projection.trackers import FrozenSigns, OPASTTracker, Tracker
from bitkin.locks import ModelLock
from bitkin.notices import warn_caller
from bitkin.randomness import Draws

_LOOK_EVERY = 4096  # vectors between two looks at how much is captured at all
_LITTLE = 0.1  # of what random directions would leave uncaptured
_STRETCH_PRODUCTS = 1 << 24  # products of two numbers: about 10 ms of learning
_STRETCH_ROTATIONS = 16  # found one after another, some 0.1 to 1 ms each


class Stream:
    """Tracker, rotation and epochs of a stream, moved forward by `advance`.

    One thread at a time learns; others may read meanwhile, and see the model between two calls of
    `advance`.

    Parameters
    ----------
    recipe : ModelRecipe
        Its projection follows streams, and its rotation is found again every `recipe.refresh`
        vectors.
    n_features : int
        Length of a vector.

    Attributes
    ----------
    lock : ModelLock
        Held while the stream learns; whoever reads several attributes that must fit together holds
        it too.
    tracker : Tracker
        Directions, mean and covariance of the stream so far.
    rotation_matrix : float64 (n_bits, n_bits) or None
        What the rotation made of the tracker's covariance when it was last found.
    epoch : SignModel or None
        What makes the codes; None where the moving model does.
    n_epochs, epoch_start, n_skipped : int
        Epochs begun, `n_seen` when the current one began, and vectors left out.
    captured_at_start : float
        Share of the recent variance that the epoch captured when it began.
    warming_up : bool
        Whether the epoch has random directions, until enough vectors were seen.
    counts_mean : bool
        Whether a mean that has moved counts as variance lost; not in streams of old files.
    """

    def __init__(self, recipe: ModelRecipe, n_features: int) -> None:
        projection, rotation = recipe.projection, recipe.rotation
        if not isinstance(projection, StreamingProjection) or not (
            rotation is None or isinstance(rotation, CovarianceRotation)
        ):
            raise InvalidInputError(f"{projection!r} with {rotation!r} cannot follow a stream.")
        self.recipe = recipe
        self.rotation = rotation
        self.tracker: Tracker = projection.tracker(
            n_features, recipe.n_bits, center=recipe.center, draws=Draws(recipe.seed, "projection")
        )
        self.spec = CodeSpec(recipe.n_bits)
        self.rotation_matrix: npt.NDArray[np.float64] | None = None
        self.epoch: SignModel | None = None
        self.n_epochs = 0
        self.epoch_start = 0
        self.captured_at_start = 1.0
        self.n_skipped = 0
        self.warming_up = True
        self.counts_mean = True
        self.rule = EpochRule(recipe.epochs, recipe.n_bits, recipe.refresh)
        self.probe = Probe(n_features)
        self._ready = self.tracker.ready
        # The kernel of OPAST refreshes UnifDiag by itself, so that no batch need be cut for it.
        plain = isinstance(rotation, UnifDiag) and rotation.start == "identity"
        in_kernel = plain and isinstance(self.tracker, OPASTTracker)
        self._refresh_in_kernel = recipe.refresh if in_kernel else 0
        # What looks at no data would only be drawn again as it is.
        self._refreshes_here = not in_kernel and rotation is not None and rotation.needs_rows
        # Made when asked for, and made again once learning has changed what they are made of.
        self._current: SignModel | None = None
        self._frozen_signs: FrozenSigns | None = None
        self._watched: EarlierModel | None = None
        # What to warn of before more is learned; once, so "" after that.
        self._complaint: str | None = None
        self.lock = ModelLock()
        self._find_rotation()
        if recipe.epochs is not None:
            self.begin_epoch()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again: it would be a third copy of the directions."""
        with self.lock:
            moving = {
                name: copy.deepcopy(getattr(self, name))
                for name in ("tracker", "rotation_matrix", "probe")
            }
            made_again = {"_current": None, "_frozen_signs": None, "_watched": None, "lock": None}
            return self.__dict__ | moving | made_again

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=ModelLock())

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return self.tracker.n_features

    @property
    def n_seen(self) -> int:
        """Vectors learned from."""
        return self.tracker.n_seen

    @property
    def model(self) -> SignModel:
        """The current model."""
        with self.lock:
            if self._current is None:
                components = self.tracker.directions
                if self.rotation_matrix is not None:
                    # Wᵀ and R in one matrix: sign((xWᵀ)R) = sign(x(WᵀR))
                    wide = components.astype(np.float64)
                    with threads.blas_in_one_thread():
                        components = (wide @ self.rotation_matrix).astype(np.float32)
                mean = self.tracker.mean if self.recipe.center else None
                self._current = SignModel(
                    components, mean, self.recipe.normalize, random=not self.tracker.ready
                )
            return self._current

    def fit(self, batches: Iterable[Batch]) -> None:
        """Learn from float32 batches, normalized already, and begin one epoch after all of them.

        No other thread knows of the stream yet.
        """
        self.tracker.begin_fit()
        for batch in batches:
            for rows, _ in stream_rows(batch, normalize=False):
                self.advance(rows, emit=False, epochs=False)
        self._end_fit()

    def fit_merged(self, tracker: Tracker, last: Batch) -> None:
        """Continue from what trackers in several places learned, merged to one, as after `fit`;
        the `last` rows, float32 and as many as a probe holds, stand for all where models are
        compared.
        """
        self.tracker = tracker
        rows = np.concatenate([rows for rows, _ in stream_rows(last, normalize=False)])
        self.probe = Probe(tracker.n_features, tracker.n_seen, rows)
        self._find_rotation()
        self._end_fit()

    def _end_fit(self) -> None:
        # A rotation is only as current as the covariance it was found from: find it again where
        # `flush` has changed that.
        before = self.tracker.covariance
        self.tracker.end_fit()
        self._ready = self.tracker.ready
        self._forget_current()
        if (self.tracker.covariance != before).any():
            self._find_rotation()
        self.model.require_smaller_mean()
        if self.epoch is not None:
            self.n_epochs = 0
            self.begin_epoch()

    def learn(self, batch: Batch, *, strict: bool = False) -> None:
        """Learn from the rows of a batch; those that are not finite are skipped, or an error with
        `strict`.
        """
        if strict:
            require_finite(batch, self.n_seen + self.n_skipped)
        skipped = SkippedVectors()
        for rows, usable in stream_rows(batch, self.recipe.normalize):
            # Warn before anything is learned: the caller may make an error of it.
            n_skipped = 0 if usable is None else skipped.count(usable)
            self._complain()
            self.advance(rows, emit=False)
            self.n_skipped += n_skipped
        self._complain()

    def sketch(
        self, batch: Batch, skipped: SkippedVectors, *, strict: bool = False
    ) -> Iterator[tuple[SignModel | None, Codes]]:
        """Yield the codes of a batch, block by block and epoch by epoch, each with the epoch's
        model that made them, and learn from the rows.
        """
        if strict:
            require_finite(batch, self.n_seen + self.n_skipped)
        for rows, usable in stream_rows(batch, self.recipe.normalize):
            # Warn before anything is learned: the caller may make an error of it.
            n_skipped = 0 if usable is None else skipped.count(usable)
            self._complain()
            parts = self.advance(rows, emit=True)
            self.n_skipped += n_skipped
            last = self.epoch, np.empty((0, self.spec.plane_words), dtype=WORD)
            for model, words, empty in align_with_rows(parts, usable, last):
                fingerprint = None if model is None else model.fingerprint
                yield model, Codes.from_parts(words[:, None, :], self.spec, empty, fingerprint)

    def restore(
        self,
        tracker: Tracker,
        rotation_matrix: npt.NDArray[np.float64] | None,
        epoch: SignModel | None,
        probe: Probe,
        current: SignModel,
        *,
        warming_up: bool,
    ) -> None:
        """Continue from what another stream had learned; `current` is its model, which another
        machine might round differently.
        """
        self.tracker = tracker
        self.rotation_matrix = rotation_matrix
        self.epoch = epoch
        self.probe = probe
        self.warming_up = warming_up
        self._ready = tracker.ready
        self._current = current
        self._frozen_signs = None
        self._watched = None

    def begin_epoch(self) -> SignModel:
        """Let the current model make the codes from here on."""
        with self.lock:
            self.epoch = self.model
            self._frozen_signs = None
            self._watched = None
            self.epoch_start = self.n_seen
            self.n_epochs += 1
            self.warming_up = not self.tracker.ready
            if self.rule.share is not None:
                self.captured_at_start = RecentStream(self.tracker).variance_captured(
                    self._watch(self.epoch)
                )
            return self.epoch

    def drift(self, earlier: SignModel) -> Drift:
        """Return how far the current model is from an earlier one."""
        model = EarlierModel(earlier)
        with self.lock:
            recent = RecentStream(self.tracker)
            return Drift(
                mean_shift=recent.mean_shift(model),
                variance_kept=recent.variance_kept(model),
                variance_captured=recent.variance_captured(model),
                bits_flipped=share_of_flipped_bits(earlier, self.model, self.probe.rows),
                diagonal_spread=recent.diagonal_spread(model),
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
        words = np.empty((len(rows), self.spec.plane_words if emit else 0), dtype=WORD)
        # epochs, and up to which row they made the codes
        ended: list[tuple[SignModel | None, int]] = []
        step = self._rows_per_stretch()
        for first in range(0, len(rows), step):
            with self.lock:
                ended += self._advance(rows, words, first, min(first + step, len(rows)), epochs)
        # Epoch i made the codes of rows ends[i] … ends[i + 1]; the current one made the last.
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
            # All rows up to the next event are learned in one go: between events nothing but the
            # tracker changes.
            stop = min(last, at + self._vectors_to_next_event(emit=emit, epochs=epochs))
            # asked before learning: afterwards the tracker counts to the change after
            changes = stop - at >= self.tracker.vectors_to_next_change()
            self._follow(rows[at:stop], words[at:stop])
            if changes:
                self._forget_current()
            self.probe.update(rows[at:stop])
            at = stop
            self._refresh_where_due()
            if epochs and self._complaint is None and self.n_seen % _LOOK_EVERY == 0:
                self._look_at_share()
            if epochs and self._epoch_is_due():
                ended.append((self.epoch, at))
                self.begin_epoch()
        return ended

    def _rows_per_stretch(self) -> int:
        """Return how many rows to learn while signals wait: some milliseconds' worth, however they
        are learned.
        """
        rows = max(64, _STRETCH_PRODUCTS // (self.n_features * self.spec.n_symbols))
        if not self._refreshes_here:
            return rows
        return min(rows, _STRETCH_ROTATIONS * self.recipe.refresh)

    def _find_rotation(self) -> None:
        """Find the rotation for the current covariance; nothing else decides it."""
        if self.rotation is not None:
            self.rotation_matrix = self.rotation.rotation_of(
                self.tracker.covariance, Draws(self.recipe.seed, "rotation")
            )
            self._forget_current()

    def _forget_current(self) -> None:
        """Let what was made of the current model be made again."""
        self._current = None
        if self.epoch is None:
            self._frozen_signs = None

    def _refresh_where_due(self) -> None:
        was_ready, self._ready = self._ready, self.tracker.ready
        if (
            self._refreshes_here
            and self._ready
            and (not was_ready or self.n_seen % self.recipe.refresh == 0)
        ):
            self._find_rotation()

    def _vectors_to_next_event(self, *, emit: bool, epochs: bool) -> int:
        """Return after how many vectors to look up: a rotation may be due, or an epoch."""
        n, waits = self.n_seen, [NO_EVENT]
        if self._refreshes_here:
            # before the tracker is ready, look after every
            # vector: the first rotation is due at once then
            waits.append(self.recipe.refresh - n % self.recipe.refresh if self._ready else 1)
        if emit and self.epoch is None and not isinstance(self.tracker, OPASTTracker):
            # the model that codes is another one from there on
            waits.append(self.tracker.vectors_to_next_change())
        if epochs and self.epoch is not None:
            waits.append(
                self.rule.vectors_to_next_event(n, self.epoch_start, warming_up=self.warming_up)
            )
            waits.append(_LOOK_EVERY - n % _LOOK_EVERY)
            if not self._ready:
                waits.append(self.tracker.vectors_to_next_change())
        return max(1, min(waits))

    def _epoch_is_due(self) -> bool:
        if self.epoch is None or not self._ready:
            return False
        due = self.rule.is_due(self.n_seen, self.epoch_start, warming_up=self.warming_up)
        return self._has_lost_its_share(self.epoch) if due is None else due

    def _has_lost_its_share(self, epoch: SignModel) -> bool:
        """Whether the epoch's directions, or its mean, serve the recent stream so much worse."""
        rule, recent, watched = self.rule, RecentStream(self.tracker), self._watch(epoch)
        # Due where the epoch's directions capture less than 1 − share of what the current ones do.
        # Bits about a mean that is not the stream's tell less too: its squared way counts as lost.
        least = 1 - (rule.share or 0.0)
        kept = recent.variance_kept(watched)
        if self.counts_mean:
            kept -= recent.mean_shift(watched)
        if kept < least:
            return True
        # A share that was asked for is also that of what the epoch captured at its start, once the
        # recent stream is all of this epoch: a model that cannot follow is noticed by it.
        return (
            rule.epochs != "auto"
            and self.n_seen - self.epoch_start >= RECENT
            and recent.variance_captured(watched) < least * self.captured_at_start
        )

    def _look_at_share(self) -> None:
        """Find out whether the epoch captures hardly more than random directions would."""
        n_features, n_bits = self.n_features, self.spec.n_symbols
        if self.epoch is None or self.warming_up or self.n_seen - self.epoch_start < RECENT:
            return
        recent, watched = RecentStream(self.tracker), self._watch(self.epoch)
        captured, at_random = recent.variance_captured(watched), n_bits / n_features
        if captured - at_random >= _LITTLE * (1 - at_random):
            return
        if recent.variance_kept(watched) < 0.5:
            advice = "Begin an epoch by new_epoch(), or make the hasher with epochs='auto'."
        else:
            advice = (
                "Where the stream has turned, use OPAST(forgetting='auto'), which follows; where "
                "vectors vary along all directions alike, use more bits."
            )
        self._complaint = (
            f"The {n_bits} directions that make the codes capture {captured:.0%} of the variance "
            f"of about the last {RECENT:,} vectors, hardly more than random ones would "
            f"({at_random:.0%}): such codes find few neighbours. {advice}"
        ).replace("%", " %")

    def _complain(self) -> None:
        """Warn of what was noticed, once."""
        if self._complaint:
            complaint, self._complaint = self._complaint, ""
            warn_caller(complaint)

    def _watch(self, epoch: SignModel) -> EarlierModel:
        """Return the directions of the current epoch, prepared once to be compared with."""
        if self._watched is None:
            self._watched = EarlierModel(epoch)
        return self._watched

    def _follow(self, rows: npt.NDArray[np.float32], words: Words) -> None:
        """Write codes, if words have room for them, and learn: each vector is coded before it is
        learned from.
        """
        if isinstance(self.tracker, OPASTTracker):
            frozen = self._signs() if words.shape[1] and self.epoch is not None else None
            self.tracker.follow(
                rows,
                words,
                frozen=frozen,
                rotation=self.rotation_matrix,
                refresh=self._refresh_in_kernel,
            )
            return
        if words.shape[1]:
            self._signs().write(rows, words)
        self.tracker.update(rows)

    def _signs(self) -> FrozenSigns:
        """Return what makes codes: the epoch, or else the current model."""
        if self._frozen_signs is None:
            maker = self.model if self.epoch is None else self.epoch
            self._frozen_signs = FrozenSigns(maker.components, maker.exact_offset)
        return self._frozen_signs
