"""How methods are called in tables and figures: as in the paper."""

from __future__ import annotations

WTA = "WTA"
ROTATION = "Densified WTA, rotation"
OPTIMAL = "Densified WTA, optimal"
METHODS = (WTA, ROTATION, OPTIMAL)
RAW = "bags as they are"
ALPHABETS = (4, 8, 16, 64, 256)
LARGE = 256
"""The R of a comparison at equal codes: so large that borrowed symbols hardly ever meet."""
