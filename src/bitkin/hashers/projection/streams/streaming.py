"""What a ProjectionHash can do with a stream, where its projection follows one."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Batch
from bitkin.code_spec import WORD, CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.estimators.available import unless
from bitkin.estimators.vector_input import TakesVectors, fitted_names
from bitkin.hashers.projection.projections.base import Projection, StreamingProjection
from bitkin.hashers.projection.rotations import CovarianceRotation, Rotation
from bitkin.hashers.projection.streams.rows import (
    Skipped,
    aligned,
    as_batch,
    one_block,
    one_row,
    require_finite,
    stream_rows,
)
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.columns import require_columns

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.hashers.projection.sign_model import SignModel
    from bitkin.hashers.projection.streams.drift import Drift
    from bitkin.hashers.projection.streams.live import LiveModel


def follow_streams(projection: Projection, rotation: Rotation | None) -> bool:
    """Whether two slots can learn vector by vector: directions that move, and a rotation that needs
    no rows.
    """
    turns = rotation is None or isinstance(rotation, CovarianceRotation)
    return isinstance(projection, StreamingProjection) and turns


def _why_not_follow(hasher: Any) -> str | None:
    if hasher._can_follow():
        return None
    if hasattr(hasher, "spec_"):
        return "it is a snapshot, or was fitted without a stream to follow, and stays as it is."
    return (
        "to go on learning takes projection='opast' or 'frequent-directions' and "
        "rotation='unifdiag', 'isohash', "
        f"'random' or None, got projection={hasher.projection!r} and rotation={hasher.rotation!r}."
    )


_where_streams = unless(_why_not_follow)  # a method exists only where there is a stream to follow


class Streaming(TakesVectors):
    """Learning vector by vector, codes on the way, epochs and drift: the part of `ProjectionHash`
    that streams.
    """

    spec_: CodeSpec
    n_features_in_: int
    _live: LiveModel | None = None
    _copied_from: tuple[int, int, int, int]

    @property
    @abstractmethod
    def _model(self) -> SignModel:
        """What makes the codes, as it is now."""

    @abstractmethod
    def _can_follow(self) -> bool:
        """Whether vectors of a stream can be learned from."""

    @abstractmethod
    def _start_live(self, n_features: int) -> LiveModel:
        """Return a model that has seen no vector yet, and be fitted."""

    @abstractmethod
    def _frozen_hasher(self, model: SignModel) -> ProjectionHash:
        """Return a hasher of its own with this model, which cannot learn any more."""

    @_where_streams
    def partial_fit(self, X: Any, y: Any = None, *, strict: bool = False) -> Self:
        """Learn from more rows; any cut of the same rows into calls gives the same model to the
        last bit.

        Rows that are not finite are skipped, counted in `n_skipped_` and warned of; with `strict`
        they are an error, and nothing of `X` is learned. So are they always in a `VectorSource`,
        which checks its rows itself.
        """
        if isinstance(X, VectorSource):
            self._learn_source(X)
            return self
        live, batch = self._started(X)
        if strict:
            require_finite(batch, live.n_seen + live.n_skipped)
        if one_block(batch):
            self._learn_batch(live, batch)
        else:
            # A later block may fail, by an interrupt or where warnings are errors; beside so many
            # rows a copy is cheap.
            trial = self._trial()
            trial._learn_batch(trial._require_live(), batch)
            self._accept(trial)
        return self

    @_where_streams
    def sketch(self, x: Any, *, strict: bool = False) -> Codes:
        """Return the code of one vector, (n_features,) or (1, n_features), and learn from the
        vector after that.

        The code is the current epoch's, under its fingerprint; with `epochs=None` it is that of the
        model just before, under none. A vector that is not finite has an empty code and is not
        learned from, or is an error with `strict`.
        """
        return next(self._coded(one_row(x), strict, Skipped()))

    @_where_streams
    def sketch_stream(self, vectors: Any, *, strict: bool = False) -> Iterator[Codes]:
        """Yield the codes of a stream as `sketch` makes them, learning on the way.

        `vectors` is an iterable of vectors or of batches, and the codes of each are yielded before
        the next is asked for; or an array, a CSR matrix, a data frame or a `VectorSource`, whose
        codes come some thousand rows at a time. All rows of one `Codes` belong to one epoch: where
        one ends, the codes of a batch come in two. Rows and codes stay aligned: a vector that is
        not finite has an empty row, under the epoch at its time.

        Learning happens as codes are asked for. Where an error ends the stream, all earlier vectors
        have been learned.
        """
        return self._sketched(self._stream_batches(vectors), strict)

    def snapshot(self) -> ProjectionHash:
        """Return the model as it is now, as a hasher of its own that never changes; its fingerprint
        is that of now.
        """
        check_is_fitted(self)
        return self._frozen_hasher(self._model)

    @_where_streams
    def new_epoch(self) -> ProjectionHash:
        """Let the model of now make all further codes, and return it as `snapshot` does."""
        live = self._require_live()
        if live.settings.epochs is None:
            raise InvalidInputError(
                "epochs=None means that there are none. Make the hasher with epochs='request'."
            )
        return self._frozen_hasher(live.begin_epoch())

    @_where_streams
    def drift(self, since: ProjectionHash | None = None) -> Drift:
        """Return how far the model has moved since a snapshot of it, or from any ProjectionHash of
        the same shape.

        Without `since` it is since the current epoch began.
        """
        live = self._require_live()
        if since is None:
            if live.epoch is None:
                raise InvalidInputError(
                    "since must be a snapshot of this hasher, got None, and with epochs=None there "
                    "is no epoch to "
                    "stand for it. Keep hasher.snapshot() of an earlier time."
                )
            return live.drift(live.epoch)
        model = getattr(since, "_model", None)
        shape = (live.tracker.n_features, live.tracker.n_bits)
        if model is None or model.components.shape != shape:
            got = (
                f"a {type(since).__name__}"
                if model is None
                else "one of {} and {}".format(*model.components.shape)
            )
            raise InvalidInputError(
                "since must be a snapshot of this hasher, or a fitted ProjectionHash of "
                f"{shape[0]} features and "
                f"{shape[1]} bits as well, got {got}."
            )
        require_columns(fitted_names(since), fitted_names(self), "since", "this hasher")
        return live.drift(model)

    @property
    def epoch_(self) -> ProjectionHash:
        """The current epoch: the snapshot whose codes `sketch` returns."""
        live = self._require_live()
        if live.epoch is None:
            raise AttributeError(
                "epoch_ does not exist with epochs=None: a model that moves makes the codes."
            )
        return self._frozen_hasher(live.epoch)

    @property
    def n_epochs_(self) -> int:
        """Epochs begun so far; of a stream that no `fit` began, the first one has random
        directions.
        """
        return self._require_live().n_epochs

    @property
    def n_seen_(self) -> int:
        """Vectors learned from."""
        return self._require_live().n_seen

    @property
    def n_skipped_(self) -> int:
        """Vectors left out because they were not finite."""
        return self._require_live().n_skipped

    def _require_live(self) -> LiveModel:
        if self._live is None:
            check_is_fitted(self)
            raise AttributeError(
                "This hasher was not fitted by a projection that follows a stream."
            )
        return self._live

    def _require_width(self, source: VectorSource) -> None:
        if self._live is not None:
            self.require_features(source)

    @staticmethod
    def _learn_batch(live: LiveModel, batch: Batch) -> None:
        skipped = Skipped()
        for rows, usable in stream_rows(batch, live.settings.normalize):
            # Warn before anything is learned: the caller may make an error of it.
            n_skipped = 0 if usable is None else skipped.among(usable)
            live.advance(rows, emit=False)
            live.n_skipped += n_skipped

    def _learn_source(self, source: VectorSource) -> None:
        """Learn from all batches, or stay as before where one of them fails."""
        self._require_width(source)
        trial = self._trial()
        for batch in trial._batches_of(source):
            started, batch = trial._started(batch)
            for rows, _ in stream_rows(batch, started.settings.normalize):
                started.advance(rows, emit=False)
        self._accept(trial)

    def _batches_of(self, source: VectorSource) -> Iterator[Batch]:
        """Yield the batches of a source that the stream may begin with: its columns are the
        hasher's then.
        """
        for _, batch in source.batches():
            if self._live is None:
                with self._restored_on_failure():
                    self._started(batch)
                    self._remember_features(source)  # now: nobody need ask for a second batch
            yield batch

    def _trial(self) -> Self:
        """Return a copy that learns in the place of this hasher, which stays as it is until it
        accepts the copy.
        """
        trial = object.__new__(type(self))
        trial.__dict__.update(
            self.__dict__, _live=copy.deepcopy(self._live), _copied_from=self._progress()
        )
        return trial

    def _require_unchanged_since(self, trial: Self) -> None:
        """Raise where this hasher has learned something since a trial was copied: accepting that
        would lose it.
        """
        if self._progress() != trial._copied_from:
            raise InvalidInputError(
                "vectors must not let the hasher learn while they are read: it would forget that "
                "again. Let it learn "
                "before or after."
            )

    def _accept(self, trial: Self) -> None:
        """Be what a trial has become."""
        self._require_unchanged_since(trial)
        become = {name: value for name, value in trial.__dict__.items() if name != "_copied_from"}
        self.__dict__ = become  # one assignment: no signal handler's exception comes between

    def _progress(self) -> tuple[int, int, int, int]:
        """Return what changes whenever something is learned, skipped or begun."""
        live = self._live
        return (
            (id(live), 0, 0, 0)
            if live is None
            else (id(live), live.n_seen, live.n_skipped, live.n_epochs)
        )

    def _stream_batches(self, vectors: Any) -> Iterator[Any]:
        """Return the batches of what `sketch_stream` takes."""
        whole = (
            issparse(vectors) or hasattr(vectors, "__array__") or isinstance(vectors, VectorSource)
        )
        if not whole and (isinstance(vectors, (str, bytes)) or not isinstance(vectors, Iterable)):
            raise InvalidInputError(
                "vectors must be an array, a sparse matrix, a VectorSource or an iterable of "
                "vectors or batches, "
                f"got {type(vectors).__name__}."
            )
        if isinstance(vectors, VectorSource):
            self._require_width(vectors)
            return self._batches_of(vectors)
        return iter((vectors,)) if whole else map(as_batch, vectors)

    def _sketched(self, batches: Iterator[Any], strict: bool) -> Iterator[Codes]:
        skipped = Skipped()
        for batch in batches:
            yield from self._coded(batch, strict, skipped)

    def _coded(self, X: Any, strict: bool, skipped: Skipped) -> Iterator[Codes]:
        """Yield the codes of a batch, block by block and epoch by epoch, and learn from it."""
        live, batch = self._started(X)
        return (codes for _, codes in self._coded_by_models(live, batch, strict, skipped))

    def _coded_by_models(
        self, live: LiveModel, batch: Batch, strict: bool, skipped: Skipped
    ) -> Iterator[tuple[SignModel | None, Codes]]:
        """Yield what `_coded` does of what `_started` returned, each with the epoch's model that
        made it.
        """
        if strict:
            require_finite(batch, live.n_seen + live.n_skipped)
        for rows, usable in stream_rows(batch, live.settings.normalize):
            # Warn before anything is learned: the caller may make an error of it.
            n_skipped = 0 if usable is None else skipped.among(usable)
            parts = live.advance(rows, emit=True)
            live.n_skipped += n_skipped
            now = live.epoch, np.empty((0, self.spec_.plane_words), dtype=WORD)
            for model, words, empty in aligned(parts, usable, now):
                fingerprint = None if model is None else model.fingerprint
                yield model, Codes.from_parts(words[:, None, :], self.spec_, empty, fingerprint)

    def _started(self, X: Any) -> tuple[LiveModel, Batch]:
        """Return the live model, made now where there is none, and `X` as a batch of its width."""
        live = self._live
        if live is None:
            with self._restored_on_failure():
                batch = self._validate_rows(X, reset=True)
                self._live = live = self._start_live(batch.shape[1])
            return live, batch
        if (
            type(X) is np.ndarray
            and X.dtype.kind in "fiu"
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
        ):
            # what most streams are made of, without the 100 µs that all other checks take
            return live, X
        return live, self._validate_rows(X, reset=False)
