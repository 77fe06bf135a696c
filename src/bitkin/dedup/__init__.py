"""Near-duplicate texts: found by MinHash and bands, compared exactly, put in clusters."""

from __future__ import annotations

from bitkin.dedup.cleaning import TextCleaning
from bitkin.dedup.documents.opening import open_documents
from bitkin.dedup.duplicates import Duplicates
from bitkin.dedup.finder import DuplicateFinder, find_duplicates
from bitkin.dedup.linking import Pairs

__all__ = [
    "DuplicateFinder",
    "Duplicates",
    "Pairs",
    "TextCleaning",
    "find_duplicates",
    "open_documents",
]
