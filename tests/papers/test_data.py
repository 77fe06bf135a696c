from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

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


def save_bags(folder: Path) -> Path:
    folder.mkdir()
    X = scipy.sparse.csr_matrix(np.arange(24).reshape(8, 3) % 5)
    for part, rows in (("train", X), ("test", X[:3])):
        scipy.sparse.save_npz(folder / f"bow_cifar10_100_{part}.npz", rows)
    np.savez(folder / "bow_cifar10_labels.npz", y_train=np.arange(8), y_test=np.arange(3))
    return folder


def test_bags_come_in_random_order_with_their_classes(tmp_path: Path) -> None:
    data = PaperData(save_bags(tmp_path / "data"))
    assert data.find(["bow_cifar10_100"], "a paper") == ["bow_cifar10_100"]
    bags = data.bags("bow_cifar10_100")
    assert bags.y.tolist() != sorted(bags.y.tolist())
    for rows, classes in ((bags.X, bags.y), (bags.Q, bags.yq)):
        assert (rows.toarray() == (np.arange(24).reshape(8, 3) % 5)[classes]).all()


def test_a_set_of_several_files_needs_them_all(tmp_path: Path) -> None:
    folder = save_bags(tmp_path / "data")
    (folder / "bow_cifar10_labels.npz").unlink()
    data = PaperData(folder)
    assert data.find_some(["bow_cifar10_100"]) == []
    assert data.left_out["bow_cifar10_100"].startswith("bow_cifar10_labels.npz: not in ")


def test_texts_are_counted_where_they_come_from_their_public_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fetch(subset: str, remove: tuple[str, ...]) -> Any:
        assert remove == ("headers", "quotes")
        texts = ["ships sail", "ships float", "cats sail"] if subset == "train" else ["ships dogs"]
        return SimpleNamespace(data=texts, target=np.arange(len(texts)))

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", fetch)
    data = PaperData()
    assert data.find_some(["newsgroups20"]) == ["newsgroups20"]
    bags = data.bags("newsgroups20")
    assert bags.X.shape == (3, 2)  # words of two texts at least
    assert bags.Q.toarray().sum() == 1


def test_bags_of_the_package_are_there_without_files() -> None:
    data = PaperData(quick=True)
    assert data.find_some(["bow_fashion_100", "bow_cifar10_100"]) == ["bow_fashion_100"]
    bags = data.bags("bow_fashion_100")
    assert (bags.X.shape, bags.Q.shape) == ((3000, 100), (600, 100))
    assert data.left_out["bow_cifar10_100"] == "not in the package"
