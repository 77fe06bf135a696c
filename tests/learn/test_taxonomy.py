from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import Taxonomy
from bitkin.errors import InvalidInputError
from tests.learn.trees import path_lists

PLANTS = [
    ("plant", "flower", "lily"),
    ("plant", "flower", "rose"),
    ("plant", "tree", "maple"),
    ("plant", "moss"),
]


def test_leaves_at_different_depths_are_extended_as_in_figure_2c() -> None:
    tree = Taxonomy.from_paths(PLANTS)
    assert tree.classes == ("lily", "rose", "maple", "moss")
    assert tree.n_levels == 3
    assert tree.class_paths.tolist() == [[0, 1], [0, 2], [3, 4], [5, 6]]
    assert tree.node_labels == ("flower", "lily", "rose", "tree", "maple", "moss", "moss")
    assert tree.node_is_copy.tolist() == [False] * 6 + [True]
    assert tree.node_parents.tolist() == [-1, 0, 0, -1, 3, -1, 5]
    assert tree.node_levels.tolist() == [1, 2, 2, 1, 2, 1, 2]
    assert tree.class_depths.tolist() == [2, 2, 2, 1]
    assert tree.path_of("moss") == ("plant", "moss")


@given(path_lists())
def test_all_arrays_describe_the_tree_that_the_paths_draw(paths: list[tuple[int, ...]]) -> None:
    tree = Taxonomy.from_paths(paths)
    assert tree.root_label == 0
    assert tree.classes == tuple(path[-1] for path in paths)
    longest = max(map(len, paths))
    assert tree.n_levels == longest
    for path in paths:
        number = tree.class_number(path[-1])
        assert tree.path_of(path[-1]) == path
        extended = path + (path[-1],) * (longest - len(path))
        nodes = tree.class_paths[number].tolist()
        assert tuple(tree.node_labels[node] for node in nodes) == extended[1:]
        assert tree.node_is_copy[nodes].tolist() == [
            level >= len(path) for level in range(1, longest)
        ]
        assert tree.node_parents[nodes].tolist() == [-1, *nodes[:-1]]
        assert tree.node_levels[nodes].tolist() == list(range(1, longest))
    assert set(tree.class_paths.ravel().tolist()) == set(range(tree.n_nodes))
    # every class has a leaf of its own
    assert len(set(tree.class_paths[:, -1].tolist())) == tree.n_classes
    for node in range(-1, tree.n_nodes):
        start, stop = tree.child_offsets[node + 1 : node + 3]
        assert (
            tree.child_nodes[start:stop].tolist()
            == np.flatnonzero(tree.node_parents == node).tolist()
        )


@given(path_lists(), st.data())
def test_adding_paths_never_renumbers(paths: list[tuple[int, ...]], data: st.DataObject) -> None:
    whole = Taxonomy.from_paths(paths)
    n_first = data.draw(st.integers(1, len(paths)))
    # The root may be a class of its own; alone it is no taxonomy.
    first = [(0, 99), *paths[:n_first]]
    before = Taxonomy.from_paths(first)
    after = (
        before.with_paths(paths[n_first:]) if n_first < len(paths) else before.with_paths(paths[:1])
    )
    assert after.classes[: before.n_classes] == before.classes
    assert after.node_labels[: before.n_nodes] == before.node_labels
    assert after.node_parents[: before.n_nodes].tolist() == before.node_parents.tolist()
    assert (
        after.class_paths[: before.n_classes, : before.n_levels - 1].tolist()
        == before.class_paths.tolist()
    )
    assert {label: after.path_of(label) for label in whole.classes} == {
        label: whole.path_of(label) for label in whole.classes
    }
    assert (after.node_parents < np.arange(after.n_nodes)).all()


def test_a_longer_path_gives_every_old_class_another_copy_behind_all_nodes() -> None:
    tree = Taxonomy.from_paths([("a", "x"), ("a", "y")])
    grown = tree.with_paths([("a", "x", "x1")])
    assert grown.classes == ("x", "y", "x1")
    assert grown.class_paths.tolist() == [[0, 3], [1, 4], [0, 2]]
    assert grown.path_of("x") == ("a", "x")


def test_new_paths_start_at_the_root_or_below_it() -> None:
    tree = Taxonomy.from_paths([("a", "x"), ("b", "y")])
    assert tree.root_label == "root"
    assert tree.with_paths([("a", "z")]) == tree.with_paths([("root", "a", "z")])
    assert tree.with_paths([("a", "x")]) == tree


