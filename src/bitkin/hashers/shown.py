"""Values in messages: short, whatever they are."""

from __future__ import annotations

from typing import Any

_MOST_BITS = 200  # of a number that is written out; Python refuses to write thousands of digits


def shown(value: Any) -> str:
    """Return `value` as it is written in Python, cut to 60 characters."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except ValueError:  # such a number within
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
