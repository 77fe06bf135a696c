"""What a service permits, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from bitkin.checks import is_number, shown, whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.errors import InvalidInputError

_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """The most that one request may ask for.

    Examples
    --------
    >>> ServiceLimits(k=100).k
    100
    """

    body: int = 64 * _MB
    """Bytes of a request."""
    k: int = 1000
    """Neighbours of a query."""
    queries: int = 1000
    """Queries of a search."""
    rows: int = 100_000
    """Rows of a write, and of a page."""
    hits: int = 100_000
    """Neighbours of all queries of a search together."""
    numbers: int = 4_000_000
    """Numbers of all vectors of a page together."""
    seconds: float = 30.0
    """From the last byte of a search to its answer."""
    body_seconds: float = 60.0
    """From the first byte of a request to its last."""
    waiting: int = 1000
    """Searches that wait for others; one more is told to come again."""

    def __post_init__(self) -> None:
        whole_number(self.body, "body", low=1)
        for name in ("k", "queries", "rows", "hits"):
            whole_number(getattr(self, name), name, low=1, high=MOST_NEIGHBORS - 1)
        for name in ("numbers", "waiting"):
            whole_number(getattr(self, name), name, low=1)
        for name in ("seconds", "body_seconds"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value <= 86_400:
                raise InvalidInputError(
                    f"{name} must be a number above 0 and up to 86400, got {shown(value)}."
                )
