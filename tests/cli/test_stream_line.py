"""The line that a stream rewrites on a terminal."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import bitkin
from bitkin.cli.streaming import news


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [80, 40])
def test_the_line_on_a_terminal_fits_it(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(news, "_SECONDS_ON_A_TERMINAL", 0.0)
    X = np.random.default_rng(0).standard_normal((400, 12))
    X[7] = 0.0
    stream = bitkin.ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=0.5)
    said = news.News(as_json=False)
    for rows in np.array_split(X, 4):
        stream.partial_fit(rows)
        said.count(25_000, stream)
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[-1].startswith("100,000 vectors, ")
    assert max(map(len, lines)) < columns
    if columns == 80:
        assert "flipped" in lines[-1]
