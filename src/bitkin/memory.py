"""Does it fit: what the memory of this machine can hold."""

from __future__ import annotations

import functools
import os


@functools.cache
def physical_memory() -> int | None:
    """Return the bytes of memory of this machine, or None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def fits(n_bytes: int) -> bool:
    """Return whether so many bytes fit in this machine's memory; yes where its size is unknown.

    What does not fit is refused before it is allocated: systems promise more than they have, and
    then end the process.
    """
    there = physical_memory()
    return there is None or n_bytes <= there
