"""How methods are called in tables and figures: as in the paper."""

from __future__ import annotations

WTA = "WTA"
ROTATION = "Densified WTA, rotation"
OPTIMAL = "Densified WTA, optimal"
METHODS = (WTA, ROTATION, OPTIMAL)
RAW = "bags as they are"
SIGNS = "signs of random projections"
ALPHABETS = (4, 8, 16, 64, 256)
LARGE = 256
"""The R of a comparison at equal codes: so large that borrowed symbols hardly ever meet."""
EQUAL_CODES, EQUAL_BYTES = "equal codes", "equal bytes"
LEARNED_ALPHABETS = (4, 16, 256)
PLAIN_ALPHABET = 4
"""The R of plain codes beside those: all values that a window of 4 has."""
AUTO = "auto"
Window = int | str
