from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import Taxonomy
from bitkin.errors import CorruptFileError, InvalidInputError
from tests.learn.trees import path_lists

STORED = (
    Taxonomy.from_paths([("r", "a", "x"), ("r", "a", "y"), ("r", "b")])
    .with_paths([("r", "b", "z")])
    .to_dict()
)


@given(path_lists(), path_lists())
def test_json_brings_back_every_number(
    paths: list[tuple[int, ...]], more: list[tuple[int, ...]]
) -> None:
    renamed = [(0, *(label + 100 for label in path[1:])) for path in more if len(path) > 1]
    tree = Taxonomy.from_paths(paths).with_paths(renamed)
    assert Taxonomy.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree


def test_labels_of_every_plain_kind_come_back_with_their_types() -> None:
    labels = ["s", 1, 2.5, True, None, ("t", (1, None)), ()]
    tree = Taxonomy.from_paths(
        [("root", 2**80, label) for label in labels if label != 1] + [("root", 1)]
    )
    back = Taxonomy.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert back.classes == tree.classes
    assert list(map(type, back.classes)) == list(map(type, tree.classes))


@pytest.mark.parametrize(
    "label", [frozenset(), b"bytes", float("inf"), 1j], ids=["set", "bytes", "infinite", "complex"]
)
def test_labels_that_json_cannot_hold_are_refused_on_saving(label: Any) -> None:
    tree = Taxonomy.from_paths([("r", label), ("r", "x")])
    with pytest.raises(InvalidInputError, match=r"to be saved, got .* Rename it"):
        tree.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["a", "x", "y", "b", None, "z", None]},
        {"labels": {}},
        {"labels": ["a", "x", "x", "b", None, "z"]},
        {"labels": ["a", "x", float("nan"), "b", None, "z"]},
        {"labels": ["a", "x", ["y"], "b", None, "z"]},
        {"labels": ["a", "x", {"tuple": 3}, "b", None, "z"]},
        {"parents": [-1, 0, 0, -1, 3]},
        {"parents": [-1, 0, 0, -1, 3, 5]},
        {"parents": [-1, 0, 0, -1, 3, -2]},
        {"parents": [-1, 0, 0, -1, 3, 3.0]},
        {"parents": [-1, 0, 0, -1, 3, True]},
        {"parents": [-1, 0, 0, -1, 3, 4]},
        {"parents": [-1, 0, 0, -1, 1, 3]},
        {"copies": []},
        {"copies": [4, 5]},
        {"copies": [9]},
        {"ends": []},
        {"ends": [1, 2, 3]},
        {"ends": [1, 2, 3, 5, 5]},
        {"ends": [1, 2, 3, 4]},
        {"ends": [1, 2, 3, 5, -1]},
        {"ends": None},
        {"more": 1},
    ],
    ids=str,
)
def test_a_stored_taxonomy_that_no_paths_could_have_grown_is_refused(
    change: dict[str, Any],
) -> None:
    with pytest.raises(CorruptFileError, match="a stored taxonomy"):
        Taxonomy.from_dict(STORED | change)
    assert Taxonomy.from_dict(STORED).classes == ("x", "y", "b", "z")


def test_a_small_file_cannot_ask_for_much_memory() -> None:
    n = 40_000
    chain = {"labels": list(range(n)), "parents": [-1, *range(n - 1)], "copies": []}
    fan = {
        "labels": chain["labels"] + list(range(n, 2 * n)),
        "parents": chain["parents"] + [n - 1] * n,
        "copies": [],
    }
    with pytest.raises(CorruptFileError, match="a stored taxonomy"):
        Taxonomy.from_dict({"root": "r", **fan, "ends": list(range(n, 2 * n))})
    with pytest.raises(CorruptFileError, match="a stored taxonomy"):
        Taxonomy.from_dict({"root": "r", **chain, "ends": list(range(n))})
    with pytest.raises(CorruptFileError, match="a stored taxonomy"):
        Taxonomy.from_dict({"root": "r", **chain, "ends": [n - 1] * n})
    assert Taxonomy.from_dict({"root": "r", **chain, "ends": [n - 1]}).n_levels == n + 1


def test_a_label_nested_without_end_is_refused() -> None:
    label: Any = "x"
    for _ in range(100_000):
        label = {"tuple": [label]}
    with pytest.raises(CorruptFileError, match="none was saved so"):
        Taxonomy.from_dict(STORED | {"root": label})


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 6) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.sampled_from(["tuple", "x"]), inner, max_size=2)
    ),
)


@given(st.fixed_dictionaries({name: st.just(value) | _ANYTHING for name, value in STORED.items()}))
def test_whatever_is_stored_loads_to_a_sound_tree_or_is_refused(stored: dict[str, Any]) -> None:
    try:
        tree = Taxonomy.from_dict(stored)
    except CorruptFileError:
        return
    again = Taxonomy.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again == tree
    assert set(tree.class_paths.ravel().tolist()) == set(range(tree.n_nodes))
