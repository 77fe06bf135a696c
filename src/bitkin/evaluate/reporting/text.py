"""Text as a report shows it: made by others, so nothing in it is taken as markup."""

from __future__ import annotations

import html
import math
import re
from typing import Any

import numpy as np

# control characters (XML has none of them), halves of characters, and what turns the writing
# direction of the text around it
_UNWANTED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+!|~$-])")
MISSING = "–"


def clean(text: Any, most: int = 300) -> str:
    """Return text that can stand in any file: cut, and odd characters replaced."""
    cut = str(text)
    if len(cut) > most:
        cut = f"{cut[: most - 1]}…"
    return _UNWANTED.sub("\ufffd", cut.replace("\r\n", "\n").replace("\r", "\n"))


def escape(text: Any, most: int = 300) -> str:
    """Return text for HTML and SVG, within elements and in quotes."""
    return html.escape(clean(text, most), quote=True)


def escape_markdown(text: Any, most: int = 300) -> str:
    """Return text for a line or a cell of Markdown."""
    return _MARKDOWN.sub(r"\\\1", " ".join(clean(text, most).split()))


def number(value: float, digits: int = 3) -> str:
    """Return a number as people read it: so many digits, no exponent, thousands apart."""
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    before = math.floor(math.log10(abs(value))) + 1
    decimals = max(0, digits - max(before, 0 if abs(value) >= 0.01 else before))
    text = f"{value:,.{min(decimals, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def fact(value: Any) -> str:
    """Return a value of `ReportPage.facts` as it is shown."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    if isinstance(value, (float, np.floating)):
        return number(float(value))
    return clean(value)
