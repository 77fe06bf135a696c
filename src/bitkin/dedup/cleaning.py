"""What two texts may differ in and still be compared as one: case, punctuation, how characters are
written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from bitkin.checks import shown
from bitkin.errors import InvalidInputError

# An apostrophe is within a word ("don't", "dont"); all other punctuation is between words.
_APOSTROPHES = "'’ʼ＇"

_MARKS_END = 0x20000  # ideographs, tags and private characters are beyond


class TextCleaning(NamedTuple):
    """How texts are cleaned before they are compared; what is kept of them is the original.

    Examples
    --------
    >>> TextCleaning(lower=True, strip_punctuation=True).clean("Don't panic -- it's  the END!")
    'dont panic its the end'
    """

    lower: bool = False
    """Compare without case (`str.casefold`)."""
    strip_punctuation: bool = False
    """Compare without punctuation: apostrophes are removed, any other becomes a space. That is
    what Unicode counts as punctuation, and the signs of ASCII such as + and $."""
    normalize: bool = False
    """Compare in Unicode's form NFKC, and with one space for every run of white space: full-width
    letters, ligatures and composed accents are then written in one way."""

    @classmethod
    def from_options(cls, lower: object, strip_punctuation: object, normalize: object) -> Self:
        """Return the cleaning for checked options."""
        for name, value in (
            ("lower", lower),
            ("strip_punctuation", strip_punctuation),
            ("normalize", normalize),
        ):
            if not isinstance(value, (bool, np.bool_)):
                raise InvalidInputError(f"{name} must be True or False, got {shown(value)}.")
        return cls(bool(lower), bool(strip_punctuation), bool(normalize))

    def clean(self, text: str) -> str:
        """Return a text as it is compared."""
        if self.normalize and not text.isascii():
            text = unicodedata.normalize("NFKC", text)
        if self.lower:
            text = text.casefold()
        if self.strip_punctuation:
            if text.isascii():  # much faster than an expression
                text = text.translate(_ascii_table())
            else:
                text = _marks().sub(" ", _APOSTROPHE.sub("", text))
        if self.normalize or self.strip_punctuation:
            text = " ".join(text.split())
        return text

    def clean_all(self, texts: Iterable[str]) -> Iterable[str]:
        """Return all texts as they are compared; what is no text stays, for others to refuse."""
        if not any(self) or isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            return texts
        return self._each(texts)

    def _each(self, texts: Iterable[str]) -> Iterator[str]:
        return (self.clean(text) if isinstance(text, str) else text for text in texts)


_APOSTROPHE = re.compile(f"[{_APOSTROPHES}]")


@cache
def _ascii_table() -> dict[int, str | None]:
    signs = (code for code in range(33, 127) if not chr(code).isalnum())
    return {code: None if chr(code) in _APOSTROPHES else " " for code in signs}


@cache
def _marks() -> re.Pattern[str]:
    """All punctuation but apostrophes, as one set of characters."""
    codes = (
        code
        for code in range(33, _MARKS_END)
        if (code < 127 and not chr(code).isalnum())
        or unicodedata.category(chr(code)).startswith("P")
    )
    signs = "".join(map(chr, codes))
    return re.compile(f"[{re.escape(signs)}]")
