"""`bitkin classify` on real files: texts, CSR and dense vectors; what it writes, prints and
refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from tests.cli.conftest import RANDOM, Run
from tests.cli.test_failures import require_failure, require_usage_error

WORDS = {
    "lily": "white petals pond",
    "rose": "red thorns petals",
    "cat": "purr claws milk",
    "dog": "bark bone tail",
}
PARENTS = {"lily": "plant", "rose": "plant", "cat": "animal", "dog": "animal"}
FAST = ("--buckets", "2^12", "--alpha", "1e-4", "--passes", 3)


def records(n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    made = []
    for kind in rng.choice(list(WORDS), n).tolist():
        words = [*rng.permutation(WORDS[kind].split())[:2], *rng.choice(["it", "was", "seen"], 2)]
        made.append(
            {
                "about": " ".join(words),
                "kind": kind,
                "kingdom": PARENTS[kind],
                "all": [PARENTS[kind], kind],
            }
        )
    return made


def write_lines(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A folder with texts to learn and to test; the latter are returned."""
    monkeypatch.chdir(tmp_path)
    write_lines("train.jsonl", records(203, 0))
    test = records(65, 1)
    write_lines("test.jsonl", test)
    Path("tree.csv").write_text(
        "kingdom,kind\n" + "".join(f"{top},{kind}\n" for kind, top in PARENTS.items())
    )
    Path("parents.csv").write_text(
        "node,parent\n" + "".join(f"{kind},{top}\n" for kind, top in PARENTS.items())
    )
    return test


TREES = [
    ("--path", "kingdom/kind"),
    ("--path", "all"),
    ("--label", "kind", "--taxonomy", "tree.csv"),
    ("--label", "kind", "--taxonomy", "parents.csv", "--layout", "parents"),
]


@pytest.mark.parametrize("tree", TREES, ids=[" ".join(tree) for tree in TREES])
def test_texts_go_through_train_predict_and_evaluate(
    texts: list[dict[str, Any]], run: Run, tree: tuple[str]
) -> None:
    done = run(
        "classify", "train", "train.jsonl", "--text", "about", *tree, "-o", "m", *FAST, "--json"
    )
    assert (done.code, done.err) == (0, "")
    said = done.objects[0]
    assert (said["rows"], said["classes"], said["levels"], said["buckets"]) == (203, 4, 3, 4096)
    assert said["weight_bytes"] == 2 * 4096 * 4
    told = run(
        "classify", "train", "train.jsonl", "--text", "about", *tree, "-o", "m", *FAST, "--force"
    ).out.splitlines()
    assert told[-1] == f"next: bitkin classify evaluate m FILES --text about {' '.join(tree[:2])}"
    model = bitkin.load("m")
    assert {model.taxonomy_.path_of(kind) for kind in PARENTS} == {
        ("root", PARENTS[kind], kind) for kind in PARENTS
    }

    assert (
        run(
            "classify", "predict", "m", "test.jsonl", "--text", "about", "-o", "p.jsonl", "--top", 2
        ).code
        == 0
    )
    lines = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    want = model.predict_top(bitkin.text_features([row["about"] for row in texts]), 2)
    assert [line["row"] for line in lines] == list(range(65))
    assert [line["label"] for line in lines] == want.labels[:, 0].tolist()
    assert [line["path"] for line in lines] == [
        [PARENTS[line["label"]], line["label"]] for line in lines
    ]
    assert [[one["label"] for one in line["top"]] for line in lines] == want.labels.tolist()
    assert np.array_equal([[one["score"] for one in line["top"]] for line in lines], want.scores)

    done = run(
        "classify", "evaluate", "m", "test.jsonl", "--text", "about", "--label", "kind", "--json"
    )
    truth, found = [row["kind"] for row in texts], want.labels[:, 0].tolist()
    said = done.objects[0]
    assert said["level_errors"] == bitkin.level_errors(model.taxonomy_, truth, found).tolist()
    assert said["hierarchical_error"] == pytest.approx(
        bitkin.hierarchical_error(model.taxonomy_, truth, found)
    )
    assert (said["level_nodes"], said["weight_bytes"]) == ([2, 4], model.weights_.nbytes)
    assert said["file_bytes"] == Path("m").stat().st_size
    assert said["flat_error"] < 0.1


