"""ProjectionHash: projection × rotation × sign."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from bitkin import threads
from bitkin.checks import whole_number
from bitkin.code_spec import MAX_SYMBOLS, WORD, CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers import slots
from bitkin.hashers.base import Hasher
from bitkin.hashers.feature_names import names_tensor, restore_names
from bitkin.hashers.fingerprint import fingerprint
from bitkin.hashers.rotations import Projected, Rotation
from bitkin.hashers.signs import all_finite, buffer, pack_signs
from bitkin.hashers.training import TrainingVectors, prepared
from bitkin.io.layout import damaged
from bitkin.io.memory import physical_memory
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import first_not_finite, row_slice
from bitkin.io.vectors.mapped import MappedRows, is_whole_map
from bitkin.io.vectors.source import in_words
from bitkin.io.writer import write_file
from bitkin.randomness import Draws, resolve_seed

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile


_SAMPLE_ROWS = 1 << 15
_SAMPLE_BYTES = 1 << 28
_SAMPLE_ROWS_A_BIT = 64
_WORTH_A_THREAD = 1024  # rows


class ProjectionHash(Hasher):
    """Bits that are the signs of projected vectors: bit j of x is (x − mean) · directionⱼ ≥ 0.

    Parameters
    ----------
    n_bits : int, default 256
        Length of a code (the papers' c or k).
    projection : {"pca", "nystrom", "random"} or Projection, default "pca"
        How directions are found. "pca": those of largest variance, at most as many as features. "nystrom": about
        those, from a sample of rows and features. "random": independent normals, any number of them.
    rotation : {"itq", "unifdiag", "isohash", "random"}, Rotation or None, default "itq"
        How the projected data is turned before signs are taken. "itq": so that it is nearest to its signs.
        "unifdiag", "isohash": so that all bits have the same variance. "random": at random.
    center : bool, default True
        Subtract the mean of the fitted rows first. Without it codes depend on directions from the origin only.
    normalize : bool, default False
        Scale every row to length 1 first, for cosine.
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
        The loss after each turn of a rotation that is found in turns, such as ITQ. Set by `fit`, not kept in files.
    seed_ : int

    Notes
    -----
    The mean is subtracted after the projection, in float32, so that sparse rows stay sparse. Where the mean is more
    than about 10⁴ times the spread of the data, bits are lost to rounding: centre such data first.

    A rotation learns from a sample of projected rows: 32,768, of dense ones no more than 256 MB, and in any case 64 for
    each bit. More did not help (CIFAR-10 GIST and Fashion-MNIST, 64 and 128 bits); 3,000 rows lost 4 %. They are chosen
    by a keyed hash of the row number, so that any batches, and any machines that share the work, choose the same. An
    iterator's are kept while it is read.

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
    """

    notices_not_finite = True  # whatever is not finite shows in the product

    def __init__(
        self,
        n_bits: int = 256,
        *,
        projection: Any = "pca",
        rotation: Any = "itq",
        center: bool = True,
        normalize: bool = False,
        random_state: int | None = 0,
    ) -> None:
        self.n_bits = n_bits
        self.projection = projection
        self.rotation = rotation
        self.center = center
        self.normalize = normalize
        self.random_state = random_state

    def project(self, X: Any) -> npt.NDArray[np.float32]:
        """Return what the signs are taken of: float32 (n, n_bits)."""
        check_is_fitted(self)
        nothing = np.empty((0, self.spec_.n_symbols), dtype=np.float32)
        return np.concatenate([nothing, *map(self._projections, self._batches(X))])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to `path`: aside first, then in place at once."""
        check_is_fitted(self)
        parameters = {
            "n_bits": self.spec_.n_symbols,
            "projection": slots.describe(self._projection),
            "rotation": slots.describe(self._rotation),
            "center": self.mean_ is not None,
            "normalize": self._normalize,
            "random_state": None if self.random_state is None else int(self.random_state),
            "seed": self.seed_,
        }
        tensors: dict[str, npt.NDArray[Any]] = {"components": self.components_}
        if self.mean_ is not None:
            tensors["mean"] = self.mean_
        write_file(path, "ProjectionHash", parameters, self.fingerprint_, tensors | names_tensor(self))

    @classmethod
    def _from_file(cls, stored: StoredFile) -> ProjectionHash:
        n_bits = stored.parameter("n_bits")
        components = stored.tensor("components", np.float32, (None, n_bits if type(n_bits) is int else -1))
        mean = stored.optional_tensor("mean", np.float64, (len(components),))
        hasher = cls(
            n_bits,
            projection=slots.projection_from(stored.parameter("projection"), stored.name),
            rotation=slots.rotation_from(stored.parameter("rotation"), stored.name),
            center=stored.parameter("center"),
            normalize=stored.parameter("normalize"),
            random_state=stored.parameter("random_state"),
        )
        try:
            hasher._require_parameters()
            hasher.seed_ = whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1)
            resolve_seed(hasher.random_state)
        except ValueError as error:
            raise damaged(stored.name, f"has impossible parameters: {error}") from None
        if hasher.center != (mean is not None) or len(components) == 0:
            raise damaged(stored.name, "has tensors that do not fit its parameters")
        hasher.n_features_in_ = len(components)
        restore_names(hasher, stored)
        stored.require_no_more_tensors()
        hasher._projection, hasher._rotation = hasher.projection, hasher.rotation
        try:
            hasher._set_model(components, mean)
        except InvalidInputError:
            raise damaged(stored.name, "holds numbers that are not finite") from None
        if hasher.fingerprint_ != stored.fingerprint:
            raise damaged(stored.name, "holds a model that does not fit its fingerprint")
        return hasher

    def _learn(self, source: VectorSource) -> None:
        self._require_parameters()
        self._projection, self._rotation = slots.projection_for(self.projection), slots.rotation_for(self.rotation)
        self.seed_ = resolve_seed(self.random_state)
        self._require_memory(source.shape[1])
        wants_rows = self._rotation is not None and self._rotation.needs_rows
        vectors = TrainingVectors(
            source,
            center=bool(self.center),
            normalize=bool(self.normalize),
            key=int(Draws(self.seed_, "rows").words(1)[0]),
            sample_rows=_sample_rows(source, self.n_bits, self._rotation) if wants_rows else 0,
        )
        learned = self._projection.learn(vectors, self.n_bits, Draws(self.seed_, "projection"))
        components = learned.directions
        self.rotation_losses_ = np.empty(0)
        if self._rotation is not None:
            enough = self._rotation.needs_covariance_only and learned.covariance is not None
            sample = () if enough else vectors.sample_batches()
            rows = np.concatenate([np.empty((0, self.n_bits), dtype=np.float32), *map(learned.project, sample)])
            projected, draws = Projected(rows, learned.covariance), Draws(self.seed_, "rotation")
            rotation, self.rotation_losses_ = self._rotation.matrix_and_losses(projected, self.n_bits, draws)
            with threads.blas_in_one_thread():
                components = components @ rotation
        self._set_model(components.astype(np.float32), learned.mean)

    def _training_source(self, X: Any) -> VectorSource:
        source = super()._training_source(X)
        if is_whole_map(X):
            return MappedRows(X)
        if not isinstance(X, VectorSource) and not slots.projection_for(self.projection).reads_all_rows:
            for _ in source.batches():  # in memory it costs little to look at every number
                pass
        return source

    def _adopt(self, components: npt.NDArray[np.float32], mean: npt.NDArray[np.float64] | None) -> None:
        """Become a fitted hasher with these directions."""
        self._require_parameters()
        self._projection, self._rotation = slots.projection_for(self.projection), slots.rotation_for(self.rotation)
        self.seed_ = resolve_seed(self.random_state)
        self.n_features_in_ = len(components)
        self._set_model(components, mean)

    def _set_model(self, components: npt.NDArray[np.float32], mean: npt.NDArray[np.float64] | None) -> None:
        self.spec_ = CodeSpec(components.shape[1])
        self.components_ = components
        self.mean_ = mean
        # Where the mean lands. Subtracted after the projection, so that sparse rows stay sparse.
        self._offset = np.zeros(components.shape[1], dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            if mean is not None:
                self._offset = (mean @ components.astype(np.float64)).astype(np.float32)
        if not (np.isfinite(components).all() and np.isfinite(self._offset).all()):
            raise InvalidInputError("X must have smaller numbers: their mean projects beyond float32. Scale it down.")
        self._normalize = bool(self.normalize)
        arrays: dict[str, npt.NDArray[Any]] = {"components": components}
        if mean is not None:
            arrays["mean"] = mean
        self.fingerprint_ = fingerprint("ProjectionHash", {"normalize": self._normalize}, arrays)

    def _require_memory(self, n_features: int) -> None:
        memory = physical_memory()
        if memory is not None and 24 * n_features * self.n_bits > memory:  # float64 draws, twice, and the result
            raise InvalidInputError(
                f"n_bits must be smaller: {self.n_bits} directions of {n_features} numbers do not fit in memory."
            )

    def _require_parameters(self) -> None:
        whole_number(self.n_bits, "n_bits", low=1, high=MAX_SYMBOLS)
        for name in ("center", "normalize"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidInputError(f"{name} must be True or False, got {getattr(self, name)!r}.")

    def _over_blocks(self, batch: Any, work: Callable[[slice, npt.NDArray[np.float32]], bool]) -> None:
        """Call `work(rows, rows · components)` for blocks of rows; it says whether all numbers were finite.

        The blocks do not depend on the number of threads, and the next block overwrites the product.
        """
        step = _block_rows(batch.shape[0], self.spec_.n_symbols)

        def block(first: int) -> None:
            which = slice(first, min(first + step, batch.shape[0]))
            rows = row_slice(batch, which.start, which.stop)
            with np.errstate(invalid="ignore", over="ignore"):  # looked for by `work`
                product = _product(prepared(rows, self._normalize, first=first), self.components_)
            if not work(which, product):
                _raise_not_finite(rows, first)

        with threads.blas_in_one_thread():
            threads.run(block, range(0, batch.shape[0], step))

    def _projections(self, batch: Any) -> npt.NDArray[np.float32]:
        out = np.empty((batch.shape[0], self.spec_.n_symbols), dtype=np.float32)

        def subtract(rows: slice, product: npt.NDArray[np.float32]) -> bool:
            np.subtract(product, self._offset, out=out[rows])
            return all_finite(product)

        self._over_blocks(batch, subtract)
        return out

    def _symbols(self, batch: Any) -> npt.NDArray[Any]:
        return (self._projections(batch) >= 0).view(np.uint8)

    def _codes(self, batch: Any) -> Codes:
        words = np.zeros((batch.shape[0], self.spec_.plane_words), dtype=WORD)
        self._over_blocks(batch, lambda rows, product: pack_signs(product, self._offset, words[rows]))
        words.flags.writeable = False
        return Codes(words[:, None, :], self.spec_)


def _sample_rows(source: VectorSource, n_bits: int, rotation: Rotation | None) -> int:
    """Return how many rows a rotation may learn from: 32,768 or what it asks for, within 256 MB."""
    most = max(_SAMPLE_ROWS, getattr(rotation, "max_rows", None) or 0)
    if not source.sparse:
        most = min(most, _SAMPLE_BYTES // (4 * source.shape[1]))
    return max(most, _SAMPLE_ROWS_A_BIT * n_bits)


def _block_rows(n_rows: int, n_bits: int) -> int:
    """Return how many rows to take at once: a product of at most 4 MB.

    BLAS packs the components anew for every product, so fewer are better. Several blocks come in pairs of equal size,
    so that no thread is left with a short one at the end.
    """
    most = max(16, min(4096, (1 << 20) // n_bits))
    if n_rows <= _WORTH_A_THREAD:
        return most
    n_pairs = -(-n_rows // (2 * most))
    return -(-n_rows // (2 * n_pairs))


def _product(rows: Any, components: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if issparse(rows):
        product: npt.NDArray[np.float32] = rows @ components
        return product
    return np.matmul(rows, components, out=buffer("product", (len(rows), components.shape[1]), np.float32))


def _raise_not_finite(rows: Any, first: int) -> None:
    """Say why a projection is not finite: a number that is not, or numbers too large."""
    found = first_not_finite(rows)
    if found is not None:
        row, column, value = found
        raise InvalidInputError(
            f"X: {in_words(value)} at row {first + row}, column {column}. Every value must be finite; "
            "drop or replace such rows first."
        )
    raise InvalidInputError(
        f"X must have smaller numbers: a projection of rows {first} to {first + rows.shape[0] - 1} overflows float32. "
        "Scale the data down."
    )
