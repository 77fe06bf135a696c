"""Trackers: subspaces that follow a stream of vectors."""

from bitkin.hashers.projection.streams.trackers.base import Tracker
from bitkin.hashers.projection.streams.trackers.frequent import FrequentDirectionsTracker
from bitkin.hashers.projection.streams.trackers.opast import FrozenSigns, OPASTTracker

__all__ = ["FrequentDirectionsTracker", "FrozenSigns", "OPASTTracker", "Tracker"]
