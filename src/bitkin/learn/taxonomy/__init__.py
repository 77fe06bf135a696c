"""Trees of classes: made, looked up, drawn and stored."""

from bitkin.learn.taxonomy.taxonomy import Taxonomy

__all__ = ["Taxonomy"]
