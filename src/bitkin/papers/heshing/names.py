"""How methods are called in tables and figures: as in the paper's Table 2."""

from __future__ import annotations

OVR = "OVR"
MSVM = "MSVM"
HIESVM = "HieSVM"
TREESVM = "TreeSVM"
FLATHASH = "FlatHash"
FLATHASH_TOTAL = "FlatHash, equal total memory"
PCA = "PCA"
HESHING = "HESHING"
METHODS = (OVR, MSVM, HIESVM, TREESVM, FLATHASH, FLATHASH_TOTAL, PCA, HESHING)
ONCE = (OVR, MSVM, HIESVM, TREESVM, PCA)
"""Machines that no seed of hashes changes, or hardly."""

TIMED = (OVR, TREESVM, FLATHASH, HESHING)
"""Machines whose time is their own: MSVM and HieSVM are stood for by large tables, and PCA chooses
its penalty while it is fitted.
"""

LOW = ("imclef07a", "tinyimagenet_1000", "onet_minilm")
"""Sets of up to 1,000 features; the others have more."""
