"""How much memory there is, which is what decides whether something fits.

What does not fit is refused before it is allocated: systems promise more memory than they have, and
then end the process that uses it.
"""

from __future__ import annotations

import functools
import os
import sys

from bitkin.errors import InvalidInputError


@functools.cache
def physical_memory() -> int:
    """Return the bytes of memory of this machine; where the system does not say, more than anything
    can need.
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return sys.maxsize


def require_memory(needed: int, what: str, instead: str) -> None:
    """Raise unless this machine has `needed` bytes: `what` takes them, `instead` is what to do
    about it.
    """
    memory = physical_memory()
    if needed > memory:
        raise InvalidInputError(
            f"{what} does not fit in memory: it takes {needed / 1e9:,.3g} GB, there are "
            f"{memory / 1e9:,.3g} GB. {instead}"
        )
