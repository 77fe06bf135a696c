"""What a recommendation says of itself: no more than is true."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.evaluate.recommending.wording import SearchFacts, describe


@pytest.fixture(scope="module")
def found() -> bitkin.Recommendation:
    """A recommendation of codes alone."""
    X = np.random.default_rng(0).standard_normal((600, 12)).astype(np.float32)
    return bitkin.recommend(X, recall=0.2, methods="pca × random", bits=16)


def with_facts(found: bitkin.Recommendation, **facts: Any) -> bitkin.Recommendation:
    """The same, had these been measured."""
    known = {**vars(found.search_facts), **facts}
    return replace(found, search_facts=SearchFacts(**known))


@pytest.mark.parametrize(
    ("exact_us", "plain_bytes", "said", "unsaid"),
    [
        (10.0, 4000.0, "only save memory", "save nothing"),
        (10.0, 4.0, "save nothing, and take", "only save memory"),
        (500.0, 4.0, "Codes save time alone here, no memory", "Plain exact search"),
        (500.0, 4000.0, "", "instead of"),
    ],
)
def test_codes_are_said_to_save_what_they_save(
    exact_us: float, plain_bytes: float, said: str, unsaid: str, found: bitkin.Recommendation
) -> None:
    reason = with_facts(found, exact_us=exact_us, search_us=10.0, plain_bytes=plain_bytes).reason
    assert said in reason
    assert unsaid not in reason


def test_codes_alone_are_enough_only_where_they_reach_the_recall(
    found: bitkin.Recommendation,
) -> None:
    assert found.vectors is None
    assert "Codes alone are enough" in found.reason
    assert "enough" not in replace(found, target=1.0).reason


@pytest.mark.parametrize(
    ("model_bytes", "bytes_of_all", "is_told"),
    [
        (4e6, 3e6, True),
        (4e6, 39e6, True),
        (4e6, 41e6, False),
        (0.9e6, 1.0, False),
        (0.0, 0.0, False),
    ],
)
def test_a_model_that_takes_much_beside_the_vectors_is_told(
    model_bytes: float, bytes_of_all: float, is_told: bool, found: bitkin.Recommendation
) -> None:
    n_rows = round(bytes_of_all / found.bytes_per_vector)
    reason = with_facts(found, model_bytes=model_bytes, n_rows=n_rows).reason
    assert ("The model of the hasher takes 4 MB more, once" in reason) == is_told
    assert (f"these {n_rows:,} take {bytes_of_all / 1e6:,.1f} MB" in reason) == is_told


def test_the_bytes_of_a_model_are_those_of_its_directions_and_mean(
    found: bitkin.Recommendation,
) -> None:
    assert isinstance(found.hasher, bitkin.ProjectionHash)
    n_columns, n_bits = found.hasher.components_.shape
    assert found.search_facts.model_bytes == 4 * n_columns * n_bits + 8 * n_columns


def test_a_hasher_without_directions_has_no_model_to_tell_of() -> None:
    X = np.random.default_rng(0).standard_normal((600, 12)).astype(np.float32)
    assert bitkin.recommend(X, recall=0.2, methods="sign").search_facts.model_bytes == 0


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits_a_terminal(width: int, found: bitkin.Recommendation) -> None:
    assert all(len(line) <= max(width, 80) for line in describe(found, width).splitlines())


def test_its_page_shows_what_fresh_queries_found_and_not_what_chose(
    found: bitkin.Recommendation, tmp_path: Path
) -> None:
    low, high = 0.311, 0.511
    one = with_facts(replace(found, recall=0.411, interval=(low, high)), search_us=123.0)
    page = one.to_html(tmp_path / "page.html").read_text()
    figures = page.split('<dl class="figures">')[1].split("</dl>")[0]
    shown = re.findall("<dd>(.*?)</dd>", figures)
    assert (shown[0], shown[1], shown[3]) == ("0.411", "0.311 to 0.511", "123")
    assert "search, µs</th>" not in page  # which it measures of the chosen way alone