@pytest.mark.parametrize("form", ["npy", "npz", "svm"])
def test_vectors_with_labels_in_a_file_give_what_python_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = np.array(["a.x", "a.y", "b.z"])
    numbers = rng.integers(0, 3, 131)
    X = (rng.poisson(0.3, (131, 17)) + 2.0 * (np.arange(17) % 3 == numbers[:, None])).astype(
        np.float32
    )
    if form == "npy":
        np.save("x.npy", X)
    elif form == "npz":
        scipy.sparse.save_npz("x.npz", scipy.sparse.csr_array(X))
    else:
        lines = (
            "0 " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row) if value) for row in X
        )
        Path("x.svm").write_text("\n".join(lines) + "\n")
    Path("labels.txt").write_text("\n".join(names[numbers]) + "\n")
    np.save("labels.npy", names[numbers])
    file = f"x.{form}"
    for labels, model in (("labels.txt", "m1"), ("labels.npy", "m2")):
        done = run(
            "classify", "train", file, "--labels", labels, "--separator", ".", "-o", model, *FAST
        )
        assert (done.code, done.err) == (0, "")
        assert "3 classes in 3 levels" in done.out
    assert bitkin.load("m1").taxonomy_ == bitkin.load("m2").taxonomy_
    tree = bitkin.Taxonomy.from_labels(names[numbers])
    want = bitkin.HeshingClassifier(tree, n_buckets=2**12, alpha=1e-4, max_iter=3).fit(
        X, names[numbers]
    )
    assert np.array_equal(bitkin.load("m1").weights_, want.weights_)
    assert np.array_equal(bitkin.load("m2").weights_, want.weights_)
    assert run("classify", "predict", "m1", file, "-o", "p.jsonl.gz").code == 0
    done = run("classify", "evaluate", "m1", file, "--labels", "labels.txt")
    assert (done.code, done.err) == (0, "")
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert (
        "FILES --labels LABELS"
        in run("classify", "train", file, "--labels", "labels.txt", "-o", "m3", *FAST).out
    )
    for words in (
        "131 rows",
        "level 1",
        "level 2",
        "flat error",
        "weights",
        "peak of this program",
    ):
        assert words in done.out


def test_numbers_as_labels_become_text_and_without_a_tree_classes_hang_below_one_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(
        "t.jsonl", [{"text": f"word{i % 3}", "label": [7, True, 1.5][i % 3]} for i in range(33)]
    )
    assert run("classify", "train", "t.jsonl", "--label", "label", "-o", "m", *FAST).code == 0
    assert sorted(bitkin.load("m").taxonomy_.classes) == ["1.5", "7", "true"]
    assert bitkin.load("m").taxonomy_.n_levels == 2
    assert (
        run("classify", "evaluate", "m", "t.jsonl", "--label", "label", "--json").objects[0][
            "flat_error"
        ]
        == 0
    )


def test_max_bytes_and_every_other_option_reach_the_model(
    texts: list[dict[str, Any]], run: Run
) -> None:
    done = run(
        "classify",
        "train",
        "train.jsonl",
        "--text",
        "about",
        "--path",
        "all",
        "-o",
        "m",
        "--max-bytes",
        "2^10",
        "--loss",
        "softmax",
        "--alpha",
        "0.001",
        "--passes",
        4,
        "--beam",
        3,
        "--early-stopping",
        "--seed",
        5,
    )
    assert (done.code, done.err) == (0, "")
    model = bitkin.load("m")
    assert model.weights_.nbytes == 1024
    said = {
        name: getattr(model, name)
        for name in ("loss", "alpha", "max_iter", "beam", "early_stopping", "seed_")
    }
    assert said == {
        "loss": "softmax",
        "alpha": 0.001,
        "max_iter": 4,
        "beam": 3,
        "early_stopping": True,
        "seed_": 5,
    }


def test_a_margin_stops_predictions_above_the_classes_and_empty_texts_say_so(
    texts: list[dict[str, Any]], run: Run
) -> None:
    assert (
        run(
            "classify", "train", "train.jsonl", "--text", "about", "--path", "all", "-o", "m", *FAST
        ).code
        == 0
    )
    write_lines("odd.jsonl", [{"text": "petals"}, {"text": " ?"}])
    assert run("classify", "predict", "m", "odd.jsonl", "-o", "p", "--min-margin", 1000).code == 0
    first, second = (json.loads(line) for line in Path("p").read_text().splitlines())
    assert (first["label"], first["path"]) == ("root", [])
    assert second["empty"] is True
    assert "empty" not in first
    options = ("test.jsonl", "--text", "about", "--label", "kind", "--json")
    said = run("classify", "evaluate", "m", *options, "--min-margin", 1000).objects[0]
    assert (said["stopped_above_a_class"], said["level_errors"]) == (65, [1, 1])
    assert run("classify", "evaluate", "m", *options).objects[0]["stopped_above_a_class"] == 0


