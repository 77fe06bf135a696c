"""What makes the codes of a projection hash: directions, a mean, and the signs of what is projected
onto them.

Signs are packed right behind the matrix product, while it is still in cache. NumPy does it: a
kernel was no faster here, and a process that only encodes saves the 100 MB that Numba takes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Batch
from bitkin.code_spec import WORD, CodeSpec
from bitkin.errors import InvalidInputError
from bitkin.estimators.fingerprint import fingerprint
from bitkin.hashers.projection.training import prepare_rows
from bitkin.io.vectors.batch import first_not_finite, not_finite, row_slice

_SHORT_MEAN = 2.0**-64
# How far W Wᵀ may be from a projector: a tracked subspace is within 1e-4.
_PROJECTOR_WITHIN = 1e-3
_WORTH_A_THREAD = 1024  # rows

_PACKED_AT_ONCE = 1 << 16
"""Numbers packed at a time: 256 KB, read three times, that a core's own cache holds beside what
BLAS left there.
"""

Floats32 = npt.NDArray[np.float32]
Multiply = Callable[[Floats32, Floats32], Floats32]
"""Dense rows, components -> their product, which the next product of this thread may overwrite."""

_buffers = threading.local()
_ONE_BLOCK = 16  # rows that are never worth cutting


class SignModel:
    """Bit j of x is (x − mean) · componentsⱼ ≥ 0. Nothing of it ever changes.

    Parameters
    ----------
    components : float32 (n_features, n_bits)
        Directions times rotation, as columns.
    mean : float64 (n_features,) or None
        Subtracted after the projection, so that sparse rows stay sparse.
    normalize : bool
        Whether rows are scaled to length 1 first.
    random : bool, default False
        Whether the directions were drawn, not learned. It changes no code: what codes tell about
        distances depends on it, see `bitkin.corrections`.
    """

    def __init__(
        self,
        components: npt.NDArray[np.float32],
        mean: npt.NDArray[np.float64] | None,
        normalize: bool,
        *,
        random: bool = False,
    ) -> None:
        self.components = components.view()
        self.components.flags.writeable = False
        self.mean = mean
        if mean is not None:
            self.mean = mean.view()
            self.mean.flags.writeable = False
        self.normalize = normalize
        self.random = random
        self.spec = CodeSpec(components.shape[1])
        self.exact_offset = np.zeros(components.shape[1])
        with np.errstate(over="ignore", invalid="ignore"), threads.blas_in_one_thread():
            if mean is not None:
                # (x − m)·w ≥ 0 is x·w ≥ m·w: the mean is projected once, and rows stay sparse
                self.exact_offset = mean @ components.astype(np.float64)
            # infinite where no product of float32 reaches it
            self.offset = self.exact_offset.astype(np.float32)
            # where means of float32 rows are
            within = mean is None or np.isfinite(mean.astype(np.float32)).all()
        if not (within and np.isfinite(components).all()):
            raise InvalidInputError(
                "components or mean hold numbers that are not finite in float32."
            )

    def require_smaller_mean(self) -> SignModel:
        """Return this model, whose mean must not project beyond float32 where it is to be fitted to
        rows at hand.
        """
        if not np.isfinite(self.offset).all():
            raise InvalidInputError(
                "X must have smaller numbers: their mean projects beyond float32. Scale it down."
            )
        return self

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return len(self.components)

    @cached_property
    def keeps_inner_products(self) -> bool:
        """Whether ⟨x, q⟩ within the subspace of the directions W is ⟨Wᵀx, Wᵀq⟩, but for rounding.

        So it is for orthonormal directions, and where a rotation made more bits than directions.
        """
        wide = self.components.astype(np.float64)
        with threads.blas_in_one_thread():
            # It is where W Wᵀ projects onto the subspace, G² = G; that shows on the smaller side,
            # since W Wᵀ and WᵀW have the same eigenvalues above 0.
            gram = wide.T @ wide if wide.shape[1] <= wide.shape[0] else wide @ wide.T
            off = np.abs(gram @ gram - gram).max()
        return bool(off <= _PROJECTOR_WITHIN and gram.any())

    @cached_property
    def fingerprint(self) -> str:
        """Equal for two models exactly when they make the same codes."""
        arrays: dict[str, npt.NDArray[Any]] = {"components": self.components}
        if self.mean is not None:
            arrays["mean"] = self.mean
        return fingerprint("ProjectionHash", {"normalize": self.normalize}, arrays)

    @cached_property
    def scaled_mean(self) -> tuple[npt.NDArray[np.float64], int]:
        """The mean times 2**e, and e, which is 0 unless the mean is so short that float32 would
        lose its squares.
        """
        mean = np.zeros(self.n_features) if self.mean is None else self.mean
        largest = float(np.abs(mean).max(initial=0.0))
        if largest == 0.0 or largest >= _SHORT_MEAN:
            return mean, 0
        exponent = -math.frexp(largest)[1]
        return np.ldexp(mean, exponent), exponent

    @cached_property
    def scaled_offset(self) -> npt.NDArray[np.float64]:
        """What `scaled_mean` projects to: all digits of it, also where `exact_offset` is too small
        for them.
        """
        scaled, exponent = self.scaled_mean
        if exponent == 0:
            return self.exact_offset
        with threads.blas_in_one_thread():
            offset: npt.NDArray[np.float64] = scaled @ self.components.astype(np.float64)
        return offset

    def project(
        self, batch: Batch, name: str = "X", multiply: Multiply | None = None
    ) -> npt.NDArray[np.float32]:
        """Return what the signs are taken of: float32 (n, n_bits); `name` is for messages.

        `multiply` multiplies dense rows in the place of BLAS, in whose last digits shows where in
        a batch a row stands.
        """
        out = np.empty((batch.shape[0], self.spec.n_symbols), dtype=np.float32)
        self._fill(out, batch, name, multiply or _multiply)
        return out

    def pack(self, projected: npt.NDArray[np.float32], words: npt.NDArray[np.uint64]) -> None:
        """Write the signs of what `project` returned to the zeroed rows `words`, 0 counting as
        positive.
        """
        n_bytes = -(-self.spec.n_symbols // 8)
        words.view(np.uint8)[:, :n_bytes] = np.packbits(projected >= 0, axis=1)

    def words(self, batch: Batch) -> npt.NDArray[np.uint64]:
        """Return packed codes: uint64 (n, words per row)."""
        words = np.zeros((batch.shape[0], self.spec.plane_words), dtype=WORD)
        self._fill(words, batch, "X", _multiply)
        return words

    def _fill(self, out: npt.NDArray[Any], batch: Batch, name: str, multiply: Multiply) -> None:
        """Write projections, or the signs of them packed to words, to the rows of `out`.

        The blocks in which that is done do not depend on the number of threads.
        """
        n_rows, n_bits = batch.shape[0], self.spec.n_symbols
        step = n_rows if n_rows <= _ONE_BLOCK else _block_rows(n_rows, n_bits)
        with threads.blas_in_one_thread():
            threads.run(
                partial(self._fill_block, out, batch, name, multiply, step),
                range(0, n_rows, max(1, step)),
            )

    def _fill_block(
        self,
        out: npt.NDArray[Any],
        batch: Batch,
        name: str,
        multiply: Multiply,
        step: int,
        first: int,
    ) -> None:
        """Do what `_fill` does for `step` rows from row `first` on."""
        stop = min(first + step, batch.shape[0])
        rows = batch if stop - first == batch.shape[0] else row_slice(batch, first, stop)
        with np.errstate(invalid="ignore", over="ignore"):  # looked for below
            prepared: Any = prepare_rows(rows, self.normalize, name, first)
            # products of sparse rows go feature by feature, whatever rows there are beside them
            product = (
                prepared @ self.components
                if issparse(prepared)
                else multiply(prepared, self.components)
            )
            if out.dtype == WORD:
                finite = pack_signs(product, self.offset, out[first:stop])
            else:
                finite = all_finite(np.subtract(product, self.offset, out=out[first:stop]))
        if not finite:
            _raise_not_finite(rows, name, first)


def _block_rows(n_rows: int, n_bits: int) -> int:
    """Return how many rows to take at once: a product of at most 4 MB.

    BLAS packs the components again for every product, so fewer are better. Several blocks come in
    pairs of equal size, so that no thread is left with a short one at the end.
    """
    most = max(16, min(4096, (1 << 20) // n_bits))
    if n_rows <= _WORTH_A_THREAD:
        return most
    n_pairs = -(-n_rows // (2 * most))
    return -(-n_rows // (2 * n_pairs))


def _multiply(rows: Floats32, components: Floats32) -> Floats32:
    if len(rows) == 1:
        product: Floats32 = rows @ components
        return product
    return np.matmul(
        rows, components, out=buffer("product", (len(rows), components.shape[1]), np.float32)
    )


def _raise_not_finite(rows: Any, name: str, first: int) -> None:
    """Say why a projection is not finite: a number that is not, or numbers too large."""
    found = first_not_finite(rows)
    if found is not None:
        row, column, value = found
        raise not_finite(value, name, f"row {first + row}", column)
    raise InvalidInputError(
        f"{name} must have smaller numbers: a projection of rows {first} to "
        f"{first + rows.shape[0] - 1} overflows float32. Scale the data down."
    )


def pack_signs(
    product: npt.NDArray[np.float32], offset: npt.NDArray[np.float32], words: npt.NDArray[np.uint64]
) -> bool:
    """Write the bits product ≥ offset to the zeroed rows `words`, uint64 (n, words); return whether
    all are finite.
    """
    n, n_bits = product.shape
    step = max(1, _PACKED_AT_ONCE // n_bits)
    return all(
        _pack_piece(product[i : i + step], offset, words[i : i + step]) for i in range(0, n, step)
    )


def _pack_piece(
    product: npt.NDArray[np.float32], offset: npt.NDArray[np.float32], words: npt.NDArray[np.uint64]
) -> bool:
    bits = np.greater_equal(product, offset, out=buffer("bits", product.shape, np.bool_))
    # np.packbits puts the first bit highest in its byte; the bytes of a row are those of its words
    planes = words.view(np.uint8)[:, : -(-product.shape[1] // 8)]
    if product.shape[1] % 8 == 0:  # rows end where bytes end: one run is quicker than one per row
        planes[:] = np.packbits(bits.reshape(-1)).reshape(len(bits), -1)
    else:
        planes[:] = np.packbits(bits, axis=1)
    return all_finite(product)


def all_finite(product: npt.NDArray[np.float32]) -> bool:
    """Whether all numbers are finite: the sum of their squares is, or none is found on a closer
    look.
    """
    return bool(np.isfinite(np.vdot(product, product))) or first_not_finite(product) is None


def buffer(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return this thread's array of that name, whatever is in it: fresh memory would cost more than
    packing does.
    """
    size = math.prod(shape)
    held: npt.NDArray[Any] | None = getattr(_buffers, name, None)
    if held is None or held.size < size:
        held = np.empty(size, dtype=dtype)
        setattr(_buffers, name, held)
    return held[:size].reshape(shape)
