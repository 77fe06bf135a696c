"""Plots say what was measured: every mark is read back from the drawing, by its axes."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bitkin.evaluate.reporting.page import CodeStatistics, ReportChoice, ReportPage
from bitkin.evaluate.reporting.plots.all import draw_plots
from bitkin.evaluate.reporting.plots.scales import linear_scale, log_scale
from bitkin.evaluate.trials.measurement import OVERSAMPLES
from tests.evaluate.reporting.drawings import (
    SVG,
    axis,
    of_class,
    parse,
    path_points,
    places_of,
)
from tests.evaluate.reporting.pages import PLOTS, full_page, measurement, several


def drawing(page: ReportPage, name: str) -> ElementTree.Element:
    return parse(draw_plots(page)[name])


def test_every_plot_has_a_title_a_description_and_a_name_for_readers() -> None:
    plots = draw_plots(full_page())
    assert tuple(plots) == PLOTS
    for plot in plots.values():
        root = parse(plot)
        assert root.get("role") == "img"
        title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None
        assert desc is not None
        assert title.text == root.get("aria-label") == plot.title
        assert len(desc.text or "") > 20


def test_points_of_the_pareto_plot_stand_at_their_size_and_recall() -> None:
    measurements = several()
    root = drawing(ReportPage("p", measurements=measurements), "recall")
    size, recall = axis(root, "x", log=True), axis(root, "y")
    points = of_class(root, "point")
    drawn = sorted((size(x), recall(y)) for x, y in places_of(points))
    wanted = sorted((m.bytes_per_vector, m.recall) for m in measurements)
    assert len(drawn) == len(wanted)
    # a pixel is about 1.4 % of a size here and 0.004 of recall
    np.testing.assert_allclose([a for a, _ in drawn], [a for a, _ in wanted], rtol=0.02)
    for at, value in drawn:
        assert any(abs(at / a - 1) < 0.02 and abs(value - b) < 0.004 for a, b in wanted)
    crosses = [p for p in points if p.find(f"{SVG}path[@class='theirs']") is not None]
    assert len(crosses) == sum(not m.ours for m in measurements)


def test_intervals_reach_from_end_to_end() -> None:
    m = measurement(recall=0.5, n_queries=30)
    root = drawing(ReportPage("p", measurements=[m, measurement(recall=0.1, seed=9)]), "recall")
    recall = axis(root, "y")
    bars = [
        sorted((recall(float(e.get("y1") or 0)), recall(float(e.get("y2") or 0))))
        for e in of_class(root, "interval")[0]
    ]
    assert any(np.allclose(bar, m.interval, atol=0.004) for bar in bars)


def test_the_frontier_is_a_stair_through_those_that_no_other_one_beats() -> None:
    page = ReportPage("p", measurements=several())
    root = drawing(page, "recall")
    size, recall = axis(root, "x", log=True), axis(root, "y")
    line = next(e for e in of_class(root, "frontier") if e.tag == f"{SVG}path")
    corners = [(size(x), recall(y)) for x, y in path_points(line.get("d") or "")]
    for m in page.frontier:
        assert any(
            abs(a / m.bytes_per_vector - 1) < 0.02 and abs(b - m.recall) < 0.004 for a, b in corners
        )
    heights = [b for _, b in corners]
    assert heights == sorted(heights)


def test_what_was_chosen_is_marked_and_labelled_at_its_own_oversample() -> None:
    measurements = several()
    chosen, second = measurements[21].at(50), measurements[5]
    page = ReportPage("p", measurements=measurements, choice=ReportChoice("it", chosen, second, ()))
    root = drawing(page, "recall")
    size, recall = axis(root, "x", log=True), axis(root, "y")
    for kind, m in (("chosen", chosen), ("runner-up", second)):
        (mark,) = of_class(root, kind)
        ((x, y),) = places_of([mark])
        assert abs(size(x) / m.bytes_per_vector - 1) < 0.02
        assert abs(recall(y) - m.recall) < 0.004
        assert mark.find(f"{SVG}path[@class='ring']") is not None
        words = [t.text or "" for t in of_class(root, "label")]
        assert f"{kind}: {m.method}, {m.n_bits} bits" in words
    assert len(of_class(root, "point")) == len(measurements)


def test_curves_over_oversamples_go_through_their_recalls() -> None:
    m = measurement(recall=0.3)
    root = drawing(ReportPage("p", measurements=[m]), "oversample")
    oversample, recall = axis(root, "x", log=True), axis(root, "y")
    (line,) = of_class(root, "curve")
    points = [(oversample(x), recall(y)) for x, y in path_points(line.get("d") or "")]
    np.testing.assert_allclose([o for o, _ in points], OVERSAMPLES, rtol=0.02)
    np.testing.assert_allclose([r for _, r in points], m.curve, atol=0.004)


def test_few_curves_are_chosen_with_what_was_recommended_and_every_number_of_bits() -> None:
    measurements = several()
    chosen = measurements[24]  # random, 32 bits: the worst of all
    page = ReportPage("p", measurements=measurements, choice=ReportChoice("it", chosen))
    root = drawing(page, "oversample")
    words = [t.text or "" for t in of_class(root, "legend")]
    assert len(words) == 6
    assert f"{chosen.method}, {chosen.n_bits} bits" in words
    for bits in (32, 64, 128, 256):
        assert any(f", {bits} bits" in w for w in words)


def test_the_spectrum_and_its_sums_are_those_of_the_data() -> None:
    shares = np.sort(np.random.default_rng(0).dirichlet(np.full(90, 0.8)))[::-1]
    page = ReportPage("p", spectrum=shares)
    root = drawing(page, "spectrum")
    direction, share = axis(root, "x", log=True), axis(root, "y", log=True)
    (line,) = of_class(root, "curve")
    points = [(direction(x), share(y)) for x, y in path_points(line.get("d") or "")]
    kept = shares[shares >= shares[0] * 1e-5]
    np.testing.assert_allclose([a for a, _ in points], np.arange(len(kept)) + 1, rtol=0.02)
    np.testing.assert_allclose([b for _, b in points], kept, rtol=0.06)  # a pixel of five decades
    root = drawing(page, "cumulative")
    direction, share = axis(root, "x", log=True), axis(root, "y")
    levels = [(direction(x), share(y)) for x, y in places_of(of_class(root, "level"))]
    sums = np.cumsum(shares)
    wanted = [int(np.argmax(sums >= level)) + 1 for level in (0.5, 0.9, 0.99)]
    np.testing.assert_allclose([a for a, _ in levels], wanted, rtol=0.02)
    np.testing.assert_allclose([b for _, b in levels], sums[np.array(wanted) - 1], atol=0.005)
    assert f"90\u00a0%: {wanted[1]}" in [t.text for t in of_class(root, "label")]


def test_a_dot_per_bit_stands_at_its_entropy() -> None:
    ones = np.array([0.5, 0.1, 0.9, 0.0, 0.3, 0.45, 1.0])
    code = CodeStatistics("c", ones, np.eye(7))
    root = drawing(ReportPage("p", code=code), "entropy")
    bit, entropy = axis(root, "x"), axis(root, "y")
    (dots,) = of_class(root, "dots")
    points = [(bit(x), entropy(y)) for x, y in path_points(dots.get("d") or "")]
    np.testing.assert_allclose([a for a, _ in points], np.arange(7) + 0.5, atol=0.02)
    np.testing.assert_allclose([b for _, b in points], code.entropy, atol=0.004)


@pytest.mark.parametrize("n", [2, 7, 256, 257, 1024])
def test_the_heat_map_shows_the_strongest_correlation_of_every_cell(n: int) -> None:
    correlation = np.random.default_rng(n).uniform(-0.6, 0.6, (n, n))
    correlation[0, n - 1] = -0.8
    code = CodeStatistics("c", np.full(n, 0.5), correlation)
    root = drawing(ReportPage("p", code=code), "correlation")
    pixels, colors, alphas = read_png(root.find(f".//{SVG}image"))
    side = -(-n // 256)
    assert pixels.shape == (-(-n // side),) * 2
    np.fill_diagonal(correlation, 0.0)
    for i, j in ((0, 0), (0, len(pixels) - 1), (len(pixels) - 1, 0)):
        block = correlation[i * side : (i + 1) * side, j * side : (j + 1) * side]
        wanted = block.flat[np.abs(block).argmax()]
        color, alpha = colors[pixels[i, j]], alphas[pixels[i, j]]
        assert abs(alpha / 255 - abs(wanted) / 0.8) < 0.01
        if abs(wanted) > 0.01:
            assert (color[2] > color[0]) == (wanted > 0)  # blue for positive ones


def read_png(image: ElementTree.Element | None) -> tuple[Any, Any, Any]:
    """The picture of an <image>, by the rules of PNG."""
    assert image is not None
    data = base64.b64decode((image.get("href") or "").removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert crc == zlib.crc32(kind + content)
        chunks[kind] = content
        at += 12 + length
    width, height, depth, kind_of_color = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, kind_of_color) == (8, 3)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert (lines[:, 0] == 0).all()
    colors = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3).astype(int)
    return lines[:, 1:], colors, np.frombuffer(chunks[b"tRNS"], np.uint8).astype(int)


@pytest.mark.parametrize("low", [1.0, 3.0, 9.5, 1e-7, 812.0])
@pytest.mark.parametrize("ratio", [1.0, 1.01, 1.6, 3.0, 40.0, 1e5, 1e12])
def test_logarithmic_axes_have_two_to_six_ticks_inside(low: float, ratio: float) -> None:
    scale = log_scale([low, low * ratio], 0, 400)
    assert 2 <= len(scale.ticks) <= 6
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)
    assert 0 < scale.at(low) <= scale.at(low * ratio) < 400


@pytest.mark.parametrize(
    "values", [[0.0], [1.0], [0.5, 0.5], [0.0, 1.0], [0.991, 0.9912], [1e-9, 1.0], [0.3, 0.7], []]
)
def test_axes_of_shares_stay_between_0_and_1(values: list[float]) -> None:
    scale = linear_scale(values, 300, 0, (0.0, 1.0))
    assert 0 <= scale.low < scale.high <= 1
    assert 2 <= len(scale.ticks) <= 8
    for value in values:
        assert 0 <= scale.at(value) <= 300


def test_an_infinite_or_negative_spectrum_is_refused() -> None:
    for bad in ([0.5, np.inf], [0.5, -0.1], [np.nan], [[0.5]]):
        with pytest.raises(ValueError, match="spectrum must be shares of the variance"):
            ReportPage("p", spectrum=np.array(bad))


def test_labels_stay_inside_and_apart() -> None:
    root = drawing(full_page(), "recall")
    boxes = []
    for text in of_class(root, "label"):
        # as a browser of narrow letters would have it
        width = 7.0 * len(text.text or "")
        x, y = float(text.get("x") or 0), float(text.get("y") or 0)
        left = x - {"end": width, "middle": width / 2}.get(text.get("text-anchor") or "", 0.0)
        boxes.append((left, y - 10, left + width, y + 2))
    assert len(boxes) >= 3
    for i, a in enumerate(boxes):
        assert a[0] > 0
        assert a[2] < 480
        for b in boxes[:i]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_colours_are_variables_that_light_and_dark_pages_both_have() -> None:
    from bitkin.evaluate.reporting.plots.palette import DARK, LIGHT, PLOT_STYLE

    used = set(re.findall(r"var\((--\w+)\)", PLOT_STYLE))
    assert used <= set(re.findall(r"(--\w+):", LIGHT))
    assert set(re.findall(r"(--\w+):", LIGHT)) == set(re.findall(r"(--\w+):", DARK))
