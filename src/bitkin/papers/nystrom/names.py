"""How methods are called in tables and figures: as in the paper's legends."""

from __future__ import annotations

FULL = "full PCA"
UNIFORM = "Uniform (ours)"
PAPER_UNIFORM = "Uniform (paper)"
NON_UNIFORM = "Non-Uniform (ours)"
PAPER_NON_UNIFORM = "Non-Uniform (paper)"
MODIFIED = "Modified (paper)"
RANDOM = "Random"
METHODS = (FULL, UNIFORM, PAPER_UNIFORM, NON_UNIFORM, PAPER_NON_UNIFORM, MODIFIED, RANDOM)
SWEPT = (UNIFORM, PAPER_UNIFORM, PAPER_NON_UNIFORM)
GAMMAS = (1e-2, 3e-3, 1e-3, 1e-4)
FIGURE_GAMMA = 3e-3