def test_the_example_that_ships_trains_and_is_tested_on_what_was_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(
        "classify",
        "train",
        "--example",
        "icd10",
        "-o",
        "m",
        "--alpha",
        "1e-6",
        "--passes",
        1,
        "--beam",
        4,
    )
    assert (done.code, done.err) == (0, "")
    assert "1,918 classes in 4 levels, learned from 37,995 rows" in done.out
    assert "bitkin classify evaluate m --example icd10" in done.out
    said = run("classify", "evaluate", "m", "--example", "icd10", "--json").objects[0]
    assert (said["rows"], said["level_nodes"]) == (8886, [22, 285, 1918])
    assert said["level_errors"][0] < said["level_errors"][2] < 0.5


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("train", "train.jsonl", "-o", "m"), ("--label", "--path")),
        (("train", "-o", "m", "--label", "kind"), ("give files, or --example",)),
        (
            ("train", "train.jsonl", "x.npy", "-o", "m", "--label", "kind"),
            ("either JSON lines or files of vectors",),
        ),
        (("train", "x.npy", "-o", "m"), ("'--labels'", "labels of vectors")),
        (("train", "x.npy", "-o", "m", "--labels", "l", "--text", "t"), ("--text means nothing",)),
        (
            ("train", "train.jsonl", "-o", "m", "--label", "kind", "--labels", "l"),
            ("--labels means nothing",),
        ),
        (
            ("train", "train.jsonl", "-o", "m", "--path", "all", "--separator", "."),
            ("--path and --separator",),
        ),
        (
            ("train", "train.jsonl", "-o", "m", "--label", "kind", "--buckets", "2.5"),
            ("'--buckets'", "2^18"),
        ),
        (
            ("train", "train.jsonl", "-o", "m", "--label", "kind", "--buckets", "-7"),
            ("'--buckets'",),
        ),
        (
            ("train", "train.jsonl", "-o", "m", "--label", "kind", "--max-bytes", "0"),
            ("'--max-bytes'",),
        ),
        (
            ("train", "train.jsonl", "-o", "m", "--label", "kind", "--loss", "hing"),
            ("Did you mean 'hinge'?",),
        ),
        (("train", "train.jsonl", "-o", "m", "--label", "kind", "--alpha", "0"), ("'--alpha'",)),
        (("train", "train.jsonl", "-o", "train.jsonl", "--label", "kind"), ("would be replaced",)),
        (("train", "--example", "icd11", "-o", "m"), ("Did you mean 'icd10'?",)),
        (("train", "train.jsonl", "--example", "icd10", "-o", "m"), ("takes no files",)),
        (("trane",), ("Did you mean 'train'?",)),
    ],
)
def test_wrong_usage_is_named(
    texts: list[dict[str, Any]], run: Run, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    require_usage_error(run("classify", *arguments), *words)


def test_flaws_of_files_are_one_line_that_says_where(texts: list[dict[str, Any]], run: Run) -> None:
    np.save("x.npy", np.ones((3, 2)))
    Path("two.txt").write_text("a\nb\n")
    Path("gap.txt").write_text("a\n\nb\n")
    write_lines("null.jsonl", [{"text": "one", "label": "a"}, {"text": "two", "label": None}])
    write_lines("number.jsonl", [{"text": 7, "label": "a"}])
    write_lines("one.jsonl", [{"text": "one", "label": "a"}])
    train = ("classify", "train", "-o", "m", *FAST)
    require_failure(run(*train, "null.jsonl", "--label", "label"), "null.jsonl, line 2", "got null")
    nowhere = ("--label", "label", "-o", "no/m")  # told before anything is read
    require_failure(
        run("classify", "train", "null.jsonl", *nowhere),
        "no/m cannot be written",
        "there is no folder",
    )
    require_failure(run(*train, "number.jsonl", "--label", "label"), "line 1", "must be a string")
    require_failure(
        run(*train, "one.jsonl", "--label", "lable"), "line 1", "no field 'lable'", "'label'"
    )
    require_failure(run(*train, "one.jsonl", "--label", "label"), "two classes", "'a'")
    require_failure(run(*train, "absent.jsonl", "--label", "label"), "absent.jsonl")
    require_failure(
        run(*train, "x.npy", "--labels", "two.txt"), "a label for each of 3 vectors, got 2"
    )
    require_failure(run(*train, "x.npy", "--labels", "gap.txt"), "gap.txt, line 2")
    require_failure(run(*train, "x.npy", "--labels", "x.npy"), "one-dimensional")
    require_failure(
        run(
            *train, "train.jsonl", "--text", "about", "--label", "kingdom", "--taxonomy", "tree.csv"
        ),
        "'animal'",
    )
    assert not Path("m").exists()


def test_models_of_another_kind_and_unknown_classes_are_refused(
    texts: list[dict[str, Any]], run: Run
) -> None:
    np.save("x.npy", np.ones((3, 2)))
    np.save("none.npy", np.ones((0, 2)))
    Path("none.txt").write_text("")
    Path("three.txt").write_text("a\nb\na\n")
    assert run("classify", "train", "x.npy", "--labels", "three.txt", "-o", "v", *FAST).code == 0
    require_failure(
        run("classify", "evaluate", "v", "none.npy", "--labels", "none.txt"), "no rows to compare"
    )
    assert (
        run(
            "classify", "train", "train.jsonl", "--text", "about", "--path", "all", "-o", "m", *FAST
        ).code
        == 0
    )
    require_failure(
        run("classify", "predict", "m", "x.npy", "-o", "p"), "trained on texts", "classify vectors"
    )
    write_lines("new.jsonl", [{"text": "fins", "kind": "fish"}])
    require_failure(run("classify", "evaluate", "m", "new.jsonl", "--label", "kind"), "'fish'")
    require_usage_error(
        run("classify", "predict", "m", "test.jsonl", "-o", "p", "--top", 5), "4 classes"
    )
    assert run("fit", "x.npy", "-o", "hasher", "--bits", 2, *RANDOM).code == 0
    require_failure(
        run("classify", "evaluate", "hasher", "x.npy", "--labels", "l"), "not a classifier"
    )
    require_failure(
        run("classify", "predict", "m", "test.jsonl", "--text", "about", "-o", "no/p"), "no/p"
    )


@pytest.mark.parametrize("command", ["train", "predict", "evaluate"])
def test_every_help_has_an_example(run: Run, command: str) -> None:
    done = run("classify", command, "-h")
    assert (done.code, done.err) == (0, "")
    assert f"Example: bitkin classify {command} " in " ".join(done.out.split())


def test_alpha_is_chosen_where_nobody_gives_it(texts: list[dict[str, Any]], run: Run) -> None:
    done = run(
        "classify",
        "train",
        "train.jsonl",
        "--text",
        "about",
        "--path",
        "all",
        "-o",
        "m",
        "--buckets",
        512,
    )
    assert (done.code, done.err) == (0, "")
    model = bitkin.load("m")
    assert (model.alpha, model.weights_.shape) == ("auto", (2, 512))
    assert f"alpha {model.alpha_:.2g}" in done.out


def test_bars_move_while_alpha_is_chosen_and_while_it_learns(
    texts: list[dict[str, Any]], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int | None, list[int]]] = []
    is_open = [0]

    @contextmanager
    def bar(what: str, total: int | None, unit: str = "rows") -> Iterator[Callable[[int], None]]:
        shown.append((what, total, []))
        is_open[0] += 1
        assert is_open[0] == 1, "one bar at a time"
        yield shown[-1][2].append
        is_open[0] -= 1

    monkeypatch.setattr("bitkin.cli.classifying.models.progress_bar", bar)
    options = ("--text", "about", "--path", "all", "-o", "m", "--buckets", 512, "--passes", 3)
    assert run("classify", "train", "train.jsonl", *options).code == 0
    assert is_open == [0]
    assert shown[0][0] == "reading"
    trials = shown[1:-1]
    assert 2 <= len(trials) <= 8
    for number, (what, total, moved) in enumerate(trials, start=1):
        assert (what, total, moved) == (f"choosing alpha, trial {number}", 486, [162, 324, 486])
    assert shown[-1] == ("learning", 609, [203, 406, 609])
