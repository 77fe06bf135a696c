"""The driver: which tasks there are, and what the client puts together of what they find.

The client holds some numbers per document, never texts, sets or codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client, Future

from bitkin.checks import one_of
from bitkin.dedup.clusters import Clusters
from bitkin.dedup.duplicates import Duplicates
from bitkin.dedup.finder import warn_of_short_texts
from bitkin.dedup.hashing import TextHashing
from bitkin.dedup.linking import Pairs
from bitkin.distributed.cluster import Progress, block, current_client, gather
from bitkin.distributed.deduplicating import comparing, partitions, shuffling
from bitkin.distributed.deduplicating.comparing import in_order, join_found
from bitkin.distributed.deduplicating.shuffling import JoinedDocuments
from bitkin.distributed.deduplicating.sources import hash_texts
from bitkin.index.bands.bands import Rows

_BANDS_LATER = 4  # times as many as all stages before
_MOST_PIECES = 20_000  # that one shuffle is cut into


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
    `bitkin.dedup.find_duplicates`, but for `n_compared`, which is larger.

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
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
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
    hashed = hash_texts(client, texts, column, hashing)
    found = find_on_cluster(client, hashed, hashing, every_pair=every_pair, progress=progress)
    warn_of_short_texts(found)
    return found


def find_on_cluster(
    client: Client,
    hashed: Sequence[Future],
    hashing: TextHashing,
    *,
    every_pair: bool,
    progress: Progress | None = None,
) -> Duplicates:
    """Return the near-duplicates among partitions that are being hashed."""
    search = _DuplicateSearch(client, hashed, hashing, every_pair=every_pair, progress=progress)
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


class _DuplicateSearch:
    """The tasks of one run: each stage of bands is split by key on every partition, and every part
    of the keys finds its buckets, selects the codes and then the sets of their members, and
    compares.

    A stage begins with the components that earlier ones made, so that pairs within are not compared
    again. What a part sends here is the spanning forest of its pairs; the forest of all is found
    from these, in the order in which one machine would meet them (`new_pairs`).
    """

    def __init__(
        self,
        client: Client,
        hashed: Sequence[Future],
        hashing: TextHashing,
        *,
        every_pair: bool,
        progress: Progress | None,
    ) -> None:
        self._client = client
        self._hashing = hashing
        self._partitions = list(hashed)
        n_partitions = max(1, len(self._partitions))
        n_threads = sum(client.nthreads().values())
        self._n_parts = max(1, n_threads, min(n_partitions // 2, _MOST_PIECES // n_partitions))
        self._stages = stages_of(hashing.plan.bands)
        steps = len(self._partitions) + self._n_parts * (len(self._stages) + 2 + every_pair)
        self._steps = _Steps(client, steps, progress)
        sizes = self._steps.gather([self._submit(partitions.sizes_of, p) for p in self._partitions])
        self.sizes = np.concatenate([np.empty(0, dtype=np.int64), *sizes])
        """How many shingles every document has."""
        self._first = np.cumsum([0, *map(len, sizes)])
        self.n_compared = 0

    def find_equals(self) -> Rows:
        """Return for every document the first with an equal set."""
        split = [
            self._submit(shuffling.split_by_set, partition, first, self._n_parts)
            for partition, first in self._numbered()
        ]
        equals = []
        for part in range(self._n_parts):
            buckets = self._buckets(split, part, _none_joined())
            documents = self._submit(shuffling.documents_of, buckets)
            sets = self._select(partitions.select_sets, documents)
            equals.append(self._submit(comparing.first_of_equals, buckets, sets))
        first_equal = np.arange(len(self.sizes))
        for copies, firsts in self._steps.gather(equals):
            first_equal[copies] = firsts
        return first_equal

    def find_links(self, first_equal: Rows) -> tuple[Rows, Pairs]:
        """Return the root of every document's component, for the first of equal sets, and the
        pairs that joined them.
        """
        from bitkin.kernels.blocks import read_only
        from bitkin.kernels.search.bands import roots_into, unite_into

        numbers = np.arange(len(first_equal))
        parents, roots = numbers.copy(), numbers.copy()
        copies = np.flatnonzero(first_equal != numbers)
        links = [Pairs(numbers[:0], numbers[:0], np.empty(0))]
        for bands in self._stages:
            joined = np.flatnonzero(roots != numbers)
            known = self._submit(_keep, JoinedDocuments(joined, roots[joined]))
            found = in_order(join_found(self._compare(bands, copies, known, every_pair=False)))
            joining = np.empty(len(found.first), dtype=np.bool_)
            unite_into(parents, read_only(found.first), read_only(found.second), joining)
            links.append(Pairs(*(column[joining] for column in found)))
            roots_into(parents, roots)
        return roots, Pairs(*map(np.concatenate, zip(*links, strict=True)))

    def find_pairs(self, first_equal: Rows) -> list[Pairs]:
        """Return every pair at or above the threshold of documents with different sets."""
        copies = np.flatnonzero(first_equal != np.arange(len(first_equal)))
        self.n_compared = 0
        bands = range(self._hashing.plan.bands)
        found = self._compare(bands, copies, _none_joined(), every_pair=True)
        return [part.pairs for part in found]

    def measure(self, first_equal: Rows, clusters: Clusters) -> npt.NDArray[np.float64]:
        """Return the exact similarity of every dropped document to the one kept for it."""
        measured = clusters.dropped[first_equal[clusters.dropped] == clusters.dropped]
        kept = clusters.cluster_of[measured]
        by_kept = np.argsort(kept, kind="stable")
        parts = np.array_split(by_kept, self._n_parts)
        futures = []
        for part in parts:
            first, second = kept[part], measured[part]
            documents = self._submit(_keep, np.unique(np.concatenate([first, second])))
            sets = self._select(partitions.select_sets, documents)
            futures.append(self._submit(comparing.jaccard_of, documents, sets, first, second))
        # a document with an equal set is as similar as the first with it, to itself by 1
        jaccard = np.ones(len(first_equal))
        for part, found in zip(parts, self._steps.gather(futures), strict=True):
            jaccard[measured[part]] = found
        return np.asarray(jaccard[first_equal[clusters.dropped]])

    def _compare(
        self, bands: Sequence[int], copies: Rows, known: Any, *, every_pair: bool
    ) -> list[comparing.FoundPairs]:
        hashing, n_parts = self._hashing, self._n_parts
        split = []
        cuts = np.searchsorted(copies, self._first).tolist()
        for i, (partition, first) in enumerate(self._numbered()):
            own = copies[cuts[i] : cuts[i + 1]]
            split.append(
                self._submit(
                    shuffling.split_by_band, partition, first, own, bands, hashing, n_parts
                )
            )
        compared = []
        for part in range(n_parts):
            buckets = self._buckets(split, part, known)
            documents = self._submit(shuffling.documents_of, buckets)
            codes = self._select(partitions.select_codes, documents)
            coded = self._submit(comparing.leave_out_unlike, buckets, codes, hashing)
            documents = self._submit(comparing.documents_to_compare, coded)
            sets = self._select(partitions.select_sets, documents)
            compared.append(
                self._submit(comparing.compare, coded, sets, hashing, every_pair=every_pair)
            )
        found: list[comparing.FoundPairs] = self._steps.gather(compared)
        self.n_compared += sum(part.n_compared for part in found)
        return found

    def _buckets(self, split: list[Future], part: int, known: Any) -> Future:
        pieces = [self._submit(shuffling.take_part, parts, part) for parts in split]
        return self._submit(shuffling.find_buckets, pieces, known)

    def _select(self, select: Callable[..., Any], documents: Future) -> list[Future]:
        return [
            self._submit(select, partition, first, documents)
            for partition, first in self._numbered()
        ]

    def _numbered(self) -> list[tuple[Future, int]]:
        return list(zip(self._partitions, self._first[:-1].tolist(), strict=True))

    def _submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future:
        # never from a cache: the key of the shingles is another in every run
        return self._client.submit(function, *arguments, pure=False, **options)


class _Steps:
    """Waits for pieces of work, and reports how many of all are done."""

    def __init__(self, client: Client, total: int, progress: Progress | None) -> None:
        self._client = client
        self._total = total
        self._progress = progress
        self._done = 0

    def gather(self, futures: Sequence[Future]) -> list[Any]:
        """Return the results, in order, once all are done."""
        results = gather(self._client, futures, None if self._progress is None else self._report)
        self._done += len(futures)
        return results

    def _report(self, done: int, _: int) -> None:
        if self._progress is not None:
            self._progress(self._done + done, self._total)


def stages_of(n_bands: int) -> list[range]:
    """Return which bands are compared at a time: the first finds most of the pairs, which are not
    compared again; later ones leave ever less to do.
    """
    stages, first = [], 0
    while first < n_bands:
        stages.append(range(first, min(n_bands, max(1, _BANDS_LATER * first))))
        first = stages[-1].stop
    return stages


@block
def _keep(value: Any) -> Any:
    """Return what is given: a task, unlike what is scattered, is done again when it is lost."""
    return value


def _none_joined() -> JoinedDocuments:
    return JoinedDocuments(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
