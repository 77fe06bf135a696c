"""How much memory there is."""

from __future__ import annotations

import os
from functools import cache


@cache
def physical_memory() -> int | None:
    """Return the bytes of memory of this machine, or None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
