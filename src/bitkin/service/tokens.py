"""Who may read, and who may write: bearer tokens, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.notices import warn_caller

READ, WRITE = "read", "write"
SHORTEST_TOKEN = 16
_CHARACTERS = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # which JSON writes as they are
_SCHEME = "bearer "
_ADVICE = "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """The digests of all tokens, by what they permit; without any, everybody may do everything.

    Examples
    --------
    >>> tokens = Tokens.from_words(write=["0123456789abcdef"])
    >>> tokens.access("Bearer 0123456789abcdef"), tokens.access(None)
    ('write', None)
    >>> tokens
    Tokens(0 to read, 1 to write)
    """

    read: tuple[bytes, ...] = ()
    write: tuple[bytes, ...] = ()
    pieces: frozenset[bytes] = frozenset()
    """Digests of all that is as long as the shortest token may be, of any token."""

    @classmethod
    def from_words(cls, *, read: list[str] | None = None, write: list[str] | None = None) -> Tokens:
        """Return the digests of tokens; raise for one that could be guessed."""
        words = [*(read or []), *(write or [])]
        return cls(
            tuple(map(_digest, read or [])),
            tuple(map(_digest, write or [])),
            frozenset(piece for word in words for piece in _digests_of_pieces(word)),
        )

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Tokens:
        """Read the tokens of a file: lines of `read TOKEN` and `write TOKEN`; a lone token may
        write. Blank lines, and those that begin with #, say nothing.
        """
        path = Path(path)
        try:
            text = path.read_text("utf-8")
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise FileAccessError(f"token file {path} cannot be read: {reason}.") from None
        found: dict[str, list[str]] = {READ: [], WRITE: []}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            kind, token = (WRITE, words[0]) if len(words) == 1 else (words[0].rstrip(":"), words[1])
            if len(words) > 2 or kind not in found:
                # the line itself is never shown: it may hold a token
                raise InvalidInputError(
                    f"token file {path}, line {number}: must be 'read TOKEN' or 'write TOKEN'."
                )
            try:
                _digest(token)
            except InvalidInputError as error:
                raise InvalidInputError(f"token file {path}, line {number}: {error}") from None
            found[kind].append(token)
        if not (found[READ] or found[WRITE]):
            raise InvalidInputError(f"token file {path} holds no token. {_ADVICE}")
        if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
            warn_caller(f"token file {path} can be read by others. Run: chmod 600 {path}")
        return cls.from_words(read=found[READ], write=found[WRITE])

    def __bool__(self) -> bool:
        return bool(self.read or self.write)

    def __repr__(self) -> str:
        return f"Tokens({len(self.read)} to read, {len(self.write)} to write)"

    def access(self, authorization: str | None) -> str | None:
        """Return what the header of a request permits, "read" or "write", None for nothing."""
        if not self:
            return WRITE
        given = authorization or ""
        if given[: len(_SCHEME)].lower() != _SCHEME:
            return None
        digest = hashlib.sha256(given[len(_SCHEME) :].strip().encode("utf-8", "replace")).digest()
        # all of them are compared, whichever it is
        may_write = [hmac.compare_digest(digest, one) for one in self.write]
        may_read = [hmac.compare_digest(digest, one) for one in self.read]
        return WRITE if any(may_write) else READ if any(may_read) else None

    def hide(self, text: str) -> str:
        """Return a text with stars where 16 or more characters of a token stand, by mistake of
        whoever sent it: for logs and errors. Of text without tokens it is the text itself.

        Examples
        --------
        >>> Tokens.from_words(write=["0123456789abcdef"]).hide("no row 0123456789abcdef.")
        'no row ****************.'
        """
        if not self.pieces:
            return text
        hidden = bytearray(len(text))
        for first, digest in enumerate(_digests_of_pieces(text)):
            if digest in self.pieces:
                hidden[first : first + SHORTEST_TOKEN] = b"\1" * SHORTEST_TOKEN
        if not any(hidden):
            return text
        return "".join("*" if hide else one for one, hide in zip(text, hidden, strict=True))


def _digests_of_pieces(text: str) -> Iterator[bytes]:
    """Yield digests of all stretches of a text that are as long as the shortest token."""
    data = text.encode("utf-32-le", "surrogatepass")  # so that all characters are of one length
    for first in range(0, len(data) - 4 * SHORTEST_TOKEN + 1, 4):
        yield hashlib.sha256(data[first : first + 4 * SHORTEST_TOKEN]).digest()


def _digest(token: str) -> bytes:
    if len(token) < SHORTEST_TOKEN or not _CHARACTERS.fullmatch(token):
        raise InvalidInputError(
            f"a token must have at least {SHORTEST_TOKEN} characters of ASCII, got {len(token)}, "
            f"and no quotes and backslashes. {_ADVICE}"
        )
    return hashlib.sha256(token.encode("ascii")).digest()
