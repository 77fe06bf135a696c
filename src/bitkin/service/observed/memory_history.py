"""How much memory the process has held, now and before."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

_KEPT = 360  # looks
SECONDS_BETWEEN_LOOKS = 10.0


class MemoryHistory:
    """Bytes of the process, looked at now and then.

    Examples
    --------
    >>> history = MemoryHistory()
    >>> history.look()
    >>> history.as_json()["rss_bytes"] > 1_000_000
    True
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    def look(self) -> None:
        """Note how much it is now."""
        self._seen.append((round(time.monotonic() - self._since, 1), bytes_of_process()))

    def as_json(self) -> dict[str, Any]:
        """Return the bytes now, and those seen before with the second of each look."""
        return {"rss_bytes": bytes_of_process(), "history": [list(one) for one in self._seen]}


def bytes_of_process() -> int:
    """Return the bytes of memory that this process has; where the system does not say, the most
    that it had.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
