"""`BitkinLangChainStore`: LangChain's VectorStore over a collection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitkin.checks import shown, whole_number
from bitkin.closing import Closes
from bitkin.errors import InvalidInputError, MissingExtraError
from bitkin.vector_stores.dict_filters import read_dict_filter
from bitkin.vector_stores.ranking import check_share, choose_diverse, relevance_of
from bitkin.vector_stores.text_collection import TextCollection, TextHit, as_vectors
from bitkin.vector_stores.text_rows import TEXT_KEY, TextRow, write_row
from bitkin.vector_stores.text_source import TextSource

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
except ImportError:
    raise MissingExtraError(
        "bitkin.vector_stores.langchain needs langchain-core, which is not installed: "
        "pip install 'bitkin[langchain]'"
    ) from None

TEXTS_AT_ONCE = 1024
"""Texts that are embedded before their vectors become an array, which is an eighth as large."""
_OF_TEXTS = "the embedding of texts"


class NewTexts(NamedTuple):
    """Texts that are to be embedded and kept."""

    texts: list[str]
    ids: list[str]
    rows: list[dict[str, Any]]
    batch_size: int

    def pieces(self) -> Iterator[list[str]]:
        """Yield the texts, `batch_size` at once."""
        for first in range(0, len(self.texts), self.batch_size):
            yield self.texts[first : first + self.batch_size]


class BitkinLangChainStore(VectorStore, Closes):
    """Documents of LangChain in a collection of bitkin.

    The name of the framework is in that of the class: a program may use the store of LlamaIndex
    beside it, and tracing shows which is which.

    Parameters
    ----------
    embedding : Embeddings
        What makes vectors of texts.
    collection : Collection, Client, path or None, default None
        Where documents are. A path is that of a folder: what is there is opened, and else it is
        made with the first documents. None is in memory. A `Collection` or `Client` must have
        strings as ids, and is closed by whoever made it.
    text_key : str, default "text"
        The key of a row's metadata that holds `page_content`. It may be that of a folder that
        `bitkin collection add --text KEY` made with string ids.
    metric : {"cosine", "l2", "ip"}, optional
        Of a collection that is made; cosine by default. A folder that is there must have it.
    n_bits : int, optional
        Bits per document of a collection that is made, 512 by default: random directions around
        the first documents. With `Collection.replace_hasher`, 256 learned ones do as well.
    vectors : {"float16", "float32", "int8"}, optional
        How vectors are kept in a collection that is made, "float16" by default.
    fields : dict, optional
        Metadata that filters are to be quick on, in a collection that is made, such as
        `{"year": int}`: such values are refused where they are of another type.
    relevance_score_fn : callable, optional
        Makes a number from 0 to 1 of a distance, in the place of `ranking.relevance_of`.

    Notes
    -----
    Any number of threads may use a store at the same time. Async methods embed by the async methods
    of `embedding`, and let the rest run in a thread.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> store = BitkinLangChainStore(DeterministicFakeEmbedding(size=32), n_bits=64)
    >>> store.add_texts(["rain", "snow", "sun"], [{"wet": True}, {"wet": True}, {"wet": False}],
    ...                 ids=["a", "b", "c"])
    ['a', 'b', 'c']
    >>> [document.page_content for document in store.similarity_search("snow", k=1)]
    ['snow']
    >>> store.similarity_search("snow", k=1, filter={"wet": {"$ne": True}})
    [Document(id='c', metadata={'wet': False}, page_content='sun')]
    """

    def __init__(
        self,
        embedding: Embeddings,
        collection: Any = None,
        *,
        text_key: str = TEXT_KEY,
        metric: str | None = None,
        n_bits: int | None = None,
        vectors: str | None = None,
        fields: Any = None,
        relevance_score_fn: Callable[[float], float] | None = None,
    ) -> None:
        for method in ("embed_documents", "embed_query"):
            if not callable(getattr(embedding, method, None)):
                raise InvalidInputError(
                    "embedding must be an Embeddings of langchain_core, with embed_documents and "
                    f"embed_query, got {shown(embedding)}. The collection comes second."
                )
        self._embedding = embedding
        self._relevance = relevance_score_fn
        self._texts = TextCollection(
            collection,
            text_key=text_key,
            metric=metric,
            n_bits=n_bits,
            vectors=vectors,
            fields=fields,
        )

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors of texts."""
        return self._embedding

    @property
    def collection(self) -> TextSource | None:
        """The `Collection` or `Client`; None until the first documents are there."""
        return self._texts.source

    @property
    def text_key(self) -> str:
        """The key of a row's metadata that holds `page_content`."""
        return self._texts.text_key

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection: Any = None,
        **settings: Any,
    ) -> BitkinLangChainStore:
        """Return a store with some texts; `collection` and `settings` are those of the class."""
        store = cls(embedding, collection, **settings)
        try:
            store.add_texts(texts, metadatas, ids=ids)
        except BaseException:
            store.close()  # or nobody could open the folder again
            raise
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection: Any = None,
        **settings: Any,
    ) -> BitkinLangChainStore:
        """Return a store with some texts; `collection` and `settings` are those of the class."""
        store = await asyncio.to_thread(cls, embedding, collection, **settings)
        try:
            await store.aadd_texts(texts, metadatas, ids=ids)
        except BaseException:
            store.close()
            raise
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        batch_size: int = TEXTS_AT_ONCE,
        **unknown: Any,
    ) -> list[str]:
        """Embed texts, `batch_size` at once, keep them, and return their ids: those given, and ids
        by chance where there is None. What has one of the ids is replaced. On failure nothing is
        added.
        """
        new = self._check_texts(texts, metadatas, ids, batch_size, unknown)
        embedded = [
            as_vectors(self._embedding.embed_documents(some), len(some), _OF_TEXTS)
            for some in new.pieces()
        ]
        self._texts.put(new.ids, embedded, new.rows)
        return new.ids

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        batch_size: int = TEXTS_AT_ONCE,
        **unknown: Any,
    ) -> list[str]:
        """Do as `add_texts` does, without holding up the event loop."""
        new = self._check_texts(texts, metadatas, ids, batch_size, unknown)
        embedded = [
            as_vectors(await self._embedding.aembed_documents(some), len(some), _OF_TEXTS)
            for some in new.pieces()
        ]
        await asyncio.to_thread(self._texts.put, new.ids, embedded, new.rows)
        return new.ids

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Keep documents under `ids=`, or their own ids, or ids by chance, and return these."""
        return self.add_texts(**_unpack(documents, **kwargs))

    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Do as `add_documents` does, without holding up the event loop."""
        return await self.aadd_texts(**_unpack(documents, **kwargs))

    def delete(self, ids: list[str] | str | None = None, **unknown: Any) -> bool:
        """Remove documents by their ids, or all where `ids` is None. Unknown ids are passed
        over.
        """
        _refuse(unknown, "delete")
        if ids is None:
            self._texts.remove_matching(None)
        else:
            self._texts.remove([ids] if isinstance(ids, str) else ids)
        return True

    async def adelete(self, ids: list[str] | str | None = None, **unknown: Any) -> bool:
        """Do as `delete` does, without holding up the event loop."""
        return await asyncio.to_thread(self.delete, ids, **unknown)

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return those documents that are there, in the order of `ids`."""
        return [_document(row) for row in self._texts.get(ids)]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Do as `get_by_ids` does, without holding up the event loop."""
        return await asyncio.to_thread(self.get_by_ids, ids)

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return the k documents nearest to a text, nearest first.

        `filter` lets only documents be found whose metadata matches: conditions of
        `Collection.search`, or such as `{"source": "x"}`, `{"page": {"$gte": 3}}` and `{"$and":
        [...]}`. `options` are `stage`, `oversample`, `first` and `probes` of `Collection.search`.
        """
        found = self.similarity_search_with_score(query, k, filter, **options)
        return [document for document, _ in found]

    async def asimilarity_search(
        self,
        query: str,
        k: int = 4,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Do as `similarity_search` does, without holding up the event loop."""
        found = await self.asimilarity_search_with_score(query, k, filter, **options)
        return [document for document, _ in found]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[tuple[Document, float]]:
        """Return the k documents nearest to a text, and their distances by the metric: smaller is
        nearer.
        """
        vector = self._embedding.embed_query(query)
        return self.similarity_search_with_score_by_vector(vector, k, filter, **options)

    async def asimilarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[tuple[Document, float]]:
        """Do as `similarity_search_with_score` does, without holding up the event loop."""
        vector = await self._embedding.aembed_query(query)
        return await asyncio.to_thread(
            self.similarity_search_with_score_by_vector, vector, k, filter, **options
        )

    def similarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return the k documents nearest to a vector, nearest first."""
        found = self.similarity_search_with_score_by_vector(embedding, k, filter, **options)
        return [document for document, _ in found]

    def similarity_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[tuple[Document, float]]:
        """Return the k documents nearest to a vector, and their distances by the metric: smaller is
        nearer.
        """
        return [
            (_document(hit.row), hit.distance) for hit in self._hits(embedding, k, filter, options)
        ]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return k of the `fetch_k` documents nearest to a text, by maximal marginal relevance:
        near to the text, and different from each other, all the more the smaller `lambda_mult` is,
        from 1 to 0. Both are measured by the cosine of vectors, which the collection must keep.
        """
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, filter, **options
        )

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Do as `max_marginal_relevance_search` does, without holding up the event loop."""
        vector = await self._embedding.aembed_query(query)
        return await self.amax_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, filter=filter, **options
        )

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Do as `max_marginal_relevance_search` does, for a vector."""
        share = check_share(lambda_mult, "lambda_mult")
        k = whole_number(k, "k", low=1)
        fetch_k = max(whole_number(fetch_k, "fetch_k", low=1), k)
        rows = {hit.row.id: hit.row for hit in self._hits(embedding, fetch_k, filter, options)}
        ids, vectors = self._texts.vectors(list(rows))
        chosen, _ = choose_diverse(np.asarray(embedding), vectors, k, share)
        return [_document(rows[ids[place]]) for place in chosen]

    def close(self) -> None:
        """Close the folder that was opened or made here. A `Collection` or `Client` that was given
        stays open.
        """
        self._texts.close()

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return relevance_of(self._texts.metric) if self._relevance is None else self._relevance

    def _hits(
        self, vector: Any, k: int, given: dict[str, Any] | None, options: dict[str, Any]
    ) -> list[TextHit]:
        return self._texts.search(vector, k, where=read_dict_filter(given), options=options)

    def _check_texts(
        self, texts: Any, metadatas: Any, ids: Any, batch_size: Any, unknown: dict[str, Any]
    ) -> NewTexts:
        """Return texts with the rows they become and their ids."""
        _refuse(unknown, "add_texts")
        if isinstance(texts, str):
            raise InvalidInputError(f"texts must be a list of texts, got one: {shown(texts)}.")
        listed = list(texts)
        for position, text in enumerate(listed):
            if not isinstance(text, str):
                raise InvalidInputError(
                    f"texts must be strings, got {shown(text)} at position {position}."
                )
        about = _one_per_text(
            [{}] * len(listed) if metadatas is None else metadatas, "metadatas", listed
        )
        names = _one_per_text([None] * len(listed) if ids is None else ids, "ids", listed)
        return NewTexts(
            listed,
            [str(uuid.uuid4()) if name in (None, "") else name for name in names],
            [
                write_row(text, one or {}, self.text_key)
                for text, one in zip(listed, about, strict=True)
            ],
            whole_number(batch_size, "batch_size", low=1),
        )


def _unpack(documents: list[Document], **kwargs: Any) -> dict[str, Any]:
    """Return documents as the arguments of `add_texts`."""
    if kwargs.get("ids") is None:
        kwargs["ids"] = [document.id for document in documents]
    return {
        "texts": [document.page_content for document in documents],
        "metadatas": [document.metadata for document in documents],
        **kwargs,
    }


def _document(row: TextRow) -> Document:
    return Document(id=row.id, page_content=row.text, metadata=row.metadata)


def _one_per_text(values: Any, name: str, texts: list[str]) -> list[Any]:
    listed = list(values)
    if len(listed) != len(texts):
        raise InvalidInputError(
            f"{name} must be one per text, got {len(listed)} for {len(texts)} texts."
        )
    return listed


def _refuse(unknown: dict[str, Any], method: str) -> None:
    for name, value in unknown.items():
        raise InvalidInputError(
            f"{method} has no argument {name}, got {shown(value)}. Leave it out."
        )
