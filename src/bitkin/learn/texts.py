"""Texts as rows for a classifier: words and pairs of words, hashed to columns, with nothing to fit
or to keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array

from bitkin import threads
from bitkin.io.vectors.rows import MAX_COLUMNS
from bitkin.sets.shingles import cut_texts, shingle_texts

TEXT_COLUMNS = MAX_COLUMNS
"""Columns of every text's row: so many that two features of a collection hardly ever share one."""

_BETWEEN_WORDS = re.compile(r"\W+")
_U32 = np.uint64(32)


def text_features(texts: Iterable[str]) -> csr_array:
    """Return a row per text: its words and its pairs of neighbouring words, hashed; float32 CSR (n,
    2**31 − 1).

    Words are runs of letters, digits and underscores, in lower case. A feature that occurs c times
    weighs 1 + log(c), and rows have length 1; a text without a word is a row without a feature. The
    same text always gives the same row, on every machine, so that only the classifier has to be
    kept.

    Examples
    --------
    >>> import bitkin
    >>> X = bitkin.text_features(["The cat sat.", "the CAT, sat", "cat", "?"])
    >>> X.shape, (X[[0]] != X[[1]]).nnz, X.indptr.tolist()  # three words, two pairs
    ((4, 2147483647), 0, [0, 5, 10, 11, 11])
    """
    parts = threads.run(_rows_of_piece, cut_texts(texts))
    indptr = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum()
    indices = np.concatenate([np.empty(0, dtype=np.int32), *(part.indices for part in parts)])
    data = np.concatenate([np.empty(0, dtype=np.float32), *(part.data for part in parts)])
    if len(indices) <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, TEXT_COLUMNS))


def _rows_of_piece(texts: list[str]) -> csr_array:
    """Return the rows of one piece of texts."""
    cleaned = [_BETWEEN_WORDS.sub(" ", text.lower()) for text in texts]
    # as narrow as the columns, else SciPy widens both
    numbers = np.arange(len(texts), dtype=np.int32)
    words, pairs = (shingle_texts(cleaned, "words", size) for size in (1, 2))
    rows_of_words, rows_of_pairs = (np.repeat(numbers, found.sizes()) for found in (words, pairs))
    real = words.sizes()[rows_of_pairs] > 1  # a text of one word has it for its only shingle of two
    columns = np.concatenate(
        [_hash_to_columns(words.members), _hash_to_columns(pairs.members)[real]]
    )
    rows = np.concatenate([rows_of_words, rows_of_pairs[real]])
    counts = coo_array(
        (np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(len(texts), TEXT_COLUMNS)
    )
    features = csr_array(counts)
    features.sum_duplicates()
    # Term frequencies c become 1 + log c, then every row is divided by its length.
    features.data = 1 + np.log(features.data)
    sizes = np.diff(features.indptr)
    lengths = np.sqrt(np.bincount(np.repeat(numbers, sizes), features.data**2, len(texts)))
    features.data /= np.repeat(lengths, sizes).astype(np.float32)
    return features


def _hash_to_columns(members: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Spread 64-bit hashes evenly over the columns, by their high half."""
    # High 32 bits h of a hash, evenly over n columns: (h · n) >> 32.
    return (((members >> _U32) * np.uint64(TEXT_COLUMNS)) >> _U32).astype(np.int32)
