"""Collection: the facade that most users touch."""

from __future__ import annotations

import copy
import os
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import require_order, whole_number
from bitkin.collection import searching
from bitkin.collection.encoder import Encoder
from bitkin.collection.incoming import Incoming, read
from bitkin.collection.kept import NewRows
from bitkin.collection.memory import MemoryStore
from bitkin.collection.results import Hits, Records
from bitkin.collection.settings import MOST, Settings, new_index, require_absent
from bitkin.collection.soundness import require_sound
from bitkin.collection.stages import steps_to
from bitkin.collection.state import State
from bitkin.collection.store import Store
from bitkin.collection.string_ids import some_ids
from bitkin.errors import DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.hashers.base import Hasher
from bitkin.index.base import RowIndex
from bitkin.index.rows.limits import next_ids
from bitkin.locks import WriterLock

_LATER = "collections have no metadata yet. Keep it beside the collection, by id."


class Collection:
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
    kept, and about 24 bytes of numbers; a string id takes about 100 bytes more. Space of removed
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

    def __init__(self, encoder: Encoder, settings: Settings, store: Store) -> None:
        self._encoder = encoder
        self._settings = settings
        self._store: Store | None = store
        self._writer = WriterLock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | None,
        hasher: Hasher,
        *,
        vectors: str | None = "float32",
        metric: str = "l2",
        ids: str = "int",
        fields: Any = None,
        stage: str | None = None,
        oversample: int = 10,
        index: str | RowIndex = "flat",
    ) -> Collection:
        """Make an empty collection.

        Parameters
        ----------
        path : None
            In memory. Collections on disk are not in this version yet.
        hasher : ProjectionHash, WTAHash or MinHash
            Fitted. The collection keeps a copy: what is done to the hasher later does not reach it.
        vectors : {"float32", "float16", "int8", "csr", None}, default "float32"
            How vectors are kept for the exact stage; "int8" has a scale for every vector; None
            keeps none. What comes out of the exact stage is the distance from the vector as it is
            kept.
        metric : {"l2", "cosine", "ip"}, default "l2"
            l2 is not squared, cosine is 1 − cosine, ip is negated: smaller is nearer.
        ids : {"int", "str"}, default "int"
            Whole numbers from 0 to 2**63 − 1, or strings.
        fields : None
            Metadata is not in this version yet.
        stage : {"codes", "estimate", "exact", None}, default None
            The last stage of a search that does not name one; None is the best that is possible.
            "estimate" needs a ProjectionHash with orthonormal directions or a random projection,
            "exact" needs vectors.
        oversample : int, default 10
            Codes keep k · oversample · 10 rows a query for the next stage, the estimate keeps k ·
            oversample.
        index : {"flat", "multi", "bands"} or an index without rows, default "flat"
            How codes are searched: as FlatIndex, MultiIndex or BandIndex does. An index is taken
            for its settings, such as `BandIndex(hasher.spec_, band_bits=8)`, and copied. BandIndex
            may miss rows, at every stage, but k rows come back whenever there are as many: with
            `score="hits"`, rows that no band found follow those found, nearest first, at `n_bands`
            from "codes".
        """
        require_absent(
            path, "path", "collections live in memory. Those on disk come with a later one."
        )
        require_absent(fields, "fields", _LATER)
        settings = Settings(vectors, metric, ids, stage, oversample)
        encoder = Encoder.of(hasher, metric)
        settings.last_stage(None, encoder)
        store = MemoryStore.empty(
            new_index(index, encoder.hasher.spec_),
            encoder.hasher.fingerprint_,
            settings.new_ids(),
            settings.new_vectors(encoder),
            corrections=encoder.scorer is not None,
        )
        return cls(encoder, settings, store)

    @property
    def hasher(self) -> Hasher:
        """A copy of the hasher that encodes vectors and queries."""
        return copy.copy(self._encoder.hasher)

    @property
    def metric(self) -> str:
        """What distances are."""
        return self._settings.metric

    @property
    def stage(self) -> str:
        """The last stage of a search that does not name one."""
        return self._settings.last_stage(None, self._encoder)

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids: numbers ascending, strings in the order in which they came, which is that of
        ties in a search too.

        A string that is removed and added again has its old place, unless the space of removed rows
        was given back in between: then it comes last.
        """
        state = self._state
        return state.ids.of(state.rows.ids())

    @property
    def nbytes(self) -> int:
        """Bytes held for codes, vectors, corrections and ids, room for more rows included, but not
        the hasher.
        """
        state = self._state
        return (
            sum(segment.nbytes for segment in state.rows.segments)
            + state.kept.nbytes
            + state.ids.nbytes
        )

    def add(self, vectors: Any, *, ids: Any = None, metadata: Any = None) -> npt.NDArray[Any]:
        """Add vectors and return their ids: those given, or the numbers after the largest so far.

        Takes arrays, CSR matrices, data frames, iterators of batches and paths, and whatever sets a
        MinHash takes. An id that is there already is a DuplicateIdError; `upsert` replaces instead.
        String ids must be given. Ids are one a row, in the order of the rows: sets and dictionaries
        are refused. One bad vector, and nothing is added.
        """
        require_absent(metadata, "metadata", _LATER)
        return self._put(vectors, ids, replaces=False)

    def upsert(self, vectors: Any, *, ids: Any, metadata: Any = None) -> npt.NDArray[Any]:
        """Add vectors, replacing those whose ids are there already; a search sees all of it or
        nothing.
        """
        require_absent(metadata, "metadata", _LATER)
        if ids is None:
            raise InvalidInputError(
                "ids must be given to upsert, one a row. Use add for ids that are made here."
            )
        return self._put(vectors, ids, replaces=True)

    def remove(self, ids: Any) -> None:
        """Remove rows by id. An unknown id is an UnknownIdError, and nothing is removed."""
        given = self._state.ids.checked(ids)
        with self._writer:
            store = self._open
            store.remove(np.unique(_present(store.state, given)))

    def get(self, ids: Any) -> Records:
        """Return what is kept of rows, in the order of `ids`; an unknown id is an
        UnknownIdError.
        """
        state = self._state
        numbers = _present(state, state.ids.checked(ids))
        vectors = None if self._settings.vectors is None else state.kept.vectors(numbers)
        return Records(state.ids.of(numbers), vectors, state.codes(numbers))

    def search(
        self,
        queries: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int | None = None,
        where: Any = None,
        allow: Any = None,
    ) -> Hits:
        """Return the k nearest rows of every query: nearest first, ties by lower id, or by the
        string that came first.

        `stage` and `oversample` are those that the collection was made with unless given. A stage
        that it cannot do is an error that says why. `allow` lists the ids that may be returned, and
        is tested within the scan: k rows come back whenever as many are allowed and there; unknown
        ids in it are passed over. Rows with nothing to hash (those of zeros under WTAHash and
        MinHash) are never found, and such queries find nothing.
        """
        require_absent(where, "where", _LATER)
        k = whole_number(k, "k", low=1, high=MOST)
        over = self._settings.oversample if oversample is None else oversample
        over = whole_number(over, "oversample", low=1, high=MOST)
        last = self._settings.last_stage(stage, self._encoder)
        state = self._state
        numbers = None
        if allow is not None:
            numbers = state.ids.numbers(state.ids.checked(allow, "allow"))
            numbers = numbers[numbers >= 0]
        steps = steps_to(last, self._settings.able(self._encoder), k, over)
        return searching.nearest(
            state, self._encoder, steps, queries, numbers, self._settings.metric
        )

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._state)

    def __len__(self) -> int:
        return self.count()

    def __contains__(self, id: object) -> bool:
        state = self._state
        if not state.ids.is_one(id):
            return False
        return bool(state.rows.present(state.ids.numbers(state.ids.checked([id])))[0])

    def verify(self) -> None:
        """Check everything that can be checked; raise CorruptFileError on the first flaw."""
        require_sound(self._state, self._settings, self._encoder)

    def compact(self) -> None:
        """Give the space of removed rows, and the room for more, back."""
        with self._writer:
            self._open.compact()

    def close(self) -> None:
        """Let go of everything; what is asked of the collection afterwards is an error. Closing
        twice is fine.

        Searches that have begun end as if nothing had happened.
        """
        with self._writer:
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._store is None:
            return "Collection(closed)"
        vectors = (
            "no vectors" if self._settings.vectors is None else f"{self._settings.vectors} vectors"
        )
        spec = self._encoder.hasher.spec_
        return (
            f"Collection({self.count():,} rows, {spec} codes, {vectors}, {self.metric}, stage "
            f"{self.stage!r}, "
            f"{self.nbytes:,} bytes)"
        )

    @property
    def _open(self) -> Store:
        store = self._store
        if store is None:
            raise InvalidInputError("the collection is closed. Create another one.")
        return store

    @property
    def _state(self) -> State:
        return self._open.state

    def _put(self, vectors: Any, ids: Any, *, replaces: bool) -> npt.NDArray[Any]:
        require_order(ids)
        keeps = self._settings.vectors is not None
        new = read(vectors, self._encoder, self._open.accepted if keeps else None)
        given = self._state.ids.given(len(new.codes), ids)
        with self._writer:
            return _written(self._open, new, given, replaces)

    def __getstate__(self) -> dict[str, Any]:
        return {"encoder": self._encoder, "settings": self._settings, "rows": self._open.packed()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["encoder"], state["settings"], MemoryStore(state["rows"]))  # type: ignore[misc]


def _present(state: State, given: npt.NDArray[Any]) -> Ids:
    """Return the row numbers of checked ids, all of which must be there."""
    numbers = state.ids.numbers(given)
    there = state.rows.present(numbers)
    if not there.all():
        raise UnknownIdError(
            f"ids must be in the collection; not there: {some_ids(given[~there])}."
        )
    return numbers


def _written(
    store: Store, new: Incoming, given: npt.NDArray[Any] | None, replaces: bool
) -> npt.NDArray[Any]:
    """Give rows their ids, those given or the next numbers, and keep them."""
    state = store.state
    if given is None:
        given = next_ids(len(new.codes), state.rows.next_id)
    elif not replaces:
        there = state.rows.present(state.ids.numbers(given))
        if there.any():
            raise DuplicateIdError(
                f"ids must be new, already in the collection: {some_ids(given[there])}. Use upsert "
                "to replace rows."
            )
    store.put(NewRows(state.ids.entered(given), new.codes, new.vectors, new.corrections))
    return given
