from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import Taxonomy
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.learn.taxonomy.growing import fits_memory
from tests.learn.trees import Parents, climb, leaves_of, parent_maps, path_lists

FIGURE_2A = {2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3}


def test_figure_2a_from_every_way_to_write_it_down(tmp_path: Path) -> None:
    tree = Taxonomy.from_parents(FIGURE_2A)
    assert tree.classes == (4, 5, 6, 7, 8)
    assert tree.n_levels == 3
    assert tree.path_of(6) == (1, 2, 6)
    assert Taxonomy.from_edges([(parent, child) for child, parent in FIGURE_2A.items()]) == tree
    assert Taxonomy.from_nested({1: {2: [4, 5, 6], 3: {7: None, 8: {}}}}) == tree
    assert Taxonomy.from_paths([tree.path_of(label) for label in tree.classes]) == tree
    as_text = Taxonomy.from_paths([tuple(map(str, tree.path_of(label))) for label in tree.classes])
    paths, parents = tmp_path / "paths.csv", tmp_path / "parents.csv"
    paths.write_text("root,group,class\n1,2,4\n1,2,5\n1,2,6\n1,3,7\n1,3,8\n")
    parents.write_text("2;1\n3;1\n4;2\n 5;2\n6;2\n7;3\n8;3\n")
    assert Taxonomy.from_csv(paths) == as_text
    assert Taxonomy.from_csv(parents, layout="parents", header=False, delimiter=";") == as_text


@given(parent_maps())
def test_parents_edges_paths_and_dicts_draw_one_tree(parents: Parents) -> None:
    from_parents = Taxonomy.from_parents(parents)
    leaves = leaves_of(parents)
    assert list(from_parents.classes) == leaves
    assert from_parents == Taxonomy.from_paths([climb(parents, leaf) for leaf in leaves])
    edges = [(parent, node) for node, parent in parents.items() if parent is not None]
    assert {label: Taxonomy.from_edges(edges).path_of(label) for label in leaves} == {
        label: climb(parents, label) for label in leaves
    }
    inside: dict[int, Any] = {node: {} for node in parents}
    for parent, node in edges:
        inside[parent][node] = inside[node]
    nested = Taxonomy.from_nested({0: inside[0]})
    assert {label: nested.path_of(label) for label in nested.classes} == {
        label: climb(parents, label) for label in leaves
    }


@given(path_lists())
def test_paths_come_back(paths: list[tuple[int, ...]]) -> None:
    tree = Taxonomy.from_paths(paths)
    assert [tree.path_of(label) for label in tree.classes] == paths
    assert Taxonomy.from_paths(map(tree.path_of, tree.classes)) == tree
    parents = {path[level]: path[level - 1] for path in paths for level in range(1, len(path))}
    assert Taxonomy.from_parents(parents, classes=tree.classes) == tree
    dotted = [".".join(map(str, path)) for path in paths]
    labelled = Taxonomy.from_labels(dotted)
    assert labelled.classes == tuple(dotted)
    assert labelled.class_paths.tolist() == tree.class_paths.tolist()


def test_chosen_classes_may_be_inner_nodes_and_leave_branches_out() -> None:
    tree = Taxonomy.from_parents(FIGURE_2A, classes=[6, 2])
    assert tree.classes == (6, 2)
    assert tree.node_labels == (2, 6, 2)
    with pytest.raises(
        InvalidInputError, match="classes must be nodes of parents, got 9, which are not"
    ):
        Taxonomy.from_parents(FIGURE_2A, classes=[6, 9])


