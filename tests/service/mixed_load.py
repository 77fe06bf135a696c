"""Mixed load on a service, and what every writer knows that it must hold."""

from __future__ import annotations

import base64
import http.client
import json
import random
import threading
import time
from collections import Counter
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from tests.service.process import Served

D = 64
_FEWEST, _MOST = 300, 1200  # rows of a writer
_PAUSE = 0.002  # between two requests of one thread, so that no core is needed for each
_LOST = (ConnectionError, http.client.HTTPException, TimeoutError)


class KeptRow(NamedTuple):
    """One row: float32 numbers, and metadata."""

    vector: bytes
    metadata: dict[str, Any]


Rows = dict[int, KeptRow]


class LoadThread(threading.Thread):
    """Sends requests one after another until the service is gone."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.pick = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.statuses: Counter[str] = Counter()
        """Requests by what they were and how they were answered."""
        self.fault: BaseException | None = None
        self._url = ""
        self._connection: http.client.HTTPConnection | None = None

    def begin(self, url: str) -> None:
        """Start to send requests to a service."""
        self._url = url
        self.start()

    def run(self) -> None:
        """Send requests."""
        place = urlsplit(self._url)
        self._connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        try:
            while True:
                self.do_one()
                time.sleep(_PAUSE)
        except _LOST:  # killed
            pass
        except BaseException as error:  # noqa: BLE001 - told by whoever looks after the load
            self.fault = error
        finally:
            self._connection.close()

    def do_one(self) -> None:
        """Send a request, and look at its answer."""
        raise NotImplementedError

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Return the answer to a request, which must be a good one."""
        assert self._connection is not None
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        headers = {} if data is None else {"Content-Type": kind}
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        text = response.read()
        what = f"{method} {path.partition('?')[0].rstrip('0123456789')}"
        self.statuses[f"{what} {response.status}"] += 1
        if not 200 <= response.status < 300:
            raise AssertionError(f"{what}: {response.status} {text[:300]!r}")
        return json.loads(text) if text else None


class Writer(LoadThread):
    """Adds, replaces, changes and removes rows of its own, and knows which were acknowledged."""

    def __init__(self, number: int, n_writers: int, seed: int, rows: Rows | None = None) -> None:
        super().__init__(f"writer-{number}", seed)
        self.number = number
        self.rows: Rows = {} if rows is None else rows
        """What was acknowledged."""
        self.after: Rows | None = None
        """What there is if the request that is under way was done."""
        self.n_acknowledged = 0
        self._n_writers = n_writers

    def do_one(self) -> None:
        """Send a write; now and then look for what was written."""
        crowded, few = len(self.rows) > _MOST, len(self.rows) < _FEWEST
        pick = self.pick.random()
        if few or (pick < 0.4 and not crowded):
            self._add()
        elif crowded or pick < 0.55:
            self._remove()
        elif pick < 0.7:
            self._replace()
        elif pick < 0.95:
            self._change()
        else:
            self._look()

    def again(self, seed: int) -> Writer:
        """Return a thread that goes on with these rows."""
        return Writer(self.number, self._n_writers, seed, self.rows)

    def settle(self, found: Rows) -> bool:
        """Compare what a service holds of this writer with what was acknowledged, and return
        whether the last request was done though nobody said so.
        """
        own = {name: row for name, row in found.items() if name % self._n_writers == self.number}
        done = self.after is not None and own == self.after and own != self.rows
        if not done:
            assert own.keys() == self.rows.keys(), (
                sorted(self.rows.keys() - own.keys())[:5],
                sorted(own.keys() - self.rows.keys())[:5],
            )
            assert own == self.rows
        self.rows, self.after = own, None
        return done

    def _write(self, after: Rows, *request: Any) -> None:
        self.after = after
        self.ask(*request)
        self.rows, self.after = after, None
        self.n_acknowledged += 1

    def _some_rows(self, n: int) -> list[KeptRow]:
        vectors = self.rng.standard_normal((n, D)).astype(np.float32)
        return [KeptRow(one.tobytes(), self._metadata()) for one in vectors]

    def _metadata(self) -> dict[str, Any]:
        return {"year": self.pick.randrange(2000, 2030), "note": f"é {self.pick.randrange(10**6)}"}

    def _some_ids(self) -> list[int]:
        n = self.pick.choice([1, 1, 2, 10])
        return self.pick.sample(sorted(self.rows), min(n, len(self.rows)))

    def _add(self) -> None:
        n = self.pick.choice([1, 1, 5, 20])
        free = self.pick.randrange(10**11)
        ids = [(free + i) * self._n_writers + self.number for i in range(n)]
        rows = self._some_rows(n)
        after = self.rows | dict(zip(ids, rows, strict=True))
        if self.pick.random() < 0.5:
            self._write(after, "POST", "/v1/items", _as_json(ids, rows))
        else:
            lines = b"\n".join(_as_line(*one) for one in zip(ids, rows, strict=True))
            self._write(after, "POST", "/v1/items", lines, "application/x-ndjson")

    def _replace(self) -> None:
        ids = self._some_ids()
        rows = self._some_rows(len(ids))
        after = self.rows | dict(zip(ids, rows, strict=True))
        self._write(after, "PUT", "/v1/items", _as_json(ids, rows))

    def _change(self) -> None:
        ids, changes = self._some_ids(), {"year": None, "seen": self.pick.randrange(9)}
        after = dict(self.rows)
        for name in ids:
            vector, before = after[name]
            kept = {key: value for key, value in before.items() if key != "year"}
            after[name] = KeptRow(vector, {**kept, "seen": changes["seen"]})
        if len(ids) == 1:
            self._write(after, "PATCH", f"/v1/items/{ids[0]}", {"metadata": changes})
        else:
            self._write(after, "PATCH", "/v1/items", {"ids": ids, "metadata": changes})

    def _remove(self) -> None:
        ids = self._some_ids()
        after = {name: row for name, row in self.rows.items() if name not in ids}
        if len(ids) == 1:
            self._write(after, "DELETE", f"/v1/items/{ids[0]}")
        else:
            self._write(after, "POST", "/v1/items/remove", {"ids": ids})

    def _look(self) -> None:
        name = self.pick.choice(sorted(self.rows))
        vector, metadata = self.rows[name]
        body = {"vectors": {"float32": base64.b64encode(vector).decode()}, "k": 1, "allow": [name]}
        found = self.ask("POST", "/v1/search", body)
        assert found["ids"] == [[name]]
        assert found["distances"][0][0] < 1e-3
        assert found["metadata"] == [[metadata]]


