"""ProjectionHash: projection × rotation × sign."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from bitkin.checks import whole_number
from bitkin.code_spec import MAX_SYMBOLS, CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection import registry as slots
from bitkin.hashers.projection.files import load_hasher, save_hasher
from bitkin.hashers.projection.learning import Slots, learn_signs, training_vectors
from bitkin.hashers.projection.projections.given import Given
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.streams.settings import Settings, epochs_rule, refresh_count
from bitkin.hashers.projection.streams.streaming import Streaming, follow_streams
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.files.mapped import MappedRows, is_whole_map
from bitkin.randomness import Draws, resolve_seed

if TYPE_CHECKING:
    from bitkin.hashers.projection.streams.live import LiveModel
    from bitkin.io.reader import StoredFile


class ProjectionHash(Streaming, Hasher):
    """Bits that are the signs of projected vectors: bit j of x is (x − mean) · directionⱼ ≥ 0.

    Parameters
    ----------
    n_bits : int, default 256
        Length of a code (the papers' c or k).
    projection : {"pca", "nystrom", "random", "opast", "frequent-directions"} or Projection, default
    "pca"
        How directions are found. "pca": those of largest variance, at most as many as features.
        "nystrom": about those, from a sample of rows and features. "random": independent normals,
        any number of them. "opast", "frequent-directions": about those of largest variance, vector
        by vector; fewer than features.
    rotation : {"itq", "unifdiag", "isohash", "random"}, Rotation or None, default "itq"
        How the projected data is turned before signs are taken. "itq": so that it is nearest to its
        signs. "unifdiag", "isohash": so that all bits have the same variance. "random": at random.
    center : bool, default True
        Subtract the mean of the fitted rows first. Without it codes depend on directions from the
        origin only.
    normalize : bool, default False
        Scale every row to length 1 first, for cosine.
    refresh : int, default 100
        Of a stream: vectors between two updates of the rotation, counted across calls. 1 is the
        streaming paper's way.
    epochs : "request", int, float or None, default "request"
        Of a stream: when the model that makes codes is replaced by that of now. "request": when
        `new_epoch` is called. int: after so many vectors. float: where such a share of the variance
        is lost, such as 0.05: the epoch's directions capture so much less of the recent stream than
        those of now, or than they did when the epoch began; looked at every max(256, `refresh`)
        vectors. None: codes are made by the model as it moves, which is the streaming paper's way;
        they cannot be compared.
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
    rotation_losses_ : float64 (n,)
        The loss after each turn of a rotation that is found in turns, such as ITQ. Set by `fit`,
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
    is read. After exact PCA, "unifdiag" and "isohash" learn from the covariance of all rows
    instead, and none are kept.

    **Streams.** With "opast" or "frequent-directions" and a rotation other than "itq", a hasher
    goes on learning after `fit`, or without: `partial_fit` learns; `sketch` and `sketch_stream`
    return codes and learn, and a code has always left before its vector is learned from.
    `transform`, `encode`, `components_` and `fingerprint_` are those of the model as it is now,
    `snapshot` keeps it. Codes of a model that moves cannot be compared with each other, so streams
    are coded by epochs: the model of one moment, held still while learning goes on. `drift` tells
    when it is time for another. A stream that no `fit` began is coded by random directions at
    first; its first learned epoch begins after 32 vectors a bit (Fashion-MNIST and CIFAR-10 GIST,
    16 to 128 bits: at least 96 % of the recall that 128 a bit give; at 32 bits, 1 a bit gives half
    of it), and until then no other rule counts.

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

    More bits than features need a random projection:

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

    _still: SignModel | None = None  # the model, where it does not follow a stream

    def __init__(
        self,
        n_bits: int = 256,
        *,
        projection: Any = "pca",
        rotation: Any = "itq",
        center: bool = True,
        normalize: bool = False,
        refresh: int = 100,
        epochs: int | float | str | None = "request",
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

    def project(self, X: Any) -> npt.NDArray[np.float32]:
        """Return what the signs are taken of: float32 (n, n_bits)."""
        check_is_fitted(self)
        nothing = np.empty((0, self.spec_.n_symbols), dtype=np.float32)
        parts = [self._model.project(batch) for _, batch in self._batches(X)]
        return np.concatenate([nothing, *parts])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to `path`: aside first, then in place at once."""
        check_is_fitted(self)
        save_hasher(self, path)

    @classmethod
    def from_stored(cls, stored: StoredFile) -> ProjectionHash:
        """Return the fitted hasher that a file holds."""
        return load_hasher(cls, stored)

    @property
    def components_(self) -> npt.NDArray[np.float32]:
        """Directions times rotation, float32 (n_features, n_bits)."""
        return self._model.components

    @property
    def mean_(self) -> npt.NDArray[np.float64] | None:
        """What is subtracted from rows, float64 (n_features,), or None."""
        return self._model.mean

    @property
    def fingerprint_(self) -> str:  # type: ignore[override]  # of a live model it is not known before it is asked for
        """Equal for two fitted hashers exactly when they make the same codes."""
        return self._model.fingerprint

    @property
    def _model(self) -> SignModel:
        """What makes the codes, as it is now."""
        if self._live is not None:
            return self._live.model
        if self._still is None:
            raise AttributeError("This ProjectionHash is not fitted yet. Call fit first.")
        return self._still

    @property
    def _normalize(self) -> bool:
        return self._model.normalize

    def _learn(self, source: VectorSource) -> None:
        self._settle_parameters()
        follows = follow_streams(self._projection, self._rotation)
        self._slots.require_memory(source.shape[1])
        vectors = training_vectors(
            source,
            center=bool(self.center),
            normalize=bool(self.normalize),
            seed=self.seed_,
            sample_rows=0 if follows else self._slots.sample_rows(source),
        )
        if not follows:
            model, self.rotation_losses_ = learn_signs(self._slots, vectors, self.seed_)
            self._set_model(model)
            return
        live = self._new_live(source.shape[1])
        live.learn(batch for _, batch in vectors.batches())
        self._still, self._live, self.rotation_losses_ = None, live, np.empty(0)

    def _training_source(self, X: Any) -> VectorSource:
        source = super()._training_source(X)
        if is_whole_map(X):
            return MappedRows(X)
        if (
            not isinstance(X, VectorSource)
            and not slots.projection_for(self.projection).reads_all_rows
        ):
            for _ in source.batches():  # in memory it costs little to look at every number
                pass
        return source

    def _adopt(self, model: SignModel) -> None:
        """Become a fitted hasher with this model."""
        self._settle_parameters()
        self.n_features_in_ = len(model.components)
        self._set_model(model)

    def _settle_parameters(self) -> None:
        self._require_parameters()
        self._projection, self._rotation = (
            slots.projection_for(self.projection),
            slots.rotation_for(self.rotation),
        )
        self.seed_ = resolve_seed(self.random_state)

    @property
    def _slots(self) -> Slots:
        return Slots(self.n_bits, self._projection, self._rotation)

    def _set_model(self, model: SignModel) -> None:
        self.spec_, self._still, self._live = model.spec, model, None

    def _start_live(self, n_features: int) -> LiveModel:
        """Return a model that has seen no vector yet."""
        self._settle_parameters()
        self._slots.require_memory(n_features)
        return self._new_live(n_features)

    def _new_live(self, n_features: int) -> LiveModel:
        from bitkin.hashers.projection.streams.live import LiveModel

        refresh, epochs = refresh_count(self.refresh), epochs_rule(self.epochs)
        settings = Settings(bool(self.center), bool(self.normalize), self.seed_, refresh, epochs)
        draws = Draws(self.seed_, "projection")
        tracker = self._projection.tracker(
            n_features, self.n_bits, center=settings.center, draws=draws
        )
        self.spec_ = CodeSpec(self.n_bits)
        return LiveModel(tracker, self._rotation, settings)

    def _frozen_hasher(self, model: SignModel) -> ProjectionHash:
        """Return a hasher of its own with this model, which cannot learn any more."""
        centred = model.mean is not None
        hasher = type(self)(
            model.spec.n_symbols,
            projection=Given(model.random),
            rotation=None,
            center=centred,
            normalize=model.normalize,
        )
        hasher._adopt(model)
        if hasattr(self, "feature_names_in_"):
            hasher.feature_names_in_ = self.feature_names_in_
        return hasher

    def _can_follow(self) -> bool:
        """Whether vectors of a stream can be learned from: a hasher that was fitted otherwise stays
        as it is.
        """
        if self._live is not None or hasattr(self, "spec_"):
            return self._live is not None
        try:
            return follow_streams(
                slots.projection_for(self.projection), slots.rotation_for(self.rotation)
            )
        except InvalidInputError:
            return False

    def _require_parameters(self) -> None:
        whole_number(self.n_bits, "n_bits", low=1, high=MAX_SYMBOLS)
        for name in ("center", "normalize"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidInputError(
                    f"{name} must be True or False, got {getattr(self, name)!r}."
                )
        refresh_count(self.refresh)
        epochs_rule(self.epochs)

    def _symbols(self, batch: Any) -> npt.NDArray[Any]:
        return (self._model.project(batch) >= 0).view(np.uint8)

    def _codes(self, batch: Any) -> Codes:
        words = self._model.words(batch)
        words.flags.writeable = False
        return Codes(words[:, None, :], self.spec_)
