from __future__ import annotations

import builtins
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import Taxonomy
from bitkin.errors import InvalidInputError, MissingExtraError
from tests.learn.trees import path_lists

WIDE = Taxonomy.from_paths(
    [
        (f"part {i}", f"{i}.{j}", f"{i}.{j}.{k}")
        for i in range(9)
        for j in range(i + 1)
        for k in range(j)
    ]
)


def test_a_small_tree_is_drawn_whole_and_copies_are_not() -> None:
    tree = Taxonomy.from_paths(
        [("life", "plant"), ("life", "plant", "moss"), ("life", "cat"), ("life", "a\nb")]
    )
    assert str(tree).splitlines() == [
        "life",
        "├── plant",
        "│   ├── (itself)",
        "│   └── moss",
        "├── cat",
        "└── 'a\\nb'",
    ]


def test_a_large_tree_is_cut_with_counts() -> None:
    tree = Taxonomy.from_paths(
        [("r", "big", number) for number in range(1000)] + [("r", "small", "a", "b")]
    )
    assert tree.to_text(max_lines=8).splitlines() == [
        "r",
        "├── big",
        "│   ├── 0",
        "│   ├── 1",
        "│   ├── 2",
        "│   └── … 997 more",
        "└── small",
        "    └── a (1 class)",
    ]
    assert tree.to_text(max_lines=4).splitlines() == [
        "r",
        "├── big (1,000 classes)",
        "└── small",
        "    └── a (1 class)",
    ]
    assert tree.to_text(max_lines=3).splitlines() == [
        "r",
        "├── big (1,000 classes)",
        "└── small (1 class)",
    ]
    flat = Taxonomy.from_classes(range(50))
    assert flat.to_text(max_lines=3).splitlines() == ["root", "├── 0", "└── … 49 more"]


@given(path_lists(max_nodes=40), st.integers(3, 45))
def test_no_class_is_forgotten_and_the_page_is_never_too_small(
    paths: list[tuple[int, ...]], max_lines: int
) -> None:
    tree = Taxonomy.from_paths(paths)
    lines = tree.to_text(max_lines).splitlines()
    assert len(lines) <= max_lines
    n_classes = 0
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        text = line.lstrip("│├└─ ")
        if "class" in text:
            n_classes += int(text.split("(")[1].split()[0])
        elif "more" in text:
            n_classes += int(text.split()[1])
        # nothing below it
        elif len(following) - len(following.lstrip("│├└─ ")) <= len(line) - len(text):
            n_classes += 1
    assert n_classes == tree.n_classes


def test_lines_are_no_longer_than_the_terminal_is_wide() -> None:
    tree = Taxonomy.from_paths([("r", "x" * 200), ("r", "y")])
    assert tree.to_text(width=20).splitlines() == ["r", "├── " + "x" * 15 + "…", "└── y"]
    with pytest.raises(InvalidInputError, match="width must be at least 20, got 5"):
        tree.to_text(width=5)
    with pytest.raises(InvalidInputError, match="max_lines must be at least 3, got 2"):
        tree.to_text(max_lines=2)


def test_the_picture_shows_what_the_text_shows() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ax = figure.subplots()
    assert WIDE.plot(ax, max_nodes=30) is ax
    lines = WIDE.to_text(max_lines=30).splitlines()
    assert [text.get_text() for text in ax.texts] == [line.lstrip("│├└─ ") for line in lines]
    assert len(ax.lines) == len(lines) - 1  # a link to each but the root
    file = io.BytesIO()
    figure.savefig(file)
    assert file.getvalue().startswith(b"\x89PNG")


def test_parents_in_the_picture_stand_between_their_children_and_no_two_texts_meet() -> None:
    ax = pytest.importorskip("matplotlib.figure").Figure().subplots()
    WIDE.plot(ax, max_nodes=70)
    spots = [text.get_position() for text in ax.texts]
    assert len(set(spots)) == len(spots)
    for line in ax.lines:
        (above, *_, level), (line_above, *_, at) = line.get_xdata(), line.get_ydata()
        assert level == above + 1
        assert (above, line_above) in spots
        assert (level, at) in spots


def test_the_picture_makes_its_own_axes_of_a_fitting_size() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    figures: list[Any] = [WIDE.plot(max_nodes=n).figure for n in (12, 60)]
    small, large = figures
    assert small.get_figheight() < large.get_figheight()
    pyplot.close(small)
    pyplot.close(large)


def test_without_matplotlib_the_error_holds_the_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'bitkin\[plot\]'"):
        WIDE.plot()
