"""What is written: one HTML file, or Markdown with its plots beside it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from bitkin.errors import FileAccessError
from bitkin.evaluate.reporting.page import (
    HardQuery,
    ReportPage,
    ShownRow,
    to_html,
    to_markdown,
    write_html,
    write_markdown,
)
from bitkin.evaluate.reporting.pictures import encode_png, scale_down
from tests.evaluate.reporting.pages import PLOTS, full_page, hard_queries, measurement


def test_html_is_one_file_with_a_strict_policy(tmp_path: Path) -> None:
    path = write_html(full_page(), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == [path]
    text = path.read_text("utf-8")
    assert text == to_html(full_page())
    policy = "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;; img-src data:"
    assert policy.replace("&#x27;", "'") in text
    assert "@import" not in text
    assert not re.search(r"https?://", text)
    for part in ("@media print", "prefers-color-scheme: dark", "broken", "no &lt;rows&gt;"):
        assert part in text


def test_markdown_links_plots_that_stand_beside_it(tmp_path: Path) -> None:
    paths = write_markdown(full_page(), tmp_path / "my report (1).md")
    text = paths[0].read_text("utf-8")
    assert paths[0].name == "my report (1).md"
    assert {p.name for p in paths[1:]} == {
        *(f"my report (1)-{name}.svg" for name in PLOTS),
        "my report (1)-queries.png",
    }
    assert set(paths) == set(tmp_path.iterdir())
    linked = [unquote(address) for address in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)]
    assert sorted(linked) == sorted(p.name for p in paths[1:])
    for path in paths[1:]:
        if path.suffix == ".svg":
            root = ElementTree.fromstring(path.read_text("utf-8"))
            assert root.get("width")
            assert 'fill="#ffffff"' in path.read_text("utf-8")


def test_markdown_has_the_tables_and_the_marks() -> None:
    text = to_markdown(full_page())
    assert "| wta \\(chosen\\) | 128 |" in text
    assert "\\(runner\\-up\\) |" in text
    assert "![" not in text
    assert "### Query 1,000, recall 0.25" in text
    assert "✓ row 4, distance 0.571" in text
    assert "| broken | 8 | exact | no \\<rows\\> |" in text


def test_what_to_know_about_figures_stands_below_their_table() -> None:
    said = "Of the <sample> alone."
    noted = [measurement("hnsw", 8, 90.0, note=said), measurement("graph", 9, 80.0, note=said)]
    page = ReportPage("p", measurements=[*noted, measurement("pca", 10)])
    text = to_html(page)
    assert "<td>hnsw*</td>" in text
    assert "<td>pca</td>" in text
    assert text.count("* Of the &lt;sample&gt; alone.</p>") == 2  # below each of two tables
    assert r"\* Of the \<sample\> alone." in to_markdown(page)


def test_markdown_of_an_empty_page_is_its_title(tmp_path: Path) -> None:
    assert write_markdown(ReportPage("only <this>"), tmp_path / "a.md") == [tmp_path / "a.md"]
    assert (tmp_path / "a.md").read_text() == "# only \\<this\\>\n"


def test_a_folder_that_is_not_there_is_an_error_with_the_path(tmp_path: Path) -> None:
    for write in (write_html, write_markdown):
        with pytest.raises(FileAccessError, match="cannot be written"):
            write(full_page(), tmp_path / "nowhere" / "report.x")


def test_pictures_and_texts_of_queries_share_a_sheet(tmp_path: Path) -> None:
    colored = ShownRow(1, 0.5, np.full((100, 50, 3), 7, dtype=np.uint8))
    queries = [*hard_queries(), HardQuery(colored, 0.1, [ShownRow(2, 0.5)], [colored])]
    paths = write_markdown(ReportPage("p", hard_queries=queries), tmp_path / "a.md")
    assert paths[-1].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    texts = ReportPage("p", hard_queries=hard_queries(pictures=False))
    assert len(write_markdown(texts, tmp_path / "b.md")) == 1


@pytest.mark.parametrize("shape", [(7, 9), (64, 64), (65, 200), (1, 130, 3), (300, 301, 3)])
def test_a_picture_scaled_down_keeps_its_mean_and_its_form(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    small = scale_down(picture, 64)
    assert max(small.shape[:2]) == min(64, max(shape[:2]))
    assert small.ndim == picture.ndim
    assert abs(small.mean() - picture.mean()) < 6


def test_a_png_is_read_back_by_another_library() -> None:
    image = pytest.importorskip("matplotlib.image")
    import io

    for shape in ((5, 7), (5, 7, 3)):
        pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        read = image.imread(io.BytesIO(encode_png(pixels)))
        np.testing.assert_array_equal((read * 255).round().astype(np.uint8), pixels)


def test_a_report_needs_no_plotting_library() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['PIL'] = None\n"
        "from bitkin.evaluate.reporting.page import ReportPage, to_html\n"
        "import numpy as np\n"
        "assert '<svg' in to_html(ReportPage('p', spectrum=np.array([0.6, 0.4])))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
