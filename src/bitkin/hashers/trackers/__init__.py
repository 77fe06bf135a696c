"""Trackers: subspaces that follow a stream of vectors."""

from bitkin.hashers.trackers.base import Tracker
from bitkin.hashers.trackers.frequent import FrequentDirectionsTracker
from bitkin.hashers.trackers.opast import FrozenSigns, OPASTTracker

__all__ = ["FrequentDirectionsTracker", "FrozenSigns", "OPASTTracker", "Tracker"]
