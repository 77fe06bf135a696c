"""Measure what a code loses: exact neighbours, and how well a ranking finds them."""

from bitkin.evaluate.agreement import kendall, spearman
from bitkin.evaluate.exact.cache import clear_cache
from bitkin.evaluate.gain import ndcg
from bitkin.evaluate.intervals import interval
from bitkin.evaluate.labels import same_label
from bitkin.evaluate.metrics import (
    PrecisionRecall,
    PrecisionRecallPerQuery,
    error_at_recall,
    mean_average_precision,
    precision_recall,
)
from bitkin.evaluate.per_query import PerQuery
from bitkin.evaluate.recall_of_ids import recall
from bitkin.evaluate.truth import nearest, radius_truth

__all__ = [
    "PerQuery",
    "PrecisionRecall",
    "PrecisionRecallPerQuery",
    "clear_cache",
    "error_at_recall",
    "interval",
    "kendall",
    "mean_average_precision",
    "ndcg",
    "nearest",
    "precision_recall",
    "radius_truth",
    "recall",
    "same_label",
    "spearman",
]
