from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import InMemoryRecordManager, index

import bitkin
from bitkin.errors import DuplicateIdError, InvalidInputError
from bitkin.vector_stores import BitkinLangChainStore
from tests.vector_stores.embedding import N_FEATURES, WordEmbedding
from tests.vector_stores.served import served_collection

ANIMALS = ["horse", "cat", "sheep", "parrot", "goldfish"]
DEEDS = ["feed", "wash", "paint", "look after"]
TEXTS = [f"{deed} the {animal}" for deed in DEEDS for animal in ANIMALS]
ABOUT = [{"deed": deed, "animal": n} for deed in DEEDS for n in range(len(ANIMALS))]


@pytest.fixture(scope="module")
def client() -> Iterator[bitkin.Client]:
    with served_collection(N_FEATURES) as client:
        yield client


@pytest.fixture(params=["memory", "folder", "client"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, client: bitkin.Client
) -> Iterator[BitkinLangChainStore]:
    collections = {"memory": None, "folder": tmp_path / "notes", "client": client}
    n_bits = None if request.param == "client" else 64
    with BitkinLangChainStore(WordEmbedding(), collections[request.param], n_bits=n_bits) as store:
        yield store
        store.delete()


def contents(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


def distances_to(query: str) -> list[float]:
    """The cosine distance of every text, nearest first."""
    embedding = WordEmbedding()
    vectors = np.array(embedding.embed_documents(TEXTS))
    vector = np.array(embedding.embed_query(query))
    cosines = vectors @ vector / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vector)
    return sorted((1 - cosines).tolist())


def test_a_search_finds_what_is_nearest_by_the_metric(store: BitkinLangChainStore) -> None:
    store.add_texts(TEXTS, ABOUT)
    for query in ("a horse to wash", "parrot", "paint the goldfish"):
        found = store.similarity_search_with_score(query, k=7)
        assert [score for _, score in found] == pytest.approx(distances_to(query)[:7], abs=2e-3)
        assert contents(store.similarity_search(query, k=7)) == contents([one for one, _ in found])
    [best] = store.similarity_search("paint the goldfish", k=1)
    assert best.page_content == "paint the goldfish"
    assert best.metadata == {"deed": "paint", "animal": 4}


def test_sync_and_async_methods_answer_alike(store: BitkinLangChainStore) -> None:
    async def run() -> None:
        ids = await store.aadd_texts(TEXTS[:10], ABOUT[:10], ids=[f"t{n}" for n in range(10)])
        assert ids == [f"t{n}" for n in range(10)]
        assert await store.aadd_documents([Document(id="t10", page_content=TEXTS[10])]) == ["t10"]
        vector = store.embeddings.embed_query("wash")
        options: dict[str, Any] = {"k": 3, "filter": {"animal": {"$gt": 1}}}
        assert await store.asimilarity_search("wash", **options) == store.similarity_search(
            "wash", **options
        )
        assert await store.asimilarity_search_with_score(
            "wash", **options
        ) == store.similarity_search_with_score("wash", **options)
        assert await store.asimilarity_search_by_vector(
            vector, **options
        ) == store.similarity_search_by_vector(vector, **options)
        assert await store.asimilarity_search_with_relevance_scores(
            "wash", **options
        ) == store.similarity_search_with_relevance_scores("wash", **options)
        diverse = store.max_marginal_relevance_search("wash", **options)
        assert await store.amax_marginal_relevance_search("wash", **options) == diverse
        assert await store.amax_marginal_relevance_search_by_vector(vector, **options) == diverse
        assert await store.aget_by_ids(["t1", "no", "t10"]) == store.get_by_ids(["t1", "t10"])
        assert await store.adelete(["t1", "no"]) is True
        assert len(await store.aget_by_ids([f"t{n}" for n in range(11)])) == 10

    asyncio.run(run())


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"deed": "wash"}, 5),
        ({"deed": "wash", "animal": {"gte": 3}}, 2),
        ({"$and": [{"deed": {"$in": ["wash", "feed"]}}, {"animal": {"$ne": 0}}]}, 8),
        ({"text": {"contains": "horse"}}, 4),
        ({"nothing": "there"}, 0),
    ],
)
def test_filters_let_only_matching_documents_be_found(
    store: BitkinLangChainStore, given: dict[str, Any], expected: int
) -> None:
    store.add_texts(TEXTS, ABOUT)
    assert len(store.similarity_search("horse", k=20, filter=given)) == expected
    chosen = store.max_marginal_relevance_search("horse", k=20, fetch_k=20, filter=given)
    assert len(chosen) == expected


