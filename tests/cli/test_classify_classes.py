"""Classes of `bitkin classify` by their paths: names at several places, and rows of classes that a
model never met.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitkin
from bitkin.cli.classifying.classes import compare_classes, distinguish_paths, name_of
from tests.cli.conftest import Run
from tests.cli.test_classify import FAST, write_lines
from tests.cli.test_failures import require_failure

WORDS = {
    ("plant", "flower", "lily"): "white petals pond",
    ("plant", "flower", "other"): "yellow stem bees",
    ("animal", "pet", "cat"): "purr claws milk",
    ("animal", "pet", "other"): "hamster wheel seeds",
    ("animal",): "legs moves eats",
    ("fossil", "animal"): "stone shape old",
}


def record(path: tuple[str, ...], text: str) -> dict[str, Any]:
    return {"text": text, "all": list(path), "name": path[-1], "joined": "/".join(path)}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Any:
    """A folder with texts of classes that share names, and a model of them, which is returned."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    paths = list(WORDS)
    numbers = np.concatenate([np.arange(6), rng.integers(0, 6, 197)])
    write_lines(
        "t.jsonl",
        [record(paths[i], " ".join(rng.permutation(WORDS[paths[i]].split())[:2])) for i in numbers],
    )
    done = run("classify", "train", "t.jsonl", "--path", "all", "-o", "m", *FAST)
    assert (done.code, done.err) == (0, "")
    return bitkin.load("m")


def evaluated(run: Run, rows: list[dict[str, Any]], *how: str) -> dict[str, Any]:
    write_lines("new.jsonl", rows)
    done = run("classify", "evaluate", "m", "new.jsonl", *how, "--json")
    assert (done.code, done.err) == (0, "")
    return done.objects[0]


def test_classes_of_one_name_are_learned_apart_and_written_by_their_paths(
    model: Any, run: Run
) -> None:
    assert set(model.classes_.tolist()) == {
        "lily",
        "cat",
        ("plant", "flower", "other"),
        ("animal", "pet", "other"),
        ("animal",),
        ("fossil", "animal"),
    }
    # one node with the class above it
    assert model.taxonomy_.path_of("cat") == ("root", ("animal",), "pet", "cat")
    write_lines("new.jsonl", [record(path, words) for path, words in WORDS.items()])
    done = run("classify", "predict", "m", "new.jsonl", "--top", 6)
    assert [tuple(line["path"]) for line in done.objects] == list(WORDS)
    names = ["lily", "plant/flower/other", "cat", "animal/pet/other", "animal", "fossil/animal"]
    assert [line["label"] for line in done.objects] == names
    assert all(
        sorted(one["label"] for one in line["top"]) == sorted(names) for line in done.objects
    )
    assert [line["label"] for line in done.objects] == [
        line["top"][0]["label"] for line in done.objects
    ]


def test_evaluation_by_paths_compares_whole_paths(model: Any, run: Run) -> None:
    right = [record(path, words) for path, words in WORDS.items()]
    for how in (("--path", "all"), ("--path", "all", "--min-margin", "0")):
        said = evaluated(run, right, *how)
        assert (said["level_errors"], said["unknown_rows"], said["hierarchical_f1"]) == (
            [0, 0, 0],
            0,
            1,
        )
    other = [
        record(("plant", "flower", "other"), "hamster wheel"),
        record(("animal", "pet", "other"), "hamster wheel"),
    ]
    assert evaluated(run, other, "--path", "all")["level_errors"] == [0.5, 0.5, 0.5]
    rooted = [{**row, "all": ["root", *row["all"]]} for row in right]
    assert evaluated(run, rooted, "--path", "all")["level_errors"] == [0, 0, 0]


def test_a_name_that_several_classes_have_is_no_truth_but_joined_paths_are(
    model: Any, run: Run
) -> None:
    write_lines("new.jsonl", [record(("animal", "pet", "other"), "hamster")])
    done = run("classify", "evaluate", "m", "new.jsonl", "--label", "name")
    require_failure(done, "got 'other'", "'animal/pet/other'", "'plant/flower/other'", "--path")
    some = [record(path, words) for path, words in WORDS.items() if path != ("animal",)]
    assert evaluated(run, some, "--label", "joined")["level_errors"] == [0, 0, 0]


NEW = [
    (("plant", "flower", "lily"), "white petals"),
    (("plant", "flower", "tulip"), "white petals"),  # taken for a lily: right on two levels
    (("fungus", "mould"), "white petals"),
    (("animal", "pet", "cat", "siamese"), "purr claws"),  # deeper than the tree: right down to pet
    (("plant",), "white petals"),  # an inner node, and no class: right there
]


