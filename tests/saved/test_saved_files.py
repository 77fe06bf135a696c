"""Files that an earlier bitkin saved load, and answer what they answered then."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin._load import _MODULES
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # a fixture
from tests.cli.streams import stdin_of
from tests.saved.make import HERE, labels, rows

ANSWERS = np.load(HERE / "answers.npz")
PROJECTIONS = ["pca", "nystrom", "random", "opast", "frequent-directions"]
both_ways = pytest.mark.parametrize("mmap", [False, True])


def saved(name: str, mmap: bool = False) -> Any:
    return bitkin.load(HERE / f"{name}.bitkin", mmap=mmap)


def test_there_is_a_file_of_every_class() -> None:
    assert {path.stem.partition("-")[0] for path in HERE.glob("[A-Z]*.bitkin")} == {
        *_MODULES,
        "Corrections",
    }


@both_ways
def test_codes(mmap: bool) -> None:
    np.testing.assert_array_equal(saved("Codes", mmap).symbols(), ANSWERS["Codes.symbols"])


@both_ways
@pytest.mark.parametrize("name", ["FlatIndex", "MultiIndex", "BandIndex", "CellIndex"])
def test_indexes(name: str, mmap: bool) -> None:
    found = saved(name, mmap).search(saved("Codes")[:9], 5)
    np.testing.assert_array_equal(found.ids, ANSWERS[f"{name}.ids"])
    np.testing.assert_array_equal(found.distances, ANSWERS[f"{name}.distances"])


@both_ways
def test_epochs(mmap: bool) -> None:
    found = saved("EpochIndex", mmap).search(rows()[:9], 5)
    np.testing.assert_array_equal(found.ids, ANSWERS["EpochIndex.ids"])
    np.testing.assert_allclose(found.distances, ANSWERS["EpochIndex.distances"], rtol=1e-5)


def test_hashers_without_matrices() -> None:
    np.testing.assert_array_equal(
        saved("WTAHash").transform(rows()[:9]), ANSWERS["WTAHash.symbols"]
    )
    np.testing.assert_array_equal(saved("SignHash").transform(rows()[:9]), rows()[:9] > 0)
    sets = [["a", "b", "c"], ["b"], ["d", "e"]]
    np.testing.assert_array_equal(saved("MinHash").transform(sets), ANSWERS["MinHash.symbols"])


@both_ways
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_sign_codes(projection: str, mmap: bool) -> None:
    name = f"ProjectionHash-{projection}"
    symbols = saved(name, mmap).transform(ANSWERS[f"{name}.rows"])
    np.testing.assert_array_equal(symbols, ANSWERS[f"{name}.symbols"])


@pytest.mark.parametrize("projection", ["opast", "frequent-directions"])
def test_streams_continue(projection: str) -> None:
    name = f"ProjectionHash-{projection}"
    live = saved(name).partial_fit(rows()[60:])
    np.testing.assert_allclose(
        live.project(rows()[:9]), ANSWERS[f"{name}.projected_later"], rtol=1e-3, atol=1e-3
    )


def test_kernel_map() -> None:
    np.testing.assert_allclose(
        saved("KernelMap").transform(rows()[:9]), ANSWERS["KernelMap.values"], rtol=1e-5
    )


def test_a_classifier_answers_and_continues() -> None:
    classifier = saved("HeshingClassifier")
    scores = classifier.decision_function(rows()[:9])
    np.testing.assert_allclose(scores, ANSWERS["HeshingClassifier.scores"], rtol=1e-4, atol=1e-4)
    classifier.partial_fit(rows()[100:], labels()[100:])
    assert (classifier.predict(rows()[:30]) == ANSWERS["HeshingClassifier.labels_later"]).all()


def test_corrections_files_serve_a_search(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    model = "ProjectionHash-pca.bitkin"
    stages = ["index.bitkin", "rows.npy", "-k", 3, "--model", model, "--stage", "estimate"]
    assert run("index", "rows.bitkin", "-o", "index.bitkin").code == 0
    stored = run("search", *stages, "--json", "--corrections", "Corrections.bitkin")
    assert run("encode", model, "rows.npy", "-o", "now", "--corrections", "made").code == 0
    assert stored == run("search", *stages, "--json", "--corrections", "made")
    assert stored.code == 0
    assert stored.out != ""


def test_a_stream_that_was_stopped_continues(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    options = [
        "--dim",
        "13",
        "--bits",
        "4",
        "-o",
        "stream.codes",
        "--state",
        "stream.bitkin",
        "--epochs",
        "50",
    ]
    with stdin_of(rows()[80:].tobytes()):
        assert run("stream", *options).code == 0
    codes: npt.NDArray[np.uint8] = np.fromfile(tmp_path / "stream.codes", np.uint8)
    then = ANSWERS["stream.codes_later"]
    assert len(codes) == len(then) == 150
    assert (codes[:80] == then[:80]).all()
    # signs of sums near zero, where another BLAS adds otherwise
    assert np.bitwise_count(codes ^ then).sum() <= 3


def test_a_stream_that_noted_its_input_continues_when_that_begins_again(tmp_path: Path) -> None:
    shutil.copytree(HERE / "stream-3", tmp_path, dirs_exist_ok=True)
    opast = bitkin.projections.OPAST(forgetting=1.0)
    hasher = bitkin.ProjectionHash(4, projection=opast, rotation="unifdiag", epochs=50)
    files = {"out": tmp_path / "stream.codes", "state": tmp_path / "stream.bitkin"}
    with bitkin.StreamRun(hasher, **files) as stream:  # type: ignore[arg-type]
        with pytest.warns(UserWarning, match="first 80 vectors were coded before, and skipped"):
            assert stream.encode(rows()) == 70
        assert stream.n_repeated == 80
    codes: npt.NDArray[np.uint8] = np.fromfile(files["out"], np.uint8)
    assert np.bitwise_count(codes ^ ANSWERS["stream.codes_later"]).sum() <= 3
