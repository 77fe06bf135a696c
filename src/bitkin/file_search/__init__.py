"""Search of an index in a file by queries in others: `search_files`, or `FileSearch` batch by
batch.
"""

from bitkin.file_search.epochs import EpochFileSearch
from bitkin.file_search.request import SearchRequest
from bitkin.file_search.search import FileSearch, open_search, search_files

__all__ = ["EpochFileSearch", "FileSearch", "SearchRequest", "open_search", "search_files"]
