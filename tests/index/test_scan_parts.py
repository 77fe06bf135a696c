"""Scans cut for the thread pool: every block of every stretch in one part, and in equal shares."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import bitkin
from bitkin.index import scan_parts


class Blocks(NamedTuple):
    """A stretch with nothing in it but where it begins and ends."""

    name: str
    first: int
    last: int


def test_stretches_that_begin_later_are_cut_into_equal_shares(
    few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_parts, "_WORDS_PER_PART", 1)
    stretches = [Blocks("a", 5, 12), Blocks("b", 0, 3), Blocks("c", 100, 110)]
    every = [(s.name, block) for s in stretches for block in range(s.first, s.last)]
    for n_threads in (2, 3, 4):
        bitkin.set_threads(n_threads)
        parts = scan_parts.cut_scan(stretches, 1, 1, 8)
        shares = [
            [(s.name, block) for s in part.stretches for block in range(s.first, s.last)]
            for part in parts
        ]
        assert [block for share in shares for block in share] == every
        assert {len(share) for share in shares} <= {20 // n_threads, -(-20 // n_threads)}
