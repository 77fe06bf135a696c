"""Every exception bitkin raises on purpose.

BitkinError
├── InvalidInputError (ValueError)       an argument has a value that cannot be used
├── CodeMismatchError (ValueError)       codes of different specs or different hashers meet
├── DuplicateIdError (ValueError)        an id is given twice, or is already there
├── UnknownIdError (KeyError)            an id is not there
├── CorruptFileError (ValueError)        a file is not whole, not ours, or does not fit its own header
├── FileTooLargeError (MemoryError)      a whole file, but larger than this machine's memory
├── FileAccessError (OSError)            a path cannot be read or written; what was there is untouched
└── MissingExtraError (ImportError)      an optional dependency is not installed; the message has the install line

Each is also the builtin in brackets, so `except ValueError` works as a caller expects.
"""

from __future__ import annotations


class BitkinError(Exception):
    """Base of all errors raised by bitkin."""

    def __str__(self) -> str:
        # KeyError would print its message in quotes, OSError as a tuple.
        return str(self.args[0]) if self.args else ""


class InvalidInputError(BitkinError, ValueError):
    """An argument has a value that cannot be used."""


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


class MissingExtraError(BitkinError, ImportError):
    """An optional dependency is not installed. The message holds the install line."""
