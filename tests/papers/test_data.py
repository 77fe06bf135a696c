from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.papers.data import SHIPPED, PaperData


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder without data beside it, and no network."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("BITKIN_DATA", raising=False)

    def fetch(*_: Any, **__: Any) -> Any:
        raise OSError("no network in tests")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


def save_gist(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    X = np.arange(12, dtype=np.uint8).reshape(4, 3)
    np.savez(folder / "cifar10_gist960.npz", X=X, y=[0, 1, 2, 0], Q=X[:1] + 1, yq=[1])
    return folder


def test_quick_needs_nothing_but_the_package() -> None:
    data = PaperData(quick=True)
    assert data.find([SHIPPED], "a paper") == [SHIPPED]
    shipped = data.dense(SHIPPED)
    assert shipped.X.shape == (10_000, 784)
    assert set(shipped.y.tolist()) == set(range(10))


@pytest.mark.parametrize("how", ["given", "variable", "beside"])
def test_a_folder_is_given_named_by_a_variable_or_beside(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_gist(tmp_path / ("shared/data" if how == "beside" else "elsewhere"))
    if how == "variable":
        monkeypatch.setenv("BITKIN_DATA", str(folder))
    data = PaperData(folder if how == "given" else None)
    assert data.find(["cifar10_gist960"], "a paper") == ["cifar10_gist960"]
    found = data.dense("cifar10_gist960")
    assert found.X[:, 0].tolist() == [0, 3, 6, 9, 1]
    assert found.y.tolist() == [0, 1, 2, 0, 1]


def test_a_set_that_is_missing_is_left_out_with_a_reason(tmp_path: Path) -> None:
    data = PaperData(save_gist(tmp_path / "data"))
    assert data.find(["fashion_mnist", "cifar10_gist960"], "a paper") == ["cifar10_gist960"]
    assert "fashion_mnist.npz: not in " in data.left_out["fashion_mnist"]
    assert "does not answer (OSError)" in data.left_out["fashion_mnist"]


def test_without_any_set_the_error_names_what_is_missing() -> None:
    with pytest.raises(InvalidInputError) as caught:
        PaperData().find(["fashion_mnist", "cifar10_gist960"], "nystrom")
    for words in ("data for nystrom", "fashion_mnist.npz: no folder of data", "--data",
                  "cifar10_gist960.npz", "no public source", "BITKIN_DATA", "--quick"):  # fmt: skip
        assert words in str(caught.value)


def test_a_public_source_stands_in_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(name: str, **options: Any) -> Any:
        assert (name, options["version"]) == ("Fashion-MNIST", 1)
        return SimpleNamespace(data=np.full((2, 784), 7.0), target=np.array(["3", "9"]))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    data = PaperData()
    assert data.find(["fashion_mnist"], "a paper") == ["fashion_mnist"]
    found = data.dense("fashion_mnist")
    assert found.X.dtype == np.uint8
    assert found.y.tolist() == [3, 9]


def test_a_folder_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="data: must be a folder of data sets, got nowhere"):
        PaperData(Path("nowhere"))
    monkeypatch.setenv("BITKIN_DATA", "nowhere")
    with pytest.raises(InvalidInputError, match="BITKIN_DATA must name a folder"):
        PaperData()


def test_a_file_that_is_another_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10_gist960.npz", other=np.zeros(3))
    with pytest.raises(CorruptFileError, match=r"cifar10_gist960\.npz is not the data set"):
        PaperData(tmp_path).find(["cifar10_gist960"], "a paper")
    (tmp_path / "cifar10_gist960.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(CorruptFileError, match="is not the data set cifar10_gist960"):
        PaperData(tmp_path).find(["cifar10_gist960"], "a paper")
