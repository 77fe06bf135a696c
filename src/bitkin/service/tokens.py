"""Who may read, and who may write: bearer tokens, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.notices import warn_caller

READ, WRITE = "read", "write"
SHORTEST_TOKEN = 16
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

    @classmethod
    def from_words(cls, *, read: list[str] | None = None, write: list[str] | None = None) -> Tokens:
        """Return the digests of tokens; raise for one that could be guessed."""
        return cls(tuple(map(_digest, read or [])), tuple(map(_digest, write or [])))

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


def _digest(token: str) -> bytes:
    if len(token) < SHORTEST_TOKEN or not token.isascii():
        raise InvalidInputError(
            f"a token must have at least {SHORTEST_TOKEN} characters of ASCII, got {len(token)}. "
            f"{_ADVICE}"
        )
    return hashlib.sha256(token.encode("ascii")).digest()
