"""Flows that change nothing: searching, counting and fetching."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import one_of, require_order, shown, whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.client.messages import Flow
from bitkin.client.remote import CollectionInfo, RemoteCollection, ServiceInfo, plain_values
from bitkin.client.rows import check_texts, float_batches, open_rows, require_n_features
from bitkin.codes import Codes, require_comparable
from bitkin.collection.metadata.filters import parse_filter
from bitkin.collection.results import EpochInfo, Hits, Records, SearchExplanation
from bitkin.errors import InvalidInputError, UnknownIdError
from bitkin.timings import Timing
from bitkin.wire import pack_vectors

_STAGES = ("codes", "estimate", "exact")
_DISTANCES = {"codes": np.int32, "estimate": np.float32, "exact": np.float64}
_NUMBERS_AT_ONCE = 1 << 20  # of the vectors of a page, which come as text
_NUMBERS_OF_SPARSE = 1 << 12  # that a sparse row is taken to have at most, whatever its length


def search(remote: RemoteCollection, queries: Any, k: int, **arguments: Any) -> Flow[Hits]:
    """Search, some queries per request."""
    answers = yield from _answers(remote, "search", queries, k, arguments)
    about = yield from remote.about()
    with remote.understood("a search"):
        return _read_hits(answers, k, arguments["stage"], about)


def search_texts(remote: RemoteCollection, texts: Any, k: int, **arguments: Any) -> Flow[Hits]:
    """Search for texts, of which the service makes vectors."""
    require_order(texts, "texts")
    k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
    listed = check_texts(texts)
    common = yield from _search_members(remote, k, **arguments)
    service = yield from remote.service()
    most = service.most_queries(k)
    answers = []
    for first in range(0, len(listed), most):
        some = listed[first : first + most]
        body = f'{{"texts": {json.dumps(some)}, {common}}}'
        answer = yield from remote.ask("POST", "search", body, takes_long=True)
        answers.append((len(some), answer))
    about = yield from remote.about()
    with remote.understood("a search"):
        return _read_hits(answers, k, arguments["stage"], about)


def explain(
    remote: RemoteCollection, queries: Any, k: int, **arguments: Any
) -> Flow[SearchExplanation]:
    """Search, and add up what the stages did."""
    answers = yield from _answers(remote, "explain", queries, k, arguments)
    about = yield from remote.about()
    with remote.understood("explain"):
        hits = _read_hits(answers, k, arguments["stage"], about)
        stages: dict[str, Timing] = {}
        for _, answer in answers:
            for name, did in answer["explain"]["stages"].items():
                timing = stages.setdefault(name, Timing())
                timing.seconds += float(did["seconds"])
                timing.rows_in += int(did["rows_in"])
                timing.rows_out += int(did["rows_out"])
        if not answers:
            return SearchExplanation(hits, "codes", "there were no queries", stages, "none")
        said = answers[0][1]["explain"]
        return SearchExplanation(hits, said["first"], said["why"], stages, said["index"])


def _answers(
    remote: RemoteCollection, path: str, queries: Any, k: Any, arguments: dict[str, Any]
) -> Flow[list[tuple[int, dict[str, Any]]]]:
    """Return the number of queries and the answer of every request."""
    k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
    common = yield from _search_members(remote, k, **arguments)
    about = yield from remote.about()
    service = yield from remote.service()
    most = service.most_queries(k)
    if isinstance(queries, Codes):
        about = yield from remote.about_now()
        require_comparable(about.spec, about.fingerprint, queries, "queries")
        pieces = _code_pieces(queries, most)
    else:
        source = open_rows(queries, "queries")
        if source.shape[1] != about.n_features:
            about = yield from remote.about_now()
        require_n_features(source, about)
        pieces = (
            (batch.shape[0], f'"vectors": {json.dumps(pack_vectors(batch))}')
            for _, batch in float_batches(source, most)
        )
    answers = []
    for n, piece in pieces:
        answer = yield from remote.ask("POST", path, f"{{{piece}, {common}}}")
        answers.append((n, answer))
    if isinstance(queries, Codes):
        with remote.understood("a search"):
            _forget_nothing_hashed(answers, queries)
    return answers


def _code_pieces(queries: Codes, most: int) -> Iterator[tuple[int, str]]:
    for first in range(0, len(queries), most):
        some = queries[first : first + most]
        # a code with nothing to hash goes as one of zeros
        texts = [row.tobytes().hex() for row in np.ascontiguousarray(some.to_bytes())]
        yield len(texts), f'"codes": {json.dumps(texts)}'


def _forget_nothing_hashed(answers: list[tuple[int, dict[str, Any]]], queries: Codes) -> None:
    """Take out what codes with nothing to hash have found: they find nothing."""
    nothing, first = queries.empty_rows(), 0
    for n, answer in answers:
        for row in np.flatnonzero(nothing[first : first + n]).tolist():
            for name in ("ids", "distances", "metadata"):
                if answer.get(name) is not None:
                    answer[name][row] = []
        first += n


def _search_members(
    remote: RemoteCollection,
    k: int,
    *,
    stage: str | None,
    oversample: int | None,
    where: Any,
    allow: Any,
    first: str | None,
    probes: int | None,
) -> Flow[str]:
    """Return the members of a request that say how to search."""
    members: dict[str, Any] = {"k": k}
    if stage is not None:
        members["stage"] = one_of(stage, "stage", _STAGES)
    if first is not None:
        members["first"] = one_of(first, "first", _STAGES[:2])
    if oversample is not None:
        members["oversample"] = whole_number(oversample, "oversample", low=1, high=MOST_NEIGHBORS)
    if probes is not None:
        members["probes"] = whole_number(probes, "probes", low=1, high=MOST_NEIGHBORS)
    text = json.dumps(members)[1:-1]
    if where is not None:
        text += f', "where": {where_as_json(where)}'
    if allow is not None:
        about = yield from remote.about()
        text += f', "allow": {json.dumps(about.ids.check(allow, "allow").tolist())}'
    return text


def where_as_json(where: Any) -> str:
    """Return a filter as JSON; raise where it is none."""
    parse_filter(where)
    try:
        return json.dumps(where, default=plain_values, allow_nan=False)
    except ValueError:
        raise InvalidInputError(
            f"where must hold finite numbers, which JSON can hold, got {shown(where)}."
        ) from None


def _read_hits(
    answers: list[tuple[int, dict[str, Any]]], k: int, stage: str | None, about: CollectionInfo
) -> Hits:
    """Return what was found as a collection returns it: k columns, padded."""
    n_queries = sum(n for n, _ in answers)
    last = answers[0][1]["stage"] if answers else stage or about.stage
    dtype = _DISTANCES[last]
    far = about.spec.n_symbols + 1 if last == "codes" else np.inf
    if answers and answers[0][1].get("padding") is not None:
        far = answers[0][1]["padding"]["distance"]
    nobody = None if about.has_string_ids else -1
    ids = np.full((n_queries, k), nobody, dtype=object if about.has_string_ids else np.int64)
    distances = np.full((n_queries, k), far, dtype=dtype)
    metadata: list[list[dict[str, Any] | None]] | None = []
    query = 0
    for n, answer in answers:
        given = answer.get("metadata")
        metadata = None if given is None else metadata
        for row in range(n):
            found, apart = answer["ids"][row], answer["distances"][row]
            ids[query, : len(found)] = found
            distances[query, : len(apart)] = apart
            if metadata is not None and given is not None:
                metadata.append([*given[row], *[None] * (k - len(found))])
            query += 1
    return Hits(ids, distances, metadata)


def get(
    remote: RemoteCollection, ids: Any, *, where: Any, limit: int | None, offset: int
) -> Flow[Records]:
    """Return what is kept of rows, some thousand per request."""
    if ids is not None and not (where is None and limit is None and offset == 0):
        raise InvalidInputError("ids must be None where rows are taken by where, limit, offset.")
    offset = whole_number(offset, "offset", low=0)
    if limit is not None:
        limit = whole_number(limit, "limit", low=0)
    about = yield from remote.about_now()  # whose codes these will be
    service = yield from remote.service()
    most = _rows_of_page(service, about)
    items: list[dict[str, Any]] = []
    if ids is not None:
        wanted = about.ids.check(ids).tolist()
        for first in range(0, len(wanted), most):
            body = json.dumps({"ids": wanted[first : first + most], "vectors": True, "codes": True})
            items += yield from _items(remote, body)
    else:
        filtered = "" if where is None else f'"where": {where_as_json(where)}, '
        while limit is None or len(items) < limit:
            n = most if limit is None else min(most, limit - len(items))
            page = f'"limit": {n}, "offset": {offset + len(items)}, "vectors": true, "codes": true'
            some = yield from _items(remote, f"{{{filtered}{page}}}")
            items += some
            if len(some) < n:
                break
    with remote.understood("items"):
        return _read_records(items, about)


def _rows_of_page(service: ServiceInfo, about: CollectionInfo) -> int:
    n_numbers = 1 if about.vectors is None else about.n_features or 1
    if about.vectors == "csr":
        n_numbers = min(n_numbers, _NUMBERS_OF_SPARSE)
    numbers = min(_NUMBERS_AT_ONCE, service.most_numbers)
    return min(service.most_rows, max(1, int(numbers / n_numbers)))


def _items(remote: RemoteCollection, body: str) -> Flow[list[dict[str, Any]]]:
    answer = yield from remote.ask("POST", "items/get", body)
    with remote.understood("items"):
        found: list[dict[str, Any]] = list(answer["items"])
    return found


def _read_records(items: list[dict[str, Any]], about: CollectionInfo) -> Records:
    names = [item["id"] for item in items]
    ids = np.empty(len(items), dtype=object if about.has_string_ids else np.int64)
    ids[:] = names
    texts = [item.get("code") for item in items]
    blank = bytes(about.spec.n_bytes)
    data = b"".join(blank if text is None else bytes.fromhex(text) for text in texts)
    empty = [text is None for text in texts]
    codes = Codes.from_bytes(
        np.frombuffer(data, dtype=np.uint8).reshape(len(items), about.spec.n_bytes),
        about.spec,
        empty=empty if any(empty) else None,
        fingerprint=about.fingerprint,
    )
    metadata = [item.get("metadata") for item in items]
    if items and all(one is None for one in metadata):
        return Records(ids, _read_vectors(items, about), codes, None)
    return Records(ids, _read_vectors(items, about), codes, [one or {} for one in metadata])


def _read_vectors(items: list[dict[str, Any]], about: CollectionInfo) -> Any:
    """Return vectors of items as a collection gives them."""
    if about.vectors is None or about.n_features is None:
        return None
    shape = len(items), about.n_features
    if about.vectors == "csr":
        from scipy.sparse import csr_array

        rows = [item["vector"] for item in items]
        counts = [len(row["indices"]) for row in rows]
        indices = np.array([one for row in rows for one in row["indices"]], dtype=np.int32)
        values = np.array([one for row in rows for one in row["values"]], dtype=np.float32)
        indptr = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int32)
        return csr_array((values, indices, indptr), shape=shape)
    dtype = np.float16 if about.vectors == "float16" else np.float32
    vectors: npt.NDArray[Any] = np.array([item["vector"] for item in items], dtype=dtype)
    return vectors.reshape(shape)


def count(remote: RemoteCollection, where: Any = None) -> Flow[int]:
    """Return how many rows match."""
    body = "{}" if where is None else f'{{"where": {where_as_json(where)}}}'
    answer = yield from remote.ask("POST", "count", body)
    with remote.understood("count"):
        return int(answer["count"])


def contains(remote: RemoteCollection, id: object) -> Flow[bool]:
    """Return whether an id is there."""
    about = yield from remote.about()
    if not about.ids.is_id(id):
        return False
    try:
        yield from remote.ask("POST", "items/get", {"ids": about.ids.check([id]).tolist()})
    except UnknownIdError:
        return False
    return True


def all_ids(remote: RemoteCollection) -> Flow[npt.NDArray[Any]]:
    """Return all ids."""
    about = yield from remote.about()
    answer = yield from remote.ask("GET", "ids")
    with remote.understood("ids"):
        ids = np.empty(len(answer["ids"]), dtype=object if about.has_string_ids else np.int64)
        ids[:] = answer["ids"]
        return ids


def stats(remote: RemoteCollection) -> Flow[dict[str, Any]]:
    """Return what there is to say of the collection, and forget what was said before."""
    remote.forget()
    answer = yield from remote.ask("GET", "stats")
    with remote.understood("stats"):
        return dict(answer)


def epochs(remote: RemoteCollection) -> Flow[list[EpochInfo]]:
    """Return the epochs."""
    answer = yield from remote.ask("GET", "epochs")
    with remote.understood("epochs"):
        return [
            EpochInfo(int(one["number"]), str(one["fingerprint"]), int(one["rows"]))
            for one in answer["epochs"]
        ]


def drift(remote: RemoteCollection) -> Flow[Any]:
    """Return how far the model that learns has moved."""
    answer = yield from remote.ask("GET", "drift")
    from bitkin.hashers.projection.streams.drift import Drift

    with remote.understood("drift"):
        return Drift(**answer)


def read_only(remote: RemoteCollection) -> Flow[bool]:
    """Return whether writes would be refused."""
    remote.forget()
    about = yield from remote.about()
    service = yield from remote.service()
    return service.read_only or about.read_only


def hasher(remote: RemoteCollection) -> Flow[Any]:
    """Return the hasher that encodes new rows."""
    from bitkin._load import load_hasher

    reply = yield from remote.send("GET", remote.path_to("hasher"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hasher.bitkin"
        path.write_bytes(reply.content)
        with remote.understood("its hasher"):
            return load_hasher(path)
