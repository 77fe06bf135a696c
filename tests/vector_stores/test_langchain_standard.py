"""LangChain's own tests of vector stores, over each kind of collection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

import bitkin
from bitkin.vector_stores import BitkinLangChainStore
from tests.vector_stores.served import served_collection


@pytest.fixture(scope="module")
def client() -> Iterator[bitkin.Client]:
    with served_collection(n_features=6) as client:
        yield client


class TestInMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return BitkinLangChainStore(self.get_embeddings(), n_bits=64)


class TestInAFolder(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        with BitkinLangChainStore(self.get_embeddings(), tmp_path / "notes", n_bits=64) as store:
            yield store


class TestOverAClient(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, client: bitkin.Client) -> Iterator[VectorStore]:
        store = BitkinLangChainStore(self.get_embeddings(), client)
        try:
            yield store
        finally:
            store.delete()
