"""What a service must hold: rows in dictionaries, changed by each write that it acknowledged.

A request is read here from the bytes that were sent, by Python's own parsers, and nothing of the
service is asked but whether it accepted it and which ids it made.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import numpy as np
import numpy.typing as npt

import bitkin
from bitkin.embedding import open_embedder
from tests.service.hostile.kinds import D
from tests.service.hostile.raw import Answer

_COLLECTIONS = "/v1/collections/"


class SentRequest(NamedTuple):
    """A request as it was sent."""

    method: str
    target: bytes
    headers: list[tuple[str, bytes]]
    body: bytes | None

    def header(self, name: str) -> str:
        """Return the first value of a header, "" where there is none."""
        return next(
            (value.decode("latin-1") for key, value in self.headers if key.lower() == name), ""
        )


class HeldRow(NamedTuple):
    """One row: a vector, or a code."""

    content: bytes
    metadata: dict[str, Any]


class AcknowledgedRows:
    """The rows of one collection, by id, as far as the service said that they are there."""

    def __init__(self, collection: bitkin.Collection) -> None:
        self.rows = read_rows(collection)
        self.string_ids = collection.row_target.string_ids
        self._n_features = collection.row_target.n_features or D
        self._hasher = None if collection.row_target.keeps_vectors else collection.hasher

    def put(self, request: SentRequest, query: dict[str, str], ids: list[Any]) -> None:
        """Add or replace the rows that a request brought under these ids."""
        body = request.body or b""
        kind = request.header("content-type").partition(";")[0].strip().lower()
        contents: list[bytes]
        metadata: list[Any]
        if kind == "application/octet-stream":
            rows = np.frombuffer(body, dtype="<f4").reshape(-1, self._n_features)
            contents, metadata = [row.tobytes() for row in rows], [{}] * len(rows)
        elif kind == "application/x-ndjson":
            contents, metadata = self._lines(body, query.get("text_key"))
        else:
            assert kind == "application/json", kind
            contents, metadata = self._items(json.loads(body or b"{}"))
        assert len(contents) == len(ids) == len(set(ids))
        for name, content, one in zip(ids, contents, metadata, strict=True):
            self.rows[name] = HeldRow(content, _without_none(one or {}))

    def change(self, ids: list[Any], metadata: Any, *, replace: bool) -> None:
        """Change metadata of rows, one change for all or one for each."""
        changes = metadata if isinstance(metadata, list) else [metadata] * len(ids)
        assert len(changes) == len(ids) == len(set(ids))
        for name, one in zip(ids, changes, strict=True):
            content, before = self.rows[name]
            self.rows[name] = HeldRow(content, _without_none(one if replace else {**before, **one}))

    def remove(self, ids: list[Any], *, ignore: bool = False) -> None:
        """Remove rows."""
        for name in dict.fromkeys(ids):
            if not ignore or name in self.rows:
                del self.rows[name]

    def require_same(self, collection: bitkin.Collection) -> None:
        """Fail unless the collection holds these rows and no others, and is sound."""
        found = read_rows(collection)
        assert found.keys() == self.rows.keys()
        for name, row in self.rows.items():
            assert found[name].metadata == row.metadata, name
            assert found[name].content == row.content, name
        assert len(collection) == collection.count() == len(self.rows)
        collection.verify()

    def _lines(self, body: bytes, text_key: str | None) -> tuple[list[bytes], list[Any]]:
        contents, metadata = [], []
        for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            if not line.strip():
                continue
            record = json.loads(line)
            record.pop("id", None)
            if text_key is not None:
                contents += self._embed([record[text_key]])
            elif "vector" in record:
                contents += self._vectors([record.pop("vector")])
            else:
                contents.append(_code(record.pop("code")))
                record.pop("corrections", None)
            inner = record.get("metadata")
            metadata.append(
                {**inner, **{key: one for key, one in record.items() if key != "metadata"}}
                if isinstance(inner, dict)
                else record
            )
        return contents, metadata

    def _items(self, body: dict[str, Any]) -> tuple[list[bytes], list[Any]]:
        metadata = body.get("metadata")
        if body.get("texts") is not None:
            contents = self._embed(body["texts"])
            key = body.get("text_key", "text")
            metadata = [
                {key: text, **one}
                for text, one in zip(body["texts"], metadata or [{}] * len(contents), strict=True)
            ]
        elif body.get("codes") is not None:
            contents = [_code(text) for text in body["codes"]]
        else:
            contents = self._vectors(body["vectors"])
        return contents, metadata or [{}] * len(contents)

    def _vectors(self, given: Any) -> list[bytes]:
        if isinstance(given, dict):
            if "indices" in given:
                given = [given]
            elif "csr" in given:
                return self._packed_sparse(given["csr"])
            else:
                data = base64.b64decode(given["float32"], validate=True)
                rows = np.frombuffer(data, dtype="<f4").reshape(-1, self._n_features)
                return self._contents(rows)
        elif given and not isinstance(given[0], (list, dict)):
            given = [given]
        width = self._n_features
        if given and self._hasher is not None and isinstance(given[0], list):
            width = len(given[0])
        rows = np.zeros((len(given), width))
        for place, row in enumerate(given):
            if isinstance(row, dict):
                rows[place, row["indices"]] = row["values"]
            else:
                rows[place] = row
        return self._contents(rows)

    def _packed_sparse(self, parts: dict[str, str]) -> list[bytes]:
        ends, columns, values = (
            np.frombuffer(base64.b64decode(parts[name]), dtype=kind)
            for name, kind in (("indptr", "<i8"), ("indices", "<i4"), ("values", "<f4"))
        )
        rows = np.zeros((len(ends) - 1, self._n_features), dtype=np.float32)
        for row in range(len(rows)):
            own = slice(ends[row], ends[row + 1])
            np.add.at(rows[row], columns[own], values[own])
        return self._contents(rows)

    def _embed(self, texts: list[str]) -> list[bytes]:
        if not texts:
            return []
        return self._contents(open_embedder(f"hash:{self._n_features}")(texts))

    def _contents(self, rows: npt.NDArray[Any]) -> list[bytes]:
        """Return rows as they are held: of a collection without vectors, their codes."""
        if self._hasher is not None:
            codes = self._hasher.encode(rows)
            return [
                b"" if nothing else code.tobytes()
                for code, nothing in zip(codes.to_bytes(), codes.empty_rows(), strict=True)
            ]
        return [row.astype(np.float32).tobytes() for row in rows]


class AcknowledgedService:
    """The collections of a service, by name, as far as it said that they are there."""

    def __init__(self, collections: dict[str, bitkin.Collection], only: str | None) -> None:
        self.held = {name: AcknowledgedRows(one) for name, one in collections.items()}
        self._only = only
        self.n_writes = 0

    def note(self, request: SentRequest, answer: Answer) -> str | None:
        """Change what must be there as a request does that was accepted; return the name of a
        collection that was made.
        """
        if not 200 <= answer.status < 300 or "idempotency-replayed" in answer.headers:
            return None
        raw_path, _, raw_query = request.target.partition(b"?")
        path = unquote(raw_path.decode("ascii"))
        query = dict(parse_qsl(raw_query.decode("latin-1"), keep_blank_values=True))
        if path == "/v1/collections" and request.method == "POST":
            return str(answer.json()["name"])
        name, action = self._split(path)
        if name is None:
            return None
        if action == "" and request.method == "DELETE":
            del self.held[name]
            self.n_writes += 1
            return None
        if self._change(self.held[name], request, action, query, answer):
            self.n_writes += 1
        return None

    def _split(self, path: str) -> tuple[str | None, str]:
        if path.startswith(_COLLECTIONS):
            name, _, action = path.removeprefix(_COLLECTIONS).partition("/")
            return name, action
        return self._only, path.removeprefix("/v1/")

    def _change(
        self,
        held: AcknowledgedRows,
        request: SentRequest,
        action: str,
        query: dict[str, str],
        answer: Answer,
    ) -> bool:
        method, body = request.method, request.body
        if action == "items" and method in ("POST", "PUT"):
            held.put(request, query, answer.json()["ids"])
        elif action == "items" and method == "PATCH":
            given = json.loads(body or b"")
            held.change(given["ids"], given["metadata"], replace=given.get("replace", False))
        elif action == "items/remove" and method == "POST":
            given = json.loads(body or b"")
            held.remove(given["ids"], ignore=given.get("missing") == "ignore")
        elif action.startswith("items/") and method in ("PATCH", "DELETE"):
            word = action.removeprefix("items/")
            name = word if held.string_ids else int(word)
            if method == "DELETE":
                held.remove([name])
            else:
                given = json.loads(body or b"")
                held.change([name], given["metadata"], replace=given.get("replace", False))
        else:
            return False
        return True


def read_rows(collection: bitkin.Collection) -> dict[Any, HeldRow]:
    """Return all rows of a collection by id."""
    records = collection.get()
    names = records.ids.tolist()
    metadata = records.metadata or [{}] * len(names)
    if records.vectors is None:
        empty = records.codes.empty_rows()
        contents = [
            b"" if nothing else code.tobytes()
            for code, nothing in zip(records.codes.to_bytes(), empty, strict=True)
        ]
    else:
        rows = records.vectors
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        contents = [row.astype(np.float32).tobytes() for row in dense]
    return {
        name: HeldRow(content, one)
        for name, content, one in zip(names, contents, metadata, strict=True)
    }


def _code(text: str | None) -> bytes:
    return b"" if text is None else bytes.fromhex(text)


def _without_none(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in metadata.items() if one is not None}
