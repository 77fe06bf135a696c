"""Collection: the facade that most users touch."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import flag, named_path, one_of, require_order, whole_number
from bitkin.closing import Closes
from bitkin.codes import Codes
from bitkin.collection.changes import ROWS_FOR_CELLS
from bitkin.collection.description import describe_collection
from bitkin.collection.encoding import Encoder
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.folder.attributes import read_attribute, write_attribute
from bitkin.collection.folder.database import SYNCHRONOUS
from bitkin.collection.folder.opening import copy_folder, create_folder, open_folder
from bitkin.collection.folder.store import FolderStore
from bitkin.collection.ids import list_some_ids, require_different
from bitkin.collection.learning import (
    Learner,
    Progress,
    reencode_rows,
    require_epochs_possible,
    require_rows_fit,
)
from bitkin.collection.memory import MemoryStore
from bitkin.collection.metadata.documents import check_fields, check_metadata, encode_documents
from bitkin.collection.metadata.filters import parse_filter
from bitkin.collection.results import EpochInfo, Hits, Records, SearchExplanation
from bitkin.collection.searching.cells import describe_index
from bitkin.collection.searching.planning import FEW_IN_CELLS, SearchArguments, rows_measured
from bitkin.collection.settings import CollectionSettings, refuse_arguments
from bitkin.collection.snapshot import NO_ROW_IDS, CollectionSnapshot, NewRows
from bitkin.collection.transfer.arriving import (
    BATCH_ROWS,
    ArrivingRows,
    RecordFile,
    RowFileOptions,
    RowTarget,
)
from bitkin.collection.transfer.export import export_rows
from bitkin.collection.transfer.importing import add_rows, open_row_file
from bitkin.collection.transfer.leaving import RowsToExport
from bitkin.errors import CorruptFileError, DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.streams.drift import Drift
from bitkin.index.base import RowIndex
from bitkin.index.rows.files import verify_rows
from bitkin.index.rows.ids import next_ids
from bitkin.io.vectors.batch import first_not_finite
from bitkin.locks import WriterLock
from bitkin.notices import warn_caller
from bitkin.timings import QUERIES_TO_WARM_UP, Timings

_ROWS_VERIFIED_AT_ONCE = 1 << 14
_ROWS_MOVED_AT_ONCE = 4096


class Collection(Closes):
    """Vectors by id, and their nearest neighbours: a hasher, an index of codes, and what makes the
    answer right.

    Made by `Collection.create`. A search is a funnel: all rows by their codes, the best of those by
    an estimate of the distance, the best of those by the vectors themselves.

    Any number of threads may search while others write. A search answers from the rows as they were
    when it began, all of them and no others, however long it takes: a row that is removed meanwhile
    is still found, and one that is replaced is found as it was. Writers take turns. A call that
    fails changes nothing.

    Notes
    -----
    A row takes its code, 8 bytes of corrections where the estimate is possible, its vector as it is
    kept, and 8 bytes of row ids, 24 where those have many gaps; a string id takes about 100 bytes
    more. In cells it takes its code and 8 bytes once more, and 4 for its number. Space of removed
    rows is given back by `compact`, and by itself when more rows are dead than alive.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
    >>> with bitkin.Collection.create(None, hasher) as collection:
    ...     ids = collection.add(X)
    ...     hits = collection.search(X[:2], k=3)
    ...     collection.remove([0])
    ...     again = collection.search(X[:1], k=1)
    >>> hits.ids[:, 0].tolist(), hits.distances[:, 0].tolist()
    ([0, 1], [0.0, 0.0])
    >>> 0 in again.ids
    False

    Ids may be strings, and any stage of the funnel may be the last:

    >>> named = bitkin.Collection.create(None, hasher, ids="str", metric="cosine")
    >>> _ = named.add(X[:3], ids=["ant", "bee", "cat"])
    >>> named.search(X[1:2], k=1).ids.tolist()
    [['bee']]
    >>> codes_only = named.search(X[1:2], k=2, stage="codes", allow=["ant", "cat", "dog"])
    >>> sorted(codes_only.ids[0].tolist()), codes_only.distances.dtype
    (['ant', 'cat'], dtype('int32'))
    >>> named.get(["bee"]).vectors.shape
    (1, 20)
    """

    def __init__(self, *made: Any, **others: Any) -> None:
        store = made[0] if len(made) == 1 and not others else None
        if not isinstance(store, MemoryStore | FolderStore):
            raise InvalidInputError(
                "A collection is made by bitkin.Collection.create(None, hasher, metric=...), in "
                "memory, or with a folder in the place of None, and a folder is opened by "
                "bitkin.Collection.open(path)."
            )
        self._store: MemoryStore | FolderStore | None = store
        self._settings = store.snapshot.epoch.settings
        self._writer = WriterLock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | None,
        hasher: Hasher | None = None,
        *,
        vectors: str | None = "float32",
        metric: str = "l2",
        ids: str = "int",
        fields: Any = None,
        stage: str | None = None,
        oversample: int = 10,
        index: str | RowIndex = "auto",
        first: str | None = None,
        query_bits: int | None = None,
        synchronous: str = "normal",
        **others: Never,
    ) -> Collection:
        """Make an empty collection.

        Parameters
        ----------
        path : str, path or None
            A folder that is not there yet, or is empty: everything that a call acknowledges lasts
            there, see `open`. None keeps the collection in memory.
        hasher : ProjectionHash, SignHash, WTAHash or MinHash
            Fitted. The collection keeps a copy: what is done to the hasher later does not reach it.
        vectors : {"float32", "float16", "int8", "csr", None}, default "float32"
            How vectors are kept for the exact stage; "int8" has a scale for every vector; None
            keeps none. What comes out of the exact stage is the distance from the vector as it is
            kept.
        metric : {"l2", "cosine", "ip"}, default "l2"
            l2 is not squared, cosine is 1 − cosine, ip is negated: smaller is nearer.
        ids : {"int", "str"}, default "int"
            Whole numbers from 0 to 2**63 − 1, or strings, which in a folder have up to 512 bytes.
        fields : dict, optional
            Metadata that filters should be quick on, such as `{"year": int, "lang": str}`: types
            are int, float, str and bool, or their names. Other metadata needs no declaration.
        stage : {"codes", "estimate", "exact", None}, default None
            The last stage of a search that does not name one; None is the best that is possible.
            "estimate" needs a WTAHash or SignHash, or a ProjectionHash with orthonormal directions
            or a random projection, "exact" needs vectors.
        oversample : int, default 10
            Codes keep k · oversample · 10 rows per query for the next stage, the estimate keeps k ·
            oversample.
        index : {"auto", "flat", "multi", "bands", "cells"} or an index without rows, default "auto"
            How codes are searched: as FlatIndex, MultiIndex, BandIndex or CellIndex does. "auto" is
            "flat", and in memory "cells" from 50,000 rows on, with a warning that says so, where
            vectors are kept dense and the estimate is possible; else it stays "flat". An index is
            taken for its settings, such as `CellIndex(hasher.spec_, probes=32)`, and copied. In
            cells, rows lie around centres, by their vectors where the collection keeps those dense,
            else by codes, and a search looks into the nearest of them by whatever stage comes
            first.
            BandIndex and CellIndex may miss rows, at every stage, but k rows come back whenever
            there are as many: with `score="hits"` of BandIndex, rows that no band found follow
            those found, nearest first, at `n_bands` from "codes".
        first : {"codes", "estimate", None}, default None
            The stage that looks at all rows, for searches that do not name one; see `search`.
        query_bits : int or None, default None
            Bits to which numbers of a query are rounded where the estimate comes first, 1 to 8, and
            its losses under a WTAHash at every stage. None: 4, and 3 for losses. More take more
            time per row, and find hardly more. It is not an argument of `search`: every number of
            bits has kernels of its own, which take seconds to compile.
        synchronous : {"normal", "full"}, default "normal"
            What a folder survives: "normal" the end of the process in any way, "full" a power cut
            too, for a wait of the disk with every write.
        **others
            Nothing: settings of an index, such as `probes`, are given with it.
        """
        if others:
            refuse_arguments(others)
        if isinstance(path, Hasher):
            raise InvalidInputError(
                "path must be a folder or None, and the hasher comes second: "
                f"Collection.create(None, hasher), got a {type(path).__name__} as path."
            )
        one_of(synchronous, "synchronous", SYNCHRONOUS)
        declared = {} if fields is None else check_fields(fields)
        settings = CollectionSettings(
            vectors, metric, ids, stage, oversample, first, query_bits, declared
        )
        encoder = Encoder.from_hasher(hasher, metric, query_bits)
        learner = Learner.from_hasher(hasher)
        if path is not None:
            return cls.open(create_folder(path, encoder, settings, index, synchronous, learner))
        epoch = CollectionEpoch.begin(0, encoder, settings, index)
        return cls(MemoryStore.empty(epoch, index, learner))

    @classmethod
    def open(cls, path: str | os.PathLike[str], read_only: bool = False) -> Collection:
        """Open the collection in a folder, with its hasher and settings.

        One process writes; a second one is refused with FileAccessError, until the first has closed
        the collection or has ended in any way. Any number of processes may open it with
        `read_only`, and see what was written by their next search.

        Examples
        --------
        >>> import numpy as np, bitkin, tempfile, pathlib
        >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
        >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "notes"
        >>> with bitkin.Collection.create(folder, hasher, fields={"year": int}) as notes:
        ...     _ = notes.add(X, metadata=[{"year": 2000 + i % 25, "n": i} for i in range(1000)])
        >>> with bitkin.Collection.open(folder) as notes:
        ...     hits = notes.search(X[7], k=2, where={"year": {"gte": 2005}})
        ...     notes.count({"year": 2007, "n": {"lt": 100}})
        4
        >>> hits.ids[0, 0], hits.metadata[0][0]
        (np.int64(7), {'year': 2007, 'n': 7})
        """
        return cls(open_folder(path, read_only=flag(read_only, "read_only")))

    @property
    def path(self) -> Path | None:
        """The folder, None for a collection in memory."""
        store = self._open_store
        return store.folder if isinstance(store, FolderStore) else None

    @property
    def read_only(self) -> bool:
        """Whether this process may only read."""
        store = self._open_store
        return isinstance(store, FolderStore) and not store.database.is_writer

    @property
    def fields(self) -> dict[str, str]:
        """Declared metadata: names and types."""
        return dict(self._settings.fields)

    @property
    def hasher(self) -> Hasher:
        """A copy of the hasher that encodes new vectors."""
        return copy.copy(self._open_store.snapshot.epoch.encoder.hasher)

    @property
    def metric(self) -> str:
        """What distances are."""
        return self._settings.metric

    @property
    def stage(self) -> str:
        """The last stage of a search that does not name one."""
        return self._open_store.snapshot.epoch.last_stage

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids: numbers ascending, strings in the order in which they came, which is that of
        ties in a search too.

        A string that is removed and added again has its old place, unless the space of removed rows
        was given back in between: then it comes last.
        """
        with self._open_store.reading() as now:
            return now.ids.from_row_ids(now.row_ids())

    @property
    def nbytes(self) -> int:
        """Bytes held for codes, vectors, corrections and ids, room for more rows included, but not
        the hasher.
        """
        return self._open_store.snapshot.nbytes

    def add(self, vectors: Any, *, ids: Any = None, metadata: Any = None) -> npt.NDArray[Any]:
        """Add vectors and return their ids: those given, or the numbers after the largest so far.

        Takes arrays, CSR matrices, data frames, iterators of batches and paths, whatever sets a
        MinHash takes, and codes as `add_codes` does; a lone vector is one row, and a lone id its
        id. An id that is there already is a
        DuplicateIdError; `upsert` replaces instead. String ids must be given. Ids are one per row,
        in the order of the rows: sets and dictionaries are refused. One bad vector, or an
        interrupt, and nothing is added.

        Files and iterators are read a batch at a time. Of each batch only what is kept is held
        until all are there, so memory peaks little above what the collection then takes.

        `metadata` is a dictionary per row, a list of them, or a data frame: text, numbers, bools,
        None, and lists and dictionaries of those, kept exactly or refused.
        """
        return self._put(self._encode(vectors, ids), ids, metadata, replaces=False)

    def add_codes(
        self, codes: Codes, *, ids: Any = None, corrections: Any = None, metadata: Any = None
    ) -> npt.NDArray[Any]:
        """Add codes that exist already, without their vectors, and return their ids as `add` does.

        Parameters
        ----------
        codes : Codes
            Made by this collection's hasher, or of unknown origin, such as
            `interop.from_sentence_transformers` and `Codes.from_bytes` make. The collection must
            keep no vectors.
        ids : optional
            As for `add`.
        corrections : float32 (n, 2), optional
            What `bitkin.corrections` made of the same vectors, for estimates. A `SignHash` under
            cosine can do without: all rows then get the number that vectors with normal coordinates
            have, which ranks them by the product of the query with their signs.
        metadata : optional
            As for `add`.
        """
        require_order(ids)
        return self._put(self._accept_codes(codes, corrections), ids, metadata, replaces=False)

    def upsert(self, vectors: Any, *, ids: Any, metadata: Any = None) -> npt.NDArray[Any]:
        """Add vectors, replacing those whose ids are there already, with their metadata; a search
        sees all of it or nothing.
        """
        if ids is None:
            raise InvalidInputError(
                "ids must be given to upsert, one a row. Use add for ids that are made here."
            )
        return self._put(self._encode(vectors, ids), ids, metadata, replaces=True)

    def remove(self, ids: Any) -> None:
        """Remove rows by their ids, or one by its id. An unknown id is an UnknownIdError, and
        nothing is removed.
        """
        given = self._open_store.snapshot.ids.check(ids)
        with self._writer:
            store = self._open_store
            store.remove(np.unique(_require_present(store.snapshot, given)))

    def get(
        self, ids: Any = None, *, where: Any = None, limit: int | None = None, offset: int = 0
    ) -> Records:
        """Return what is kept of rows, in the order of `ids`; an unknown id is an
        UnknownIdError. A lone id gives records of one row.

        Without `ids`, return the rows that match `where`, or all, by ascending id, or in the order
        in which strings came: up to `limit` of them after the first `offset`.
        """
        if ids is not None and not (where is None and limit is None and offset == 0):
            raise InvalidInputError(
                "ids must be None where rows are taken by where, limit, offset."
            )
        offset = whole_number(offset, "offset", low=0)
        if limit is not None:
            limit = whole_number(limit, "limit", low=0)
        condition = None if where is None else parse_filter(where)
        with self._open_store.reading() as now:
            if ids is not None:
                row_ids = _require_present(now, now.ids.check(ids))
            else:
                row_ids = now.row_ids() if condition is None else now.matching(condition)
                row_ids = row_ids[offset : None if limit is None else offset + limit]
            vectors = None if self._settings.vectors is None else now.vectors(row_ids)
            ids = now.ids.from_row_ids(row_ids)
            return Records(ids, vectors, now.codes(row_ids), now.metadata(row_ids))

    def update_metadata(self, ids: Any, metadata: Any, *, replace: bool = False) -> None:
        """Change the metadata of rows: keys that are given take new values, None takes a key away,
        and others stay; with `replace`, nothing else stays.

        `metadata` is one dictionary for all of the ids, or a list with one for each. An unknown id
        is an UnknownIdError, and nothing is changed.
        """
        replace = flag(replace, "replace")
        given = self._open_store.snapshot.ids.check(ids)
        if isinstance(metadata, dict):
            metadata = [metadata] * len(given)
        changes = check_metadata(metadata, len(given))
        require_different(given)
        with self._writer:
            store = self._open_store
            with store.reading() as now:
                row_ids = _require_present(now, given)
                before = None if replace else now.metadata(row_ids)
            if before is not None:
                changes = [{**old, **new} for old, new in zip(before, changes, strict=True)]
            store.change_metadata(row_ids, encode_documents(changes, self._settings.fields))

    def search(
        self,
        queries: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int | None = None,
        where: Any = None,
        allow: Any = None,
        first: str | None = None,
        probes: int | None = None,
    ) -> Hits:
        """Return the k nearest rows of every query: nearest first, ties by lower id, or by the
        string that came first.

        `stage` and `oversample` are those that the collection was made with unless given. A stage
        that it cannot do is an error that says why. `allow` lists the ids that may be returned, and
        is tested within the scan: k rows come back whenever as many are allowed and there; unknown
        ids in it are passed over. Rows with nothing to hash (those of zeros under WTAHash and
        MinHash) are never found, and such queries find nothing. Queries may be codes too, for
        `stage="codes"`.

        `first` is the stage that looks at all rows. "codes" keep k · oversample · 10 of them for
        the estimate; "estimate", with the query rounded to a few bits, keeps k · oversample for the
        last stage, costs some five times as much per row, and loses less. None takes the estimate
        where that costs no more, or where codes lose more than 0.01 of what it finds for a sample
        of the collection's own rows; `explain` says which, and why.

        Under a WTAHash the estimate is what the query loses at the winners of a row (see
        `WTAHash.losses`), as a share of what a random code would lose: 0 for the query's own code.
        It ranks rows and says nothing of the metric. So it keeps as many rows for the exact stage
        as codes would, k · oversample · 10, and None begins with it.

        Where rows are in cells, `probes` of those are looked into, by default as many as the index
        says (see CellIndex); more take more time and miss less. A query that finds too few rows
        there, and a filter that leaves few, goes over all rows.

        `where` lets only rows be found whose metadata matches, such as `{"year": {"gte": 2020},
        "lang": ["en", "fr"], "title": {"contains": "rain"}}`: eq, ne, lt, lte, gt, gte, in,
        contains and exists; a bare value is eq, a list is in; "and", "or" and "not" join such
        conditions. With `allow` too, both must hold.
        """
        condition = None if where is None else parse_filter(where)
        arguments = SearchArguments(k, stage, oversample, condition, allow, first, probes)
        with self._open_store.reading() as now:
            return arguments.plan(now).run(queries)

    def explain(
        self,
        queries: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int | None = None,
        where: Any = None,
        allow: Any = None,
        first: str | None = None,
        probes: int | None = None,
    ) -> SearchExplanation:
        """Search as `search` does, and return what every stage did and which one came first, and
        why. Times have no compiling in them, unless queries are an iterator or a file: a few are
        searched before. That is done by the funnel, step by step; `search` may take a faster lane
        to the same answers.

        Examples
        --------
        >>> import numpy as np, bitkin
        >>> X = np.random.default_rng(0).standard_normal((3000, 20)).astype(np.float32)
        >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
        >>> collection = bitkin.Collection.create(None, hasher)
        >>> _ = collection.add(X)
        >>> explained = collection.explain(X[:5], k=10)
        >>> print(explained)  # doctest: +ELLIPSIS
        first stage: estimate (estimating all 3,000 rows is 0.03 of the work of
        comparing codes and estimating the best 1,000)
        FlatIndex, 5 queries; all numbers are per query
        stage                  µs per query   rows in   rows out
        encode                 ...                  1          1
        estimate of all rows   ...              3,000        100
        exact                  ...                100         10
        >>> explained.hits.ids[:, 0].tolist()
        [0, 1, 2, 3, 4]
        """
        condition = None if where is None else parse_filter(where)
        arguments = SearchArguments(k, stage, oversample, condition, allow, first, probes)
        with self._open_store.reading() as now:
            plan = arguments.plan(now)
            some = _first_queries(queries)
            if some is not None:  # compiles kernels, outside the clock
                plan.run(some, Timings())
            timings = Timings()
            hits = plan.run(queries, timings)
        why = plan.first.why
        if why == FEW_IN_CELLS and "cells" not in timings.stages:
            why = "few rows are allowed, all of which can be estimated"
        index = type(plan.parts[0].rows.index).__name__
        return SearchExplanation(hits, plan.first.stage, why, timings.stages, index)

    def rows_measured(self, k: int, oversample: int | None = None) -> int:
        """Return how many rows per query an exact stage measures: k · oversample after an
        estimate, ten times as many after codes or losses, which are rougher.
        """
        return rows_measured(self._open_store.snapshot.epoch, k, oversample)

    def count(self, where: Any = None) -> int:
        """Return how many rows there are, or match `where`, which `search` describes."""
        condition = None if where is None else parse_filter(where)
        with self._open_store.reading() as now:
            return now.n_rows if condition is None else len(now.matching(condition))

    def __len__(self) -> int:
        return self.count()

    def __contains__(self, id: object) -> bool:
        with self._open_store.reading() as now:
            if not now.ids.is_id(id):
                return False
            return bool(now.present(now.ids.row_ids(now.ids.check([id])))[0])

    def verify(self) -> None:
        """Check everything that can be checked; raise CorruptFileError on the first flaw."""
        store = self._open_store
        with store.reading() as now:
            if isinstance(store, FolderStore):
                store.verify(now)
            _verify(now)

    def learn(self, vectors: Any) -> bool:
        """Let the hasher of a stream learn from vectors, which are not added, and return whether
        a new epoch has begun: that goes by the rule that the hasher was made with, `epochs=`.

        Rows that are there keep their codes, and a search finds those of all epochs together; rows
        to come are encoded by the newest epoch. What was learned lasts once this returns: in a
        folder each call writes the model, so learn from many vectors at a time. Where a batch of an
        iterator or a file cannot be learned from, those before it are learned all the same.

        Examples
        --------
        >>> import numpy as np, bitkin
        >>> X = np.random.default_rng(0).standard_normal((3000, 20)).astype(np.float32)
        >>> stream = bitkin.ProjectionHash(16, projection="opast", epochs=1000).fit(X[:1000])
        >>> notes = bitkin.Collection.create(None, stream)
        >>> ids = notes.add(X[:1000])
        >>> notes.learn(X[1000:])
        True
        >>> ids = notes.add(X[1000:])
        >>> [epoch.n_rows for epoch in notes.epochs]
        [2000, 1000]
        >>> notes.search(X[[5, 2000]], k=1).ids.tolist()
        [[5], [2000]]
        >>> notes.reencode()
        1000
        """
        learner = self._require_learner()
        try:
            learner.learn(vectors)
        finally:  # what was learned before an error is learned
            with self._writer:
                begun = self._follow(learner, learner.epoch_begun())
        return begun

    def drift(self) -> Drift:
        """Return how far the model that learns has moved away from the one that encodes new rows;
        see `ProjectionHash.drift`.
        """
        store = self._open_store
        learner = self._known_learner(store)
        return learner.hasher.drift(store.snapshot.epoch.encoder.hasher)

    def new_epoch(self) -> bool:
        """Let the model as it has learned until now encode new rows, and return whether it differs
        from the one that did.
        """
        learner = self._require_learner()
        with self._writer:
            return self._follow(learner, learner.begin_epoch())

    @property
    def epochs(self) -> list[EpochInfo]:
        """The epochs that have rows, and the current one, which comes first."""
        with self._open_store.reading() as now:
            return [
                EpochInfo(part.epoch.number, part.epoch.fingerprint, len(part.coded))
                for part in now.parts
            ]

    def reencode(
        self, *, batch_rows: int = _ROWS_MOVED_AT_ONCE, progress: Progress | None = None
    ) -> int:
        """Encode the rows of earlier epochs again, from their vectors as they are kept, and return
        how many; after that all rows are of the current epoch.

        It goes on `batch_rows` at a time, each a write of its own: searches go on, other writes
        come in between, and what an interrupt leaves is done by the next call. `progress` is called
        with the rows moved and all that there are to move.
        """
        batch_rows = whole_number(batch_rows, "batch_rows", low=1)
        store = self._open_store
        store.require_writable()
        with store.reading() as now:
            if now.older and self._settings.vectors is None:
                raise InvalidInputError(
                    "rows of earlier epochs must have vectors to be encoded again, but this "
                    "collection has vectors=None. Make a new one from the vectors."
                )
        return reencode_rows(store, self._writer, batch_rows, progress)

    def replace_hasher(
        self,
        hasher: Hasher,
        *,
        index: str | RowIndex | None = None,
        batch_rows: int = _ROWS_MOVED_AT_ONCE,
        progress: Progress | None = None,
    ) -> int:
        """Let another fitted hasher, of any kind and number of bits, make the codes from now on,
        and encode all rows again as `reencode` does, while searches go on; return how many.

        Where it is interrupted, rows of both hashers answer together, and `reencode` goes on.
        `index` says how codes are searched from now on; None is as before.
        """
        batch_rows = whole_number(batch_rows, "batch_rows", low=1)
        encoder = Encoder.from_hasher(hasher, self.metric, self._settings.query_bits)
        learner = Learner.from_hasher(hasher)
        store = self._open_store
        store.require_writable()
        with store.reading() as now:
            require_rows_fit(now, encoder)
        with self._writer:
            store = self._open_store
            store.begin_epoch(encoder, learner, index)
        return self.reencode(batch_rows=batch_rows, progress=progress)

    def _require_learner(self) -> Learner:
        store = self._open_store
        store.require_writable()
        require_epochs_possible(store.snapshot)
        return self._known_learner(store)

    def _known_learner(self, store: MemoryStore | FolderStore) -> Learner:
        learner = store.learner
        if learner is None:
            hasher = store.snapshot.epoch.encoder.hasher
            raise InvalidInputError(
                f"hasher must follow a stream to learn, got {hasher!r}. Make the collection with "
                "a fitted ProjectionHash(projection='opast') that is no snapshot, or give one to "
                "replace_hasher."
            )
        return learner

    def _follow(self, learner: Learner, begun: ProjectionHash | None) -> bool:
        """Keep what was learned, and let the model of an epoch that has begun encode new rows;
        return whether there is one.
        """
        store = self._open_store
        current = store.learner
        if current is None or current.hasher is not learner.hasher:
            raise InvalidInputError(
                "the hasher was replaced while the one before learned, and nothing was learned. "
                "Learn again."
            )
        if begun is None or begun.fingerprint_ == store.snapshot.epoch.fingerprint:
            store.keep_learner(learner)
            return False
        encoder = Encoder.from_hasher(begun, self.metric, self._settings.query_bits)
        store.begin_epoch(encoder, learner.following(begun))
        return True

    def compact(self) -> None:
        """Give the space of removed rows, and the room for more, back; in a folder to the disk
        too.
        """
        with self._writer:
            self._open_store.compact()

    def checkpoint(self) -> None:
        """Write what is held in memory to the folder, so that opening it is quick. It is done by
        itself as rows come, and by `close`, where that is possible.
        """
        with self._writer:
            self._folder_store("a checkpoint").checkpoint()

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Write a copy of the rows as they are now to a folder that is not there yet, and return
        its path, while others search and write. `progress(done, total)` counts pages of the
        database.
        """
        return copy_folder(self._folder_store("a backup"), path, progress)

    def stats(self) -> dict[str, Any]:
        """Return what there is to say of the collection: rows, codes, vectors, bytes and settings,
        as JSON holds it.
        """
        return describe_collection(self._open_store)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        where: Any = None,
        overwrite: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Write the rows as they are now, or those that match `where`, to a file that others read,
        and return how many they are.

        Parameters
        ----------
        path : path
            A name that ends in .parquet: columns id, every declared field, metadata (JSON of the
            rest), vector (lists of float32; of csr indices and values) and code. In .jsonl, or
            .jsonl.gz: an object a line with id, vector and metadata. In .npy: the vectors alone,
            and ids and metadata as JSON lines beside it, in NAME.rows.jsonl. `import_file` reads
            all of them back. Where no vectors are kept, codes and corrections take their place.
        where : dict, optional
            As for `search`.
        overwrite : bool, default False
            Replace what is there; if not, a file that is there is a FileAccessError.
        progress : callable, optional
            Called as `progress(done, total)` after some thousand rows.

        Notes
        -----
        Rows are written in pieces, all as of one moment, while others search and write; the file
        takes its place when it is whole. Vectors are exact; those kept as "int8" come back within
        the last bit of their scale. Codes are made again of vectors as they are kept.

        Examples
        --------
        >>> import numpy as np, bitkin, tempfile, pathlib
        >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
        >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> with bitkin.Collection.create(folder / "notes", hasher) as notes:
        ...     _ = notes.add(X, metadata=[{"year": 2000 + i % 25} for i in range(1000)])
        ...     notes.export(folder / "new.jsonl", where={"year": {"gte": 2020}})
        200
        >>> with bitkin.Collection.create(folder / "copy", hasher) as copy:
        ...     copy.import_file(folder / "new.jsonl")
        ...     copy.get(limit=1).metadata
        200
        [{'year': 2020}]
        """
        overwrite = flag(overwrite, "overwrite")
        condition = None if where is None else parse_filter(where)
        with self._open_store.reading() as now:
            row_ids = now.row_ids() if condition is None else now.matching(condition)
            rows = RowsToExport(now, row_ids, self._settings)
            return export_rows(rows, path, overwrite=overwrite, progress=progress)

    def import_file(
        self,
        path: str | os.PathLike[str] | RecordFile,
        *,
        upsert: bool = False,
        id: str | None = None,
        vector: str | None = None,
        text: str | None = None,
        embed: Callable[[list[str]], Any] | None = None,
        ids: str | os.PathLike[str] | None = None,
        metadata: str | os.PathLike[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        r"""Add the rows of a file, a batch at a time, and return how many they are.

        Every batch is one transaction, and memory holds a batch. Where one fails, those before it
        stay, and the error says how many rows that are: correct the file and run it again with
        `upsert`, which replaces rows that are there.

        Parameters
        ----------
        path : path
            JSON lines (.jsonl, .ndjson, also .gz), .parquet, any file of vectors that
            `io.open_vectors` reads, or a binary index of FAISS (.faiss: codes, for a collection
            with `vectors=None`; FAISS reads it whole). Whatever `export` wrote comes back as it
            was.
        upsert : bool, default False
            Replace rows whose ids are there; if not, those are a DuplicateIdError.
        id, vector : str, optional
            Keys, or columns of .parquet, of id and vector; by default "id", where there is such a
            key, and "vector", or the only column of lists. What is neither is metadata, and so is
            all that an object under "metadata" holds.
        text : str, optional
            Key or column of a text, in the place of a vector. The text is metadata too.
        embed : callable, optional
            What makes an array of vectors of a list of texts, such as `model.encode`.
        ids, metadata : path, optional
            For a file of vectors: its ids (.npy, or text with one per line), and JSON lines with
            the metadata, and perhaps the ids, of its rows. Without both, NAME.rows.jsonl is read
            where it stands beside NAME.npy; it must belong to it.
        batch_rows : int, default 10,000
            Rows of a transaction; of texts at most 512.
        progress : callable, optional
            Called with the number of rows added so far after every batch.

        Examples
        --------
        >>> import bitkin, json, numpy as np, pathlib, tempfile
        >>> X = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> lines = [{"id": f"n{i}", "vector": x.tolist(), "lang": "en"} for i, x in enumerate(X)]
        >>> _ = (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
        >>> hasher = bitkin.ProjectionHash(n_bits=3).fit(X)
        >>> with bitkin.Collection.create(folder / "notes", hasher, ids="str") as notes:
        ...     notes.import_file(folder / "rows.jsonl")
        ...     notes.get(["n7"]).metadata
        100
        [{'lang': 'en'}]
        """
        upsert = flag(upsert, "upsert")
        rows = path
        if not isinstance(rows, RecordFile):
            options = RowFileOptions(
                id,
                vector,
                text,
                embed,
                None if ids is None else named_path(ids, "ids"),
                None if metadata is None else named_path(metadata, "metadata"),
                batch_rows=whole_number(batch_rows, "batch_rows", low=1),
            )
            rows = open_row_file(rows, options, self.row_target)

        def put(batch: ArrivingRows) -> npt.NDArray[Any]:
            if upsert and batch.ids is None:
                raise InvalidInputError("upsert must be False for rows without ids.")
            if batch.codes is None:
                new = self._encode(batch.vectors, batch.ids)
            else:
                new = self._accept_codes(batch.codes, batch.corrections)
            return self._put(new, batch.ids, batch.metadata, replaces=upsert)

        return add_rows(put, rows, upsert=upsert, progress=progress or (lambda _: None))

    @property
    def row_target(self) -> RowTarget:
        """What readers of files must know of this collection."""
        settings, hasher = self._settings, self._open_store.snapshot.epoch.encoder.hasher
        n_features = getattr(hasher, "n_features_in_", None)
        return RowTarget(
            hasher.spec_, n_features, settings.ids == "str", settings.vectors is not None
        )

    def attribute(self, name: str) -> Any:
        """Return a value that `set_attribute` left in the folder; None where there is none."""
        return read_attribute(self._folder_store("attributes"), name)

    def set_attribute(self, name: str, value: Any) -> None:
        """Keep a value with the collection, and with every backup of it: anything that JSON holds,
        such as what its texts are embedded by. None takes it away.

        Examples
        --------
        >>> import numpy as np, bitkin, tempfile, pathlib
        >>> hasher = bitkin.ProjectionHash(n_bits=2).fit(np.eye(3))
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "notes"
        >>> with bitkin.Collection.create(folder, hasher) as notes:
        ...     notes.set_attribute("source", {"wiki": "en", "month": 7})
        >>> bitkin.Collection.open(folder).attribute("source")
        {'wiki': 'en', 'month': 7}
        """
        with self._writer:
            write_attribute(self._folder_store("attributes"), name, value)

    def close(self) -> None:
        """Let go of everything; what is asked of the collection afterwards is an error. Closing
        twice is fine.

        Searches that have begun end as if nothing had happened.
        """
        with self._writer:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def __repr__(self) -> str:
        if self._store is None:
            return "Collection(closed)"
        vectors = (
            "no vectors" if self._settings.vectors is None else f"{self._settings.vectors} vectors"
        )
        now = self._store.snapshot
        spec = now.coded.spec
        until = "" if now.later is None else f" up to {ROWS_FOR_CELLS:,} rows"
        return (
            f"Collection({now.n_rows:,} rows, {spec} codes, {vectors}, {self.metric}, "
            f"stage {self.stage!r}, {describe_index(now)}{until}, {now.nbytes:,} bytes)"
        )

    @property
    def _open_store(self) -> MemoryStore | FolderStore:
        store = self._store
        if store is None:
            raise InvalidInputError("the collection is closed. Create another one, or open it.")
        return store

    def _folder_store(self, what: str) -> FolderStore:
        """Return the store of a folder; raise for a collection in memory, which has no `what`."""
        store = self._open_store
        if not isinstance(store, FolderStore):
            raise InvalidInputError(
                f"a collection in memory has no place for {what}. Give a path to "
                "bitkin.Collection.create."
            )
        return store

    def _encode(self, vectors: Any, ids: Any) -> NewRows:
        """Return what is to be kept of vectors, as rows of the current epoch without ids; that the
        ids of theirs are in order is asked first.
        """
        require_order(ids)
        if isinstance(vectors, Codes):
            return self._accept_codes(vectors, None)
        now = self._open_store.snapshot
        accept = None if now.kept.vectors is None else now.kept.vectors.accept
        new = now.epoch.encoder.encode_rows(vectors, accept, are_first=now.n_rows == 0)
        return NewRows(NO_ROW_IDS, *new, epoch=now.epoch)

    def _accept_codes(self, codes: Any, corrections: Any) -> NewRows:
        epoch = self._open_store.snapshot.epoch
        keeps_vectors = self._settings.vectors is not None
        new = epoch.encoder.accept_codes(codes, corrections, keeps_vectors=keeps_vectors)
        return NewRows(NO_ROW_IDS, *new, epoch=epoch)

    def _put(self, new: NewRows, ids: Any, metadata: Any, *, replaces: bool) -> npt.NDArray[Any]:
        fields = self._settings.fields
        if metadata is not None or fields:
            given_metadata = check_metadata(metadata, len(new.codes))
            new = new._replace(metadata=encode_documents(given_metadata, fields))
        # All that reads, checks and encodes comes before the lock: it may take long, fail, or run
        # code of the caller's.
        now = self._open_store.snapshot
        given = now.ids.check_new(len(new.codes), ids)
        if given is not None and not replaces:
            _require_absent_ids(now, given)
        self._warn_of(new, given, now)
        with self._writer:
            store = self._open_store
            store.require_writable()
            # the snapshot may be another one by now, so
            # whether ids are new is asked under the lock
            now = store.snapshot
            if new.epoch is not None and not store.takes_rows_of(new.epoch):
                raise InvalidInputError(
                    "the hasher was replaced while the vectors were encoded, and nothing was "
                    "added. Add them again."
                )
            if given is None:
                given = next_ids(len(new.codes), now.next_id)
            elif not replaces:
                _require_absent_ids(now, given)
            store.put(new._replace(row_ids=now.ids.register(given)), replaces=replaces)
        return given

    def _warn_of(
        self, new: NewRows, given: npt.NDArray[Any] | None, now: CollectionSnapshot
    ) -> None:
        """Warn of what rows to come will change, before anything is changed: a warning may be made
        an error.
        """
        n_rows = len(now) + len(new.codes)
        if given is not None:
            n_rows -= int(now.coded.present(now.ids.row_ids(given)).sum())
        if now.later is not None and n_rows >= ROWS_FOR_CELLS:
            warn_caller(
                f"With {n_rows:,} rows, searches look into the cells near a query from now on, and "
                "may miss rows in others: search(probes=...) looks into more cells, and a "
                "collection made with index='flat' at all rows. One made with index='cells' does "
                "the same as this one, without a warning."
            )
        if now.n_rows:
            warning = now.epoch.encoder.lengths_warning(now.lengths, new.lengths)
            if warning is not None:
                warn_caller(warning)

    def __getstate__(self) -> dict[str, Any]:
        store = self._open_store
        if isinstance(store, FolderStore):
            return {"path": str(store.folder.absolute())}
        return {"store": copy.copy(store)}  # with rows of its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "path" in state:  # another process may read what this one writes
            self.__init__(open_folder(state["path"], read_only=True))  # type: ignore[misc]
            return
        self.__init__(state["store"])  # type: ignore[misc]


def _verify(now: CollectionSnapshot) -> None:
    """Raise CorruptFileError on the first flaw of rows."""
    for part in now.parts:
        verify_rows(part.coded)
    row_ids = now.row_ids()
    if not np.array_equal(now.ids.row_ids(now.ids.from_row_ids(row_ids)), row_ids):
        raise CorruptFileError(
            "the collection has rows whose ids belong to others. Build it again."
        )
    for first in range(0, len(row_ids), _ROWS_VERIFIED_AT_ONCE):
        some = row_ids[first : first + _ROWS_VERIFIED_AT_ONCE]
        if now.kept.vectors is not None and first_not_finite(now.vectors(some)) is not None:
            raise CorruptFileError(
                "the collection has vectors that are not finite. Build it again."
            )
        if now.kept.corrections is not None and not np.isfinite(now.corrections(some)).all():
            raise CorruptFileError(
                "the collection has corrections that are not finite. Build it again."
            )


def _first_queries(queries: Any) -> Any:
    """Return some of the queries, None where they cannot be asked for twice."""
    if isinstance(queries, Codes) or len(getattr(queries, "shape", ())) == 2:
        return queries[:QUERIES_TO_WARM_UP]
    return queries if isinstance(queries, np.ndarray) else None


def _require_present(snapshot: CollectionSnapshot, given: npt.NDArray[Any]) -> Ids:
    """Return the row ids of checked ids, all of which must be there."""
    row_ids = snapshot.ids.row_ids(given)
    there = snapshot.present(row_ids)
    if not there.all():
        raise UnknownIdError(
            f"ids must be in the collection; not there: {list_some_ids(given[~there])}."
        )
    return row_ids


def _require_absent_ids(snapshot: CollectionSnapshot, given: npt.NDArray[Any]) -> None:
    """Raise where any of checked ids is there already."""
    there = snapshot.present(snapshot.ids.row_ids(given))
    if there.any():
        raise DuplicateIdError(
            f"ids must be new, already in the collection: {list_some_ids(given[there])}. Use "
            "upsert to replace rows."
        )
