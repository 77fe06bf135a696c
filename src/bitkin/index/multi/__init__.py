"""The exact index that looks at few codes."""

from bitkin.index.multi.multi_index import MultiIndex

__all__ = ["MultiIndex"]
