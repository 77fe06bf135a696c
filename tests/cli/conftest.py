from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bitkin.__main__ import main


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Every line of stdout, each one JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Outcome]
RANDOM = ("--projection", "random", "--rotation", "none")  # takes more bits than features


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the whole program in this process."""
    monkeypatch.setenv("BITKIN_QUIET", "1")  # nothing about a first compilation on stderr

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["bitkin", *map(str, arguments)])
        capfd.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        out, err = capfd.readouterr()
        return Outcome(code or 0, out, err)

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """A folder to work in, with vectors, a model, codes and an index of them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("vectors.npy", rng.standard_normal((203, 17)).astype(np.float32))
    np.save("queries.npy", rng.standard_normal((9, 17)).astype(np.float32))
    assert run("fit", "vectors.npy", "-o", "model", "--bits", 67, *RANDOM).code == 0
    assert run("encode", "model", "vectors.npy", "-o", "codes").code == 0
    assert run("index", "codes", "-o", "index").code == 0
    return tmp_path
