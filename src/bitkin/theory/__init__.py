"""The papers' formulas as functions: what codes measure, how often windows are empty, when bands
meet, what is lost.

Vectors are 1-dimensional arrays of one length n; a window is `window` (the papers' K) of their n
features in random order, drawn without replacement. Nothing here is sampled: results are exact up
to rounding, whose relative error is at most about n · 2**−52. Comparing two vectors costs O(n log
n).
"""

from bitkin.theory.collisions import (
    good_kernel,
    winner_rank_distribution,
    wta_collision,
    wta_similarity,
)
from bitkin.theory.feature_hashing import (
    buckets_for,
    expected_feature_loss,
    hashed_product,
    largest_component,
)
from bitkin.theory.orders import pairwise_order, rank_agreement
from bitkin.theory.sets import band_probability, conjunction_jaccard
from bitkin.theory.subspaces import nystrom_error_bound, projection_error
from bitkin.theory.windows import empty_share

__all__ = [
    "band_probability",
    "buckets_for",
    "conjunction_jaccard",
    "empty_share",
    "expected_feature_loss",
    "good_kernel",
    "hashed_product",
    "largest_component",
    "nystrom_error_bound",
    "pairwise_order",
    "projection_error",
    "rank_agreement",
    "winner_rank_distribution",
    "wta_collision",
    "wta_similarity",
]
