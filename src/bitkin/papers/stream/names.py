"""How methods and codes are called in tables and figures: as in the paper."""

from __future__ import annotations

UNIFDIAG = "UnifDiag-OPAST"
ISOHASH = "IsoHash-OPAST"
RANDROT = "RandRot-OPAST"
NONE = "OPAST, no rotation"
OSH = "OSH, l = 4c"
PAPER_OSH = "OSH, l = 50"
METHODS = (UNIFDIAG, ISOHASH, RANDROT, NONE, OSH, PAPER_OSH)
OFFLINE = "offline PCA + ITQ"

EMITTED, REENCODED, EPOCHS = "emitted", "re-encoded", "epochs"
KINDS = (EMITTED, REENCODED, EPOCHS)
ESTIMATED = (UNIFDIAG, RANDROT)  # methods that `EpochIndex` is asked about
AS_THEY_ARE, LENGTH_1 = "as they are", "centred, length 1"
PAPER_SKETCH = 50  # its l, which cannot serve more bits


def methods_for(n_bits: int) -> tuple[str, ...]:
    """Return the methods that can make so many bits."""
    return METHODS if n_bits <= PAPER_SKETCH else METHODS[:-1]


REASONS = (
    "random",
    "IsoHash",
    "UnifDiag, from the principal axes",
    "UnifDiag, from a random start",
)
