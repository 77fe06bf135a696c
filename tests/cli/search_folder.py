"""A folder to search in, made once a module and copied for every test: what is asked changes, the
files do not.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from bitkin.__main__ import main
from tests.cli.conftest import RANDOM, Outcome

COMMANDS = (
    ("fit", "vectors.npy", "-o", "model", "--bits", "67", *RANDOM),
    ("encode", "model", "vectors.npy", "-o", "codes", "--corrections", "corrections"),
    ("index", "codes", "-o", "index"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors, queries, a model, codes, corrections for l2 and an index."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    np.save(folder / "vectors.npy", rng.standard_normal((203, 17)).astype(np.float32))
    np.save(folder / "queries.npy", rng.standard_normal((9, 17)).astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BITKIN_QUIET", "1")
        for command in COMMANDS:
            patch.setattr(sys, "argv", ["bitkin", *command])
            with pytest.raises(SystemExit) as end:
                main()
            assert not end.value.code
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of those files, to work in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def require_failure(done: Outcome, *parts: str) -> None:
    """Fail unless a command ended with one line on stderr that has these parts."""
    assert done.code == 1
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    for part in parts:
        assert part in done.err
