"""Measure what a code loses: exact neighbours, and how well a ranking finds them."""

from bitkin.evaluate.metrics import error_at_recall, mean_average_precision, precision_recall
from bitkin.evaluate.recall_of_ids import recall
from bitkin.evaluate.truth import nearest, radius_truth

__all__ = [
    "error_at_recall",
    "mean_average_precision",
    "nearest",
    "precision_recall",
    "radius_truth",
    "recall",
]
