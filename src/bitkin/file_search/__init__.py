"""Search of an index in a file by queries in others: `search_files`, or `FileSearch` batch by
batch.
"""

from bitkin.file_search.request import SearchRequest
from bitkin.file_search.search import FileSearch, search_files

__all__ = ["FileSearch", "SearchRequest", "search_files"]