class Searcher(LoadThread):
    """Searches, counts and lists by filters, and checks what answers must be like."""

    def __init__(self, number: int, seed: int) -> None:
        super().__init__(f"searcher-{number}", seed)

    def do_one(self) -> None:
        """Send a question."""
        year = self.pick.randrange(2000, 2030)
        pick = self.pick.random()
        if pick < 0.1:
            self.ask("POST", "/v1/count", {"where": {"year": {"gte": year}}})
            return
        if pick < 0.2:
            page = self.ask("POST", "/v1/items/get", {"where": {"year": year}, "limit": 5})
            assert all(one["metadata"]["year"] == year for one in page["items"])
            return
        if pick < 0.22:
            self.ask("GET", "/v1/stats")
            return
        n, k = self.pick.choice([1, 1, 1, 8, 100]), self.pick.choice([1, 10, 50])
        queries = self.rng.standard_normal((n, D)).astype(np.float32)
        body: dict[str, Any] = {"vectors": _base64(queries.tobytes()), "k": k}
        if pick < 0.5:
            body["where"] = {"year": {"lt": year}}
        if pick < 0.3:
            body["stage"] = "codes"
        found = self.ask("POST", "/v1/explain" if pick > 0.98 else "/v1/search", body)
        assert len(found["ids"]) == len(found["distances"]) == n
        for ids, distances, metadata in zip(
            found["ids"], found["distances"], found["metadata"], strict=True
        ):
            assert len(set(ids)) == len(ids) <= k
            assert distances == sorted(distances)
            if "where" in body:
                assert all(one["year"] < year for one in metadata)


def rows_of(service: Served) -> Rows:
    """Return all rows that a service holds, by id, as its export tells them."""
    place = urlsplit(service.url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
    connection.request("GET", "/v1/export")
    response = connection.getresponse()
    assert response.status == 200
    records = [json.loads(line) for line in response.read().splitlines()]
    connection.close()
    return {
        record["id"]: KeptRow(
            np.array(record["vector"], dtype=np.float32).tobytes(), record.get("metadata", {})
        )
        for record in records
    }


def _base64(data: bytes) -> dict[str, str]:
    return {"float32": base64.b64encode(data).decode()}


def _as_json(ids: list[int], rows: list[KeptRow]) -> dict[str, Any]:
    vectors = _base64(b"".join(row.vector for row in rows))
    return {"ids": ids, "vectors": vectors, "metadata": [row.metadata for row in rows]}


def _as_line(name: int, row: KeptRow) -> bytes:
    vector = np.frombuffer(row.vector, dtype=np.float32).tolist()
    return json.dumps({"id": name, "vector": vector, "metadata": row.metadata}).encode()