def test_a_class_that_is_an_inner_node_has_a_leaf_of_its_own() -> None:
    tree = Taxonomy.from_paths([("r", "a"), ("r", "a", "b"), ("r",)])
    assert tree.classes == ("a", "b", "r")
    assert [tree.path_of(label) for label in tree.classes] == [("r", "a"), ("r", "a", "b"), ("r",)]
    assert tree.lca_heights(["a", "a", "r"], ["b", "r", "b"]).tolist() == [1, 2, 2]


def test_the_first_label_is_the_root_only_where_all_paths_share_it() -> None:
    assert Taxonomy.from_paths([("a", "b"), ("a", "c")]).root_label == "a"
    assert Taxonomy.from_paths([("a", "b"), ("c",)]).path_of("b") == ("root", "a", "b")
    assert Taxonomy.from_paths([("root", "b"), ("c",)]).root_label == "(root)"


def test_classes_without_a_hierarchy() -> None:
    tree = Taxonomy.from_classes(np.array([3, 1, 3]))
    assert tree.classes == (3, 1)
    assert tree.n_levels == 2
    assert Taxonomy.from_classes(["only"]).n_nodes == 1


def test_labels_may_be_anything_hashable_and_numpy_labels_become_plain() -> None:
    tree = Taxonomy.from_paths(
        [(None, (1, "a"), frozenset({2})), (None, np.int64(7)), (None, np.str_("s"))]
    )
    assert tree.root_label is None
    assert tree.classes == (frozenset({2}), 7, "s")
    assert [type(label) for label in tree.classes] == [frozenset, int, str]
    assert tree.index_of(np.array([7])).tolist() == [1]
    assert 7 in tree
    assert 8 not in tree


def test_inner_nodes_of_one_name_at_two_places_are_two_nodes() -> None:
    tree = Taxonomy.from_paths([("a", "other", "a1"), ("b", "other", "b1")])
    assert tree.lca_heights(["a1"], ["b1"]).tolist() == [3]
    with pytest.raises(InvalidInputError, match="several inner nodes are called 'other'"):
        tree.node_paths(["other"])
    named = tree.node_paths([("root", "b", "other"), "b1", "b"])
    assert named.tolist() == [[*named[1, :2], -1], named[1].tolist(), [named[1, 0], -1, -1]]


def test_paths_of_inner_nodes_end_where_the_node_is() -> None:
    tree = Taxonomy.from_paths(PLANTS)
    assert tree.node_paths(["flower", "moss", "plant", "rose"]).tolist() == [
        [0, -1],
        [5, 6],
        [-1, -1],
        [0, 2],
    ]
    assert tree.node_paths([]).shape == (0, 2)
    by_path = tree.node_paths(
        [("plant", "flower"), ("plant", "moss"), ("plant",), ("plant", "flower", "rose")]
    )
    assert by_path.tolist() == [[0, -1], [5, 6], [-1, -1], [0, 2]]
    with pytest.raises(
        InvalidInputError, match="classes or inner nodes of the taxonomy, got 'fern'"
    ):
        tree.node_paths(["lily", "fern"])


def test_cutting_leaves_out_the_lowest_inner_nodes() -> None:
    tree = Taxonomy.from_paths([("r", "a", "b", "c", "d"), ("r", "a", "e"), ("r",)])
    assert [tree.cut(4).path_of(label) for label in tree.classes] == [
        ("r", "a", "b", "d"),
        ("r", "a", "e"),
        ("r",),
    ]
    assert [tree.cut(2).path_of(label) for label in tree.classes] == [
        ("r", "d"),
        ("r", "e"),
        ("r",),
    ]
    assert tree.cut(5) == tree
    with pytest.raises(InvalidInputError, match="n_levels must be at least 2, got 1"):
        tree.cut(1)


def test_nodes_of_one_name_do_not_become_one_where_what_told_them_apart_is_left_out() -> None:
    pairs = [
        ("a", "x", "other", "1"),
        ("a", "x", "other", "2"),
        ("a", "y", "other", "3"),
        ("a", "y", "other", "4"),
    ]
    with pytest.raises(InvalidInputError, match="two nodes called 'other' would meet"):
        Taxonomy.from_paths(pairs).condensed()


def test_the_root_moves_down_to_the_first_branching() -> None:
    tree = Taxonomy.from_paths(
        [("r", "s", "t", "a", "b"), ("r", "s", "t", "c"), ("r", "s", "t")]
    ).condensed()
    assert tree.root_label == "t"
    assert [tree.path_of(label) for label in tree.classes] == [("t", "b"), ("t", "c"), ("t",)]
    one = Taxonomy.from_paths([("r", "s", "a")]).condensed()
    assert one.path_of("a") == ("r", "a")


