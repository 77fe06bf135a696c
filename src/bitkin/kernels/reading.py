"""How fast memory is read: a sum of words, which no scan of as many bytes by one thread can beat by
much.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel


@kernel
def sum_words(words):
    """Sum of uint64[N], modulo 2⁶⁴."""
    total = np.uint64(0)
    for i in range(len(words)):
        total += words[i]
    return total
