"""How methods are called in tables and figures: as in the paper, where it has them."""

from __future__ import annotations

SIGNS = "sign projections"
PCA_HASH = "PCA hashing"
SPECTRAL = "spectral hashing"
ITQ = "PCA + ITQ"
RIVALS = (PCA_HASH, SPECTRAL, SIGNS, ITQ)

DEGREES, WINDOWS = (1, 2, 4), (2, 4, 8, 16)
CENTRED, AS_THEY_ARE = "centred", "as they are"

Variant = tuple[int, int, str]
"""Degree p, window K, and whether rows are centred."""

PAPER: Variant = (4, 4, AS_THEY_ARE)
PAPER_BANDED: Variant = (4, 16, AS_THEY_ARE)
PLAIN: Variant = (1, 4, AS_THEY_ARE)
DEFAULT: Variant = (1, 4, CENTRED)
BANDED_DEFAULT: Variant = (1, 16, CENTRED)

RAW, CHI_SQUARE = "bags as they are", "χ² kernel of the bags"
PIXELS, SIFT = "raw pixels", "SIFT-like"
EUCLIDEAN, NORMALIZED = "Euclidean", "Euclidean, each descriptor standardized"
CODES, STANDARDIZED = "WTA", "WTA, dimensions standardized"
MATCHED = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
"""Shares of true matches at which figure 4 has the false ones."""
CLEAR_CONTRAST = 30.0
"""Standard deviation, of 255, above which a patch is not pale."""
MATCHERS = (EUCLIDEAN, NORMALIZED, CODES, STANDARDIZED)
DISTORTIONS = ("2x + 3", "x squared", "log(1 + x)", "noise of 5 %", "noise of 20 %")
ENCODERS = ("WTA, K = 2", "WTA, K = 4", "WTA, K = 16", "WTA, K = 4, centred", SIGNS)


def label_of(variant: Variant | str) -> str:
    """Return how a variant is called; a rival is called by its name."""
    if isinstance(variant, str):
        return variant
    degree, window, rows = variant
    return f"WTA p = {degree}, K = {window}" + (", centred" if rows == CENTRED else "")
