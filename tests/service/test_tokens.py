"""Tokens: read from files, and what they permit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.service import Tokens

READER, WRITER = "reader-0123456789", "writer-0123456789"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    path = tmp_path / "tokens"
    path.write_text(f"# of the service\n\nread {READER}\nwrite: {WRITER}\nread other-0123456789\n")
    path.chmod(0o600)
    return Tokens.from_file(path)


def test_a_token_permits_what_the_file_says(tokens: Tokens) -> None:
    assert tokens.access(f"Bearer {READER}") == "read"
    assert tokens.access(f"bearer  {WRITER} ") == "write"
    assert tokens.access("Bearer other-0123456789") == "read"
    for given in (None, "", "Bearer", "Bearer ", READER, f"Basic {READER}", f"Bearer {READER}x"):
        assert tokens.access(given) is None, given
    assert tokens.access("Bearer \u00fc\ud800") is None


def test_without_tokens_everything_is_permitted() -> None:
    assert Tokens().access(None) == "write"


def test_tokens_never_show_themselves(tokens: Tokens) -> None:
    assert repr(tokens) == str(tokens) == "Tokens(2 to read, 1 to write)"
    assert READER not in f"{tokens.read}{tokens.write}"


def test_what_is_said_of_a_token_is_hidden_wherever_it_stands(tokens: Tokens) -> None:
    assert tokens.hide("") == ""
    assert tokens.hide(f"a path/{READER}/{WRITER}?") == f"a path/{'*' * 17}/{'*' * 17}?"
    assert tokens.hide(f"ä{READER}{READER}\ud800") == f"ä{'*' * 34}\ud800"
    assert tokens.hide(f"cut short: {WRITER[:16]}") == f"cut short: {'*' * 16}"
    innocent = f"short: {WRITER[:15]}, other: {WRITER.upper()}, {'é' * 40}"
    assert tokens.hide(innocent) == innocent
    assert Tokens().hide(WRITER) == WRITER


def test_a_lone_token_may_write(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(WRITER + "\n")
    path.chmod(0o600)
    assert Tokens.from_file(path).access(f"Bearer {WRITER}") == "write"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no token. Make one with"),
        ("# nothing\n", "holds no token"),
        ("write short\n", "line 1: a token must have at least 16 characters of ASCII, got 5"),
        (f"\nadmin {WRITER}\n", "line 2: must be 'read TOKEN' or 'write TOKEN'"),
        (f"read {WRITER} more\n", "line 1: must be"),
        ("write üüüüüüüüüüüüüüüüüü\n", "characters of ASCII"),
        (f'write {WRITER}"\n', "no quotes and backslashes"),
    ],
)
def test_a_bad_file_is_told_without_what_it_holds(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=words) as told:
        Tokens.from_file(path)
    assert WRITER not in str(told.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="cannot be read: No such file"):
        Tokens.from_file(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(FileAccessError, match="it is not text"):
        Tokens.from_file(tmp_path / "binary")


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such modes")
def test_a_file_that_others_may_read_warns(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"write {WRITER}\n")
    path.chmod(0o644)
    with pytest.warns(UserWarning, match="can be read by others. Run: chmod 600"):
        Tokens.from_file(path)
