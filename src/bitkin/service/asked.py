"""From the body of a request to what a collection takes: queries, rows, ids."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from fastapi import HTTPException
from scipy.sparse import vstack

from bitkin.checks import shown, whole_number
from bitkin.codes import Codes
from bitkin.collection.metadata.filters import parse_filter
from bitkin.collection.transfer.arriving import ArrivingRows, RowFileOptions, RowTarget
from bitkin.collection.transfer.json_rows import (
    JsonRowFile,
    NumberedLines,
    codes_from_bytes,
    embed_texts,
)
from bitkin.errors import InvalidInputError
from bitkin.service.schemas import ItemsBody, SearchBody
from bitkin.service.served import AskedOptions, AskedSearch, ServedCollection
from bitkin.service.settings import ServiceLimits
from bitkin.wire import rows_from_bytes, unpack_vectors

_NUMBER = (int, float)
_SPARSE_TARGET, _OPTIONS = RowTarget(), RowFileOptions(batch_rows=1 << 20)


class RowsToWrite(NamedTuple):
    """Rows as a request brought them."""

    vectors: Any
    codes: Codes | None
    corrections: Any
    ids: list[Any] | None
    metadata: list[dict[str, Any]] | None


def read_search(
    served: ServedCollection, body: SearchBody, limits: ServiceLimits, rows: Any = None
) -> AskedSearch:
    """Return the search that a body asks for; `rows` are its queries where they are known
    already.
    """
    given = {
        name: value
        for name in ("vectors", "ids", "texts", "codes")
        if (value := getattr(body, name)) is not None
    }
    if len(given) + (rows is not None) != 1:
        names = " and ".join(given) or "none of them"
        raise InvalidInputError(f"vectors: give one of vectors, ids, texts and codes, got {names}.")
    k = whole_number(body.k, "k", low=1, high=limits.k)
    options = AskedOptions(
        k,
        body.stage,
        body.first,
        body.oversample,
        body.probes,
        None if body.where is None else filter_text(body.where),
        None if body.allow is None else tuple(body.allow),
    )
    most = min(limits.queries, max(1, limits.hits // k))
    name = next(iter(given), "vectors")
    without = None
    if rows is None and name == "vectors":
        rows = read_vectors(body.vectors, served.n_features)
    elif name == "codes" and body.codes is not None:
        _require_few(len(body.codes), most, "codes", k, limits)
        rows = read_codes(body.codes, served.collection)
        options = options._replace(stage=_codes_alone(options.stage, "codes"))
    elif name == "texts" and body.texts is not None:
        _require_few(len(body.texts), most, "texts", k, limits)
        rows = embed_texts(served.embed_texts, body.texts)
    elif name == "ids" and body.ids is not None:
        _require_few(len(body.ids), most, "ids", k, limits)
        found = served.collection.get(body.ids)
        rows, without = found.vectors, body.ids
        if rows is None:
            rows = found.codes
            options = options._replace(stage=_codes_alone(options.stage, "ids"))
        elif isinstance(rows, np.ndarray):
            rows = np.ascontiguousarray(rows, dtype=np.float32)
    n_queries = len(rows) if isinstance(rows, Codes) else rows.shape[0]
    _require_few(n_queries, most, name, k, limits)
    if n_queries == 0:
        raise InvalidInputError(f"{name} must hold a query at least, got none.")
    return AskedSearch(rows, options, without)


def read_rows(served: ServedCollection, body: ItemsBody, limits: ServiceLimits) -> RowsToWrite:
    """Return the rows that a body brings."""
    given = [name for name in ("vectors", "texts", "codes") if getattr(body, name) is not None]
    if len(given) != 1:
        names = " and ".join(given) or "none of them"
        raise InvalidInputError(f"vectors: give one of vectors, texts and codes, got {names}.")
    if body.corrections is not None and body.codes is None:
        raise InvalidInputError("corrections must come with codes.")
    vectors: Any = None
    codes, metadata = None, body.metadata
    if body.texts is not None:
        _require_rows(len(body.texts), limits)
        vectors = embed_texts(served.embed_texts, body.texts) if body.texts else _no_rows(served)
        metadata = with_texts(body.texts, metadata, body.text_key)
    elif body.codes is not None:
        codes = read_codes(body.codes, served.collection)
    else:
        vectors = read_vectors(body.vectors, served.n_features)
    n_rows = len(codes) if codes is not None else vectors.shape[0]
    _require_rows(n_rows, limits)
    corrections = None
    if body.corrections is not None:
        corrections = np.array(body.corrections, dtype=np.float32).reshape(-1, 2)
    return RowsToWrite(vectors, codes, corrections, body.ids, metadata)


def read_lines(
    served: ServedCollection, data: bytes, limits: ServiceLimits, text_key: str | None
) -> RowsToWrite:
    """Return the rows of JSON lines, as `Collection.export` writes them, or with texts."""
    options = RowFileOptions(
        text_key=text_key,
        embed=None if text_key is None else served.embed_texts,
        batch_rows=limits.rows,
    )
    lines = NumberedLines(io.BytesIO(data), "the body")
    parts: list[ArrivingRows] = []
    n_rows = 0
    for part in JsonRowFile(lines, options, served.collection.row_target).batches():
        parts.append(part)
        n_rows += part.n_rows
        _require_rows(n_rows, limits)
    return _join_parts(parts)


def read_binary(
    served: ServedCollection, data: bytes, limits: ServiceLimits, first_id: int | None
) -> RowsToWrite:
    """Return rows of float32 numbers one after another, with consecutive ids if a first is
    given.
    """
    rows = rows_from_bytes(data, require_features(served.n_features), "the body")
    _require_rows(len(rows), limits)
    ids = None if first_id is None else list(range(first_id, first_id + len(rows)))
    return RowsToWrite(rows, None, None, ids, None)


def read_vectors(given: Any, n_features: int | None, name: str = "vectors") -> Any:
    """Return vectors in any of the forms of a body as a matrix; of so many columns, unless that is
    None.
    """
    if isinstance(given, dict):
        told = given.get("n_features")
        if n_features is None and type(told) is int and told > 0:
            n_features = told
        return unpack_vectors(given, require_features(n_features, name), name)
    if not isinstance(given, list):
        raise InvalidInputError(f"{name} must be a list of rows of numbers, got {shown(given)}.")
    if given and isinstance(given[0], dict):
        return _sparse_rows(given, require_features(n_features, name), name)
    rows = given if given and isinstance(given[0], list) else [given] if given else []
    return _dense_rows(rows, n_features, name)


def read_codes(texts: Sequence[str | None], collection: Any) -> Codes:
    """Return codes of hexadecimal texts; None stands for a row with nothing to hash."""
    spec = collection.row_target.spec
    rows: list[bytes | None] = []
    for place, text in enumerate(texts):
        try:
            row = None if text is None else bytes.fromhex(text)
        except ValueError:
            raise InvalidInputError(
                f"codes must be hexadecimal, got {shown(text)} at position {place}."
            ) from None
        if row is not None and len(row) != spec.n_bytes:
            raise InvalidInputError(
                f"codes must have {spec.n_bytes} bytes each, got {len(row)} at position {place}."
            )
        rows.append(row)
    return codes_from_bytes(rows, spec)


def filter_text(where: dict[str, Any]) -> str:
    """Return a filter as text, the same for the same filter; raise for what is none."""
    parse_filter(where)
    return json.dumps(where, sort_keys=True)


def filter_in(text: str | None) -> dict[str, Any] | None:
    """Return the filter that a parameter of the address holds as JSON."""
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"where must be JSON: {error}.") from None
    if not isinstance(where, dict):
        raise InvalidInputError(f"where must be a JSON object, got {shown(where)}.")
    parse_filter(where)
    return where


def parse_id(served: ServedCollection, word: str) -> Any:
    """Return the id that stands in an address."""
    with served.while_open():
        string_ids = served.collection.row_target.string_ids
    if string_ids:
        return word
    if not (word.isascii() and word.isdigit() and len(word) <= 19 and int(word) < 2**63):
        raise HTTPException(
            404, f"there is no row {shown(word)}: ids of {served.name} are whole numbers."
        )
    return int(word)


def require_features(n_features: int | None, name: str = "vectors") -> int:
    """Return the number of columns; raise where the collection takes sets and has none."""
    if n_features is None:
        raise InvalidInputError(
            f"{name} must be codes: the hasher of this collection takes sets, not vectors."
        )
    return n_features


def with_texts(
    texts: list[str], metadata: list[dict[str, Any]] | None, key: str
) -> list[dict[str, Any]]:
    """Return metadata with the text of every row under a key."""
    rows = [{}] * len(texts) if metadata is None else metadata
    if len(rows) != len(texts):
        raise InvalidInputError(
            f"metadata must have one object per row, got {len(rows)} for {len(texts)} texts."
        )
    return [{key: text, **row} for text, row in zip(texts, rows, strict=True)]


def _dense_rows(rows: list[Any], n_features: int | None, name: str) -> npt.NDArray[np.float32]:
    width = n_features or (len(rows[0]) if rows else 1)
    for place, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            size = f"{len(row)} numbers" if isinstance(row, list) else shown(row)
            raise InvalidInputError(
                f"{name} must be rows of {width} numbers, got {size} in row {place}."
            )
    try:
        numbers = np.array(rows, dtype=np.float64).reshape(len(rows), width)
        plain = all(type(one) in _NUMBER for row in rows for one in row)
    except (TypeError, ValueError, OverflowError):
        plain = False
    if not plain:
        place, bad = next(
            (place, one)
            for place, row in enumerate(rows)
            for one in row
            if type(one) not in _NUMBER or not -1e300 < one < 1e300
        )
        raise InvalidInputError(f"{name} must hold numbers, got {shown(bad)} in row {place}.")
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    if not np.isfinite(small).all():
        place = int(np.argmin(np.isfinite(small).all(axis=1)))
        raise InvalidInputError(
            f"{name} must hold finite float32 numbers, got NaN, Infinity or a larger one in row "
            f"{place}."
        )
    return small


def _sparse_rows(rows: list[Any], n_features: int, name: str) -> Any:
    """Return CSR rows, read as lines of a file are."""
    lines = b"\n".join(json.dumps({"vector": row}).encode() for row in rows)
    target = _SPARSE_TARGET._replace(n_features=n_features)
    try:
        parts = list(JsonRowFile(NumberedLines(io.BytesIO(lines), name), _OPTIONS, target).read())
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None
    return vstack([part.vectors for part in parts], format="csr")


def _join_parts(parts: list[ArrivingRows]) -> RowsToWrite:
    if not parts:
        raise InvalidInputError("the body must have a row at least, one JSON object per line.")
    joined: dict[str, Any] = {}
    for name, join in _JOINS.items():
        values = [getattr(part, name) for part in parts]
        if name == "metadata" and any(value is not None for value in values):
            values = [part.metadata or [{}] * part.n_rows for part in parts]
        joined[name] = None if values[0] is None else join(values)
    return RowsToWrite(**joined)


def _join_vectors(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return vstack(parts, format="csr")


def _join_lists(parts: list[list[Any]]) -> list[Any]:
    return [one for part in parts for one in part]


_JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "vectors": _join_vectors,
    "codes": Codes.concatenate,
    "corrections": np.concatenate,
    "ids": _join_lists,
    "metadata": _join_lists,
}


def _no_rows(served: ServedCollection) -> Any:
    return np.empty((0, require_features(served.n_features)), dtype=np.float32)


def _codes_alone(stage: str | None, name: str) -> str:
    if stage not in (None, "codes"):
        raise InvalidInputError(
            f"stage must be 'codes' where {name} are looked for by their codes, got {stage!r}."
        )
    return "codes"


def _require_few(n_queries: int, most: int, name: str, k: int, limits: ServiceLimits) -> None:
    if n_queries > most:
        raise InvalidInputError(
            f"{name} must be at most {most:,} queries for k={k:,} (at most {limits.queries:,}, and "
            f"{limits.hits:,} neighbours in all), got {n_queries:,}. Send several requests."
        )


def _require_rows(n_rows: int, limits: ServiceLimits) -> None:
    if n_rows > limits.rows:
        raise InvalidInputError(
            f"rows must be at most {limits.rows:,} at a time, got {n_rows:,}. Send several "
            "requests."
        )
