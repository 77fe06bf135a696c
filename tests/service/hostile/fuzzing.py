"""Requests that were valid once: made from a seed, bent in their bodies, heads and addresses."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import numpy as np

from tests.service.hostile.acknowledged import SentRequest
from tests.service.hostile.kinds import NAMES, D, X, text_ids

_JSON, _LINES, _BINARY = "application/json", "application/x-ndjson", "application/octet-stream"
_DEEP = "@deep@"  # what no serializer writes: put in afterwards
_NESTED: dict[str, Any] = {"year": 2003}
for _ in range(40):
    _NESTED = {"not": _NESTED}
_NASTY: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 1.5, -0.0, 1e308, -1e308, 5e-324, 1e39),
    *(2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**300),
    *(float("nan"), float("inf"), float("-inf")),
    *("", " ", "a", "0", "1", "null", "\0", "\ud800", "\udfff", "🙂", "é" * 70, "a" * 70_000),
    *([], {}, [[]], [{}], [None], {"": None}, {"a": {"b": [1, {"c": None}]}}, [1, "a", None]),
    *({"float32": "AAAA"}, {"float32": "!"}, {"float32": ""}, {"float32": None}),
    *({"indices": [1], "values": [1]}, {"indices": [1, 1], "values": [1, 2]}),
    *({"indices": [2**40], "values": [1]}, {"indices": [-1], "values": ["a"]}),
    *({"csr": {}}, {"csr": {"indptr": "AAAA", "indices": "", "values": ""}}),
    *({"year": {"gte": 2003, "lt": "a"}}, {"year": {"in": list(range(3000))}}, {"and": []}),
    *({"or": [{"year": 1}] * 300}, _NESTED, {"not": 3}, {"a\0": 1}, {"id": {"exists": 2}}),
    *(_DEEP, [_DEEP], {"where": _DEEP}),
]
_NASTY_WORDS = [
    *("", "0", "-1", "1", "1.0", "1e3", "01", "+5", " 7", "true", "FALSE", "null", "None", "NaN"),
    *("9223372036854775807", "9223372036854775808", "9" * 400, "1_000", "\u0661", "\xb2", "{}"),
    *("{", "[]", '{"year": 2003}', '{"year": {"gte": 2001}}', '{"a\\ud800": "\\udfff"}', '""'),
    *("[" * 3000, '{"not":' * 50 + "{}" + "}" * 50, json.dumps(_NESTED), "\0", "a" * 3000),
    *("codes", "vectors", "exact", "estimate", "title", "../../etc/passwd"),
]
_NASTY_ADDRESSES = [
    *(b"%00", b"%2F", b"%2e%2e", b"..", b".", b"", b"/", b"//", b"%ff", b"%F0%9F%99%82", b"%"),
    *(b"%zz", b"-1", b"1.5", b"0x10", b"%D9%A1", b"9223372036854775808", b"1" * 400, b"a" * 3000),
    *(b"%20", b"+", b";", b"%0d%0aX:%20y", b"7%00", b"%ed%a0%80", b"get", b"remove", b"\xe9", b" "),
]
_NASTY_TYPES = [
    *("text/plain", "application/json; charset=utf-16", "application/JSON;", ";", "", "a" * 3000),
    *(_JSON, _LINES, _BINARY, "application/json, text/plain", "multipart/form-data; boundary=x"),
]
_NASTY_HEADERS: list[tuple[str, bytes]] = [
    *(("Authorization", one) for one in (b"Bearer ", b"Bearer \xff", b"Basic YTpi", b"x" * 9000)),
    *(("X-Request-Id", one) for one in (b"", b"a b", b"\xe9", b"a" * 5000, b"good-1")),
    *(("Idempotency-Key", one) for one in (b"", b"one", b"two", b"a b", b"\xff", b"a" * 500)),
    *(
        ("Host", one)
        for one in (b"", b"[", b"evil.example", b"localhost:99999999", b"a@b", b"\xe9")
    ),
    *(("Origin", one) for one in (b"null", b"http://evil.example", b"\xff", b"http://")),
    ("Sec-Fetch-Site", b"cross-site"),
    ("Accept-Encoding", b"gzip;q=nan"),
    ("Content-Encoding", b"gzip"),
    ("Expect", b"100-continue"),
    ("Range", b"bytes=5-2"),
    ("If-None-Match", b"*"),
    ("Cookie", b"a=b; \xff"),
    ("Upgrade", b"h2c"),
    ("Transfer-Encoding", b"gzip, chunked"),
    ("Content-Length", b"99999999999999999999"),
    ("Content-Length", b"-1"),
    ("Content-Length", b"1e3"),
    *(("X-" + str(i), b"y" * 9000) for i in range(2)),
]
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "BREW"]


class _Draft:
    """A request that can still be changed."""

    def __init__(
        self, method: str, path: str, content: Any = None, kind: str = _JSON, **query: Any
    ) -> None:
        self.method = method
        self.path = quote(path).encode()
        self.content = content
        """What JSON is made of, or bytes; None where there is no body."""
        self.kind = kind
        self.query = {name: str(value) for name, value in query.items() if value is not None}
        self.headers: list[tuple[str, bytes]] = []


class RequestFuzzer:
    """Makes requests to one collection of a service, about every third as it should be.

    Parameters
    ----------
    seed : int
    kind : str
        Of the collection.
    prefix : str
        Of its addresses.
    """

    def __init__(self, seed: int, kind: str, prefix: str = "/v1") -> None:
        self._random = random.Random(seed)
        self._rng = np.random.default_rng(seed)
        self._kind = kind
        self._prefix = prefix
        self._makers: list[Callable[[], _Draft]] = [
            *(self._add, self._add, self._upsert, self._lines, self._binary, self._patch_one),
            *(self._patch, self._remove, self._remove_one, self._search, self._search),
            *(self._search_binary, self._get, self._page, self._look, self._tend, self._count),
        ]
        if prefix != "/v1":
            self._makers += [self._create, self._drop]

    def make(self) -> SentRequest:
        """Return the next request."""
        pick = self._random
        draft = pick.choice(self._makers)()
        bends = [self._bend_body, self._bend_body, self._bend_body, self._bend_query]
        bends += [self._bend_headers, self._bend_path, self._bend_method]
        n_bends = pick.choice([0, 0, 1, 1, 2, 3])
        flips = False
        for bend in pick.sample(bends, n_bends):
            bend(draft)
            flips = flips or pick.random() < 0.2
        return self._finish(draft, flips)

    def _finish(self, draft: _Draft, flips: bool) -> SentRequest:
        body = draft.content
        if body is not None and not isinstance(body, bytes):
            body = _serialize(body)
        if body and flips:
            body = self._flip(body)
        if body and b'"' in body and self._random.random() < 0.03:
            body = self._repeat_key(body)
        target = draft.path
        if draft.query:
            words = (f"{quote(name)}={quote(value)}" for name, value in draft.query.items())
            target += b"?" + "&".join(words).encode()
        headers = list(draft.headers)
        if body is not None and not any(name == "Content-Type" for name, _ in headers):
            headers.insert(0, ("Content-Type", draft.kind.encode("latin-1")))
        return SentRequest(draft.method, target, headers, body)

    # what is valid

    def _id(self) -> Any:
        place = self._random.randrange(160)
        return text_ids(160)[place] if self._kind == "str" else place

    def _ids(self, n: int) -> list[Any]:
        places = self._random.sample(range(160), n)
        return [text_ids(160)[i] for i in places] if self._kind == "str" else places

    def _new_ids(self, n: int) -> list[Any]:
        first = self._random.randrange(200, 10**9)
        numbers = range(first, first + n)
        return [f"ñ {i}" for i in numbers] if self._kind == "str" else list(numbers)

    def _rows(self, n: int) -> Any:
        rows = self._rng.standard_normal((n, D)).astype(np.float32)
        form = self._random.randrange(4)
        if form == 0:
            return {"float32": base64.b64encode(rows.tobytes()).decode(), "n_features": D}
        if form == 1 and n == 1:
            return rows[0].tolist()
        if form == 2:
            return [{"indices": [1, 4], "values": row[:2].tolist()} for row in rows]
        return rows.round(3).tolist()

    def _content(self, n: int) -> dict[str, Any]:
        if self._kind == "codes":
            return {"codes": [None if i == 3 else self._rng.bytes(8).hex() for i in range(n)]}
        if self._random.random() < 0.2:
            return {"texts": [f"text {i}" for i in range(n)]}
        return {"vectors": self._rows(n)}

    def _metadata(self) -> dict[str, Any]:
        pick = self._random
        given: dict[str, Any] = {
            "year": pick.randrange(1990, 2030),
            "title": f"changed {pick.randrange(99)}",
        }
        given |= {"deep": pick.choice([None, {"by": [1]}, [[]]]), "rest": pick.choice(_NASTY[:20])}
        return {key: given[key] for key in pick.sample(sorted(given), pick.randrange(4))}

    def _where(self) -> Any:
        return self._random.choice(
            [None, {"year": 2003}, {"title": {"contains": "7"}}, {"good": {"exists": True}}]
        )

    def _add(self) -> _Draft:
        n = self._random.choice([1, 1, 2, 5])
        body = {**self._content(n), "metadata": [self._metadata() for _ in range(n)]}
        if self._kind == "str" or self._random.random() < 0.6:
            body["ids"] = self._new_ids(n)
        return _Draft("POST", f"{self._prefix}/items", body)

    def _upsert(self) -> _Draft:
        n = self._random.choice([1, 2, 5])
        body = {**self._content(n), "ids": self._ids(n)}
        if self._random.random() < 0.5:
            body["metadata"] = [self._metadata() for _ in range(n)]
        return _Draft("PUT", f"{self._prefix}/items", body)

    def _lines(self) -> _Draft:
        n, pick = self._random.choice([1, 3]), self._random
        method = pick.choice(["POST", "PUT"])
        ids = self._ids(n) if method == "PUT" else self._new_ids(n)
        if self._kind == "codes":
            contents: list[dict[str, Any]] = [{"code": self._rng.bytes(8).hex()} for _ in ids]
        else:
            contents = [{"vector": row} for row in self._rng.random((n, D)).round(3).tolist()]
        lines = [
            {"id": name, **content, "metadata": {"year": 2001}, "more": self._metadata()}
            for name, content in zip(ids, contents, strict=True)
        ]
        return _Draft(method, f"{self._prefix}/items", b"\n".join(map(_serialize, lines)), _LINES)

    def _binary(self) -> _Draft:
        rows = X[: self._random.choice([1, 2])].tobytes()
        first = self._random.choice([None, self._random.randrange(10**9, 10**12)])
        return _Draft("POST", f"{self._prefix}/items", rows, _BINARY, first_id=first)

    def _patch(self) -> _Draft:
        ids = self._ids(self._random.choice([1, 2]))
        one = self._metadata()
        several: Any = [one] * len(ids)
        body = {"ids": ids, "metadata": self._random.choice([one, several])}
        if self._random.random() < 0.3:
            body["replace"] = True
        return _Draft("PATCH", f"{self._prefix}/items", body)

    def _patch_one(self) -> _Draft:
        return _Draft("PATCH", self._address(), {"metadata": self._metadata()})

    def _remove(self) -> _Draft:
        body = {"ids": self._ids(self._random.choice([1, 2])), "missing": "ignore"}
        return _Draft("POST", f"{self._prefix}/items/remove", body)

    def _remove_one(self) -> _Draft:
        return _Draft("DELETE", self._address())

    def _address(self) -> str:
        return f"{self._prefix}/items/{self._id()}"

    def _search(self) -> _Draft:
        pick = self._random
        n = pick.choice([1, 1, 2, 70])
        body = self._content(n)
        if pick.random() < 0.3:
            body = {"ids": self._ids(n)}
        if "codes" in body:
            body["codes"] = [one or "00" * 8 for one in body["codes"]]
        body |= {"k": pick.choice([1, 3, 10, 1000]), "where": self._where()}
        if pick.random() < 0.3:
            body |= {"stage": pick.choice(["codes", "estimate", "exact"])}
            body |= {"oversample": pick.choice([None, 1, 30]), "allow": self._ids(9)}
        path = pick.choice(["search", "search", "explain"])
        return _Draft("POST", f"{self._prefix}/{path}", body)

    def _search_binary(self) -> _Draft:
        rows = X[: self._random.choice([1, 5])].tobytes()
        where = self._where()
        words: dict[str, Any] = {"k": 5, "where": None if where is None else json.dumps(where)}
        return _Draft("POST", f"{self._prefix}/search", rows, _BINARY, **words)

    def _get(self) -> _Draft:
        body = self._random.choice([{"ids": self._ids(3)}, {"where": self._where(), "limit": 5}])
        return _Draft("POST", f"{self._prefix}/items/get", {**body, "vectors": True, "codes": True})

    def _page(self) -> _Draft:
        path = self._random.choice(["items", "items", "export", "map", "bits", "count"])
        where = self._where()
        words: dict[str, Any] = {"where": None if where is None else json.dumps(where)}
        if path == "items":
            words |= {"limit": 3, "offset": 2, "vectors": "true"}
        elif path == "map":
            words["n"] = 20
        return _Draft("GET", f"{self._prefix}/{path}", **words)

    def _look(self) -> _Draft:
        if self._random.random() < 0.3:
            return _Draft("GET", self._address(), vectors="true", codes="1")
        some = ["stats", "epochs", "drift", "ids", "hasher", "nothing", "../metrics", "search"]
        return _Draft("GET", f"{self._prefix}/{self._random.choice(some)}")

    def _tend(self) -> _Draft:
        some = ["compact", "checkpoint", "verify", "reencode", "epochs", "learn", "backup"]
        path, body = self._random.choice(some), None
        if path == "learn":
            body = {"vectors": self._rows(3)}
        elif path == "backup":
            body = {"name": f"copy-{self._random.randrange(20)}"}
        return _Draft("POST", f"{self._prefix}/{path}", body)

    def _count(self) -> _Draft:
        return _Draft("POST", f"{self._prefix}/count", {"where": self._where()})

    def _create(self) -> _Draft:
        pick = self._random
        name = pick.choice([f"new-{pick.randrange(1, 3)}", NAMES[0]])
        body: dict[str, Any] = {"name": name, "n_bits": pick.choice([64, None])}
        hasher = [{"n_features": D}, {"sample": X[:20].round(2).tolist()}, {"embed": True}]
        body |= pick.choice(hasher)
        body |= {"ids": pick.choice(["int", "str"]), "fields": {"year": "int"}}
        body |= {"vectors": pick.choice(["float32", "float32", "none"])}
        return _Draft("POST", "/v1/collections", body)

    def _drop(self) -> _Draft:
        return _Draft("DELETE", f"/v1/collections/new-{self._random.randrange(9)}")

    # what bends it

    def _bend_body(self, draft: _Draft) -> None:
        pick = self._random
        if draft.content is None:
            draft.content = pick.choice([b"", b"{}", b"[]", b"null", b"\0", {"a": 1}])
        elif isinstance(draft.content, bytes) or pick.random() < 0.25:
            data = draft.content
            draft.content = self._flip(data if isinstance(data, bytes) else _serialize(data))
        else:
            draft.content = self._bend_value(json.loads(json.dumps(draft.content)))

    def _bend_value(self, value: Any) -> Any:
        """Return JSON with something nasty somewhere in it."""
        pick = self._random
        if isinstance(value, dict) and value and pick.random() < 0.9:
            key = pick.choice(sorted(value))
            change = pick.randrange(8)
            if change == 0:
                del value[key]
            elif change == 1:
                value[pick.choice(["x", "", "vectors", "ids", "\ud800", "a" * 5000])] = value[key]
            elif change == 2:
                value[key] = [value[key]] * pick.choice([1, 2, 50])
            elif change == 3:
                value[key] = pick.choice(_NASTY)
            else:
                value[key] = self._bend_value(value[key])
            return value
        if isinstance(value, list) and value and pick.random() < 0.8:
            place = pick.randrange(len(value))
            if pick.random() < 0.2:
                value.insert(place, value[place])
            else:
                value[place] = self._bend_value(value[place])
            return value
        return pick.choice(_NASTY)

    def _flip(self, data: bytes) -> bytes:
        """Return bytes with some of them lost, changed, repeated or strange."""
        pick = self._random
        first = pick.randrange(len(data) + 1)
        last = min(len(data), first + pick.choice([1, 2, 9, len(data)]))
        strange = pick.choice(
            [
                *(b"", b"\0", b"\xff", b"\xed\xa0\x80", b"{", b"]", b'"', b",", b"-", b"1e999"),
                *(b"NaN", b"\\u", b"\\ud800", b"9" * 5000, b"[" * 5000, b"\n\n", b"\xef\xbb\xbf"),
                b"/**/",
            ]
        )
        kept = pick.choice([b"", data[first:last], data[first:last] * 2])
        return data[:first] + strange + kept + data[last:]

    def _repeat_key(self, body: bytes) -> bytes:
        keys = [b"ids", b"vectors", b"metadata", b"k", b"id", b"where"]
        value = self._random.choice([b"null", b"[]", b"1", b"{}"])
        return body.replace(b"{", b'{"' + self._random.choice(keys) + b'": ' + value + b", ", 1)

    def _bend_query(self, draft: _Draft) -> None:
        names = ["where", "limit", "offset", "vectors", "codes", "n", "field", "by", "first_id"]
        names += ["text_key", "k", "stage", "first", "oversample", "probes", "allow", "metadata"]
        name = self._random.choice([*draft.query, *names])
        draft.query[name] = self._random.choice(_NASTY_WORDS)

    def _bend_headers(self, draft: _Draft) -> None:
        if self._random.random() < 0.4:
            kind = self._random.choice(_NASTY_TYPES).encode("latin-1")
            draft.headers.append(("Content-Type", kind))
        else:
            draft.headers.append(self._random.choice(_NASTY_HEADERS))

    def _bend_path(self, draft: _Draft) -> None:
        parts = draft.path.split(b"/")
        nasty = self._random.choice(_NASTY_ADDRESSES)
        place = self._random.randrange(1, len(parts) + 1)
        parts[place : place + self._random.randrange(2)] = [nasty]
        draft.path = b"/".join(parts)

    def _bend_method(self, draft: _Draft) -> None:
        draft.method = self._random.choice(_METHODS)


def _serialize(value: Any) -> bytes:
    text = json.dumps(value)
    return text.replace(f'"{_DEEP}"', "[" * 10_000 + "]" * 10_000).encode()
