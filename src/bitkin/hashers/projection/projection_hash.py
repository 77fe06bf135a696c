"""ProjectionHash: projection × rotation × sign."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Batch
from bitkin.checks import whole_number
from bitkin.code_spec import MAX_SYMBOLS
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.estimators.available import unless
from bitkin.estimators.vector_input import fitted_names
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.files import load_hasher, save_hasher
from bitkin.hashers.projection.learning import ModelRecipe, can_stream, check_epochs, fit_model
from bitkin.hashers.projection.projections.base import follow_all_rows
from bitkin.hashers.projection.projections.given import Given
from bitkin.hashers.projection.registry import (
    PROJECTIONS,
    ROTATIONS,
    STREAM_ROTATIONS,
    projection_for,
    rotation_for,
)
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.streams.probe import PROBE_ROWS
from bitkin.hashers.projection.streams.rows import (
    SkippedVectors,
    as_batch,
    as_one_row,
    fits_one_block,
    stream_rows,
)
from bitkin.hashers.projection.trial import StreamTrial
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.columns import require_columns
from bitkin.io.vectors.files.mapped import MappedRows, is_whole_map
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.hashers.projection.rotations.base import Rotation
    from bitkin.hashers.projection.streams.drift import Drift
    from bitkin.hashers.projection.streams.stream import Stream
    from bitkin.io.reader import StoredFile


def _why_no_stream(hasher: ProjectionHash) -> str | None:
    """Return why a hasher cannot learn vector by vector; None where it can."""
    if hasattr(hasher, "spec_"):
        if hasattr(hasher, "stream_"):
            return None
        return "it is a snapshot, or was fitted without a stream to follow, and stays as it is."
    try:
        projection = projection_for(hasher.projection)
        if can_stream(projection, rotation_for(hasher.rotation, projection)):
            return None
    except InvalidInputError:
        pass
    return (
        "to go on learning takes projection='opast' or 'frequent-directions' and "
        f"rotation={', '.join(map(repr, ['auto', *STREAM_ROTATIONS]))} or None, got "
        f"projection={hasher.projection!r} and rotation={hasher.rotation!r}."
    )


_where_streams = unless(_why_no_stream)  # a method exists only where there is a stream to follow


class ProjectionHash(Hasher):
    """Bits that are the signs of projected vectors: bit j of x is (x − mean) · directionⱼ ≥ 0.

    Parameters
    ----------
    n_bits : int, default 256
        Length of a code (the papers' c or k).
    projection : {"pca", "nystrom", "random", "opast", "frequent-directions"} or Projection, default
    "pca"
        How directions are found. "pca": those of largest variance.
        "nystrom": about those, from a sample of rows and features. "random": independent normals,
        any number of them. "opast", "frequent-directions": about those of largest variance, vector
        by vector; fewer than features.
    rotation : {"auto", "itq", "unifdiag", "isohash", "random"}, Rotation or None, default "auto"
        How the projected data is rotated before signs are taken. "itq": so that it is nearest to
        its signs. "unifdiag", "isohash": so that all bits have the same variance. "random": at
        random. "auto": "itq" or "random", whichever finds more neighbours of held-out rows; of a
        stream "random".
    center : bool, default True
        Subtract the mean of the fitted rows first. Without it codes depend on directions from the
        origin only.
    normalize : bool, default False
        Scale every row to length 1 first, for cosine.
    refresh : int, default 100
        Of a stream: vectors between two updates of the rotation, counted across calls. 1 is the
        streaming paper's way.
    epochs : "auto", "request", int, float or None, default "auto"
        Of a stream: when the model that makes codes is replaced by the current one. "auto": after
        ½, 2, 8 and 32 vectors per bit of a stream's beginning, and from there on where 3 % of the
        variance is lost, though no sooner than after 512 vectors. "request": when `new_epoch` is
        called. int: after so many vectors. float: where such a share of the variance is lost, such
        as 0.05: the epoch's directions capture so much less of the recent stream than the current
        ones, or than they did when the epoch began, or the mean has moved so far; looked at every
        max(256, `refresh`) vectors. None: codes are made by the model as it moves, which is the
        streaming paper's way; they cannot be compared. `new_epoch` begins one whatever the rule.
    random_state : int or None, default 0
        The seed of all draws; None takes a fresh one, kept as `seed_` and in files.

    Attributes
    ----------
    spec_ : CodeSpec
    fingerprint_ : str
        Equal for two fitted hashers exactly when they make the same codes.
    components_ : float32 (n_features, n_bits)
        Directions times rotation.
    mean_ : float64 (n_features,) or None
        Of all rows; of the sampled ones after "nystrom".
    rotation_ : Rotation or None
        The rotation in use: what was given or, of "auto", what was chosen.
    rotation_losses_ : float64 (n,)
        The loss after each iteration of a rotation that has any, such as ITQ. Set by `fit`,
        not kept in files.
    seed_ : int
    epoch_ : ProjectionHash
        Of a stream: the current epoch, a snapshot that makes the codes of `sketch` and
        `sketch_stream`.
    n_epochs_, n_seen_, n_skipped_ : int
        Of a stream: epochs begun, vectors learned from, and vectors left out because they were not
        finite.

    Notes
    -----
    The mean is subtracted after the projection, in float32, so that sparse rows stay sparse. Where
    the mean is more than about 10⁴ times the spread of the data, bits are lost to rounding: centre
    such data first.

    A rotation learns from a sample of projected rows: 32,768, of dense ones no more than 256 MB,
    and in any case 64 for each bit. More did not help (CIFAR-10 GIST and Fashion-MNIST, 64 and 128
    bits); 3,000 rows lost 4 %. They are chosen by a keyed hash of the row number, so that any
    batches, and any machines that share the work, choose the same. An iterator's are kept while it
    is read. "auto" holds 512 of them out to choose by. After exact PCA, "unifdiag" and "isohash"
    learn from the covariance of all rows instead, and none are kept.

    "pca" and "nystrom" find as many directions as rows vary along: at most as many as features.
    More bits than that are made of those, with one warning: by the rotation, which mixes them into
    all bits and keeps distances as they are; without one, by random combinations behind the first
    bits. That is better than random directions of the same number (imclef07a, 80 features, 256
    bits: 0.95 of the true 10 among the best 30 by the estimate, against 0.89).

    **Streams.** With "opast" or "frequent-directions" and a rotation other than "itq" ("auto" is a
    random one there, which stands still), a hasher continues to learn after `fit`, or learns
    without: `partial_fit` learns; `sketch` and `sketch_stream` return codes and learn, and a code
    has always left before its vector is learned from. `transform`, `encode`, `components_` and
    `fingerprint_` are those of the current model, `snapshot` keeps it. Codes of a model that moves
    cannot be compared with each other, so streams are coded by epochs: the model of one moment,
    held still while learning continues. `drift` tells when it is time for another. A stream that no
    `fit` began is coded by random directions at first. With epochs="auto" the first learned epoch
    begins after half a vector per bit, since rows that random directions coded crowd out better
    ones in every search: of 12,000 vectors at 32 bits, the true 10 were among the best 100 in 0.80
    instead of 0.67 of the cases (Fashion-MNIST), 0.70 instead of 0.45 (GIST). With any other rule
    it begins after 32 vectors per bit, and until then the rule does not count.

    However a stream is cut into calls, models and codes are the same to the last bit. Memory stays
    the same however long it is: with "opast", 960 features and 32 bits, a pickle is 360 KB. One
    thread at a time may call what learns; others may read and save meanwhile, and see the model
    between two batches. Codes of a stream are summed up in another order than by `transform`: they
    may differ where abs(projection) < 1e-5 · ‖x‖.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20))
    >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
    >>> hasher.encode(X)
    Codes(1,000 rows, 16 × 1-bit, from ...)
    >>> hasher.transform(X[:2]).shape, hasher.project(X[:2]).dtype
    ((2, 16), dtype('float32'))

    Random directions instead of learned ones:

    >>> bitkin.ProjectionHash(n_bits=64, projection="random", rotation=None).fit(X).encode(X)
    Codes(1,000 rows, 64 × 1-bit, from ...)

    A stream:

    >>> live = bitkin.ProjectionHash(16, projection="opast", rotation="unifdiag", epochs=500).fit(X)
    >>> [len(codes) for codes in live.sketch_stream(X)]
    [500, 500]
    >>> live.sketch(X[0]).fingerprint == live.epoch_.fingerprint_
    True
    >>> print(live.drift(live.epoch_))
    100.0 % of the variance kept, ... % captured, ..., after 2,001 vectors
    """

    notices_not_finite = True  # whatever is not finite shows in the product

    recipe_: ModelRecipe
    seed_: int
    rotation_: Rotation | None
    rotation_losses_: npt.NDArray[np.float64]
    stream_: Stream
    """The stream that the hasher follows; there is none where it does not follow any."""

    _fixed_model: SignModel | None = None  # the model, where there is no stream to change it

    @classmethod
    def variants(
        cls, n_bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
    ) -> dict[str, Hasher]:
        """Return every projection with the rotation that suits it, and PCA with every rotation; for
        cosine, of normalized rows.
        """
        alone = [projection for projection in PROJECTIONS if projection != "pca"]
        slots: list[tuple[str, str | None]] = [(projection, "auto") for projection in alone]
        slots += [("pca", rotation) for rotation in (*ROTATIONS, None) if rotation != "auto"]
        return {
            f"{projection} × {rotation or 'none'}".removesuffix(" × auto"): cls(
                n_bits,
                projection=projection,
                rotation=rotation,
                normalize=metric == "cosine",
                random_state=random_state,
            )
            for projection, rotation in slots
        }

    def __init__(
        self,
        n_bits: int = 256,
        *,
        projection: Any = "pca",
        rotation: Any = "auto",
        center: bool = True,
        normalize: bool = False,
        refresh: int = 100,
        epochs: int | float | str | None = "auto",
        random_state: int | None = 0,
    ) -> None:
        self.n_bits = n_bits
        self.projection = projection
        self.rotation = rotation
        self.center = center
        self.normalize = normalize
        self.refresh = refresh
        self.epochs = epochs
        self.random_state = random_state

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters that are not the defaults and, where "auto" chose a rotation, which
        it is.
        """
        described: str = super().__repr__(N_CHAR_MAX)
        recipe = getattr(self, "recipe_", None)
        if recipe is None or recipe.rotation is None or recipe.rotation is self.rotation_:
            return described
        return f"{described}, with {self.rotation_!r}"

    # What a fitted hasher is and makes.

    @property
    def model_(self) -> SignModel:
        """What makes the codes: the current model."""
        if self._fixed_model is not None:
            return self._fixed_model
        if not hasattr(self, "stream_"):
            raise AttributeError("This ProjectionHash is not fitted yet. Call fit first.")
        return self.stream_.model

    @property
    def components_(self) -> npt.NDArray[np.float32]:
        """Directions times rotation, float32 (n_features, n_bits)."""
        return self.model_.components

    @property
    def mean_(self) -> npt.NDArray[np.float64] | None:
        """What is subtracted from rows, float64 (n_features,), or None."""
        return self.model_.mean

    @property
    def fingerprint_(self) -> str:  # type: ignore[override]  # a moving model's is not known before it is asked for
        """Equal for two fitted hashers exactly when they make the same codes."""
        return self.model_.fingerprint

    def project(self, X: Any) -> npt.NDArray[np.float32]:
        """Return what the signs are taken of: float32 (n, n_bits)."""
        check_is_fitted(self)
        nothing = np.empty((0, self.spec_.n_symbols), dtype=np.float32)
        parts = [self.model_.project(batch) for _, batch in self._batches(X)]
        return np.concatenate([nothing, *parts])

    def snapshot(self) -> ProjectionHash:
        """Return the current model as a hasher of its own that never changes, with the current
        fingerprint.
        """
        check_is_fitted(self)
        return self.snapshot_of(self.model_)

    def snapshot_of(self, model: SignModel) -> ProjectionHash:
        """Return a hasher of its own with a model of this hasher, such as that of an epoch; it
        cannot learn any more.
        """
        hasher = type(self)(
            model.spec.n_symbols,
            projection=Given(model.random),
            rotation=None,
            center=model.mean is not None,
            normalize=model.normalize,
        )
        hasher.become_fitted(hasher.resolve_parameters(), model)
        if hasattr(self, "feature_names_in_"):
            hasher.feature_names_in_ = self.feature_names_in_
        return hasher

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to `path`: aside first, then in place at once."""
        check_is_fitted(self)
        save_hasher(self, path)

    @classmethod
    def from_stored(cls, stored: StoredFile) -> ProjectionHash:
        """Return the fitted hasher that a file holds."""
        return load_hasher(cls, stored)

    def _symbols(self, batch: Any) -> npt.NDArray[Any]:
        return (self.model_.project(batch) >= 0).view(np.uint8)

    def _codes(self, batch: Any) -> Codes:
        words = self.model_.words(batch)
        words.flags.writeable = False
        return Codes(words[:, None, :], self.spec_)

    # Learning from all rows at once.

    def resolve_parameters(self) -> ModelRecipe:
        """Check all parameters, and return them with the objects that names stand for."""
        n_bits = whole_number(self.n_bits, "n_bits", low=1, high=MAX_SYMBOLS)
        for name in ("center", "normalize"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidInputError(
                    f"{name} must be True or False, got {getattr(self, name)!r}."
                )
        projection = projection_for(self.projection)
        return ModelRecipe(
            n_bits=n_bits,
            center=bool(self.center),
            normalize=bool(self.normalize),
            refresh=whole_number(self.refresh, "refresh", low=1, high=2**62),
            epochs=check_epochs(self.epochs),
            projection=projection,
            rotation=rotation_for(self.rotation, projection),
            seed=resolve_seed(self.random_state),
        )

    def become_fitted(
        self, recipe: ModelRecipe, learned: SignModel | Stream, chosen: Rotation | None = None
    ) -> None:
        """Have learned this model, which never changes, or this stream; `chosen` is the rotation
        where the recipe's chose another.
        """
        self.recipe_ = recipe
        self.rotation_ = recipe.rotation if chosen is None else chosen
        self.seed_ = recipe.seed
        self.spec_ = learned.spec
        if isinstance(learned, SignModel):
            self.n_features_in_ = len(learned.components)
            self._fixed_model = learned
            if hasattr(self, "stream_"):
                del self.stream_
        else:
            self.n_features_in_ = learned.n_features
            self.stream_ = learned
            self._fixed_model = None

    def _training_source(self, X: Any) -> VectorSource:
        source = super()._training_source(X)
        if isinstance(X, np.memmap) and is_whole_map(X):
            return MappedRows(X)
        if not isinstance(X, VectorSource) and not projection_for(self.projection).reads_all_rows:
            for _ in source.batches():  # in memory it costs little to look at every number
                pass
        return source

    def _learn(self, source: VectorSource) -> None:
        recipe = self.resolve_parameters()
        recipe.require_memory(source.shape[1])
        vectors = recipe.training_vectors(source)
        if not can_stream(recipe.projection, recipe.rotation):
            model, found = fit_model(recipe, vectors)
            self.become_fitted(recipe, model, None if found is None else found.by)
            self.rotation_losses_ = np.empty(0) if found is None else found.losses
            return
        stream = _new_stream(recipe, source.shape[1])
        if source.in_parts and stream.tracker.mergeable:
            tracker = follow_all_rows(stream.tracker, vectors)
            last = np.arange(max(0, tracker.n_seen - PROBE_ROWS), tracker.n_seen)
            stream.fit_merged(tracker, vectors.gather(last))
        else:
            stream.fit(batch for _, batch in vectors.batches())
        self.become_fitted(recipe, stream)
        self.rotation_losses_ = np.empty(0)

    # Learning from a stream.

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
        stream, batch = self.start_stream(X)
        if fits_one_block(batch):
            stream.learn(batch, strict=strict)
        else:
            # A later block may fail, by an interrupt or where warnings are errors; beside so many
            # rows a copy is cheap.
            trial = StreamTrial(self)
            trial.copy.stream_.learn(batch, strict=strict)
            trial.accept()
        return self

    @_where_streams
    def sketch(self, x: Any, *, strict: bool = False) -> Codes:
        """Return the code of one vector, (n_features,) or (1, n_features), and learn from the
        vector after that.

        The code is the current epoch's, under its fingerprint; with `epochs=None` it is that of the
        model just before, under none. A vector that is not finite has an empty code and is not
        learned from, or is an error with `strict`.
        """
        stream, row = self.start_stream(as_one_row(x))
        return next(stream.sketch(row, SkippedVectors(), strict=strict))[1]

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
        return self._sketch_batches(self.stream_batches(vectors), strict)

    @_where_streams
    def new_epoch(self) -> ProjectionHash:
        """Let the current model make all further codes, and return it as `snapshot` does."""
        stream = self._require_stream()
        if stream.recipe.epochs is None:
            raise InvalidInputError(
                "epochs=None means that there are none. Make the hasher with epochs='auto'."
            )
        return self.snapshot_of(stream.begin_epoch())

    @_where_streams
    def drift(self, since: ProjectionHash | None = None) -> Drift:
        """Return how far the model has moved since a snapshot of it, or from any ProjectionHash of
        the same shape.

        Without `since` it is since the current epoch began.
        """
        stream = self._require_stream()
        if since is None:
            if stream.epoch is None:
                raise InvalidInputError(
                    "since must be a snapshot of this hasher, got None, and with epochs=None there "
                    "is no epoch to stand for it. Keep hasher.snapshot() of an earlier time."
                )
            return stream.drift(stream.epoch)
        model = getattr(since, "model_", None)
        shape = (stream.n_features, stream.spec.n_symbols)
        if not isinstance(model, SignModel) or model.components.shape != shape:
            got = (
                "one of {} and {}".format(*model.components.shape)
                if isinstance(model, SignModel)
                else f"a {type(since).__name__}"
            )
            raise InvalidInputError(
                "since must be a snapshot of this hasher, or a fitted ProjectionHash of "
                f"{shape[0]} features and {shape[1]} bits as well, got {got}."
            )
        require_columns(fitted_names(since), fitted_names(self), "since", "this hasher")
        return stream.drift(model)

    @property
    def epoch_(self) -> ProjectionHash:
        """The current epoch: the snapshot whose codes `sketch` returns."""
        stream = self._require_stream()
        if stream.epoch is None:
            raise AttributeError(
                "epoch_ does not exist with epochs=None: a model that moves makes the codes."
            )
        return self.snapshot_of(stream.epoch)

    @property
    def n_epochs_(self) -> int:
        """Epochs begun so far; of a stream that no `fit` began, the first one has random
        directions.
        """
        return self._require_stream().n_epochs

    @property
    def n_seen_(self) -> int:
        """Vectors learned from."""
        return self._require_stream().n_seen

    @property
    def n_skipped_(self) -> int:
        """Vectors left out because they were not finite."""
        return self._require_stream().n_skipped

    def start_stream(self, X: Any) -> tuple[Stream, Batch]:
        """Return the stream, begun now where there is none, and `X` as a batch of its width."""
        stream = getattr(self, "stream_", None)
        if stream is None:
            with self._restored_on_failure():
                batch = self._validate_rows(X, reset=True)
                recipe = self.resolve_parameters()
                recipe.require_memory(batch.shape[1])
                stream = _new_stream(recipe, batch.shape[1])
                self.become_fitted(recipe, stream)
            return stream, batch
        if (
            type(X) is np.ndarray
            and X.dtype.kind in "fiu"
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
        ):
            # what most streams are made of, without the 100 µs that all other checks take
            return stream, X
        return stream, self._validate_rows(X, reset=False)

    def stream_batches(self, vectors: Any) -> Iterator[Any]:
        """Return the batches of what `sketch_stream` takes."""
        if isinstance(vectors, VectorSource):
            if hasattr(self, "stream_"):
                self.require_features(vectors)
            return self._batches_of(vectors)
        whole = issparse(vectors) or hasattr(vectors, "__array__")
        if not whole and (isinstance(vectors, (str, bytes)) or not isinstance(vectors, Iterable)):
            raise InvalidInputError(
                "vectors must be an array, a sparse matrix, a VectorSource or an iterable of "
                f"vectors or batches, got {type(vectors).__name__}."
            )
        return iter((vectors,)) if whole else map(as_batch, vectors)

    def _sketch_batches(self, batches: Iterator[Any], strict: bool) -> Iterator[Codes]:
        skipped = SkippedVectors()
        for batch in batches:
            stream, rows = self.start_stream(batch)
            for _, codes in stream.sketch(rows, skipped, strict=strict):
                yield codes

    def _learn_source(self, source: VectorSource) -> None:
        """Learn from all batches; on failure, stay as before."""
        trial = StreamTrial(self)
        for batch in trial.copy.stream_batches(source):
            stream, batch = trial.copy.start_stream(batch)
            for rows, _ in stream_rows(batch, stream.recipe.normalize):
                stream.advance(rows, emit=False)
        trial.accept()

    def _batches_of(self, source: VectorSource) -> Iterator[Batch]:
        """Yield the batches of a source that the stream may begin with: its columns are the
        hasher's then.
        """
        for _, batch in source.batches():
            if not hasattr(self, "stream_"):
                with self._restored_on_failure():
                    self.start_stream(batch)
                    self._remember_features(source)  # now: a second batch may never be asked for
            yield batch

    def _require_stream(self) -> Stream:
        if not hasattr(self, "stream_"):
            check_is_fitted(self)
            raise AttributeError(
                "This hasher was not fitted by a projection that follows a stream."
            )
        return self.stream_


def _new_stream(recipe: ModelRecipe, n_features: int) -> Stream:
    # Numba comes with it, which a hasher without a stream need not load.
    from bitkin.hashers.projection.streams.stream import Stream

    return Stream(recipe, n_features)
