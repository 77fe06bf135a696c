"""Measure what a code loses: exact neighbours, and how well a ranking finds them."""

from bitkin.evaluate.metrics import mean_average_precision, recall
from bitkin.evaluate.truth import nearest, radius_truth

__all__ = ["mean_average_precision", "nearest", "radius_truth", "recall"]
