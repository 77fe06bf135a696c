"""LlamaIndex has no standard tests for vector stores. What its own tests show of its
`SimpleVectorStore` (llama-index-core/tests/vector_stores: test_simple, test_simple_doc_ids,
test_simple_mmr_threshold, test_metadata_filters_logic) is shown here of ours, mostly by asking
both.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import VectorIndexRetriever
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

import bitkin
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.vector_stores import BitkinLangChainStore, BitkinLlamaIndexStore
from bitkin.vector_stores.nodes import read_node, write_node
from bitkin.vector_stores.text_rows import read_row
from tests.vector_stores.embedding import N_FEATURES, WordEmbedding
from tests.vector_stores.served import served_collection

METADATA: list[dict[str, Any]] = [
    {"weight": 1.0, "rank": "a", "quality": ["medium", "high"], "identifier": "6FTR78Yun"},
    {"weight": 2.0, "rank": "c", "quality": ["medium"], "identifier": "6FTR78Ygl"},
    {"weight": 3, "rank": "c", "quality": ["low", "medium", "high"], "identifier": "6FTR78Ztl"},
    {"weight": 3.5, "rank": "", "quality": [], "identifier": None},
    {"weight": -1, "rank": "b", "quality": ["high"]},
    {},
]
SOURCES = ["test-0", "test-1", "test-2", "test-2", "test-2", None]


def some_nodes() -> list[TextNode]:
    rng = np.random.default_rng(3)
    return [
        TextNode(
            id_=f"n{n}",
            text=f"text {n}",
            embedding=rng.standard_normal(N_FEATURES).tolist(),
            metadata=metadata,
            relationships={}
            if source is None
            else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=source)},
        )
        for n, (metadata, source) in enumerate(zip(METADATA, SOURCES, strict=True))
    ]


def filters(*given: tuple[str, str, Any], condition: Any = "and") -> MetadataFilters:
    return MetadataFilters(
        filters=[
            MetadataFilter(key=key, operator=FilterOperator(operator), value=value)
            for key, operator, value in given
        ],
        condition=condition,
    )


def ask(store: Any, k: int = 10, **more: Any) -> list[str]:
    vector = some_nodes()[2].embedding
    result = store.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=k, **more))
    assert result.ids is not None
    return list(result.ids)


@pytest.fixture(scope="module")
def client() -> Iterator[bitkin.Client]:
    with served_collection(N_FEATURES) as client:
        yield client


@pytest.fixture(params=["memory", "folder", "client"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, client: bitkin.Client
) -> Iterator[BitkinLlamaIndexStore]:
    collections = {"memory": None, "folder": tmp_path / "notes", "client": client}
    n_bits = None if request.param == "client" else 64
    with BitkinLlamaIndexStore(collections[request.param], n_bits=n_bits) as store:
        yield store
        store.clear()


def stores_with_nodes() -> tuple[BitkinLlamaIndexStore, SimpleVectorStore]:
    ours, theirs = BitkinLlamaIndexStore(n_bits=64, vectors="float32"), SimpleVectorStore()
    for one in (ours, theirs):
        one.add(some_nodes())
    return ours, theirs


def test_a_query_returns_nodes_ids_and_similarities_nearest_first(
    store: BitkinLlamaIndexStore,
) -> None:
    simple = SimpleVectorStore()
    for one in (store, simple):
        assert one.add(some_nodes()) == [f"n{n}" for n in range(6)]
    query = VectorStoreQuery(query_embedding=some_nodes()[2].embedding, similarity_top_k=4)
    ours, theirs = store.query(query), simple.query(query)
    assert ours.ids == theirs.ids
    assert ours.similarities == pytest.approx(theirs.similarities, abs=2e-3)
    assert ours.nodes is not None
    assert [node.node_id for node in ours.nodes] == ours.ids
    assert isinstance(ours.nodes[0], TextNode)
    assert ours.nodes[0].text == "text 2"
    assert ours.nodes[0].metadata == METADATA[2]
    assert ours.nodes[0].ref_doc_id == "test-2"
    assert asyncio.run(store.aquery(query)) == ours


FILTERS = [
    filters(("rank", "==", "c")),
    filters(("rank", "==", "c"), ("weight", "==", 2.0)),
    filters(("weight", "==", 2), ("weight", "==", 3)),
    filters(("unknown", "==", "c")),
    filters(("rank", "!=", "a")),
    filters(("unknown", "!=", "c")),
    filters(("weight", "!=", 3.0)),
    filters(("weight", ">", 1.5)),
    filters(("weight", ">=", 2)),
    filters(("weight", "<", 1.1)),
    filters(("weight", "<=", 1.0)),
    filters(("rank", ">", "a")),
    filters(("rank", "in", ["a", "b"])),
    filters(("weight", "in", [1, 2])),
    filters(("rank", "in", [])),
    filters(("rank", "nin", ["c"])),
    filters(("unknown", "nin", ["c"])),
    filters(("rank", "nin", [])),
    filters(("quality", "contains", "high")),
    filters(("identifier", "contains", "78Y")),
    filters(("identifier", "text_match", "6FTR78Y")),
    filters(("quality", "any", ["low", "high"])),
    filters(("quality", "any", [])),
    filters(("quality", "all", ["medium", "high"])),
    filters(("identifier", "all", ["6F", "un"])),
    filters(("identifier", "any", ["un", "gl"])),
    filters(("quality", "is_empty", None)),
    filters(("rank", "is_empty", None)),
    filters(("identifier", "is_empty", None)),
    filters(("rank", "==", "c"), ("weight", "==", 1.0), condition="or"),
    filters(("rank", "==", "a"), ("weight", ">", 3), condition="not"),
    filters(("rank", "!=", "c"), condition="not"),
    filters(("rank", "==", "c"), ("weight", ">=", 3), condition=None),
    filters(("ref_doc_id", "==", "test-2")),
    filters(("doc_id", "in", ["test-0", "test-1"])),
    filters(("document_id", "!=", "test-2")),
    filters(),
    filters(condition="not"),
]


def test_filters_match_what_they_match_in_llama_index() -> None:
    ours, theirs = stores_with_nodes()
    for given in FILTERS:
        for k in (1, 10):
            assert ask(ours, k, filters=given) == ask(theirs, k, filters=given), given
        nodes = ours.get_nodes(filters=given)
        assert {node.node_id for node in nodes} == set(ask(ours, filters=given))


def test_filters_may_be_nested() -> None:
    store, _ = stores_with_nodes()
    inner = filters(("rank", "==", "a"), ("weight", ">", 3), condition="or")
    outer = MetadataFilters(filters=[inner, *filters(("weight", "<", 3.2)).filters])
    assert ask(store, filters=outer) == ["n0"]
    neither = MetadataFilters(filters=[inner], condition=FilterCondition.NOT)
    assert set(ask(store, filters=neither)) == {"n1", "n2", "n4", "n5"}


def test_a_nodes_own_doc_id_comes_before_that_of_its_source(store: BitkinLlamaIndexStore) -> None:
    nodes = some_nodes()
    nodes[0].metadata = {"doc_id": "test-2"}
    nodes[2].metadata = {"doc_id": "mine", "_ref_doc_id": "mine too"}
    store.add(nodes)
    assert set(ask(store, filters=filters(("doc_id", "==", "test-2")))) == {"n0", "n3", "n4"}
    assert set(ask(store, filters=filters(("doc_id", "!=", "test-2")))) == {"n1", "n2", "n5"}
    assert store.get_nodes(["n2"])[0].metadata == nodes[2].metadata
    assert store.get_nodes(["n2"])[0].ref_doc_id == "test-2"


def test_ids_of_nodes_and_documents_restrict_what_is_found(store: BitkinLlamaIndexStore) -> None:
    store.add(some_nodes())
    assert set(ask(store, node_ids=["n1", "n4", "unknown"])) == {"n1", "n4"}
    assert set(ask(store, doc_ids=["test-2", "unknown"])) == {"n2", "n3", "n4"}
    assert ask(store, doc_ids=["unknown"]) == []
    assert ask(store, doc_ids=[]) == []
    assert len(ask(store, node_ids=[])) == 6  # as an index says that nothing is restricted
    heavy = filters(("weight", ">=", 3))
    assert ask(store, doc_ids=["test-2"], node_ids=["n1", "n3", "n4"], filters=heavy) == ["n3"]
    assert ask(store, 1, doc_ids=["test-2"], filters=heavy) == ["n2"]


@pytest.mark.parametrize(
    "asked, options, expected",
    [
        (0.0, {}, ["a", "c"]),
        (0.25, {}, ["a", "c"]),
        (1.0, {}, ["a", "b"]),
        (None, {}, ["a", "b"]),
        (None, {"mmr_threshold": 0.0}, ["a", "c"]),
        (1.0, {"mmr_threshold": 0.0}, ["a", "c"]),
        (0.0, {"mmr_threshold": 1.0}, ["a", "b"]),
        (0.0, {"mmr_threshold": None}, ["a", "b"]),
        (0.0, {"mmr_prefetch_k": 2}, ["a", "b"]),
    ],
)
def test_a_threshold_says_how_much_chosen_nodes_differ(
    asked: float | None, options: dict[str, Any], expected: list[str]
) -> None:
    vectors = {"a": [1.0, 0.0], "b": [1.0, 0.0], "c": [0.0, 1.0]}
    store = BitkinLlamaIndexStore(n_bits=64)
    store.add([TextNode(id_=name, embedding=vector) for name, vector in vectors.items()])
    query = VectorStoreQuery(
        query_embedding=[1.0, 0.0],
        similarity_top_k=2,
        mode=VectorStoreQueryMode.MMR,
        mmr_threshold=asked,
    )
    found = store.query(query, **options)
    assert found.ids == expected
    assert found.nodes is not None
    assert [node.node_id for node in found.nodes] == expected


def test_nodes_that_differ_are_those_that_llama_index_would_choose() -> None:
    ours, theirs = stores_with_nodes()
    query = VectorStoreQuery(
        query_embedding=np.random.default_rng(5).standard_normal(N_FEATURES).tolist(),
        similarity_top_k=2,  # of more, theirs looks at the last one chosen alone
        mode=VectorStoreQueryMode.MMR,
        filters=filters(("weight", ">", -5)),
    )
    for share in (0.2, 0.5, 0.8):
        mine, truth = (
            ours.query(query, mmr_threshold=share),
            theirs.query(query, mmr_threshold=share),
        )
        assert mine.ids == truth.ids
        assert mine.similarities == pytest.approx(truth.similarities, abs=1e-5)


def test_nodes_are_removed_by_document_by_id_and_by_filter(store: BitkinLlamaIndexStore) -> None:
    def left() -> set[str]:
        return {node.node_id for node in store.get_nodes()}

    store.add(some_nodes())
    store.delete("test-1")
    store.delete("unknown")
    assert left() == {"n0", "n2", "n3", "n4", "n5"}
    store.delete_nodes(["n0", "unknown", "n0"])
    store.delete_nodes(filters=filters(("weight", "==", 3.5)))
    assert left() == {"n2", "n4", "n5"}
    store.delete_nodes(["n2", "n5"], filters(("rank", "==", "c")))
    assert left() == {"n4", "n5"}
    with pytest.raises(
        InvalidInputError, match="node_ids or filters must say which nodes to remove"
    ):
        store.delete_nodes()
    store.clear()
    assert left() == set()
    assert ask(store) == []
    store.add(some_nodes())
    assert len(left()) == 6


def test_async_methods_do_as_sync_ones_do(store: BitkinLlamaIndexStore) -> None:
    async def run() -> None:
        assert await store.async_add(some_nodes()) == [f"n{n}" for n in range(6)]
        await store.adelete("test-0")
        await store.adelete_nodes(["n1"])
        await store.adelete_nodes(filters=filters(("weight", "==", 3)))
        assert await store.aget_nodes() == store.get_nodes()
        assert [node.node_id for node in await store.aget_nodes(["n5", "n1", "n3"])] == ["n5", "n3"]
        assert await store.aget_nodes(["n5", "n3"], filters(("weight", ">", 3))) == (
            store.get_nodes(["n3"])
        )
        await store.aclear()
        assert await store.aget_nodes() == []

    asyncio.run(run())


def test_a_node_that_is_there_is_replaced(store: BitkinLlamaIndexStore) -> None:
    store.add(some_nodes())
    [node] = store.get_nodes(["n1"])
    node.set_content("other")
    node.embedding = some_nodes()[2].embedding
    store.add([node])
    assert store.get_nodes(["n1"])[0].get_content() == "other"
    assert len(store.get_nodes()) == 6


NODES: list[BaseNode] = [
    TextNode(text="a\0b", metadata={"none": None, "deep": {"a": [1, {"b": None}]}, "nan": []}),
    TextNode(
        text="t",
        metadata={"a": 1, "text": "mine"},
        excluded_llm_metadata_keys=["a"],
        excluded_embed_metadata_keys=["a", "text"],
        metadata_template="{key}={value}",
        metadata_separator=" / ",
        text_template="{content}",
        start_char_idx=3,
        end_char_idx=4,
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc", metadata={"x": [None]}),
            NodeRelationship.CHILD: [RelatedNodeInfo(node_id="c1"), RelatedNodeInfo(node_id="c2")],
        },
    ),
    Node(
        text_resource=MediaResource(text="hi", mimetype="text/markdown"),
        image_resource=MediaResource(path=Path("a.png")),
        metadata={"a": 1},  # type: ignore[call-arg]
    ),
    Node(metadata={"a": 1}),  # type: ignore[call-arg]
    Document(text="whole", metadata={"file": "x.txt"}),
    ImageNode(text="t", image_path="x.png"),
    IndexNode(text="t", index_id="q"),
    IndexNode(text="t", index_id="q", obj=TextNode(text="inner")),
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_a_node_comes_back_as_it_was(node: BaseNode) -> None:
    store = BitkinLlamaIndexStore(n_bits=64)
    store.add([node.model_copy(update={"embedding": [1.0, 2.0]})])
    [back] = store.get_nodes()
    assert type(back) is type(node)
    assert back == node
    assert back.get_content() == node.get_content()


def test_nodes_of_other_classes_come_back_as_those_that_hold_the_same() -> None:
    class Mine(TextNode):
        @classmethod
        def class_name(cls) -> str:
            return "Mine"

    image = ImageDocument(text="t", image="aGk=", metadata={"a": 1})
    mine = Mine(text="t", metadata={"a": 1})  # type: ignore[call-arg]
    for node, kind in ((mine, TextNode), (image, Document)):
        back = read_node(read_row(node.node_id, write_node(node, "text"), "text"))
        assert type(back) is kind
        assert (back.node_id, back.get_content(), back.metadata) == (node.node_id, "t", {"a": 1})


@pytest.mark.parametrize("written", ["{", "[]", '{"id_": "a"}', 3])
def test_what_somebody_else_wrote_of_a_node_is_refused(written: Any) -> None:
    row = read_row("a", {"text": "rain", "_node": written}, "text")
    with pytest.raises(CorruptFileError, match="the row 'a' must have what bitkin wrote of a node"):
        read_node(row)


def test_one_collection_serves_both_frameworks(store: BitkinLlamaIndexStore) -> None:
    store.add(some_nodes())
    langchain = BitkinLangChainStore(WordEmbedding(), store.client)
    [document] = langchain.get_by_ids(["n3"])
    assert (document.page_content, document.metadata) == ("text 3", METADATA[3])
    langchain.add_texts(["of LangChain"], [{"page": 3, "none": None}], ids=["lc"])
    [node] = store.get_nodes(["lc"])
    assert isinstance(node, TextNode)
    assert (node.node_id, node.text) == ("lc", "of LangChain")
    assert node.metadata == {"page": 3, "none": None}


class WordModel(MockEmbedding):
    """An embedding without a model: texts that share words are near each other."""

    def _vector(self, text: str) -> list[float]:
        vectors = [
            np.random.default_rng(zlib.crc32(word.encode())).standard_normal(self.embed_dim)
            for word in text.lower().split()
        ]
        return [float(number) for number in np.sum(vectors, axis=0)]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)


def test_an_index_adds_retrieves_updates_and_deletes(store: BitkinLlamaIndexStore) -> None:
    documents = [
        Document(id_=f"d{n}", text=f"{deed} the {animal}", metadata={"animal": animal, "n": n})
        for n, (deed, animal) in enumerate([("feed", "cat"), ("wash", "cat"), ("feed", "horse")])
    ]
    model = WordModel(embed_dim=N_FEATURES)
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(documents, storage_context=context, embed_model=model)
    [best] = index.as_retriever(similarity_top_k=1).retrieve("wash cat")
    assert best.node.ref_doc_id == "d1"
    assert best.node.metadata == {"animal": "cat", "n": 1}
    cats = index.as_retriever(filters=filters(("animal", "==", "cat")), similarity_top_k=5)
    assert [found.node.ref_doc_id for found in cats.retrieve("feed cat")] == ["d0", "d1"]
    found = asyncio.run(cats.aretrieve("feed cat"))
    assert [one.node.ref_doc_id for one in found] == ["d0", "d1"]
    diverse = index.as_retriever(vector_store_query_mode="mmr", similarity_top_k=2)
    assert len(diverse.retrieve("cat")) == 2
    of_one = index.as_retriever(doc_ids=["d2"], similarity_top_k=5)
    assert [one.node.ref_doc_id for one in of_one.retrieve("cat")] == ["d2"]

    index.delete_ref_doc("d0")
    index.update_ref_doc(Document(id_="d1", text="ride the horse"))
    index.insert(Document(id_="d3", text="paint the sheep"))
    contents = {node.ref_doc_id: node.get_content() for node in store.get_nodes()}
    assert contents == {
        "d1": "ride the horse",
        "d2": "feed the horse",
        "d3": "paint the sheep",
    }
    index.delete_nodes([index.as_retriever(similarity_top_k=1).retrieve("sheep")[0].node.node_id])
    again = VectorStoreIndex.from_vector_store(store, embed_model=model)
    assert len(again.as_retriever(similarity_top_k=5).retrieve("horse")) == 2


def test_texts_are_found_beside_nodes_of_an_index() -> None:
    store = BitkinLlamaIndexStore(n_bits=64)
    nodes = [TextNode(id_="t", text="a cat"), IndexNode(id_="i", text="a dog", index_id="q")]
    context = StorageContext.from_defaults(vector_store=store)
    model = WordModel(embed_dim=N_FEATURES)
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=model)
    # as_retriever would restrict it to the nodes that are not texts alone
    retriever = VectorIndexRetriever(index, similarity_top_k=2)
    assert [one.node.node_id for one in retriever.retrieve("cat")] == ["t", "i"]


def test_a_pipeline_fills_a_store(tmp_path: Path) -> None:
    text = " ".join(f"Sentence {n} speaks of cats." for n in range(40))
    with BitkinLlamaIndexStore(tmp_path / "notes", n_bits=64, fields={"page": int}) as store:
        pipeline = IngestionPipeline(
            transformations=[
                SentenceSplitter(chunk_size=64, chunk_overlap=0),
                WordModel(embed_dim=N_FEATURES),
            ],
            vector_store=store,
        )
        nodes = pipeline.run(documents=[Document(id_="d", text=text, metadata={"page": 7})])
        assert len(nodes) > 3
        assert isinstance(store.client, bitkin.Collection)
        assert store.client.fields == {"page": "int", "_ref_doc_id": "str"}
        assert store.client.count({"page": 7, "_ref_doc_id": "d"}) == len(nodes)
    with BitkinLlamaIndexStore(tmp_path / "notes") as store:
        assert "".join(node.get_content() for node in store.get_nodes()).count("cats") == 40


def test_a_store_in_memory_says_that_persist_writes_nothing(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="in memory is not written by persist"):
        BitkinLlamaIndexStore().persist("anywhere")
    with BitkinLlamaIndexStore(tmp_path / "notes", n_bits=64) as store:
        store.persist("anywhere")
        store.add(some_nodes())
        store.persist("anywhere")


def test_a_store_tells_its_name_and_nothing_of_what_is_in_it() -> None:
    store = BitkinLlamaIndexStore(n_bits=64)
    assert store.class_name() == "BitkinLlamaIndexStore"
    assert store.stores_text
    assert store.client is None
    assert json.loads(store.to_json())["class_name"] == "BitkinLlamaIndexStore"


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda s: s.add([TextNode(text="t")]), "nodes must be nodes of llama_index with an embed"),
        (lambda s: s.add(["t"]), "nodes must be nodes of llama_index with an embedding, got 't'"),
        (lambda s: s.add([TextNode(embedding=[1.0])]), "has 1 features, but .* expecting 16"),
        (lambda s: s.add([], batch=3), "add has no argument batch, got 3"),
        (lambda s: s.delete("a", hard=True), "delete has no argument hard"),
        (lambda s: s.delete(3.5j), r"where: eq must have .* got 3.5j"),
        (lambda s: s.delete_nodes(["a"], hard=True), "delete_nodes has no argument hard"),
        (lambda s: s.get_nodes(filters={"a": 1}), "filters must be MetadataFilters of llama_index"),
        (lambda s: s.query(VectorStoreQuery()), "query.query_embedding must be given"),
        (lambda s: ask(s, 0), "query.similarity_top_k must be at least 1, got 0"),
        (lambda s: ask(s, mode=VectorStoreQueryMode.HYBRID), "query.mode must be .* got 'hybrid'"),
        (lambda s: ask(s, mode="sparse"), "query.mode must be .* got 'sparse'"),
        (lambda s: ask(s, mode="mmr", mmr_threshold=2), "mmr_threshold must be a number from 0"),
        (lambda s: s.query(VectorStoreQuery(query_embedding=[1.0]), k=3), "a search takes stage, "),
        (
            lambda s: ask(s, filters=filters(("a", "text_match_insensitive", "x"))),
            "got 'text_match_insensitive' for 'a'. Upper and lower case differ here: use text_m",
        ),
        (
            lambda s: ask(s, filters=filters(("a", "==", None))),
            "filters must compare with a value, got '==' None for 'a'. Missing values are found by",
        ),
        (lambda s: ask(s, filters=filters(("a", "in", "x"))), "filters must have a list for 'in'"),
        (lambda s: ask(s, filters=filters(("a", "==", ["x"]))), "filters: eq must have a bool, a"),
        (
            lambda s: ask(s, filters=filters(("not", "==", "x"))),
            "filters must not name the key 'not'",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(
    call: Callable[[BitkinLlamaIndexStore], Any], words: str
) -> None:
    store = BitkinLlamaIndexStore(n_bits=64)
    store.add(some_nodes())
    with pytest.raises(InvalidInputError, match=words):
        call(store)
    assert len(store.get_nodes()) == 6
