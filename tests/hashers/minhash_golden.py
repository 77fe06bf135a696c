"""Codes of some sets under several hashers: frozen in `minhash_golden.json`, the same on every
machine.

Also a script: `python -m tests.hashers.minhash_golden` prints them, `… --write` freezes them anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import bitkin

FILE = Path(__file__).with_name("minhash_golden.json")
NUMBERS = [
    [0],
    [2**64 - 1],
    [],
    list(range(40)),
    [5, 3, 5, 8],
    [2**63, 2**40, 7],
    list(range(0, 9000, 30)),
]
STRINGS = [["a"], ["", "b", "straße", "漢字"], [], [f"token {i}" for i in range(30)]]
TEXTS = ["to be or not to be, that is the question", "", "漢字 and 🦊s jump over the lazy dog"]
HASHERS = [
    bitkin.MinHash(16),
    bitkin.MinHash(7, bits_per_symbol=1, random_state=1),
    bitkin.MinHash(65, bits_per_symbol=16, random_state=2**64 - 1),
    bitkin.MinHash(16, method="one-permutation"),
    bitkin.MinHash(7, bits_per_symbol=1, method="one-permutation", random_state=1),
    bitkin.MinHash(65, bits_per_symbol=16, method="one-permutation", random_state=2**64 - 1),
    bitkin.MinHash(10, bits_per_symbol=32, method="independent"),
    bitkin.MinHash(9, bits_per_symbol=5, method="independent", random_state=7),
]


def golden() -> dict[str, list[str]]:
    """All codes, as hexadecimal digits."""
    found = {}
    for hasher in HASHERS:
        hasher.fit()
        codes = [
            hasher.encode(NUMBERS),
            hasher.encode(STRINGS),
            hasher.encode_texts(TEXTS, kind="chars", size=4),
        ]
        rows = bitkin.Codes.concatenate([*codes, hasher.encode_texts(TEXTS)])
        found[repr(hasher)] = [
            hasher.fingerprint_,
            *(row.tobytes().hex() for row in rows.to_bytes()),
        ]
    return found


if __name__ == "__main__":
    text = json.dumps(golden(), indent=1)
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text + "\n")
    else:
        print(text)
