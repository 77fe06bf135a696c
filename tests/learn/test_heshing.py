"""HeshingClassifier: what it promises to those who use it."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bitkin
from bitkin import HeshingClassifier, Taxonomy
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io import open_vectors
from tests.io.mutations import mutate
from tests.learn.heshing_truth import TREE, bags


def small(**parameters: Any) -> HeshingClassifier:
    """A model that is quickly learned."""
    return HeshingClassifier(
        **{"taxonomy": TREE, "n_buckets": 512, "alpha": 1e-3, "max_iter": 3, **parameters}
    )


@pytest.mark.parametrize("loss", ["hinge", "softmax"])
def test_it_learns_what_there_is_to_learn(loss: str) -> None:
    X, y = bags(600)
    Q, truth = bags(300, seed=1)
    model = small(loss=loss, alpha="auto").fit(X, y)
    assert model.score(Q, truth) > 0.9
    assert model.classes_.tolist() == list(TREE.classes)
    assert model.class_counts_.tolist() == [(y == label).sum() for label in TREE.classes]
    assert model.weights_.shape == (3, 512)
    assert model.weights_.dtype == np.float32
    assert model.n_iter_ == len(model.losses_) == 3
    assert model.losses_[-1] < model.losses_[0]


def test_the_answers_agree_with_each_other() -> None:
    X, y = bags(300)
    model = small(loss="softmax").fit(X, y)
    Q, _ = bags(70, seed=1)
    scores, found = model.decision_function(Q), model.predict(Q)
    assert np.array_equal(model.classes_[scores.argmax(axis=1)], found)
    top = model.predict_top(Q, 3)
    assert np.array_equal(
        top.labels, model.classes_[np.argsort(-scores, axis=1, kind="stable")[:, :3]]
    )
    assert np.array_equal(top.scores, -np.sort(-scores, axis=1)[:, :3])
    assert not top.empty.any()
    assert [TREE.path_of(label) for label in found] == model.predict_path(Q).tolist()
    shares = np.exp(scores.astype(np.float64))
    assert np.allclose(
        model.predict_proba(Q), shares / shares.sum(axis=1, keepdims=True), atol=1e-6
    )
    assert not hasattr(small(), "predict_proba")
    assert model.predict(Q[:0]).shape == (0,)
    assert model.decision_function(Q[:0]).shape == (0, 5)
    assert model.predict_top(Q[:0], 2).labels.shape == (0, 2)


def test_two_classes_have_one_score_as_in_scikit_learn() -> None:
    X, y = bags(200)
    two = np.isin(y, ["lily", "cat"])
    model = small().fit(X[two], y[two])
    scores = model.decision_function(X)
    assert scores.shape == (200,)
    assert np.array_equal(model.predict(X), model.classes_[(scores > 0).astype(int)])


def test_the_same_seed_is_the_same_model_whatever_the_threads(few_threads: None) -> None:
    X, y = bags(1500)
    found = []
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        model = small(alpha="auto").fit(X, y)
        found.append(
            (
                model.weights_.tobytes(),
                model.decision_function(X).tobytes(),
                model.predict(X).tolist(),
            )
        )
    assert found[0] == found[1] == found[2]
    assert small(random_state=1).fit(X, y).weights_.tobytes() != found[0][0]


def test_every_form_of_the_rows_gives_the_same_model() -> None:
    X, y = bags(200)
    weights = small().fit(X, y).weights_
    wide = scipy.sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    explicit = scipy.sparse.csr_array(X)
    explicit.data[:5] = 0
    with_zeros = X.copy()
    with_zeros[tuple(np.argwhere(X)[:5].T)] = 0
    assert np.array_equal(small().fit(explicit, y).weights_, small().fit(with_zeros, y).weights_)
    for same in (
        wide,
        scipy.sparse.coo_array(X),
        X.astype(np.float64),
        X.astype(int),
        np.asfortranarray(X),
        X.tolist(),
    ):
        assert np.array_equal(small().fit(same, y).weights_, weights)
        assert np.array_equal(small().fit(X, y).predict(same), small().fit(X, y).predict(X))
    source = open_vectors(X, batch_rows=37)
    assert np.array_equal(small().fit(source, y).weights_, weights)
    assert np.array_equal(small().fit(X, y).predict(source), small().fit(X, y).predict(X))


def test_data_frames_are_taken_by_name(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    X, y = bags(100)
    frame = pandas.DataFrame(X, columns=[f"word{i}" for i in range(60)])
    model = small().fit(frame, pandas.Series(y))
    assert np.array_equal(model.weights_, small().fit(X, y).weights_)
    model.save(tmp_path / "model")
    assert bitkin.load(tmp_path / "model").feature_names_in_.tolist() == list(frame.columns)


@pytest.mark.parametrize("cuts", [[], [1], [50, 50, 51], [7, 100, 199]])
def test_parts_in_any_split_give_one_model(cuts: list[int]) -> None:
    X, y = bags(300)
    whole = (
        small().partial_fit(X[:100], y[:100], classes=TREE.classes).partial_fit(X[100:], y[100:])
    )
    parts = small().partial_fit(X[:100], y[:100], classes=TREE.classes)
    for rows in np.split(np.arange(100, 300), cuts):
        parts.partial_fit(X[rows], y[rows])
    assert np.array_equal(parts.weights_, whole.weights_)
    assert parts.class_counts_.tolist() == whole.class_counts_.tolist()


def test_a_class_that_comes_late_is_learned_nearly_as_well() -> None:
    X, y = bags(4000)
    Q, truth = bags(2000, seed=1)
    early, late = np.arange(2000), np.arange(2000, 4000)
    early = early[y[early] != "rose"]
    knew = (
        small().partial_fit(X[early], y[early], classes=TREE.classes).partial_fit(X[late], y[late])
    )
    others = [TREE.path_of(label) for label in TREE.classes if label != "rose"]
    learned = small(taxonomy=Taxonomy.from_paths(others)).partial_fit(X[early], y[early])
    learned.partial_fit(X[late], y[late], paths=[TREE.path_of("rose")])
    rose = truth == "rose"
    assert learned.score(Q, truth) > knew.score(Q, truth) - 0.02
    assert learned.score(Q[rose], truth[rose]) > knew.score(Q[rose], truth[rose]) - 0.02
    assert set(learned.classes_) == set(TREE.classes)


def test_a_deeper_class_leaves_all_scores_as_they_were() -> None:
    X, y = bags(300)
    model = small().fit(X, y)
    before = model.decision_function(X)
    deep = ("root", "plant", "flower", "orchid", "vanilla", "planifolia")
    model.partial_fit(X[:0], y[:0], classes=["planifolia"], paths=[deep])
    assert model.taxonomy_.n_levels == 6
    assert model.weights_.shape == (5, 512)
    assert np.allclose(model.decision_function(X)[:, :5], before, atol=1e-5)
    model.partial_fit(X[:1].repeat(20, axis=0), ["planifolia"] * 20)
    assert model.predict_path(X[:1])[0] == deep


def test_without_a_taxonomy_new_classes_are_listed() -> None:
    X, y = bags(300)
    known = y != "cat"
    model = small(taxonomy=None).partial_fit(X[known], y[known])
    assert model.classes_.tolist() == ["lily", "moss", "rock", "rose"]
    with pytest.raises(
        InvalidInputError,
        match=r"must hold classes of the taxonomy, got 'cat'\. List new classes in",
    ):
        model.partial_fit(X, y)
    assert model.classes_.tolist() == ["lily", "moss", "rock", "rose"]
    model.partial_fit(X, y, classes=["cat"])
    assert "cat" in model.predict(X)


def test_fit_can_be_continued() -> None:
    X, y = bags(300)
    model = small().fit(X, y)
    steps = copy.deepcopy(model).partial_fit(X, y)
    assert not np.array_equal(steps.weights_, model.weights_)
    assert steps.score(X, y) > 0.9


def test_an_empty_row_is_answered_by_the_prior() -> None:
    X, y = bags(300)
    y[:200] = "moss"
    X[17] = 0
    model = small(loss="softmax").fit(X, y)
    Q = scipy.sparse.csr_array(X[15:20])
    assert model.empty_rows(Q).tolist() == [False, False, True, False, False]
    top = model.predict_top(Q, 2)
    assert top.empty.tolist() == [False, False, True, False, False]
    assert top.labels[2, 0] == model.predict(Q)[2] == "moss"
    prior = (model.class_counts_ + 1) / (300 + 5)
    assert np.allclose(model.predict_proba(Q)[2], prior, atol=1e-6)
    assert model.predict_path(Q)[2] == TREE.path_of("moss")
    nothing = np.zeros((10, 3))
    assert (small().fit(nothing, y[195:205]).predict(nothing) == "moss").all()


def test_an_unsure_leaf_gives_way_to_the_node_above_it() -> None:
    X, y = bags(300)
    sure = small().fit(X, y)
    scores = sure.decision_function(X)
    for margin in (0.0, 0.5, 2.0, 1e6):
        paths = small(min_margin=margin).fit(X, y).predict_path(X)
        for row, path in enumerate(paths):
            best = TREE.path_of(sure.classes_[scores[row].argmax()])
            assert path == best[: len(path)]
            below = [TREE.path_of(label)[: len(path)] == path for label in sure.classes_]
            assert np.all(scores[row].max() - scores[row][~np.array(below)] >= margin)
            if len(path) < len(best):
                longer = best[: len(path) + 1]
                outside = [TREE.path_of(label)[: len(longer)] != longer for label in sure.classes_]
                assert scores[row].max() - scores[row][outside].max() < margin
        labels = small(min_margin=margin).fit(X, y).predict(X)
        assert labels.tolist() == [path[-1] for path in paths]
    assert set(labels) == {"root"}


def test_a_beam_as_wide_as_the_tree_loses_nothing() -> None:
    X, y = bags(300)
    exact = small(beam=None).fit(X, y)
    assert np.array_equal(small(beam=100).fit(X, y).weights_, exact.weights_)
    assert np.array_equal(small(beam="auto").fit(X, y).weights_, exact.weights_)
    assert exact.beam_gap(X) == 0
    assert 0 <= exact.beam_gap(X, 1) < 0.5
    narrow = small(beam=1).fit(X, y)
    gap = np.mean(narrow.predict(X) != narrow.classes_[narrow.decision_function(X).argmax(axis=1)])
    assert narrow.beam_gap(X) == gap
    assert narrow.predict_top(X, 5).labels.shape == (300, 5)


def test_the_memory_chooses_the_buckets() -> None:
    X, y = bags(50)
    model = small(max_bytes=10_000).fit(X, y)
    assert model.weights_.nbytes == 10_000 // 12 * 12
    assert small(max_bytes=12).fit(X, y).weights_.shape == (3, 1)
    with pytest.raises(
        InvalidInputError,
        match="max_bytes must be at least 12, one bucket for each level below the root, got 11",
    ):
        small(max_bytes=11).fit(X, y)


def test_early_stopping_and_progress() -> None:
    X, y = bags(200)
    told: list[tuple[int, int]] = []
    model = small(max_iter=50, early_stopping=True, progress=lambda *now: told.append(now)).fit(
        X, y
    )
    assert 2 < model.n_iter_ < 50
    assert told[0] == (180, 50 * 180)
    assert told[-1] == (50 * 180, 50 * 180)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


class Listener:
    """Listens to both: the search for alpha, and learning."""

    def __init__(self) -> None:
        self.trials: list[tuple[int, int, int]] = []
        self.learned: list[tuple[int, int]] = []

    def choosing_alpha(self, *now: int) -> None:
        assert not self.learned
        self.trials.append(now)  # type: ignore[arg-type]

    def __call__(self, *now: int) -> None:
        self.learned.append(now)  # type: ignore[arg-type]


def test_progress_may_listen_while_alpha_is_chosen_and_changes_nothing() -> None:
    X, y = bags(200)
    listener = Listener()
    model = small(alpha="auto", max_iter=3, progress=listener).fit(X, y)
    numbers = [trial for trial, _, _ in listener.trials]
    assert sorted(set(numbers)) == list(range(1, numbers[-1] + 1))
    assert numbers == sorted(numbers)
    for number in set(numbers):
        rows = [(learned, total) for trial, learned, total in listener.trials if trial == number]
        assert rows == [(160, 480), (320, 480), (480, 480)]  # 40 of 200 rows are held out
    assert listener.learned == [(200, 600), (400, 600), (600, 600)]
    quiet = small(alpha="auto", max_iter=3).fit(X, y)
    assert np.array_equal(model.weights_, quiet.weights_)
    given = Listener()
    small(alpha=1e-3, max_iter=3, progress=given).fit(X, y)
    assert (given.trials, len(given.learned)) == ([], 3)
    given.choosing_alpha = "no method"  # type: ignore[assignment,method-assign]
    with pytest.raises(
        InvalidInputError, match=r"progress\.choosing_alpha must be a method, got 'no method'"
    ):
        small(alpha="auto", progress=given).fit(X, y)


def test_the_last_weights_without_an_average() -> None:
    X, y = bags(300)
    model = small(average=False).fit(X, y)
    assert model.score(X, y) > 0.9
    assert not np.array_equal(model.weights_, small().fit(X, y).weights_)


def test_an_intercept_finds_what_directions_cannot() -> None:
    X = np.linspace(1, 3, 200)[:, None]
    y = np.where(X[:, 0] > 2, "far", "near")
    assert (
        HeshingClassifier(fit_intercept=True, alpha=1e-6, max_iter=50).fit(X, y).score(X, y) > 0.95
    )
    assert HeshingClassifier(alpha=1e-6, max_iter=50).fit(X, y).score(X, y) < 0.6


def test_labels_of_any_kind() -> None:
    X, _ = bags(100)
    kinds: list[list[Any]] = [
        [3, 1, 2],
        [2.0, 1.0],
        [True, False],
        [("a", 1), ("b", 2)],
        ["x", 5, None],
    ]
    for labels in kinds:
        y = [labels[i % len(labels)] for i in range(100)]
        model = HeshingClassifier(n_buckets=64, alpha=1e-3, max_iter=1).fit(X, y)
        assert set(model.predict(X).tolist()) <= set(labels)
        assert len(model.classes_) == len(labels)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_model_predicts_and_learns_on(in_parts: bool, mmap: bool, tmp_path: Path) -> None:
    X, y = bags(200)
    model = small(loss="softmax", fit_intercept=True, min_margin=0.1)
    if in_parts:
        model.partial_fit(X[:100], y[:100])
    else:
        model.fit(X[:100], y[:100])
    model.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model", mmap=mmap)
    assert back.get_params() == model.get_params()
    for name in ("alpha_", "losses_", "n_iter_", "seed_", "taxonomy_", "n_features_in_"):
        assert getattr(back, name) == getattr(model, name)
    assert np.array_equal(back.decision_function(X), model.decision_function(X))
    assert np.array_equal(back.predict(X), model.predict(X))
    assert np.array_equal(back.partial_fit(X, y).weights_, model.partial_fit(X, y).weights_)
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copied.weights_, model.weights_)
    assert np.array_equal(clone(back).fit(X, y).weights_, clone(model).fit(X, y).weights_)


@pytest.mark.parametrize("in_parts", [False, True])
def test_damaged_models_are_refused(in_parts: bool, tmp_path: Path) -> None:
    X, y = bags(50)
    model = small(n_buckets=16)
    (model.partial_fit(X, y) if in_parts else model.fit(X, y)).save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        (tmp_path / "bad").write_bytes(mutate(data, rng))
        try:
            back = bitkin.load(tmp_path / "bad")
        except CorruptFileError:
            continue
        assert np.array_equal(back.weights_, model.weights_)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_buckets": 0}, "n_buckets must be between 1 and 2147483648, got 0"),
        ({"n_buckets": -5}, "n_buckets must be between"),
        ({"n_buckets": 2.5}, "n_buckets must be a whole number, got 2.5"),
        ({"max_bytes": -1}, "max_bytes must be at least 1, got -1"),
        ({"loss": "squared"}, "loss must be one of 'hinge', 'softmax', got 'squared'"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"alpha": np.nan}, "alpha must be finite"),
        ({"alpha": "best"}, "alpha must be one of 'auto', got 'best'"),
        ({"alpha": None}, "alpha must be a number, got None"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"average": 1}, "average must be True or False, got 1"),
        ({"beam": 0}, "beam must be at least 1"),
        ({"beam": "wide"}, "beam must be one of 'auto', got 'wide'"),
        ({"min_margin": -1.0}, "min_margin must be finite and at least 0.0, got -1.0"),
        ({"progress": 5}, "progress must be a function of two numbers or None, got 5"),
        ({"taxonomy": {"a": "b"}}, "taxonomy must be a Taxonomy or None, got {'a': 'b'}"),
        (
            {"taxonomy": Taxonomy.from_paths([("a", "b")])},
            "taxonomy must have at least two classes",
        ),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_parameters_are_one_clear_error(parameters: dict[str, Any], words: str) -> None:
    X, y = bags(20)
    for learn in ("fit", "partial_fit"):
        model = small(**parameters)
        with pytest.raises(InvalidInputError, match=words):
            getattr(model, learn)(X, y)
        assert not hasattr(model, "classes_")


def test_bad_rows_and_labels_are_one_clear_error() -> None:
    X, y = bags(50)
    model = small().fit(X, y)
    weights = model.weights_
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        small().predict(X)
    with pytest.raises(
        InvalidInputError,
        match=r"classes of the taxonomy, got 7, 'dog'. Add them by taxonomy.with_paths",
    ):
        model.fit(X[:3], ["lily", "dog", 7])
    with pytest.raises(
        InvalidInputError, match=r"got 'dog'\. Give the path of a new class in paths"
    ):
        model.partial_fit(X[:2], ["lily", "dog"])
    with pytest.raises(
        InvalidInputError, match="at least two classes, got one class, 'lily', in all rows"
    ):
        model.fit(X[:3], ["lily"] * 3)
    with pytest.raises(
        InvalidInputError, match="y must hold one label a row of X, 50 in all, got 3"
    ):
        model.fit(X, y[:3])
    with pytest.raises(
        InvalidInputError, match="X has 59 features, but HeshingClassifier is expecting 60"
    ):
        model.predict(X[:, :59])
    with pytest.raises(InvalidInputError, match="expecting 60"):
        model.partial_fit(X[:, :59], y)
    with pytest.raises(InvalidInputError, match="k must be between 1 and 5, got 6"):
        model.predict_top(X, 6)
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        bad = X.copy()
        bad[7, 3] = value
        for rows in (bad, scipy.sparse.csr_array(bad)):
            for work in (
                model.predict,
                lambda rows: model.fit(rows, y),
                lambda rows: model.partial_fit(rows, y),
            ):
                with pytest.raises(InvalidInputError, match=f"{word} at row 7, column 3"):
                    work(rows)
    with pytest.raises(InvalidInputError, match="must fit float32"):
        model.fit(X.astype(np.float64) * 1e300, y)
    with pytest.raises(InvalidInputError, match="rows of a length between"):
        model.fit(X * 1e20, y)
    far = scipy.sparse.csr_array(([1.0, 1.0], ([0, 1], [5, 2**33])), shape=(2, 2**33 + 1))
    with pytest.raises(InvalidInputError, match="must have 1 to 2147483647 columns"):
        small().fit(far, ["lily", "rose"])
    assert model.weights_ is weights
    assert model.n_features_in_ == 60
