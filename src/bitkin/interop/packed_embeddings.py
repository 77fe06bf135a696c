"""Sign codes that sentence-transformers packed: eight dimensions per byte, the first in the
highest bit, as ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitkin.checks import whole_number
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError

_SIGN_BIT = np.uint8(0x80)


def from_sentence_transformers(embeddings: Any, n_bits: int | None = None) -> Codes:
    """Return the codes that `precision="ubinary"` (uint8) or `"binary"` (int8, the same less 128)
    made of embeddings.

    Give `n_bits`, the dimension of the model, to get an error when the array is something else:
    `precision="uint8"` and `"int8"` have the same types but one byte a dimension. A bit is set
    where the embedding is above 0.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> embeddings = np.array([[0.1, -0.2, 0.3, 0.4, -0.5, 0.6, -0.7, -0.8]])
    >>> ubinary = np.packbits(embeddings > 0, axis=1)
    >>> bitkin.interop.from_sentence_transformers(ubinary, n_bits=8).symbols()
    array([[1, 0, 1, 1, 0, 1, 0, 0]], dtype=uint8)
    """
    try:
        array = np.asarray(embeddings)
    except ValueError:
        raise InvalidInputError(
            "embeddings must be one array of packed rows, got rows of different lengths."
        ) from None
    if array.dtype not in (np.uint8, np.int8):
        raise InvalidInputError(
            "embeddings must be uint8 (precision='ubinary') or int8 (precision='binary'), got "
            f"{array.dtype}. Quantize them first, or encode real numbers with a hasher."
        )
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInputError(
            f"embeddings must have shape (n, bytes a row), got {array.shape}. Wrap a single row in "
            "a list."
        )
    n_bits = 8 * array.shape[1] if n_bits is None else whole_number(n_bits, "n_bits", low=1)
    if -(-n_bits // 8) != array.shape[1]:
        raise InvalidInputError(
            f"embeddings of {n_bits} bits must have {-(-n_bits // 8)} bytes a row, got "
            f"{array.shape[1]}. Rows with a byte a dimension are not binary: quantize with "
            "precision='ubinary'."
        )
    # int8 holds the byte less 128, which is the byte with its highest bit flipped.
    packed = (
        array if array.dtype == np.uint8 else np.ascontiguousarray(array).view(np.uint8) ^ _SIGN_BIT
    )
    try:
        return Codes.from_bytes(packed, n_bits)
    except InvalidInputError:
        raise InvalidInputError(
            f"embeddings must have zeros beyond the {n_bits} bits of a row."
        ) from None