def test_relevance_scores_lie_between_0_and_1_and_thresholds_cut(
    store: BitkinLangChainStore,
) -> None:
    store.add_texts([*TEXTS, "entirely other"])
    scores = [one for _, one in store.similarity_search_with_relevance_scores("horse", k=21)]
    assert len(scores) == 21
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    retriever = store.as_retriever(
        search_type="similarity_score_threshold",
        search_kwargs={"score_threshold": scores[4], "k": 21},
    )
    assert len(retriever.invoke("horse")) == 5


def test_hits_that_differ_leave_copies_out(store: BitkinLangChainStore) -> None:
    store.add_texts(["wash the horse"] * 5 + ["wash the cat", "horse"])
    near = store.similarity_search("wash the horse", k=3)
    assert contents(near) == ["wash the horse"] * 3
    chosen = store.max_marginal_relevance_search("wash the horse", k=3, lambda_mult=0.3)
    assert len(set(contents(chosen))) == 3
    assert contents(chosen)[0] == "wash the horse"
    few = store.max_marginal_relevance_search("wash the horse", k=3, fetch_k=1, lambda_mult=1.0)
    assert contents(few) == ["wash the horse"] * 3  # at least k are fetched


def test_documents_keep_their_own_ids_and_others_get_some(store: BitkinLangChainStore) -> None:
    documents = [Document(id="mine", page_content="a"), Document(page_content="b")]
    ids = store.add_documents(documents)
    assert ids[0] == "mine"
    assert len(set(ids)) == 2
    assert store.add_documents(documents, ids=["x", "y"]) == ["x", "y"]
    assert store.add_documents(documents, ids=None)[0] == "mine"
    assert store.add_texts(["c", "d"], ids=["", "z"])[1] == "z"
    assert contents(store.get_by_ids(["y", "mine", "mine"])) == ["b", "a", "a"]


def test_nothing_is_added_where_an_id_comes_twice(store: BitkinLangChainStore) -> None:
    with pytest.raises(DuplicateIdError, match="given more than once: 'a'"):
        store.add_texts(["one", "two"], ids=["a", "a"])
    assert store.get_by_ids(["a"]) == []


def test_indexing_of_langchain_adds_skips_and_removes(store: BitkinLangChainStore) -> None:
    records = InMemoryRecordManager("notes")
    records.create_schema()
    documents = [
        Document(page_content=text, metadata={"source": about["deed"]})
        for text, about in zip(TEXTS, ABOUT, strict=True)
    ]
    options: dict[str, Any] = {
        "cleanup": "full",
        "source_id_key": "source",
        "key_encoder": "sha256",
        "batch_size": 7,
    }
    assert index(documents, records, store, **options)["num_added"] == 20
    again = index(documents[:12], records, store, **options)
    assert (again["num_added"], again["num_skipped"], again["num_deleted"]) == (0, 12, 8)
    assert len(store.similarity_search("horse", k=30)) == 12


def test_delete_without_ids_removes_everything(store: BitkinLangChainStore) -> None:
    assert store.delete() is True
    store.add_texts(TEXTS, ids=TEXTS)
    store.delete("feed the cat")
    assert store.get_by_ids(["feed the cat"]) == []
    assert store.delete() is True
    assert store.similarity_search("horse") == []
    store.add_texts(["there again"])
    assert contents(store.similarity_search("horse")) == ["there again"]


