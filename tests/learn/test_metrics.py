from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import Taxonomy, flat_error, hierarchical_error, hierarchical_scores, level_errors
from bitkin.errors import InvalidInputError
from tests.learn.trees import path_lists

FIGURE_2A = Taxonomy.from_parents({2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3})
TREES = path_lists().map(Taxonomy.from_paths)


def height(tree: Taxonomy, a: Any, b: Any) -> int:
    """Levels minus the length of the common head of two paths, each as if drawn with its copies."""
    extended = [
        [*path, *(["copy", path] for _ in range(tree.n_levels - len(path)))]
        for path in map(tree.path_of, (a, b))
    ]
    head = 0
    while head < tree.n_levels and extended[0][head] == extended[1][head]:
        head += 1
    return tree.n_levels - head


def test_figure_2a_classes_4_and_8_are_2_apart() -> None:
    assert hierarchical_error(FIGURE_2A, [8], [4]) == 2
    assert hierarchical_error(FIGURE_2A, [4], [5]) == 1
    assert hierarchical_error(FIGURE_2A, [4, 4, 8], [4, 5, 4]) == 1
    assert type(hierarchical_error(FIGURE_2A, [4], [4])) is float


@given(TREES)
def test_heights_are_levels_minus_the_common_head(tree: Taxonomy) -> None:
    for a in tree.classes:
        found = tree.lca_heights([a] * tree.n_classes, tree.classes)
        assert found.tolist() == [height(tree, a, b) for b in tree.classes]


@given(TREES)
def test_the_height_is_an_ultrametric(tree: Taxonomy) -> None:
    n = tree.n_classes
    table = np.array([tree.lca_heights([label] * n, tree.classes) for label in tree.classes])
    assert (table == table.T).all()
    assert ((table == 0) == np.eye(n, dtype=bool)).all()
    assert (table[:, None, :] <= np.maximum(table[:, :, None], table[None, :, :])).all()
    assert table.max() < tree.n_levels


@given(TREES, st.data())
def test_errors_by_level_rise_and_sum_to_the_hierarchical_error(
    tree: Taxonomy, data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(*[st.sampled_from(tree.classes)] * 2), min_size=1))
    y, p = zip(*pairs, strict=True)
    levels = level_errors(tree, y, p)
    assert levels.shape == (tree.n_levels - 1,)
    assert (np.diff(levels) >= 0).all()
    assert levels.sum() == pytest.approx(hierarchical_error(tree, y, p))
    assert levels[-1] == pytest.approx(flat_error(y, p))


@given(TREES, st.data())
def test_scores_compare_sets_of_nodes_on_the_paths(tree: Taxonomy, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(*[st.sampled_from(tree.classes)] * 2), min_size=1))
    sets = [(set(tree.path_of(a)) - {0}, set(tree.path_of(b)) - {0}) for a, b in pairs]
    shared, n_true, n_predicted = (
        sum(map(len, parts))
        for parts in ([a & b for a, b in sets], [a for a, _ in sets], [b for _, b in sets])
    )
    precision, recall, f1 = hierarchical_scores(tree, *zip(*pairs, strict=True))
    assert precision == pytest.approx(shared / n_predicted if n_predicted else 0)
    assert recall == pytest.approx(shared / n_true if n_true else 0)
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall) if shared else 0)


def test_a_prediction_that_stopped_at_an_inner_node_is_wrong_below_it() -> None:
    assert FIGURE_2A.lca_heights([8, 8, 8, 8], [8, 3, 2, 1]).tolist() == [0, 1, 2, 2]
    assert level_errors(FIGURE_2A, [8, 8], [3, 1]).tolist() == [0.5, 1]
    assert hierarchical_scores(FIGURE_2A, [8], [3]) == pytest.approx((1, 0.5, 2 / 3))
    assert hierarchical_scores(FIGURE_2A, [8], [1]) == (0, 0, 0)


def test_flat_error_takes_labels_of_any_kind() -> None:
    assert flat_error(np.array(["a", "b", "c"]), ["a", "c", "c"]) == pytest.approx(1 / 3)
    assert flat_error([(1, 2), None], [(1, 2), "x"]) == 0.5
    assert flat_error(np.array([1.0, 2.0]), np.array([1, 2])) == 0


def test_labels_that_cannot_be_compared_are_refused() -> None:
    for metric in (
        flat_error,
        lambda y, p: hierarchical_error(FIGURE_2A, y, p),
        lambda y, p: level_errors(FIGURE_2A, y, p),
        lambda y, p: hierarchical_scores(FIGURE_2A, y, p),
    ):
        for y, p in (([4], [4, 5]), ([], [])):
            with pytest.raises(
                InvalidInputError, match=f"one length, at least 1, got {len(y)} and {len(p)} labels"
            ):
                metric(y, p)
        with pytest.raises(
            InvalidInputError, match=r"p must be a list of labels, got 4. Wrap a single label"
        ):
            metric([4], 4)
    with pytest.raises(InvalidInputError, match="inner nodes of the taxonomy, got 9"):
        hierarchical_error(FIGURE_2A, [4], [9])
    with pytest.raises(InvalidInputError, match="y and p must have one length, got 1 and 2"):
        FIGURE_2A.lca_heights([4], [4, 5])
