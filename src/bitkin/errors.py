"""Every exception bitkin raises on purpose.

BitkinError
├── InvalidInputError (ValueError)       an argument has a value that cannot be used
│   ├── ArgumentError (ValueError)       an argument does not go with the others that are given
│   └── EnvironmentVariableError (ValueError)  an environment variable has one
├── CodeMismatchError (ValueError)       codes of different specs or different hashers meet
├── DuplicateIdError (ValueError)        an id is given twice, or is already there
├── UnknownIdError (KeyError)            an id is not there
├── CorruptFileError (ValueError)        a file is not whole, not ours, or contradicts itself
├── FileTooLargeError (MemoryError)      a whole file, but larger than this machine's memory
├── FileAccessError (OSError)            a path cannot be read or written; nothing is lost
├── ServiceError (ConnectionError)       a service cannot be reached, or gives no good answer
│   └── AccessDeniedError (PermissionError)  its token is missing or wrong, or may only read
├── ClusterError (RuntimeError)          there is no Dask client, or a worker lacks this bitkin
├── TargetNotReachedError (ValueError)   nothing reaches the recall wanted; has the best found
└── MissingExtraError (ImportError)      an optional dependency is absent; says how to install it

Each is also the builtin in brackets, so `except ValueError` works as a caller expects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_MOST_CHARACTERS, _LAST_CHARACTERS = 4000, 400


def cut_text(text: str, most: int, last: int = 0) -> str:
    """Return text as messages show it: the first of `most` characters, and the `last` ones where it
    ends in advice.
    """
    left_out = len(text) - most
    if left_out <= 0:
        return text
    if not last:
        return f"{text[: most - 3]}..."
    return f"{text[: most - last]} … {left_out:,} characters left out … {text[-last:]}"


class BitkinError(Exception):
    """Base of all errors raised by bitkin.

    Messages show values that others made: what is longer than 4,000 characters loses its middle, so
    that nobody's name of a megabyte fills a terminal or a log. The beginning names the argument,
    and the end says what to do.
    """

    def __init__(self, *args: object) -> None:
        limits = _MOST_CHARACTERS, _LAST_CHARACTERS
        super().__init__(
            *(cut_text(value, *limits) if isinstance(value, str) else value for value in args)
        )

    def __str__(self) -> str:
        # KeyError would print its message in quotes, OSError as a tuple.
        return str(self.args[0]) if self.args else ""


class InvalidInputError(BitkinError, ValueError):
    """An argument has a value that cannot be used."""


class ArgumentError(InvalidInputError):
    """An argument does not go with the others that are given: which one it is, and why.

    The message is "argument: reason". A front end that has names of its own for arguments, such as
    the command line, takes the two apart.
    """

    def __init__(self, reason: str, argument: str | None = None) -> None:
        super().__init__(reason if argument is None else f"{argument}: {reason}")
        self.reason = reason
        self.argument = argument

    def __reduce__(self) -> tuple[type[ArgumentError], tuple[str, str | None]]:
        return type(self), (self.reason, self.argument)


class EnvironmentVariableError(InvalidInputError):
    """A variable of the environment has a value that cannot be used: nothing is wrong with what was
    given.
    """


class CodeMismatchError(BitkinError, ValueError):
    """Codes of different specs, or from different fitted hashers, were brought together."""


class DuplicateIdError(BitkinError, ValueError):
    """An id was given twice in one call, or is in the index already."""


class UnknownIdError(BitkinError, KeyError):
    """An id is not in the index."""


class CorruptFileError(BitkinError, ValueError):
    """A file is truncated, damaged, foreign, or does not fit its own header."""


class FileTooLargeError(BitkinError, MemoryError):
    """A file is whole, but larger than this machine's memory; map it instead."""


class FileAccessError(BitkinError, OSError):
    """A path cannot be read or written. What was there before is untouched."""


class ServiceError(BitkinError, ConnectionError):
    """A service cannot be reached, has too much to do, or its answer is none that can be used.

    Attributes
    ----------
    maybe_done : bool
        Whether the service may have done what was asked all the same: the answer was lost.
    """

    def __init__(self, message: str, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done

    def __reduce__(self) -> tuple[type[ServiceError], tuple[str, bool]]:
        return type(self), (str(self), self.maybe_done)


class AccessDeniedError(ServiceError, PermissionError):
    """A service wants a token, refuses the one given, or lets it only read."""


class ClusterError(BitkinError, RuntimeError):
    """A Dask cluster cannot do the work: there is none, it has no workers, or one of them has
    another bitkin, or none.
    """


class TargetNotReachedError(BitkinError, ValueError):
    """No configuration reaches the recall that was asked for, or none within the bytes allowed.

    Attributes
    ----------
    best : Recommendation or None
        The one that comes nearest; None where nothing could be measured.
    """

    def __init__(self, message: str, best: Any = None) -> None:
        super().__init__(message)
        self.best = best

    def __reduce__(self) -> tuple[type[TargetNotReachedError], tuple[str, Any]]:
        return type(self), (str(self), self.best)


class MissingExtraError(BitkinError, ImportError):
    """An optional dependency is not installed. The message holds the install line."""
