"""What is closed when its block ends."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class Closes:
    """Base of what has a `close` and stands in a `with` block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