def test_threads_add_search_and_delete_at_the_same_time(store: BitkinLangChainStore) -> None:
    failures: list[Exception] = []

    def work(n: int) -> None:
        try:
            for turn in range(4):
                ids = [f"{n} {turn} {text}" for text in TEXTS]
                store.add_texts(TEXTS, ABOUT, ids=ids)
                assert store.similarity_search(TEXTS[n], k=1)[0].page_content == TEXTS[n]
                store.max_marginal_relevance_search("horse", k=3)
                store.delete(ids[1:])
        except Exception as error:  # noqa: BLE001 - shown in the thread that tests
            failures.append(error)

    store.add_texts(TEXTS, ids=TEXTS)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.collection is not None
    assert store.collection.count() == len(TEXTS) + 16


def test_a_store_over_a_client_finds_what_is_in_the_collection(client: bitkin.Client) -> None:
    store = BitkinLangChainStore(WordEmbedding(), client)
    store.add_texts(["rain"], [{"nested": {"a": [None]}, "none": None}], ids=["r/1 ä"])
    assert store.collection is client
    assert store.get_by_ids(["r/1 ä"])[0].metadata == {"nested": {"a": [None]}, "none": None}
    store.close()  # which is for whoever made the client
    assert client.count() == 1
    client.remove(["r/1 ä"])


def test_a_store_over_a_client_does_not_ask_for_all_ids(
    client: bitkin.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(client: bitkin.Client) -> None:
        raise AssertionError("all ids were asked for")

    monkeypatch.setattr(bitkin.Client, "ids", property(fail))
    BitkinLangChainStore(WordEmbedding(), client)


def test_from_texts_makes_a_folder_that_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    fields = {"animal": int}
    with BitkinLangChainStore.from_texts(
        TEXTS, WordEmbedding(), ABOUT, ids=TEXTS, collection=path, n_bits=64, fields=fields
    ) as store:
        assert isinstance(store.collection, bitkin.Collection)
        assert store.collection.fields == {"animal": "int"}
    with BitkinLangChainStore(WordEmbedding(), path) as store:
        assert contents(store.similarity_search("paint the cat", k=1)) == ["paint the cat"]
        more = Document(page_content="ride the horse", id="more")
        store.add_documents([more])
    documents = [Document(page_content="ride", id="ride")]
    with asyncio.run(
        BitkinLangChainStore.afrom_documents(documents, WordEmbedding(), collection=path)
    ) as store:
        assert [one.id for one in store.get_by_ids(["more", "ride"])] == ["more", "ride"]
    with BitkinLangChainStore.from_documents(documents, WordEmbedding(), n_bits=64) as store:
        assert [one.id for one in store.get_by_ids(["more", "ride"])] == ["ride"]


def test_a_folder_that_could_not_be_filled_can_be_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="metadata of row 0: 'day' must be"):
            BitkinLangChainStore.from_texts(
                ["a"], WordEmbedding(), [{"day": object()}], collection=path, n_bits=64
            )
    with BitkinLangChainStore(WordEmbedding(), path) as store:
        assert store.similarity_search("a") == []


def test_nothing_in_it_is_an_empty_store() -> None:
    store = BitkinLangChainStore.from_texts([], WordEmbedding())
    assert store.collection is None
    assert store.similarity_search("a") == []
    assert store.max_marginal_relevance_search("a") == []
    assert store.get_by_ids(["a"]) == []
    assert store.add_texts([]) == []
    assert store.delete(["a"]) is True


def test_texts_are_embedded_some_at_once() -> None:
    sizes = []

    class Counting(WordEmbedding):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            sizes.append(len(texts))
            return super().embed_documents(texts)

    store = BitkinLangChainStore(Counting(), n_bits=64)
    store.add_texts(iter(TEXTS), batch_size=7)
    assert sizes == [7, 7, 6]
    assert len(store.similarity_search("horse", k=30)) == 20


def test_relevance_may_be_ones_own() -> None:
    store = BitkinLangChainStore(
        WordEmbedding(), n_bits=64, relevance_score_fn=lambda distance: 0.25
    )
    store.add_texts(["a"])
    assert store.similarity_search_with_relevance_scores("a")[0][1] == 0.25


