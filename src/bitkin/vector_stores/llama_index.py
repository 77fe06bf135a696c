"""`BitkinLlamaIndexStore`: LlamaIndex's vector store over a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from bitkin.checks import shown, whole_number
from bitkin.closing import Closes
from bitkin.errors import InvalidInputError, MissingExtraError
from bitkin.notices import warn_caller
from bitkin.vector_stores.ranking import check_share, choose_diverse, similarity_of
from bitkin.vector_stores.text_collection import TextCollection, TextHit, as_vectors
from bitkin.vector_stores.text_rows import SOURCE, TEXT_KEY
from bitkin.vector_stores.text_source import TextSource

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
except ImportError:
    raise MissingExtraError(
        "bitkin.vector_stores.llama_index needs llama-index-core, which is not installed: "
        "pip install 'bitkin[llama-index]'"
    ) from None

from bitkin.vector_stores.node_filters import read_node_filters
from bitkin.vector_stores.nodes import read_node, write_node

_SHARE = 0.5
_FETCHED_PER_NODE = 4
_LEAST_FETCHED = 20


class BitkinLlamaIndexStore(BasePydanticVectorStore, Closes):
    """Nodes of LlamaIndex in a collection of bitkin, texts and metadata too.

    The name of the framework is in that of the class: a program may use the store of LangChain
    beside it, over the same collection, and tracing shows which is which.

    Parameters
    ----------
    collection : Collection, Client, path or None, default None
        Where nodes are. A path is that of a folder: what is there is opened, and else it is made
        with the first nodes. None is in memory. A `Collection` or `Client` must have strings as
        ids, and is closed by whoever made it.
    text_key : str, default "text"
        The key of a row's metadata that holds the text.
    metric : {"cosine", "l2", "ip"}, optional
        Of a collection that is made; cosine by default. A folder that is there must have it.
    n_bits : int, optional
        Bits per node of a collection that is made, 512 by default: random directions around the
        first nodes. With `Collection.replace_hasher`, 256 learned ones do as well.
    vectors : {"float16", "float32", "int8"}, optional
        How vectors are kept in a collection that is made, "float16" by default.
    fields : dict, optional
        Metadata that filters are to be quick on, in a collection that is made, such as
        `{"year": int}`: such values are refused where they are of another type.

    Notes
    -----
    Any number of threads may use a store at the same time. Async methods run in a thread.
    Similarities are the cosine, the inner product, or 1 / (1 + l2).

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> from llama_index.core.vector_stores import VectorStoreQuery
    >>> store = BitkinLlamaIndexStore(n_bits=64)
    >>> store.add([TextNode(id_="a", text="rain", embedding=[1.0, 0.0]),
    ...            TextNode(id_="b", text="sun", embedding=[0.0, 1.0])])
    ['a', 'b']
    >>> found = store.query(VectorStoreQuery(query_embedding=[0.0, 2.0], similarity_top_k=1))
    >>> found.nodes[0].text, found.similarities, found.ids
    ('sun', [1.0], ['b'])
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    _texts: TextCollection = PrivateAttr()

    def __init__(
        self,
        collection: Any = None,
        *,
        text_key: str = TEXT_KEY,
        metric: str | None = None,
        n_bits: int | None = None,
        vectors: str | None = None,
        fields: Any = None,
    ) -> None:
        super().__init__(stores_text=True)
        self._texts = TextCollection(
            collection,
            text_key=text_key,
            metric=metric,
            n_bits=n_bits,
            vectors=vectors,
            fields=fields,
            own_fields={SOURCE: "str"},  # `delete` and `doc_ids` look for it
        )

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex knows the class by."""
        return "BitkinLlamaIndexStore"

    @property
    def client(self) -> TextSource | None:
        """The `Collection` or `Client`; None until the first nodes are there."""
        return self._texts.source

    @property
    def text_key(self) -> str:
        """The key of a row's metadata that holds the text."""
        return self._texts.text_key

    def add(self, nodes: Sequence[BaseNode], **unknown: Any) -> list[str]:
        """Keep nodes, which have embeddings, and return their ids. What has one of the ids is
        replaced. On failure nothing is added.
        """
        _refuse(unknown, "add")
        for node in nodes:
            if not isinstance(node, BaseNode) or node.embedding is None:
                raise InvalidInputError(
                    f"nodes must be nodes of llama_index with an embedding, got {shown(node)}. "
                    "VectorStoreIndex embeds them."
                )
        ids = [node.node_id for node in nodes]
        if ids:
            embeddings = [node.embedding for node in nodes]
            vectors = as_vectors(embeddings, len(ids), "the embedding of nodes")
            self._texts.put(ids, [vectors], [write_node(node, self.text_key) for node in nodes])
        return ids

    def delete(self, ref_doc_id: str, **unknown: Any) -> None:
        """Remove the nodes that were cut from a document."""
        _refuse(unknown, "delete")
        self._texts.remove_matching({SOURCE: {"eq": ref_doc_id}})

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **unknown: Any,
    ) -> None:
        """Remove nodes that have one of the ids and match the filters; what is None restricts
        nothing, but one of both must be given. Unknown ids are passed over.
        """
        _refuse(unknown, "delete_nodes")
        where = read_node_filters(filters)
        if node_ids is None and where is None:
            raise InvalidInputError(
                "node_ids or filters must say which nodes to remove. Use clear for all of them."
            )
        if where is None:
            self._texts.remove(node_ids or [])
        elif node_ids is None:
            self._texts.remove_matching(where)
        else:
            self._texts.remove([row.id for row in self._texts.get(node_ids, where)])

    def get_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
    ) -> list[BaseNode]:
        """Return nodes that have one of the ids and match the filters, without embeddings: in the
        order of `node_ids`, or in the order in which they came. What is None restricts nothing.
        """
        where = read_node_filters(filters)
        rows = self._texts.find(where) if node_ids is None else self._texts.get(node_ids, where)
        return [read_node(row) for row in rows]

    def clear(self) -> None:
        """Remove all nodes. The collection stays, with its hasher."""
        self._texts.remove_matching(None)

    def query(self, query: VectorStoreQuery, **options: Any) -> VectorStoreQueryResult:
        """Return the `similarity_top_k` nodes nearest to an embedding, nearest first, with their
        similarities: those that match the filters, have one of the `node_ids`, if there are any,
        and were cut from one of the `doc_ids`.

        The mode is DEFAULT, or MMR: nodes near to the query and different from each other, all the
        more the smaller `mmr_threshold` is, from 1 to 0 (0.5 by default), out of the
        `mmr_prefetch_k` nearest; similarities are then the scores of that choice. `options` are
        those two, and `stage`, `oversample`, `first` and `probes` of `Collection.search`.
        """
        if query.mode not in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR):
            raise InvalidInputError(
                f"query.mode must be 'default' or 'mmr', got {str.__str__(query.mode)!r}: a "
                "collection searches by vectors alone."
            )
        if query.query_embedding is None:
            raise InvalidInputError(
                "query.query_embedding must be given: a collection searches by vectors."
            )
        k = whole_number(query.similarity_top_k, "query.similarity_top_k", low=1)
        if query.mode == VectorStoreQueryMode.MMR:
            return self._choose(query, k, **options)
        hits = self._hits(query, k, options)
        similarity = similarity_of(self._texts.metric)
        return VectorStoreQueryResult(
            nodes=[read_node(hit.row) for hit in hits],
            similarities=[similarity(hit.distance) for hit in hits],
            ids=[hit.row.id for hit in hits],
        )

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Do nothing: a folder and a service keep every node as it is added. A store in memory
        warns, since nothing of it is written.
        """
        if self._texts.is_in_memory:
            warn_caller(
                "a BitkinLlamaIndexStore in memory is not written by persist. Make it with the "
                "path of a folder, which keeps every node as it is added."
            )

    def close(self) -> None:
        """Close the folder that was opened or made here. A `Collection` or `Client` that was given
        stays open.
        """
        self._texts.close()

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Do as `add` does, without holding up the event loop."""
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Do as `delete` does, without holding up the event loop."""
        await asyncio.to_thread(self.delete, ref_doc_id, **delete_kwargs)

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Do as `delete_nodes` does, without holding up the event loop."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters, **delete_kwargs)

    async def aget_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
    ) -> list[BaseNode]:
        """Do as `get_nodes` does, without holding up the event loop."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    async def aclear(self) -> None:
        """Do as `clear` does, without holding up the event loop."""
        await asyncio.to_thread(self.clear)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Do as `query` does, without holding up the event loop."""
        return await asyncio.to_thread(self.query, query, **kwargs)

    def _choose(
        self,
        query: VectorStoreQuery,
        k: int,
        *,
        mmr_prefetch_k: int | None = None,
        **options: Any,
    ) -> VectorStoreQueryResult:
        """Return k nodes by maximal marginal relevance."""
        given = options.pop("mmr_threshold", query.mmr_threshold)
        share = check_share(_SHARE if given is None else given, "mmr_threshold")
        if mmr_prefetch_k is None:
            mmr_prefetch_k = max(_FETCHED_PER_NODE * k, _LEAST_FETCHED)
        fetched = max(whole_number(mmr_prefetch_k, "mmr_prefetch_k", low=1), k)
        rows = {hit.row.id: hit.row for hit in self._hits(query, fetched, options)}
        ids, vectors = self._texts.vectors(list(rows))
        places, scores = choose_diverse(np.asarray(query.query_embedding), vectors, k, share)
        chosen = [ids[place] for place in places]
        return VectorStoreQueryResult(
            nodes=[read_node(rows[id]) for id in chosen], similarities=scores, ids=chosen
        )

    def _hits(self, query: VectorStoreQuery, k: int, options: dict[str, Any]) -> list[TextHit]:
        where = read_node_filters(query.filters)
        if query.doc_ids is not None:
            of_documents = {SOURCE: {"in": list(query.doc_ids)}}
            where = of_documents if where is None else {"and": [where, of_documents]}
        # VectorStoreIndex gives an empty list where nothing is restricted
        allow = query.node_ids or None
        return self._texts.search(
            query.query_embedding, k, where=where, allow=allow, options=options
        )


def _refuse(unknown: dict[str, Any], method: str) -> None:
    for name, value in unknown.items():
        raise InvalidInputError(
            f"{method} has no argument {name}, got {shown(value)}. Leave it out."
        )
