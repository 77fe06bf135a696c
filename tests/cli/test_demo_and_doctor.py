"""The two commands that need no files."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import bitkin
from bitkin.cli.machine import doctor
from bitkin.cli.showing import showcase
from bitkin.errors import MissingExtraError
from tests.cli.conftest import Run


def size_of_png(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[12:16] == b"IHDR"
    assert data[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_the_demo_prints_a_table_and_draws_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("demo")
    assert (done.code, done.err) == (0, "")
    assert "9,500 images searched for 500 others" in done.out
    rows = [
        line.split()
        for line in done.out.splitlines()
        if line.split()[:1] in (["32"], ["64"], ["128"], ["256"])
    ]
    assert [(int(row[0]), int(row[1])) for row in rows] == [(32, 4), (64, 8), (128, 16), (256, 32)]
    assert rows[3][2:4] == ["98", "×"]
    recalls = [float(row[4]) for row in rows]
    assert recalls == sorted(recalls)
    assert 0.9 < recalls[3] <= 1
    assert "picture: bitkin-demo.png" in done.out
    assert "bitkin fit vectors.npy -o model.bitkin" in done.out
    width, height = size_of_png(Path("bitkin-demo.png"))
    assert 1000 < width < 2000
    assert 300 < height < 1500
    assert os.listdir() == ["bitkin-demo.png"]  # noqa: PTH208


def test_the_demo_in_quiet_only_draws(tmp_path: Path, run: Run) -> None:
    done = run("demo", "--quiet", "--out", tmp_path / "neighbours.png")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "neighbours.png").is_file()


def test_the_demo_in_json_has_the_figures_and_nothing_else(tmp_path: Path, run: Run) -> None:
    done = run("demo", "--json", "--out", tmp_path / "neighbours.png")
    assert (done.code, done.err) == (0, "")
    keys = {"bits", "bytes_a_code", "bytes_saved", "true_10_in_best_100", "microseconds_a_query"}
    assert [set(line) for line in done.objects] == [keys] * 4
    assert [line["bits"] for line in done.objects] == [32, 64, 128, 256]
    assert [line["bytes_saved"] for line in done.objects] == [4 * 784 - n for n in (4, 8, 16, 32)]
    assert all(line["microseconds_a_query"] > 0 for line in done.objects)
    assert size_of_png(tmp_path / "neighbours.png")[0] > 1000


def test_the_picture_needs_matplotlib_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib: pip install 'bitkin\[plot\]'"):
        showcase.draw(cast(Any, None), cast(Any, None), tmp_path / "x.png")


def test_the_doctor_without_the_speed_test(run: Run) -> None:
    done = run("doctor", "--no-speed", "--json")
    assert (done.code, done.err) == (0, "")
    [sections] = done.objects
    assert set(sections) == {"versions", "processor", "kernels"}
    assert sections["versions"]["bitkin"] == bitkin.__version__
    assert {"python", "numpy", "numba", "typer", "pyarrow", "h5py", "matplotlib"} <= set(
        sections["versions"]
    )
    assert sections["processor"]["threads"] == bitkin.get_threads()
    assert sections["processor"]["cores"] >= 1
    assert sections["processor"]["name"] == doctor.processor_name()
    assert {"folder", "bytes", "writable"} <= set(sections["kernels"]) or "state" in sections[
        "kernels"
    ]


def test_the_doctor_names_the_extra_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    def version(name: str) -> str:
        if name in ("pyarrow", "numba"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.2.3"

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = doctor.find_versions()
    assert found["pyarrow"] == "missing: pip install 'bitkin[io]'"
    assert found["numba"] == "missing"
    assert found["rich"] == "1.2.3"


def test_the_processor_has_a_name_where_the_system_tells_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self: "processor : 0\nmodel name\t: A 1\n")
    assert doctor.processor_name() == "A 1"

    def missing(self: Path) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", missing)
    assert doctor.processor_name()


def test_speed_is_measured_in_numbers_that_can_be() -> None:
    measured = doctor.measure_speed(n=10_000)
    assert measured["measured"] == f"10,000 codes of 256 bits, {bitkin.get_threads()} threads"
    for key in (
        "read_gb_s",
        "one_query_ms",
        "one_query_gb_s",
        "share_of_read",
        "matrix_product_gflops",
    ):
        assert measured[key] >= 0
    assert measured["read_gb_s"] > 0.1
    assert measured["matrix_product_gflops"] > 0


@pytest.mark.parametrize("json", [True, False])
def test_the_doctor_with_the_speed_test(
    run: Run, monkeypatch: pytest.MonkeyPatch, json: bool
) -> None:
    measure = doctor.measure_speed
    monkeypatch.setattr(doctor, "measure_speed", lambda: measure(n=10_000))
    done = run("doctor", *(["--json"] if json else []))
    assert (done.code, done.err) == (0, "")
    if json:
        assert set(done.objects[0]) == {"versions", "processor", "kernels", "speed"}
        return
    for words in ("versions", "processor", "kernels", "speed", "as a share of reading", "GB/s"):
        assert words in done.out
    assert "gb s" not in done.out
    assert done.out.splitlines()[-1].startswith("A query reads codes at ")


@pytest.mark.parametrize(
    "share, words", [(0.5, "50% .* as it should"), (0.49, "49% .* slow"), (1.7, "as it should")]
)
def test_the_verdict_compares_with_reading(share: float, words: str) -> None:
    import re

    assert re.search(words, doctor.judge_speed({"share_of_read": share}))


def test_a_long_path_is_shown_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "/" + "/".join(f"folder-{i}" for i in range(12))
    found = {"folder": folder, "bytes": 1, "writable": True}
    monkeypatch.setattr(doctor, "find_kernel_cache", lambda: found)
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("doctor", "--no-speed").out.split("kernels\n")[-1]
    ends = [line[-40:].strip() for line in shown.splitlines()]
    assert folder in "".join(ends)