@given(path_lists())
def test_condensing_keeps_every_branching(paths: list[tuple[int, ...]]) -> None:
    tree = Taxonomy.from_paths(paths)
    small = tree.condensed()
    assert small.classes == tree.classes
    assert small.n_levels <= tree.n_levels
    own = ~small.node_is_copy
    ends = {small.path_of(label)[1:][-1:] for label in small.classes}
    assert small.n_nodes == 1 or np.diff(small.child_offsets)[0] > 1
    for node in np.flatnonzero(own):
        assert np.diff(small.child_offsets)[node + 1] > 1 or (small.node_labels[node],) in ends
    n = tree.n_classes
    for label in tree.classes:
        before, after = (each.lca_heights([label] * n, tree.classes) for each in (tree, small))
        assert ((before[:, None] < before) == (after[:, None] < after)).all()


def test_nothing_in_it_changes() -> None:
    tree = Taxonomy.from_paths(PLANTS)
    with pytest.raises(AttributeError, match="does not change; n_levels was not set"):
        tree.n_levels = 4
    with pytest.raises(AttributeError, match="n_levels was not deleted"):
        del tree.n_levels
    for array in (
        tree.class_paths,
        tree.node_parents,
        tree.node_levels,
        tree.child_nodes,
        tree.child_offsets,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_equal_by_content_and_the_same_after_a_trip() -> None:
    tree = Taxonomy.from_paths(PLANTS)
    assert copy.deepcopy(tree) is copy.copy(tree) is tree
    for other in (Taxonomy.from_paths(PLANTS), pickle.loads(pickle.dumps(tree))):
        assert other == tree
        assert hash(other) == hash(tree)
        assert not other.class_paths.flags.writeable
    assert tree != Taxonomy.from_paths(PLANTS[::-1])
    assert tree != Taxonomy.from_paths(PLANTS[:3])
    assert tree != "plants"
    assert len(tree) == 4


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([], "paths must hold at least one path"),
        ("abc", "paths must be a list of tuples of labels, got 'abc'"),
        (7, "paths must be a list of tuples"),
        (["a.b"], r"paths\[0\] must be a tuple of labels .* got 'a.b'. Labels with dots"),
        ([("a", "b"), ()], r"paths\[1\] must be a tuple of labels"),
        ([("a", ["b"])], r"a label of paths\[0\] must be hashable, got \['b'\]"),
        ([("a", float("nan"))], r"a label of paths\[0\] must be equal to itself, got nan"),
        ([("a",)], "must have classes below its root, got one node, 'a'"),
        ([("a",), ("a",)], "one node, 'a'"),
        (
            [("r", "a", "x"), ("r", "b", "x")],
            "each class once, got 'x' at r / a / x and at r / b / x",
        ),
    ],
    ids=[
        "none",
        "string",
        "number",
        "dotted",
        "empty",
        "unhashable",
        "nan",
        "one node",
        "one node twice",
        "two places",
    ],
)
def test_paths_that_are_no_tree_are_refused(paths: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Taxonomy.from_paths(paths)


def test_unknown_labels_are_listed_once_each() -> None:
    tree = Taxonomy.from_paths(PLANTS)
    with pytest.raises(
        InvalidInputError, match=r"classes of the taxonomy, got 'fern', 'flower'. Add classes"
    ):
        tree.index_of(["lily", "fern", "flower", "fern"])
    with pytest.raises(InvalidInputError, match="got 0, 1, 2, 3, 4 and 15 more"):
        tree.index_of(list(range(20)))
    with pytest.raises(
        InvalidInputError, match=r"labels must be a list of labels, got 'lily'. Wrap"
    ):
        tree.index_of("lily")
    with pytest.raises(
        InvalidInputError, match=r"labels must be 1-dimensional, got shape \(1, 1\)"
    ):
        tree.index_of(np.array([["lily"]]))
    with pytest.raises(InvalidInputError, match="at r / x and at r / y / x"):
        Taxonomy.from_paths([("r", "x"), ("r", "z")]).with_paths([("r", "y", "x")])
    with pytest.raises(InvalidInputError, match="classes must hold at least one label"):
        Taxonomy.from_classes([])
    with pytest.raises(
        InvalidInputError, match="made by from_paths or another from_… constructor, got 5"
    ):
        Taxonomy(5)  # type: ignore[arg-type]
