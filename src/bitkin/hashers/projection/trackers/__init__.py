"""Trackers: subspaces that follow a stream of vectors."""

from bitkin.hashers.projection.trackers.base import Tracker
from bitkin.hashers.projection.trackers.frequent_directions import FrequentDirectionsTracker
from bitkin.hashers.projection.trackers.opast import FrozenSigns, OPASTTracker

__all__ = ["FrequentDirectionsTracker", "FrozenSigns", "OPASTTracker", "Tracker"]
