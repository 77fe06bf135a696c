"""Words and bounds of arguments that the library checks and the command line shows.

Plain values, so that `bitkin --help` has them without loading anything.
"""

from __future__ import annotations

METRICS = ("l2", "cosine", "ip")
TRUTH_METRICS = (*METRICS, "jaccard")  # of exact neighbours: jaccard compares rows as sets
MEASURES = (
    "recall", "map", "ndcg", "precision-recall", "kendall", "spearman", "error-at-recall",
)  # of what a search found  # fmt: skip
STAGES = ("codes", "estimate", "exact")  # of a search, each better than the one before
FIRST_STAGES = ("codes", "estimate")  # that look at all rows
MOST_CELLS = 1 << 20  # of a CellIndex
MOST_NEIGHBORS = 2**31 - 1  # per query, and what multiplies them: int32 counts them
WARMUP_TASKS = (
    "search", "collection", "multi", "bands", "cells", "wta", "minhash", "stream", "dedup",
    "classify",
)  # fmt: skip
