"""Learning that can be undone: a copy of a hasher learns, and the hasher becomes the copy at the
end, or stays as it is.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash


class StreamTrial:
    """A copy that learns in the place of a hasher, which stays as it is until it accepts the copy.

    Parameters
    ----------
    hasher : ProjectionHash
        One with a stream, or one that can start a stream.

    Attributes
    ----------
    copy : ProjectionHash
        Shares with the hasher all that never changes; the stream is its own.
    """

    def __init__(self, hasher: ProjectionHash) -> None:
        self._hasher = hasher
        self._progress = _progress_of(hasher)
        self.copy: ProjectionHash = object.__new__(type(hasher))
        self.copy.__dict__.update(hasher.__dict__)
        if hasattr(hasher, "stream_"):
            self.copy.stream_ = copy.deepcopy(hasher.stream_)

    def require_unchanged(self) -> None:
        """Raise where the hasher has learned something since it was copied: accepting the copy
        would lose it.
        """
        if _progress_of(self._hasher) != self._progress:
            raise InvalidInputError(
                "vectors must not let the hasher learn while they are read: it would forget that "
                "again. Let it learn before or after."
            )

    def accept(self) -> None:
        """Let the hasher be what its copy has become."""
        self.require_unchanged()
        # One assignment: no signal handler's exception comes between.
        self._hasher.__dict__ = dict(self.copy.__dict__)


def _progress_of(hasher: ProjectionHash) -> tuple[int, int, int, int]:
    """Return what changes whenever something is learned, skipped or begun."""
    stream = getattr(hasher, "stream_", None)
    if stream is None:
        return 0, 0, 0, 0
    return id(stream), stream.n_seen, stream.n_skipped, stream.n_epochs
