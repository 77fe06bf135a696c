from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fastapi.testclient import TestClient

import bitkin
from bitkin.service import create_app

Rows = npt.NDArray[np.float32]
N, D = 203, 8


@pytest.fixture
def X() -> Rows:
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


@pytest.fixture
def notes(X: Rows) -> bitkin.Collection:
    """Rows with whole numbers as ids, in memory."""
    collection = bitkin.Collection.create(
        None, bitkin.ProjectionHash(n_bits=8).fit(X), fields={"year": int}
    )
    collection.add(X, metadata=[{"year": 2000 + i % 7, "title": f"note {i}"} for i in range(N)])
    return collection


@pytest.fixture
def serve() -> Iterator[Callable[..., TestClient]]:
    """Start services in this process, and end them with the test."""
    started: list[TestClient] = []

    def start(collections: Any, **options: Any) -> TestClient:
        client = TestClient(create_app(collections, **options), raise_server_exceptions=False)
        client.__enter__()
        started.append(client)
        return client

    yield start
    for client in started:
        client.__exit__(None, None, None)


@pytest.fixture
def http(serve: Callable[..., TestClient], notes: bitkin.Collection) -> TestClient:
    return serve(notes)


def require_problem(response: Any, status: int, *words: str, field: str | None = None) -> None:
    """Require a problem+json of a status, with words in its detail, about a field."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == status
    assert told["title"]
    for word in words:
        assert word in told["detail"]
    if field is not None:
        assert told["field"] == field
