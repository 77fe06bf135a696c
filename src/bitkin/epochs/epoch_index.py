"""EpochIndex: codes of several snapshots of a moving model, searched together."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import id_array, is_ascending, one_of, some_of, whole_number
from bitkin.choices import FIRST_STAGES, METRICS, MOST_NEIGHBORS
from bitkin.codes import Codes, require_codes
from bitkin.epochs import files as epoch_files
from bitkin.epochs.epoch import Epoch
from bitkin.epochs.following import coded_by_stream, require_followable, with_parts
from bitkin.epochs.lengths import NewLengths, QueryLengths
from bitkin.epochs.search import nearest_rows
from bitkin.epochs.state import (
    State,
    find_scorer,
    new_ids,
    require_epoch,
    with_codes,
    with_epoch,
    without,
)
from bitkin.epochs.streams import index_stream
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.trial import StreamTrial
from bitkin.index.results import Neighbors
from bitkin.index.rows.files import read_index, verify_rows
from bitkin.index.rows.ids import given_ids, is_id
from bitkin.io.reader import StoredFile
from bitkin.io.vectors.rows import lone_as_row
from bitkin.locks import WriterLock
from bitkin.rescoring.corrections import (
    encode_with_corrections,
    require_corrections,
    scorer_for,
)
from bitkin.rescoring.estimate import Corrections
from bitkin.rescoring.first_stage import FirstStage
from bitkin.stream_files.written import WrittenStream


class EpochRows(NamedTuple):
    """What `EpochIndex.epochs` says of one epoch."""

    fingerprint: str
    n_rows: int


class EpochIndex:
    """Nearest neighbours among codes of several snapshots, by the corrected estimate of the metric.

    Codes of two models cannot be compared bit by bit. Here the codes of every snapshot stay under
    their own model: a query is encoded once for each of them, each gives a shortlist by codes, the
    real-valued query scores the shortlists, and the scores, being estimates of one and the same
    distance, merge. So a model can continue to learn while all that it ever encoded stays
    searchable, and an epoch ends when its rows are encoded again.

    Any number of threads may search while others write: a search works on the state it found, and
    writers take turns.

    Parameters
    ----------
    metric : {"l2", "cosine", "ip"}, default "l2"
        Of the vectors as they are given. l2 is not squared, cosine is 1 − cosine, ip is negated.

    Notes
    -----
    A row takes its code, 8 bytes of corrections and 16 of ids. Time grows with the number of epochs
    by one product and one shortlist each: a handful costs little, hundreds are better retired.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> rng = np.random.default_rng(0)
    >>> early = rng.standard_normal((500, 20)) * np.arange(1, 21)
    >>> late = rng.standard_normal((500, 20)) * np.arange(20, 0, -1)
    >>> first = bitkin.ProjectionHash(n_bits=16).fit(early)
    >>> second = bitkin.ProjectionHash(n_bits=16).fit(late)
    >>> index = bitkin.EpochIndex()
    >>> index.add(first, early)[-3:].tolist(), index.add(second, late)[-3:].tolist()
    ([497, 498, 499], [997, 998, 999])
    >>> index
    EpochIndex(1,000 codes in 2 epochs, l2)
    >>> found = index.search(np.vstack([early[:1], late[:1]]), k=5)
    >>> 0 in found.ids[0], 500 in found.ids[1]
    (True, True)
    >>> index.retire(first.fingerprint_, into=second, vectors=early)
    >>> [epoch.n_rows for epoch in index.epochs]
    [1000]

    A stream, whose model continues to learn:

    >>> live = bitkin.ProjectionHash(16, projection="opast", rotation="unifdiag", epochs=400)
    >>> live = live.fit(early[:100])
    >>> followed = bitkin.EpochIndex()
    >>> ids = followed.add(live.epoch_, early[:100])
    >>> for batch in (early[100:], late):
    ...     ids = followed.follow(live, batch)
    >>> [epoch.n_rows for epoch in followed.epochs]
    [500, 400, 100]
    """

    def __init__(self, metric: str = "l2") -> None:
        self.adopt(one_of(metric, "metric", METRICS), State())

    def adopt(self, metric: str, state: State) -> None:
        """Hold these epochs; for an index that has none, and that nobody else uses yet."""
        before = getattr(self, "_state", None)
        if before is not None and before.epochs:
            raise InvalidInputError(f"epochs must go to an index without any, got {self!r}.")
        self.metric = metric
        self._state = state
        self._query_lengths = QueryLengths()
        self._writer = WriterLock()

    @classmethod
    def from_stream(
        cls,
        path: str | os.PathLike[str],
        *,
        corrections: str | os.PathLike[str] | None = None,
        metric: str | None = None,
        epochs_to: str | os.PathLike[str] | None = None,
        vectors: Any = None,
    ) -> EpochIndex:
        """Return an index of what `StreamRun` or `bitkin stream` wrote; ids are the numbers of
        vectors in the stream.

        The stream may still be running: rows that its last state knows of are there.

        Parameters
        ----------
        path : path
            The state of the stream, which names all of its files, or its file of codes.
        corrections : path, optional
            The file of corrections, where `path` is not a state that names it.
        metric : {"l2", "cosine", "ip"}, optional
            That the corrections are for; by default what the state says, or l2.
        epochs_to : path, optional
            The folder of models, where it is not beside the codes.
        vectors : array, path, list of paths or VectorSource, optional
            The vectors of the stream in their order. Where the run wrote no corrections, they are
            made of these. Rows that random directions coded, with which a stream begins that no
            `fit` began, are encoded again by the first learned model; without vectors they stay,
            are estimated less well than others, and are warned of.

        Examples
        --------
        >>> import numpy as np, bitkin, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> X = np.random.default_rng(0).standard_normal((1000, 24), dtype=np.float32)
        >>> hasher = bitkin.ProjectionHash(8, projection="opast", rotation="unifdiag", epochs=400)
        >>> files = dict(state=folder / "state", corrections=folder / "corrections")
        >>> with bitkin.StreamRun(hasher, folder / "codes", **files) as run:
        ...     run.encode(X)
        1000
        >>> bitkin.EpochIndex.from_stream(folder / "state", vectors=X)
        EpochIndex(1,000 codes in 2 epochs, l2)
        """
        return index_stream(
            WrittenStream(path, corrections=corrections, metric=metric, epochs_to=epochs_to),
            cls,
            vectors,
        )

    @property
    def epochs(self) -> list[EpochRows]:
        """Fingerprint and number of rows of every epoch, in the order in which they began."""
        return [EpochRows(epoch.fingerprint, len(epoch)) for epoch in self._state.epochs]

    @property
    def ids(self) -> Ids:
        """All ids, ascending."""
        return self._state.ids()

    @property
    def nbytes(self) -> int:
        """Bytes held for codes, corrections, ids and models; mapped bytes count."""
        return sum(epoch.nbytes for epoch in self._state.epochs)

    def __len__(self) -> int:
        return sum(map(len, self._state.epochs))

    def __contains__(self, id: object) -> bool:
        return is_id(id) and bool(self._state.present(np.array([id], dtype=np.int64))[0])

    def __repr__(self) -> str:
        n = len(self._state.epochs)
        return f"EpochIndex({len(self):,} codes in {n} epoch{'s' if n != 1 else ''}, {self.metric})"

    def epoch_ids(self, fingerprint: str | EpochRows) -> Ids:
        """Return the ids of one epoch, ascending; one of `epochs` may stand for its fingerprint."""
        return require_epoch(self._state, _fingerprint_of(fingerprint)).rows.ids().copy()

    def begin(self, snapshot: ProjectionHash) -> str:
        """Begin an epoch without rows, for `add_codes`, and return its fingerprint; one that is
        there already stays.
        """
        with self._writer:
            scorer = find_scorer(self._state, snapshot, self.metric, "snapshot")
            self._state = with_epoch(self._state, scorer)
        return scorer.model.fingerprint

    def add(self, snapshot: ProjectionHash, vectors: Any, ids: npt.ArrayLike | None = None) -> Ids:
        """Encode vectors, or a lone one, by a snapshot, add them, and return their ids: the ones
        given, else the next numbers.

        What happens to `snapshot` later, such as another `fit`, does not reach the index. Under
        cosine, a snapshot that does not normalize codes rows of very different lengths badly, and
        under l2 one that does: the first rows of an index are then refused, later ones warned of.
        Where rows come as codes, queries show their lengths, and `search` warns once. Rows of
        the random directions with which an unfitted stream begins are scored far less well than
        others and push those out of the merged answer: `retire` such an epoch as soon as there is a
        learned one.
        """
        scorer = find_scorer(self._state, snapshot, self.metric, "snapshot")
        lengths = NewLengths(scorer)
        codes, numbers = encode_with_corrections(
            scorer, lone_as_row(vectors), look_at=lengths.look_at
        )
        given = given_ids(len(codes), ids)
        with self._writer:
            state = lengths.join(with_epoch(self._state, scorer))
            new = new_ids(state, len(codes), given)
            self._state = with_codes(state, codes, numbers, new)
        lengths.tell()
        return new

    def add_codes(
        self, codes: Codes, corrections: Corrections, ids: npt.ArrayLike | None = None
    ) -> Ids:
        """Add codes whose vectors need not be there any more, with what `bitkin.corrections` made
        of those.

        The codes carry the fingerprint of their snapshot, whose epoch has begun: see `begin`.
        Corrections are those of the index's metric. Empty rows are kept and never found. Of the
        random directions with which an unfitted stream begins `add` says what to do.
        """
        require_codes(codes, "codes")
        numbers = require_corrections(corrections, codes, self.metric)
        given = given_ids(len(codes), ids)
        with self._writer:
            new = new_ids(self._state, len(codes), given)
            self._state = with_codes(self._state, codes, numbers, new)
        return new

    def follow(
        self,
        hasher: ProjectionHash,
        vectors: Any,
        ids: npt.ArrayLike | None = None,
        *,
        strict: bool = False,
    ) -> Ids:
        """Let a live hasher code vectors and learn from them, add the codes, and return their ids
        as `add` does.

        The hasher has learned directions already: `fit` it on the first vectors and `add` those by
        its `epoch_`. Each vector is coded by the hasher's current epoch, then learned from; epochs
        that begin on the way begin here too. `vectors` is all that `sketch_stream` takes, and the
        whole of it is one write: on an error nothing is added and the hasher is as before; without
        one, all rows can be found when the call returns. Undoing needs a copy of the model, 0.4 MB
        of 960 features and 32 bits: hand over batches, not vectors one by one.

        A vector that is not finite in float32 gets an id too, but an empty code, which is never
        found; it is warned of and not learned from, or is an error with `strict`. While the call
        runs, no other may use the hasher.
        """
        trial = StreamTrial(require_followable(hasher))
        lengths = NewLengths(scorer_for(trial.copy, self.metric, "hasher"))
        parts = coded_by_stream(
            self._state, trial.copy, vectors, self.metric, strict, lengths.look_at
        )
        given = given_ids(sum(len(part.codes) for part in parts), ids)
        with self._writer:
            trial.require_unchanged()
            state, new = with_parts(lengths.join(self._state), parts, given)
            self._state = state
            trial.accept()
        lengths.tell()
        return new

    def remove(self, ids: npt.ArrayLike) -> None:
        """Remove rows by id. An unknown id is an UnknownIdError, and nothing is removed. Empty
        epochs stay.
        """
        wanted = np.unique(id_array(ids, any_order=True))
        with self._writer:
            self._state = without(self._state, wanted)

    def retire(
        self,
        fingerprint: str | EpochRows,
        *,
        into: ProjectionHash | None = None,
        vectors: Any = None,
        ids: npt.ArrayLike | None = None,
    ) -> None:
        """Encode the rows of an epoch by another snapshot, under the ids they have; a search sees
        all of that or none.

        `vectors` are the rows in ascending order of id, as in `epoch_ids`, or in the order of
        `ids`, which then must be exactly those of the epoch. An epoch without rows needs neither
        `into` nor `vectors`. Rows whose vectors are not finite, which `follow` skipped, cannot be
        encoded: `remove` them first.

        One of `epochs` may stand for its fingerprint.
        """
        fingerprint = _fingerprint_of(fingerprint)
        state = self._state
        old = require_epoch(state, fingerprint)
        if into is None and vectors is None and len(old) == 0:
            with self._writer:
                self._state = self._without_epoch(old)
            return
        if into is None or vectors is None:
            raise InvalidInputError(
                f"into and vectors must be given: epoch {fingerprint} has {len(old)} rows to "
                "encode again."
            )
        scorer = find_scorer(state, into, self.metric, "into")
        if scorer.model.fingerprint == fingerprint:
            raise InvalidInputError(
                f"into must be another snapshot than the one to retire, {fingerprint}."
            )
        lengths = NewLengths(scorer)
        try:
            codes, numbers = encode_with_corrections(scorer, vectors, look_at=lengths.look_at)
        except InvalidInputError as flaw:
            raise InvalidInputError(f"{flaw}{_about_skipped(old)}") from flaw
        there = old.rows.ids()
        new = there if ids is None else id_array(ids)
        if not np.array_equal(np.sort(new), there):
            raise InvalidInputError(
                f"ids must be exactly the {len(there)} ids of epoch {fingerprint}, each once."
            )
        if len(codes) != len(new):
            raise InvalidInputError(
                f"vectors must be one a row of the epoch, got {len(codes)} for "
                f"{len(new)}.{_about_skipped(old)}"
            )
        with self._writer:
            known = lengths.join(self._state).lengths
            state = replace(self._without_epoch(old), lengths=known)
            self._state = with_codes(with_epoch(state, scorer), codes, numbers, new)
        lengths.tell()

    def search(
        self,
        queries: Any,
        k: int,
        *,
        oversample: int = 10,
        allow: npt.ArrayLike | None = None,
        first: str | None = None,
    ) -> Neighbors:
        """Return the k nearest rows of every query by the estimate, nearest first, ties by lower
        id.

        Every epoch puts its k · oversample nearest rows on the shortlist: by codes with `first`
        "codes", which are fast, or by the estimate with the query in four bits with "estimate",
        which loses less; None takes the estimate wherever codes would not keep all rows. Distances
        are
        float32; estimates of l2 and cosine that fall below 0 rank by how far, and are reported as
        0; those beyond float32 rank by how far, and are reported as infinity. Where fewer than k
        can be returned, the rest is id −1 at infinity. `allow` lists the ids that may be returned;
        unknown ones are passed over.
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        n_candidates = k * whole_number(oversample, "oversample", low=1, high=MOST_NEIGHBORS)
        allowed = None if allow is None else id_array(allow, "allow", any_order=True)
        if first is not None:
            one_of(first, "first", FIRST_STAGES)
        return nearest_rows(
            self._state,
            queries,
            k,
            n_candidates,
            allowed,
            self.metric,
            self._query_lengths.look_at,
            first,
        )

    def explain_first(self, k: int, *, oversample: int = 10) -> list[FirstStage]:
        """Return, an epoch each, the stage that looks at all rows in a search that does not name
        one, and why.
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        n_candidates = k * whole_number(oversample, "oversample", low=1, high=MOST_NEIGHBORS)
        return [epoch.first_stage(n_candidates) for epoch in self._state.epochs]

    def compact(self) -> None:
        """Give the space of removed rows back."""
        with self._writer:
            self._state = replace(
                self._state, epochs=tuple(epoch.compact() for epoch in self._state.epochs)
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all epochs, their models included, to one file: aside first, then in place at
        once.
        """
        state = self._state
        epoch_files.save(path, self.metric, state.next_id, state.epochs)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True) -> EpochIndex:
        """Open a saved index. Mapped by default: it is there at once, and rows added later live in
        memory.

        With `mmap` everything is verified now but codes and corrections, and those by `verify()`;
        the file must stay as it is while the index is in use. Without it everything is read and
        verified.
        """
        return cls.from_stored(read_index(path, cls.__name__, mmap))

    @classmethod
    def from_stored(cls, stored: StoredFile) -> EpochIndex:
        """Return the index that a file holds."""
        metric, next_id, epochs = epoch_files.restore(stored)
        index = cls.__new__(cls)
        index.adopt(metric, State(epochs, next_id))
        return index

    def verify(self) -> None:
        """Check everything that can be checked, mapped files included; raise CorruptFileError on
        the first flaw.
        """
        state = self._state
        for epoch in state.epochs:
            verify_rows(epoch.rows)
            epoch_files.require_sound(epoch, "the index")
        ids = state.ids()
        if not is_ascending(ids, strictly=True):
            raise CorruptFileError(
                "the index holds an id in two epochs. Build it again from its vectors."
            )

    def _without_epoch(self, old: Epoch) -> State:
        """Return the state without an epoch, which must be as it was when the caller looked at it.

        Vectors are read between that look and the writer's turn, and other writers, or the vectors
        themselves, may have changed the epoch meanwhile.
        """
        state = self._state
        if all(epoch is not old for epoch in state.epochs):
            raise InvalidInputError(
                f"epoch {old.fingerprint} must stay as it is while its vectors are read, but its "
                "rows were changed. Retire it again."
            )
        return replace(state, epochs=tuple(epoch for epoch in state.epochs if epoch is not old))

    def __getstate__(self) -> dict[str, Any]:
        state = self._state
        return {
            "metric": self.metric,
            "state": replace(state, epochs=tuple(e.compact() for e in state.epochs)),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Sealed: the arrays may be shared, with a pickle's buffers or another copy made from them.
        sealed = tuple(epoch.without_room() for epoch in state["state"].epochs)
        self.adopt(state["metric"], replace(state["state"], epochs=sealed))


def _fingerprint_of(epoch: str | EpochRows) -> str:
    return epoch.fingerprint if isinstance(epoch, EpochRows) else epoch


def _about_skipped(epoch: Epoch) -> str:
    """Return what to do about rows that have no code; nothing where there are none."""
    ids = epoch.rows.ids()
    skipped = ids[epoch.rows.codes(ids).empty_rows()]
    if not len(skipped):
        return ""
    return (
        " Rows whose vectors were not finite have no code; remove them first, by their ids: "
        f"{some_of(skipped)}."
    )
