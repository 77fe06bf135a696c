"""Files whose codes, corrections or lengths were altered are refused, or answer with rows that are
there: a scan by scores reads mapped bytes that nobody has verified.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import EpochIndex, FlatIndex, ProjectionHash, WTAHash
from bitkin.errors import BitkinError
from bitkin.io.reader import read_file

X = np.random.default_rng(0).standard_normal((300, 20)).astype(np.float32)
IDS = np.sort(np.random.default_rng(1).choice(1000, 300, replace=False))
N_DAMAGES = 40
BAD_NUMBERS = np.array([np.nan, np.inf, -np.inf, -1, 3e38, -3e38, 1e-45, 0], dtype=np.float32)


def hasher_for(metric: str) -> ProjectionHash:
    settings: dict[str, Any] = {"projection": "random", "rotation": None}
    return ProjectionHash(70, normalize=metric == "cosine", **settings).fit(X)


def damages(path: Path, rng: np.random.Generator) -> Any:
    """The bytes of a file with some of its data altered: every part of it in turn."""
    data = path.read_bytes()
    names = sorted(read_file(path).tensor_names)
    header = 8 + int.from_bytes(data[:8], "little")
    offsets = {name: json.loads(data[8:header])[name]["data_offsets"] for name in names}
    spans = [(header + first, header + last) for first, last in offsets.values()]
    for damage in range(N_DAMAGES):
        raw = bytearray(data)
        first, last = spans[damage % len(spans)]
        for _ in range(int(rng.integers(1, 30))):
            at = int(rng.integers(first, max(first + 1, last - 3)))
            kind = rng.integers(0, 3)
            if kind == 0:
                raw[at] ^= 1 << int(rng.integers(0, 8))
            elif kind == 1:
                at = first + (at - first) // 4 * 4
                raw[at : at + 4] = rng.choice(BAD_NUMBERS).tobytes()
            else:
                stop = min(last, at + 16)
                raw[at:stop] = rng.bytes(stop - at)
        yield bytes(raw)


def require_harmless(search: Callable[[], Any], k: int) -> bool:
    """Whether a search was refused; its answer, if not, is made of rows that are there."""
    try:
        found = search()
    except BitkinError:
        return True
    assert found.ids.shape == (2, k)
    for ids in found.ids:
        real = ids[ids >= 0]
        assert np.isin(real, IDS).all()
        assert len(np.unique(real)) == len(real)
    return False


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("mmap", [True, False])
def test_a_damaged_epoch_index_is_refused_or_finds_rows_of_its_own(
    tmp_path: Path, metric: str, mmap: bool
) -> None:
    hasher = hasher_for(metric)
    index = EpochIndex(metric=metric)
    index.add(hasher, X, ids=IDS)
    index.save(tmp_path / "whole")
    rng = np.random.default_rng(2)
    refused = 0
    for data in damages(tmp_path / "whole", rng):
        (tmp_path / "bad").write_bytes(data)

        def search() -> Any:
            loaded = EpochIndex.load(tmp_path / "bad", mmap=mmap)
            return loaded.search(X[:2], 9, first="estimate")

        refused += require_harmless(search, 9)
    # read whole, every altered byte is noticed; mapped, the model and ids are
    assert refused == N_DAMAGES if not mmap else 0 < refused < N_DAMAGES


@pytest.mark.parametrize("damaged", ["index", "corrections"])
def test_damaged_files_of_a_search_are_refused_or_find_rows_of_the_index(
    tmp_path: Path, damaged: str
) -> None:
    hasher = hasher_for("l2")
    index = FlatIndex(hasher.spec_)
    index.add(hasher.encode(X), IDS)
    files = {name: tmp_path / name for name in ("index", "corrections", "model")}
    index.save(files["index"])
    hasher.save(files["model"])
    bitkin.save_corrections(files["corrections"], hasher, X)
    np.save(tmp_path / "queries.npy", X[:2])
    np.save(tmp_path / "ids.npy", IDS)
    rng = np.random.default_rng(3)
    refused = []
    for data in damages(files[damaged], rng):
        (tmp_path / "bad").write_bytes(data)
        given = files | {damaged: tmp_path / "bad"}

        def search(given: dict[str, Path] = given) -> Any:
            return bitkin.search_files(
                given["index"],
                tmp_path / "queries.npy",
                model=given["model"],
                corrections=given["corrections"],
                ids=tmp_path / "ids.npy",
                k=9,
                first="estimate",
            )

        refused.append(require_harmless(search, 9))
    assert any(refused)
    assert not all(refused)


def test_a_damaged_index_of_winners_is_refused_or_finds_rows_of_its_own(tmp_path: Path) -> None:
    hasher = WTAHash(130, 20, alphabet_size=4).fit(X)
    index = FlatIndex(hasher.spec_)
    index.add(hasher.encode(X), IDS)
    index.save(tmp_path / "index")
    hasher.save(tmp_path / "model")
    np.save(tmp_path / "queries.npy", X[:2])
    rng = np.random.default_rng(4)
    refused = []
    for data in damages(tmp_path / "index", rng):
        (tmp_path / "bad").write_bytes(data)
        for first in ("estimate", "codes"):

            def search(first: str = first) -> Any:
                files = tmp_path / "bad", tmp_path / "queries.npy"
                return bitkin.search_files(*files, model=tmp_path / "model", k=9, first=first)

            refused.append(require_harmless(search, 9))
    assert any(refused)
    assert not all(refused)
