from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bitkin
from bitkin.index.rows.growth import MOST_SEGMENTS
from tests.truth import random_codes


@pytest.mark.parametrize("name", ["MultiIndex", "BandIndex"])
def test_mapped_files_stay_mapped_however_many_there_are(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    index, scan = (getattr(bitkin, one)(bitkin.CodeSpec(40)) for one in (name, "FlatIndex"))
    for number in range(MOST_SEGMENTS + 2):
        part = bitkin.FlatIndex(index.spec)
        part.add(
            random_codes(rng, 5000 * (number + 1), 40),
            10**6 * number + np.arange(5000 * (number + 1)),
        )
        part.save(tmp_path / str(number))
        mapped = bitkin.FlatIndex.load(tmp_path / str(number))
        index.merge(mapped)
        scan.merge(mapped)
    more = random_codes(rng, 7, 40)
    ids = index.add(more)
    scan.add(more)
    assert (
        sum(segment.source is not None for segment in index.snapshot.segments) == MOST_SEGMENTS + 2
    )
    assert index.search(more, k=1).ids[:, 0].tolist() == ids.tolist()
    assert len(index) == len(scan)
    if name == "MultiIndex":
        assert np.array_equal(index.search(more, k=20).ids, scan.search(more, k=20).ids)


def test_many_segments_in_memory_become_one() -> None:
    index = bitkin.MultiIndex(bitkin.CodeSpec(20))
    rng = np.random.default_rng(0)
    for first in range(2 * MOST_SEGMENTS + 3, 0, -1):
        index.add(random_codes(rng, 3000, 20), 10**5 * first + np.arange(3000))
    assert len(index.snapshot.segments) <= MOST_SEGMENTS
    assert len(index) == 3000 * (2 * MOST_SEGMENTS + 3)
