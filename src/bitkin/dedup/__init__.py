"""Near-duplicate texts and vectors: found by codes, compared exactly, put in clusters."""

from __future__ import annotations

from bitkin.dedup.cleaning import TextCleaning
from bitkin.dedup.documents.opening import open_documents
from bitkin.dedup.duplicates import Duplicates
from bitkin.dedup.finder import DuplicateFinder, find_duplicates
from bitkin.dedup.linking import Pairs
from bitkin.dedup.vectors import DuplicateVectors, find_duplicate_vectors

__all__ = [
    "DuplicateFinder",
    "DuplicateVectors",
    "Duplicates",
    "Pairs",
    "TextCleaning",
    "find_duplicate_vectors",
    "find_duplicates",
    "open_documents",
]
