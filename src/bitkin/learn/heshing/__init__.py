"""HeshingClassifier: what it learns, how, and what it keeps."""

from bitkin.learn.heshing.heshing_classifier import HeshingClassifier

__all__ = ["HeshingClassifier"]
