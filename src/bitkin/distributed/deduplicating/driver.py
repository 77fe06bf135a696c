"""Near-duplicate texts on the workers of a cluster, as one machine finds them."""

from __future__ import annotations

from typing import Any

from distributed import Client

from bitkin.checks import one_of
from bitkin.dedup.clusters import Clusters
from bitkin.dedup.documents.opening import DocumentSource
from bitkin.dedup.duplicates import Duplicates
from bitkin.dedup.files import DocumentPlaces
from bitkin.dedup.finder import warn_of_short_texts
from bitkin.dedup.hashing import TextHashing
from bitkin.distributed.cluster import Progress, current_client, gather, taking_back
from bitkin.distributed.deduplicating.partitions import FileOptions, places_of
from bitkin.distributed.deduplicating.search import DuplicateSearch
from bitkin.distributed.deduplicating.sources import HashedSource, hash_files, hash_texts


def dedup(
    texts: Any,
    threshold: float = 0.8,
    *,
    shingle: str = "words",
    size: int | None = None,
    n_hashes: int = 128,
    lower: bool = False,
    strip_punctuation: bool = False,
    normalize: bool = False,
    pairs: str = "links",
    random_state: int | None = 0,
    column: str | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> Duplicates:
    """Find near-duplicate texts on the workers of a Dask cluster: the result of
    `bitkin.dedup.find_duplicates`, but for `n_compared`, which may be larger.

    Documents are numbered across partitions in order. The client holds some 60 bytes per document.

    Parameters
    ----------
    texts : dask bag, series or data frame, path or list of paths, or iterable of str
        A bag or series of strings; a data frame with a `column` of them; `pathlib.Path` objects,
        one folder or file or a list of files, which every worker reads for itself, in the formats
        of `bitkin.dedup.open_documents`; or texts in memory, which are sent to the workers.
    threshold, shingle, size, n_hashes, lower, strip_punctuation, normalize, pairs, random_state
        As `bitkin.dedup.find_duplicates` takes them.
    column : str, optional
        The column of a data frame, or the field of files, that holds the text; "text" by default.
    client : distributed.Client, optional
        The one that Dask knows by default.
    progress : callable, optional
        Called with how many pieces of work are done, and how many there are.

    Examples
    --------
    >>> from distributed import Client
    >>> from bitkin.distributed import dedup
    >>> texts = ["the quick brown fox jumps over the lazy dog", "something else", "",
    ...          "the quick brown fox jumps over the lazy dog again"]
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     dedup(texts, threshold=0.8)
    Duplicates(4 documents, 3 kept, 1 cluster)
    """
    hashing = TextHashing(
        threshold,
        shingle=shingle,
        size=size,
        n_hashes=n_hashes,
        lower=lower,
        strip_punctuation=strip_punctuation,
        normalize=normalize,
        random_state=random_state,
    )
    every_pair = one_of(pairs, "pairs", ("links", "all")) == "all"
    client = current_client(client)
    source = hash_texts(client, texts, column, hashing)
    found = find_in(client, source, hashing, every_pair=every_pair, progress=progress)
    warn_of_short_texts(found)
    return found


def find_in(
    client: Client,
    source: HashedSource,
    hashing: TextHashing,
    *,
    every_pair: bool,
    progress: Progress | None = None,
) -> Duplicates:
    """Return the near-duplicates among texts that are being hashed."""
    with taking_back(client, source.partitions):
        search = DuplicateSearch(client, source, hashing, every_pair=every_pair, progress=progress)
        first_equal = search.find_equals()
        roots, links = search.find_links(first_equal)
        clusters = Clusters.from_links(first_equal, roots, [links])
        jaccard = search.measure(first_equal, clusters)
        found = search.find_pairs(first_equal) if every_pair else None
    return clusters.duplicates(
        hashing,
        search.sizes,
        jaccard,
        every_pair=found,
        n_compared=search.n_compared,
    )


def find_in_files(
    client: Client,
    files: DocumentSource,
    options: FileOptions,
    hashing: TextHashing,
    *,
    every_pair: bool,
    progress: Progress | None = None,
) -> tuple[Duplicates, DocumentPlaces]:
    """Return the near-duplicates among the documents of files, and where every document stands."""
    source = hash_files(client, files.paths, options, hashing)
    found = find_in(client, source, hashing, every_pair=every_pair, progress=progress)
    places = DocumentPlaces(files)
    standing = [client.submit(places_of, one, pure=False) for one in source.partitions]
    for file, (lines, ids) in enumerate(gather(client, standing)):
        places.add_file(file, lines, ids)
    return found, places
