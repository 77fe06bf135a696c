"""The search for near-duplicates: which tasks there are, and what the client puts together of what
they find.

The client holds some numbers per document, never texts, sets or codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client, Future

from bitkin.dedup.clusters import Clusters
from bitkin.dedup.hashing import TextHashing
from bitkin.dedup.linking import Pairs
from bitkin.distributed.cluster import Progress, block, gather
from bitkin.distributed.deduplicating import comparing, partitions, shuffling
from bitkin.distributed.deduplicating.comparing import in_order, join_found
from bitkin.distributed.deduplicating.shuffling import JoinedDocuments
from bitkin.distributed.deduplicating.sources import HashedSource
from bitkin.index.bands.bands import Rows

_BANDS_LATER = 4  # times as many as all stages before
_MOST_PIECES = 50_000  # that one shuffle is cut into


class DuplicateSearch:
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
        source: HashedSource,
        hashing: TextHashing,
        *,
        every_pair: bool,
        progress: Progress | None,
    ) -> None:
        self._client = client
        self._hashing = hashing
        self._partitions = source.partitions
        n_threads = sum(client.nthreads().values())
        self._n_parts = count_parts(len(self._partitions), n_threads)
        self._stages = stages_of(hashing.plan.bands)
        steps = len(self._partitions) + self._n_parts * (len(self._stages) + 2 + every_pair)
        self._steps = _Steps(client, steps, progress)
        sizes = self._steps.gather([self._submit(partitions.sizes_of, p) for p in self._partitions])
        self.sizes = np.concatenate([np.empty(0, dtype=np.int64), *sizes])
        """How many shingles every document has."""
        if source.files and not len(self.sizes):
            raise source.no_documents()
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
        links: list[Pairs] = []
        for bands in self._stages:
            joined = np.flatnonzero(roots != numbers)
            known = self._submit(_keep, JoinedDocuments(joined, roots[joined]))
            found = in_order(join_found(self._compare(bands, copies, known, every_pair=False)))
            joining = np.empty(len(found.first), dtype=np.bool_)
            unite_into(parents, read_only(found.first), read_only(found.second), joining)
            links.append(found.chosen(joining))
            roots_into(parents, roots)
        return roots, Pairs.concatenate(links)

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


def count_parts(n_partitions: int, n_threads: int) -> int:
    """Return how many parts keys are shared out to: one or more for every thread, and for every two
    partitions, so that a part stays about as large as these; but no more than partitions are worth.
    """
    wanted = max(n_threads, n_partitions // 2)
    return max(1, min(wanted, 4 * n_partitions, _MOST_PIECES // n_partitions))


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
