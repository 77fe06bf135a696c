from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from bitkin.papers.drawing import draw_figure
from bitkin.papers.report import (
    Curve,
    MeanOfRuns,
    Panel,
    ResultFigure,
    ResultTable,
    grade,
    show_cell,
)
from bitkin.papers.scores import Scores


def test_a_mean_has_the_standard_error_of_its_runs() -> None:
    values = [0.1, 0.4, 0.25, 0.3]
    mean = MeanOfRuns.from_values(values)
    assert mean.mean == pytest.approx(statistics.mean(values))
    assert mean.error == pytest.approx(statistics.stdev(values) / 2)
    assert str(mean) == "0.263 ± 0.062"
    assert str(MeanOfRuns.from_values([0.5])) == "0.500"
    assert str(MeanOfRuns(25_000.0, 31.4, 3)) == "25,000 ± 31"
    assert str(MeanOfRuns(2.5e8, 1e6, 3)) == "2.5e+08 ± 1.0e+06"
    assert f"{mean:.1f}" == "0.3"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "–"), (float("nan"), "–"), (0.0, "0.000"), (12_345, "12,345"), (12_345.6, "12,346"),
        (12.34, "12.3"), (4e-5, "4.0e-05"), (7.2e7, "7.2e+07"), ("text", "text"),
    ],
)  # fmt: skip
def test_cells_are_shown_with_as_many_digits_as_mean_anything(cell: object, shown: str) -> None:
    assert show_cell(cell) == shown  # type: ignore[arg-type]


def test_scores_compare_runs_with_the_runs_of_the_same_seed() -> None:
    scores = Scores()
    for one, other in ((1.0, 2.0), (3.0, 4.0)):
        scores.add("one", one)
        scores.add(("other", 2), other)
    assert scores.ratio("one", ("other", 2)).mean == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert scores.gain("one", ("other", 2)) == MeanOfRuns(-1.0, 0.0, 2)
    scores.add("one", 5.0)
    with pytest.raises(ValueError, match="shorter"):
        scores.ratio("one", ("other", 2))


def test_a_verdict_is_the_best_that_is_true() -> None:
    assert grade(holds=True, in_part=True) == "holds"
    assert grade(holds=False, in_part=True) == "in part"
    assert grade(holds=False) == "not here"


def test_a_table_with_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of odd must have 2 cells"):
        ResultTable("odd", "", ("a", "b"), ((1, 2), (3,)))


def test_a_figure_is_drawn_to_the_same_bytes_again(tmp_path: Path) -> None:
    means = [MeanOfRuns(0.1, 0.01, 3), MeanOfRuns(0.2, None, 1), MeanOfRuns(0.3, 0.02, 3)]
    curves = (
        Curve.of_means("ours", (16, 32, 64), means),
        Curve("theirs", (16.0, 64.0), (0.3, 0.2)),
        Curve("without codes", (0.0,), (0.25,), flat=True),
    )
    panels = tuple(Panel(f"set {i}", "bits", "mAP", curves, log_x=i > 0) for i in range(3))
    for name in ("one", "two"):
        draw_figure(ResultFigure("figure", "A figure", panels), tmp_path / f"{name}.png")
    drawn = (tmp_path / "one.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert drawn == (tmp_path / "two.png").read_bytes()
