"""Near-duplicates on a cluster: what one machine finds, whatever the partitions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import dask
import dask.bag
import numpy as np
import pandas as pd
import pytest
from dask import dataframe
from distributed import Client

from bitkin.dedup import Duplicates, find_duplicates
from bitkin.distributed import dedup
from bitkin.distributed.deduplicating.search import count_parts, stages_of
from tests.dedup.texts import related_texts

TEXTS = related_texts(203, seed=7)


def fields(found: Duplicates) -> list[Any]:
    """All but how many candidates were compared, which depends on where the texts are."""
    arrays = found.cluster_of, found.jaccard, found.like, found.like_jaccard, *found.pairs
    counts = [found.n_empty, found.n_equal, found.n_one_shingle, found.threshold, found.plan]
    return [*(array.tolist() for array in arrays), *counts, found.advice]


def cut(texts: list[str], n_partitions: int) -> list[list[str]]:
    """Parts of different sizes."""
    cuts = np.sort(np.random.default_rng(n_partitions).integers(0, len(texts), n_partitions - 1))
    return [texts[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]


def bag_of(*parts: list[Any]) -> dask.bag.Bag:
    return dask.bag.from_delayed([dask.delayed(part) for part in parts])


@pytest.mark.parametrize(
    ("threshold", "n_partitions", "pairs"),
    [(0.3, 3, "all"), (0.6, 1, "links"), (0.6, 7, "links"), (0.8, 2, "all"), (1.0, 2, "links")],
)
def test_a_bag_gives_what_one_machine_finds(
    here: Client, threshold: float, n_partitions: int, pairs: str
) -> None:
    bag = bag_of(*cut(TEXTS, n_partitions))
    found = dedup(bag, threshold, pairs=pairs, client=here)
    assert fields(found) == fields(find_duplicates(TEXTS, threshold, pairs=pairs))


def test_processes_give_what_one_machine_finds(two_workers: Client) -> None:
    texts = related_texts(401, seed=3)
    expected = find_duplicates(texts, 0.6, pairs="all")
    found = dedup(bag_of(*cut(texts, 4)), 0.6, pairs="all", client=two_workers)
    assert fields(found) == fields(expected)
    assert found.n_compared == expected.n_compared  # of all pairs, each is compared once


def test_options_are_those_of_one_machine(here: Client) -> None:
    texts = [text.upper() if i % 2 else f"{text}!" for i, text in enumerate(TEXTS[:61])]
    options: dict[str, Any] = {
        "shingle": "chars",
        "size": 5,
        "n_hashes": 65,
        "lower": True,
        "strip_punctuation": True,
        "normalize": True,
        "random_state": 3,
    }
    found = dedup(bag_of(texts[:7], texts[7:]), 0.5, client=here, **options)
    assert fields(found) == fields(find_duplicates(texts, 0.5, **options))
    assert len(found.dropped) > 10


def test_many_alike_take_few_comparisons(here: Client) -> None:
    words = [f"w{i}" for i in range(200)]
    texts = [" ".join([*words[:i], "other", *words[i + 1 :]]) for i in range(180)]
    found = dedup(bag_of(*cut(texts, 3)), 0.8, client=here)
    assert fields(found) == fields(find_duplicates(texts, 0.8))
    assert found.n_compared < 30 * len(texts)  # of 16,110 pairs


@pytest.mark.parametrize("parts", [[[]], [[], [], []], [[""], [" ", ""]], [[], ["a b c"], []]])
def test_empty_partitions_and_empty_texts_are_none_to_compare(
    here: Client, parts: list[list[str]]
) -> None:
    found = dedup(bag_of(*parts), client=here)
    assert fields(found) == fields(find_duplicates([text for part in parts for text in part]))


def test_texts_in_memory_are_sent(here: Client) -> None:
    expected = fields(find_duplicates(TEXTS, 0.6))
    assert fields(dedup(iter(TEXTS), 0.6, client=here)) == expected
    assert len(dedup([], client=here)) == 0


def test_columns_of_data_frames_and_series_are_read(here: Client) -> None:
    table = pd.DataFrame({"text": TEXTS, "body": TEXTS[::-1]})
    frame = dataframe.from_pandas(table, npartitions=3)
    expected = fields(find_duplicates(TEXTS, 0.6))
    assert fields(dedup(frame, 0.6, client=here)) == expected
    assert fields(dedup(frame["text"], 0.6, client=here)) == expected
    reverse = dedup(frame, 0.6, column="body", client=here)
    assert fields(reverse) == fields(find_duplicates(TEXTS[::-1], 0.6))


def write_shards(folder: Path, form: str) -> None:
    for number, part in enumerate(cut(TEXTS, 3)):
        table = pd.DataFrame({"body": part}, dtype="str")
        path = folder / f"shard-{number}.{form}"
        if form == "parquet":
            table.to_parquet(path)
        elif form == "csv":
            table.to_csv(path, index=False)
        else:
            lines = "".join(json.dumps({"body": text}) + "\n" for text in part)
            with gzip.open(path, "wt") if form.endswith("gz") else path.open("w") as file:
                file.write(lines)


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "csv", "parquet"])
def test_shards_of_a_folder_are_read_in_the_order_of_their_names(
    here: Client, tmp_path: Path, form: str
) -> None:
    write_shards(tmp_path, form)
    (tmp_path / "_SUCCESS").touch()
    found = dedup(tmp_path, 0.6, column="body", client=here)
    assert fields(found) == fields(find_duplicates(TEXTS, 0.6))


def test_files_are_read_in_the_order_given_and_one_may_be_empty(
    here: Client, tmp_path: Path
) -> None:
    write_shards(tmp_path, "jsonl")
    files = sorted(tmp_path.iterdir(), reverse=True)
    (tmp_path / "none.jsonl").touch()
    texts = [text for part in cut(TEXTS, 3)[::-1] for text in part]
    found = dedup([files[0], tmp_path / "none.jsonl", *files[1:]], 0.6, column="body", client=here)
    assert fields(found) == fields(find_duplicates(texts, 0.6))


def test_progress_rises_to_all_pieces(here: Client) -> None:
    seen: list[tuple[int, int]] = []
    for pairs in ("links", "all"):
        seen.clear()
        dedup(TEXTS, pairs=pairs, client=here, progress=lambda *done: seen.append(done))
        total = seen[0][1]
        assert seen == [(done, total) for done in range(1, total + 1)]


def test_short_texts_are_warned_of(here: Client) -> None:
    with pytest.warns(UserWarning, match="Most texts are short"):
        dedup(["one two", "three four"] * 20, client=here)


@pytest.mark.parametrize("n", [0, 1, 2, 25, 128])
def test_stages_hold_every_band_once_in_order(n: int) -> None:
    assert [band for stage in stages_of(n) for band in stage] == list(range(n))


@pytest.mark.parametrize(
    ("n_partitions", "n_threads", "n_parts"),
    [(1, 1, 1), (1, 64, 4), (7, 2, 3), (8, 8, 8), (300, 8, 150), (1000, 64, 50), (10**6, 8, 1)],
)
def test_there_are_as_many_parts_as_threads_and_data_are_worth(
    n_partitions: int, n_threads: int, n_parts: int
) -> None:
    assert count_parts(n_partitions, n_threads) == n_parts