def test_rows_of_classes_that_were_never_met_are_wrong_and_counted(model: Any, run: Run) -> None:
    rows = [record(path, words) for path, words in NEW]
    said = evaluated(run, rows, "--path", "all")
    assert (said["rows"], said["unknown_rows"], said["unknown_classes"]) == (5, 4, 4)
    unknown = ["plant/flower/tulip", "fungus/mould", "animal/pet/cat/siamese", "plant"]
    assert said["first_unknown_classes"] == unknown
    assert said["level_errors"] == [1 / 5, 2 / 5, 4 / 5]
    assert (said["flat_error"], said["level_nodes"]) == (4 / 5, [3, 3, 4])
    said = evaluated(run, rows, "--label", "name")  # nothing tells where they are
    assert (said["level_errors"], said["unknown_rows"]) == ([4 / 5] * 3, 4)
    said = evaluated(run, [*rows, *rows[1:2]] * 3, "--path", "all", "--min-margin", "1000")
    assert (said["unknown_rows"], said["unknown_classes"], said["level_errors"]) == (
        15,
        4,
        [1, 1, 1],
    )
    done = run("classify", "evaluate", "m", "new.jsonl", "--path", "all")
    assert (
        "15 of the rows count as wrong because the model never met their class: "
        "'plant/flower/tulip', 'fungus/mould', 'animal/pet/cat/siamese', 'plant'\n" in done.out
    )


def test_many_unknown_classes_are_not_all_named(model: Any, run: Run) -> None:
    rows = [
        record(("animal", "pet", "cat"), "purr"),
        *(record(("animal", f"kind {i}"), "legs") for i in range(8)),
    ]
    assert evaluated(run, rows, "--path", "all")["first_unknown_classes"] == [
        f"animal/kind {i}" for i in range(5)
    ]
    assert (
        "'animal/kind 4' and 3 more\n"
        in run("classify", "evaluate", "m", "new.jsonl", "--path", "all").out
    )


def test_a_class_of_the_tree_that_no_row_taught_counts_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text("top,name\na,x\na,y\nb,z\n")
    write_lines("t.jsonl", [{"text": f"word{i % 2}", "name": "xz"[i % 2]} for i in range(20)])
    assert (
        run(
            "classify",
            "train",
            "t.jsonl",
            "--label",
            "name",
            "--taxonomy",
            "tree.csv",
            "-o",
            "m",
            *FAST,
        ).code
        == 0
    )
    said = evaluated(
        run, [{"text": "word0", "name": "x"}, {"text": "word0", "name": "y"}], "--label", "name"
    )
    assert (said["level_errors"], said["unknown_rows"], said["first_unknown_classes"]) == (
        [0, 0.5],
        1,
        ["y"],
    )


def test_where_no_row_is_of_a_known_class_something_else_is_wrong(model: Any, run: Run) -> None:
    write_lines("new.jsonl", [{"text": "fins", "all": ["fish"], "name": "fish"}])
    path = run("classify", "evaluate", "m", "new.jsonl", "--path", "all")
    require_failure(
        path, "got 'fish'. It knows", "'animal/pet/cat'", "fields of --path as in training"
    )
    require_failure(
        run("classify", "evaluate", "m", "new.jsonl", "--label", "name"),
        "got 'fish'. It knows",
        "labels",
    )


NAMES = st.sampled_from("ab")
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=4).map(tuple), min_size=1, max_size=9)


@given(PATHS)
def test_told_apart_paths_keep_their_names_and_their_tree(paths: list[tuple[str, ...]]) -> None:
    apart = distinguish_paths(paths)
    assert set(apart) == set(paths)
    ends = [labels[-1] for labels in apart.values()]
    assert len(set(ends)) == len(ends)
    for path, labels in apart.items():
        assert tuple(map(name_of, labels)) == path
        named = [other for other in set(paths) if other[-1] == path[-1]]
        assert labels[-1] == (path[-1] if len(named) == 1 else path)
    for depth in range(1, 5):  # as many nodes as before
        nodes = {labels[:depth] for labels in apart.values() if len(labels) >= depth}
        assert len(nodes) == len({path[:depth] for path in paths if len(path) >= depth})


@given(PATHS, PATHS)
def test_known_rows_are_what_they_were_and_unknown_ones_new_leaves(
    learned: list[tuple[str, ...]], asked: list[tuple[str, ...]]
) -> None:
    apart = distinguish_paths([*learned, ("c", "a"), ("d", "b")])
    tree = bitkin.Taxonomy.from_paths(apart.values())

    class Stub:
        taxonomy_ = tree
        classes_ = np.array([*(labels[-1] for labels in apart.values()), None], dtype=object)[:-1]

    truths = [*asked, ("c", "a")]
    found = compare_classes(Stub, truths, by_path=True)  # type: ignore[arg-type]
    assert found.taxonomy.n_levels == tree.n_levels
    assert found.unknown_rows == sum(path not in apart for path in truths)
    assert found.unknown == ["/".join(path) for path in dict.fromkeys(truths) if path not in apart]
    for path, label in zip(truths, found.labels, strict=True):
        assert label == apart[path][-1] if path in apart else label not in tree
        upper = tuple(map(name_of, found.taxonomy.path_of(label)))[1:-1]
        assert path[: len(upper)] == upper