class Wrong(Embeddings):
    """An embedding that makes what is asked for."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.made  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        return self.made  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "made", [[], [[1.0]], [[1.0], [1.0, 2.0]], [[], []], None, [["a"], ["b"]], 3]
)
def test_vectors_that_are_not_one_per_text_are_refused(made: Any) -> None:
    store = BitkinLangChainStore(Wrong(made))
    with pytest.raises(InvalidInputError, match="embedding of texts must be one vector of numbers"):
        store.add_texts(["a", "b"])
    assert store.collection is None


def test_vectors_of_several_lengths_are_refused() -> None:
    class Growing(WordEmbedding):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0] * len(text) for text in texts]

    with pytest.raises(InvalidInputError, match=r"vectors of one length, got \[1, 2\]"):
        BitkinLangChainStore(Growing()).add_texts(["a", "bb"], batch_size=1)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda s: s.add_texts("abc"), "texts must be a list of texts, got one: 'abc'"),
        (lambda s: s.add_texts(["a", b"b"]), "texts must be strings, got b'b' at position 1"),
        (lambda s: s.add_texts(["a"], [{}, {}]), "metadatas must be one per text, got 2 for 1"),
        (lambda s: s.add_texts(["a"], ids=["a", "b"]), "ids must be one per text, got 2 for 1"),
        (lambda s: s.add_texts(["a"], ids=[3]), "ids must be strings"),
        (lambda s: s.add_texts(["a"], batch_size=0), "batch_size must be at least 1, got 0"),
        (lambda s: s.add_texts(["a"], upsert=True), "add_texts has no argument upsert, got True"),
        (lambda s: s.delete(where={}), "delete has no argument where"),
        (lambda s: s.delete([3]), "ids must be strings"),
        (lambda s: s.get_by_ids([3]), "ids must be strings"),
        (lambda s: s.similarity_search("a", k=0), "k must be at least 1, got 0"),
        (lambda s: s.similarity_search("a", stages="exact"), "a search takes stage, .* Did you"),
        (lambda s: s.similarity_search("a", stage="codes"), "stage must be one of 'estimate', 'ex"),
        (lambda s: s.similarity_search("a", filter=3), "filter must be a dictionary"),
        (lambda s: s.similarity_search_by_vector([1.0]), "has 1 features, but .* expecting 16"),
        (lambda s: s.similarity_search_by_vector([]), "embedding of the query must be one vector"),
        (lambda s: s.max_marginal_relevance_search("a", k=0), "k must be at least 1, got 0"),
        (lambda s: s.max_marginal_relevance_search("a", fetch_k=0), "fetch_k must be at least 1"),
        (lambda s: s.max_marginal_relevance_search("a", lambda_mult=2), "lambda_mult must be a nu"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    call: Callable[[BitkinLangChainStore], Any], words: str
) -> None:
    store = BitkinLangChainStore(WordEmbedding(), n_bits=64)
    store.add_texts(["there"])
    with pytest.raises(InvalidInputError, match=words):
        call(store)
    assert contents(store.similarity_search("there")) == ["there"]


def test_a_collection_without_vectors_cannot_choose_hits_that_differ() -> None:
    hasher = bitkin.ProjectionHash(64, projection="random", rotation=None, normalize=True)
    collection = bitkin.Collection.create(
        None, hasher.fit(np.eye(2, N_FEATURES)), metric="cosine", ids="str", vectors=None
    )
    store = BitkinLangChainStore(WordEmbedding(), collection)
    store.add_texts(TEXTS)
    assert len(store.similarity_search_with_relevance_scores("wash the horse", k=20)) == 20
    with pytest.raises(InvalidInputError, match="the collection must keep vectors, of which"):
        store.max_marginal_relevance_search("horse")


def test_an_embedding_must_be_one() -> None:
    with pytest.raises(InvalidInputError, match=r"embedding must be .* The collection comes"):
        BitkinLangChainStore("notes")  # type: ignore[arg-type]
