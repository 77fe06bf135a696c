"""The lock that makes the writers of an index take turns."""

from __future__ import annotations

from bitkin.locks import ForkSafeLock


class WriterLock(ForkSafeLock):
    """Held by whoever changes an index; readers do not ask for it."""