def test_several_tops_get_a_root_above_them() -> None:
    tree = Taxonomy.from_parents({"a": None, "b": "a", "c": "d"})
    assert tree.path_of("b") == ("root", "a", "b")
    assert tree.path_of("c") == ("root", "d", "c")
    assert Taxonomy.from_nested({"x": ["y"], "z": None}).root_label == "root"


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "no root is above the cycle 'b' → 'c' → 'a' → 'b'"),
        ({"x": "r", "a": "b", "b": "a"}, "the cycle 'b' → 'a' → 'b'"),
        ({"r": "r", "x": "r"}, "the cycle 'r' → 'r'. Give the topmost of them the parent None"),
        ({None: "r"}, "parents must not have None for a child"),
        ([("a", "b")], "parents must be a dict"),
        ({}, "at least one path"),
        ({"a": None}, "one node, 'a'"),
        ({"a": ["b"]}, r"a label of parents\[0\] must be hashable"),
    ],
    ids=[
        "ring",
        "ring beside a tree",
        "own parent",
        "none",
        "no dict",
        "empty",
        "one node",
        "unhashable",
    ],
)
def test_parents_that_are_no_tree_are_refused(parents: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Taxonomy.from_parents(parents)


def test_a_cycle_is_found_also_where_classes_are_chosen() -> None:
    rings = {"x": "r", "a": "b", "b": "a"}
    assert Taxonomy.from_parents(rings, classes=["x"]).classes == ("x",)
    with pytest.raises(InvalidInputError, match="the cycle 'a' → 'b' → 'a'"):
        Taxonomy.from_parents(rings, classes=["x", "a"])


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("a", "x"), ("b", "x")], "edges must give a node one parent, got 'a' and 'b' for 'x'"),
        ([("a", "b", "c")], r"edges\[0\] must be a pair \(parent, child\), got \('a', 'b', 'c'\)"),
        (["ab"], r"edges\[0\] must be a pair \(parent, child\), got 'ab'"),
        (5, "edges must be a list of pairs"),
    ],
    ids=["two parents", "three", "string", "number"],
)
def test_edges_that_are_no_tree_are_refused(edges: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Taxonomy.from_edges(edges)


@pytest.mark.parametrize(
    ("label", "sep"),
    [("a..b", "."), ("", "."), (".a", "."), ("a/", "/"), (3, ".")],
    ids=["double", "empty", "front", "end", "number"],
)
def test_labels_with_empty_parts_are_refused(label: Any, sep: str) -> None:
    with pytest.raises(
        InvalidInputError, match=r"labels must be strings of parts .* at position 1"
    ):
        Taxonomy.from_labels(["x", label], sep=sep)


def test_the_separator_must_be_a_string() -> None:
    assert Taxonomy.from_labels(["a::b", "a::c"], sep="::").root_label == "a"
    for sep in ("", None):
        with pytest.raises(
            InvalidInputError, match="sep must be a string of one character or more"
        ):
            Taxonomy.from_labels(["a.b"], sep=sep)  # type: ignore[arg-type]


def test_a_dict_must_end_and_hold_dicts_or_lists() -> None:
    ring: dict[str, Any] = {"a": {}}
    ring["a"]["b"] = ring
    for tree, words in [
        (ring, "tree at a / b must end somewhere, but it holds itself"),
        ({"a": "leaf"}, "tree at a must be a dict, a list of leaves, or None, got 'leaf'"),
        ({"a": [["b"]]}, "a leaf of tree must be hashable"),
        ({}, "tree must be a dict from label"),
        (["a"], "tree must be a dict from label"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            Taxonomy.from_nested(tree)  # type: ignore[arg-type]
    shared = {"b": None}
    with pytest.raises(InvalidInputError, match="each class once, got 'b'"):
        Taxonomy.from_nested({"x": shared, "y": shared})


def test_a_dict_may_be_deeper_than_the_interpreter_recurses() -> None:
    tree: dict[int, Any] = {1500: None}
    for level in reversed(range(1500)):
        tree = {level: tree}
    deep = Taxonomy.from_nested({**tree, -1: None})
    assert deep.n_levels == 1502
    assert deep.to_text(max_lines=10).count("\n") == 9


def test_short_lines_and_blank_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tree.csv"
    path.write_text('\ufefftop,sub,class\n\n a , "b, c",d\na,e,\na,,\n,,\n', encoding="utf-8")
    tree = Taxonomy.from_csv(path)
    assert [tree.path_of(label) for label in tree.classes] == [
        ("a", "b, c", "d"),
        ("a", "e"),
        ("a",),
    ]


@pytest.mark.parametrize(
    ("text", "options", "kind", "words"),
    [
        (b"h,h\n", {}, InvalidInputError, "at least one line of cells below its header"),
        (b"", {"header": False}, InvalidInputError, "at least one line of cells."),
        (
            b"h,h,h\na,,b\n",
            {},
            InvalidInputError,
            "empty cells at the end of a line only, .* at line 2",
        ),
        (
            b"h,h\na\n",
            {"layout": "parents"},
            InvalidInputError,
            "must have two columns, .* at line 2",
        ),
        (
            b"h,h\n,a\n",
            {"layout": "parents"},
            InvalidInputError,
            "must have two columns, .* at line 2",
        ),
        (b"h,h\na,b\nb,a\n", {"layout": "parents"}, InvalidInputError, "the cycle 'b' → 'a' → 'b'"),
        (b"a,\xff\n", {}, CorruptFileError, "not text in UTF-8"),
        (b'a,"b\n', {}, CorruptFileError, "no CSV file at line"),
        (
            b"a,b\n",
            {"layout": "tree"},
            InvalidInputError,
            "layout must be one of 'paths', 'parents', got 'tree'",
        ),
        (b"a,b\n", {"delimiter": ",,"}, InvalidInputError, "delimiter must be one character"),
    ],
    ids=[
        "header only",
        "empty",
        "gap",
        "one column",
        "no child",
        "ring",
        "bytes",
        "quote",
        "layout",
        "delimiter",
    ],
)
def test_bad_files_are_refused(
    tmp_path: Path, text: bytes, options: dict[str, Any], kind: type[BitkinError], words: str
) -> None:
    path = tmp_path / "tree.csv"
    path.write_bytes(text)
    with pytest.raises(kind, match=words):
        Taxonomy.from_csv(path, **options)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="cannot be read"):
        Taxonomy.from_csv(tmp_path / "none.csv")


@given(path_lists(), st.randoms(use_true_random=False))
def test_the_order_of_paths_changes_numbers_only(paths: list[tuple[int, ...]], random: Any) -> None:
    shuffled = random.sample(paths, len(paths))
    tree, other = Taxonomy.from_paths(paths), Taxonomy.from_paths(shuffled)
    assert {label: tree.path_of(label) for label in tree.classes} == {
        label: other.path_of(label) for label in other.classes
    }
    assert (
        tree.lca_heights(tree.classes, other.classes).tolist()
        == other.lca_heights(tree.classes, other.classes).tolist()
    )


def test_deep_trees_of_many_classes_are_refused_before_they_fill_memory(tmp_path: Path) -> None:
    n = 30_000
    chain = [(f"a{i}", f"a{i + 1}") for i in range(n)]
    for leaves in ([(f"a{n}", f"b{i}") for i in range(n)], [("a0", f"b{i}") for i in range(n - 1)]):
        with pytest.raises(
            InvalidInputError,
            match="paths of up to 64 levels, got 30,000 classes and a path of 30,00",
        ):
            Taxonomy.from_edges(chain + leaves)
        (tmp_path / "tree.csv").write_text(
            "node,parent\n" + "".join(f"{b},{a}\n" for a, b in chain + leaves)
        )
        with pytest.raises(InvalidInputError, match="got 30,000 classes and a path of 30,00"):
            Taxonomy.from_csv(tmp_path / "tree.csv", layout="parents")
    with pytest.raises(InvalidInputError, match="Leave inner nodes out"):
        Taxonomy.from_paths([tuple(range(n)), *((0, -i) for i in range(1, n))])
    assert Taxonomy.from_edges(chain[:3000]).n_levels == 3001
    assert fits_memory(10**6, 64, 10**6)
