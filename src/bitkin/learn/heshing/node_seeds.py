"""The seed of every node's hash: it depends on the node's number and the model's seed only, so
trees may grow.

Different nodes of one model have different seeds: the mixing below is one to one. It is part of
what a saved model means and must never change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.randomness import Draws

_LOW_32 = np.uint64(2**32 - 1)
# odd, so one to one
_STEP, _MIX_1, _MIX_2 = np.uint64(0x9E3779B1), np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_13, _16, _32 = np.uint64(13), np.uint64(16), np.uint64(32)


def node_seeds(nodes: npt.NDArray[Any], seed: int) -> npt.NDArray[np.uint32]:
    """Return the seeds of nodes, given by number, in a model of this seed; −1 is the root.

    Examples
    --------
    >>> node_seeds(np.array([-1, 0, 1]), seed=0)
    array([  27889370, 3743412036, 1475380799], dtype=uint32)
    """
    start = Draws(seed, "heshing nodes").words(1) >> _32
    mixed = ((nodes + 1).astype(np.uint64) * _STEP + start) & _LOW_32
    mixed = ((mixed ^ (mixed >> _16)) * _MIX_1) & _LOW_32
    mixed = ((mixed ^ (mixed >> _13)) * _MIX_2) & _LOW_32
    return (mixed ^ (mixed >> _16)).astype(np.uint32)
