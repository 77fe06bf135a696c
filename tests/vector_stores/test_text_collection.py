"""What is behind the stores: collections that are given, opened, or made."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.vector_stores.text_collection import TextCollection
from bitkin.vector_stores.text_rows import write_row

HASHER = bitkin.ProjectionHash(64, projection="random", rotation=None, normalize=True)
HASHER.fit(np.eye(2, 8, dtype=np.float32))


def opened(collection: Any = None, **settings: Any) -> TextCollection:
    wanted = {"metric": None, "n_bits": None, "vectors": None, "fields": None, "text_key": "text"}
    return TextCollection(collection, **{**wanted, **settings})


def put(texts: TextCollection, vectors: Any, names: list[str] | None = None) -> list[str]:
    rows = np.asarray(vectors, dtype=np.float32)
    ids = [str(n) for n in range(len(rows))] if names is None else names
    texts.put(ids, [rows], [write_row(f"text {name}", {}, "text") for name in ids])
    return ids


def test_a_collection_is_made_for_the_first_texts() -> None:
    texts = opened(n_bits=None)
    assert texts.is_in_memory
    put(texts, np.random.default_rng(0).standard_normal((7, 8)))
    assert isinstance(texts.source, bitkin.Collection)
    about = texts.source.stats()
    assert texts.source.hasher.spec_.n_symbols == 512
    assert {name: about[name] for name in ("metric", "vectors", "ids", "oversample", "stage")} == {
        "metric": "cosine",
        "vectors": "float16",
        "ids": "str",
        "oversample": 50,
        "stage": "exact",
    }
    assert about["index"] == "FlatIndex"


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_few_first_texts_are_enough_for_vectors_all_on_one_side(metric: str) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((2000, 48)).astype(np.float32) * np.linspace(2, 0.2, 48)
    vectors += 4 * np.sign(rng.standard_normal(48))
    texts = opened(n_bits=128, metric=metric)
    put(texts, vectors[:5])
    put(texts, vectors)
    queries = vectors[:50] + 0.3 * rng.standard_normal((50, 48))
    truth = bitkin.evaluate.nearest(vectors, queries, 4, metric=metric)
    found = [[int(hit.row.id) for hit in texts.search(query, 4)] for query in queries]
    assert bitkin.evaluate.recall(np.array(found), truth.ids) > 0.97


def test_threads_that_add_the_first_texts_make_one_collection() -> None:
    texts = opened(n_bits=64)
    barrier = threading.Barrier(8)

    def add(n: int) -> None:
        barrier.wait()
        put(texts, np.eye(1, 8), [str(n)])

    threads = [threading.Thread(target=add, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts.source is not None
    assert texts.source.count() == 8


def test_a_folder_is_made_once_and_opened_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "notes"
    texts = opened(str(path), n_bits=64, metric="l2", vectors="int8")
    assert not texts.is_in_memory
    assert not path.exists()  # before the first texts
    put(texts, np.eye(3, 8))
    with pytest.raises(FileAccessError, match="open for writing already"):
        opened(path)
    texts.close()
    texts.close()
    again = opened(path)
    assert again.metric == "l2"
    assert not again.is_in_memory
    assert again.search(np.eye(1, 8)[0], 1)[0].row.text == "text 0"
    again.close()
    with pytest.raises(InvalidInputError, match="metric must be 'l2', which the collection has"):
        opened(path, metric="cosine")
    bitkin.Collection.open(path).close()  # which that has let go of


def test_a_folder_of_something_else_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "file.txt"):
        with pytest.raises(FileAccessError, match="is there already and holds no collection"):
            opened(path)
    (tmp_path / "empty").mkdir()
    texts = opened(tmp_path / "empty", n_bits=64)
    put(texts, np.eye(1, 8))
    texts.close()


def test_a_collection_that_is_given_stays_open() -> None:
    collection = bitkin.Collection.create(None, HASHER, metric="cosine", ids="str")
    texts = opened(collection)
    put(texts, np.eye(3, 8))
    texts.close()
    assert collection.count() == 3


def test_ids_that_are_not_there_are_passed_over() -> None:
    texts = opened(n_bits=64)
    put(texts, np.eye(7, 8))
    wanted = ["9", "3", "x", "3", "y", "0", "z"]
    assert [row.id for row in texts.get(wanted)] == ["3", "3", "0"]
    ids, vectors = texts.vectors(wanted)
    assert ids == ["3", "3", "0"]
    assert vectors.tolist() == np.eye(7, 8)[[3, 3, 0]].tolist()
    texts.remove(wanted)
    assert [row.id for row in texts.find(None)] == ["1", "2", "4", "5", "6"]
    assert texts.get([]) == []
    texts.remove([])


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"text_key": ""}, "text_key must be a name"),
        ({"metric": "dot"}, "metric must be one of"),
        ({"n_bits": 0}, "n_bits must be at least 1"),
        ({"vectors": "csr"}, "vectors must be one of 'float32', 'float16', 'int8'"),
        ({"fields": {"year": "date"}}, r"fields\['year'\] must be one of"),
        ({"fields": {"_node": str}}, "fields must not be called '_node'"),
    ],
)
def test_settings_that_no_collection_can_have_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        opened(**settings)


def test_a_collection_that_holds_no_texts_is_refused() -> None:
    def made(hasher: Any, **settings: Any) -> bitkin.Collection:
        return bitkin.Collection.create(None, hasher, **settings)

    refused: list[tuple[Any, str]] = [
        (5, "collection must be a bitkin.Collection, a bitkin.Client, the path of a folder, or"),
        (made(HASHER), "collection must have strings as ids, .* got one with ids='int'"),
        (
            made(bitkin.MinHash(8).fit(), vectors=None, ids="str"),
            "must measure or estimate distances, got one whose searches end with codes",
        ),
        (
            bitkin.AsyncClient("http://localhost:1"),
            "collection must be a bitkin.Client, got a AsyncClient",
        ),
    ]
    for collection, words in refused:
        with pytest.raises(InvalidInputError, match=words):
            opened(collection)
    with pytest.raises(InvalidInputError, match="n_bits must be left out where a collection is"):
        opened(made(HASHER, ids="str"), n_bits=64)


@pytest.mark.parametrize(
    "module, package, extra",
    [
        ("langchain", "langchain_core", "langchain"),
        ("llama_index", "llama_index", "llama-index"),
    ],
)
def test_a_framework_that_is_not_installed_is_told_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str
) -> None:
    from bitkin import vector_stores

    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith("bitkin.vector_stores.")]:
        monkeypatch.delitem(sys.modules, name)
    name = {"langchain": "BitkinLangChainStore", "llama_index": "BitkinLlamaIndexStore"}[module]
    monkeypatch.delitem(vars(vector_stores), name, raising=False)
    with pytest.raises(bitkin.errors.MissingExtraError, match=rf"pip install 'bitkin\[{extra}\]'"):
        getattr(vector_stores, name)


def test_no_framework_is_loaded_before_its_store_is() -> None:
    code = """
import sys, bitkin
bitkin.vector_stores, dir(bitkin.vector_stores)
assert not {"langchain_core", "llama_index"} & set(sys.modules)
bitkin.vector_stores.BitkinLangChainStore
assert "langchain_core" in sys.modules and "llama_index" not in sys.modules
try:
    bitkin.vector_stores.Store
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'bitkin.vector_stores' has no attribute 'Store'\n"
