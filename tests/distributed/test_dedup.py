"""Near-duplicates on a cluster: what one machine finds, whatever the partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dask.bag
import numpy as np
import pandas as pd
import pytest
from dask import dataframe
from distributed import Client

import bitkin
from bitkin.dedup import Duplicates, find_duplicates
from bitkin.distributed import dedup
from bitkin.errors import ArgumentError, ClusterError, FileAccessError, InvalidInputError
from tests.dedup.texts import related_texts


def fields(found: Duplicates) -> list[Any]:
    """All but how many candidates were compared, which depends on where the texts are."""
    arrays = found.cluster_of, found.jaccard, found.like, found.like_jaccard, *found.pairs
    counts = [found.n_empty, found.n_equal, found.n_one_shingle, found.threshold, found.plan]
    return [*(array.tolist() for array in arrays), *counts, found.advice]


def bag_of(texts: list[str], n_partitions: int) -> dask.bag.Bag:
    """A bag of partitions of different sizes, some of them empty."""
    cuts = np.sort(np.random.default_rng(n_partitions).integers(0, len(texts), n_partitions - 1))
    parts = [texts[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]
    return dask.bag.from_delayed([dask.delayed(part) for part in parts])


@pytest.mark.parametrize("pairs", ["links", "all"])
@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.8, 1.0])
def test_a_bag_gives_what_one_machine_finds(here: Client, threshold: float, pairs: str) -> None:
    texts = related_texts(203, seed=7)
    found = dedup(bag_of(texts, 5), threshold, pairs=pairs, client=here)
    assert fields(found) == fields(find_duplicates(texts, threshold, pairs=pairs))


def test_processes_give_what_one_machine_finds(two_workers: Client) -> None:
    texts = related_texts(1001, seed=3)
    for pairs in ("links", "all"):
        expected = find_duplicates(texts, 0.6, pairs=pairs)
        found = dedup(bag_of(texts, 7), 0.6, pairs=pairs, client=two_workers)
        assert fields(found) == fields(expected)
    assert found.n_compared == expected.n_compared  # of all pairs, each is compared once
