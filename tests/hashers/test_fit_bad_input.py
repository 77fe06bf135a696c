"""What `fit` says of files that cannot be learned from, whichever way rows are read; nothing is
half-fitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bitkin import ProjectionHash
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.projection.projections import PCA, Nystrom
from bitkin.io import open_vectors
from bitkin.io.vectors import VectorSource
from tests.hashers.sources import decaying

EVERY_WAY = {
    "exact": PCA(),
    "randomized": PCA("randomized"),
    "sample": Nystrom(samples=1.0, features=1.0),
    "norms": Nystrom(samples=0.5, sampling="norms"),
    "random": "random",
}
each = pytest.mark.parametrize("projection", EVERY_WAY.values(), ids=EVERY_WAY)


class ChangesMeanwhile(VectorSource):
    """A file that someone cuts or lengthens once the first rows of it were read."""

    def __init__(self, path: Path, change: int) -> None:
        self._inner = open_vectors(path, batch_rows=64)
        inner = self._inner
        super().__init__(inner.name, inner.shape, inner.dtype, sparse=inner.sparse, batch_rows=64)
        self._path, self._size = path, path.stat().st_size + change

    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Any]]:
        for first, batch in self._inner.batches(rows, start):
            yield first, batch
            self._change()

    def gather(self, row_numbers: Any) -> Any:
        self._inner.gather(row_numbers[:1])
        self._change()
        return self._inner.gather(row_numbers)

    def _change(self) -> None:
        with self._path.open("r+b") as file:
            file.truncate(self._size)


def require_refused(
    projection: Any, X: Any, error: type[Exception], words: str, n_bits: int = 8
) -> None:
    hasher = ProjectionHash(n_bits, projection=projection)
    with pytest.raises(error, match=words):
        hasher.fit(X)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        hasher.encode(np.ones((1, 12)))


@each
@pytest.mark.parametrize("change", [-4, 400])
def test_a_file_that_changes_size_while_it_is_read(
    projection: Any, change: int, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", decaying(1000, 12))
    size = (tmp_path / "x.npy").stat().st_size
    source = ChangesMeanwhile(tmp_path / "x.npy", change)
    require_refused(
        projection, source, CorruptFileError, rf"x\.npy.* had {size} bytes, now {size + change}"
    )


@each
def test_files_of_different_dimensions(projection: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", decaying(100, 12))
    np.save(tmp_path / "b.npy", decaying(100, 13))
    hasher = ProjectionHash(8, projection=projection)
    with pytest.raises(InvalidInputError, match=r"a\.npy has 12, .*b\.npy has 13"):
        hasher.fit(open_vectors([tmp_path / "a.npy", tmp_path / "b.npy"]))
    if getattr(projection, "sampling", None) != "norms":  # which reads no iterator
        with pytest.raises(InvalidInputError, match=r"12 .*13"):
            hasher.fit(open_vectors(iter([decaying(100, 12), decaying(100, 13)])))


@each
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_deep_inside_a_file(
    projection: Any, value: float, tmp_path: Path
) -> None:
    X = decaying(50_000, 12)
    X[43_210, 5] = value
    np.save(tmp_path / "x.npy", X)
    words = rf"x\.npy.*{'NaN' if np.isnan(value) else 'infinity'} at row 43210, column 5"
    if projection is EVERY_WAY["sample"]:  # which reads rows by number: all, as a share is capped
        projection = Nystrom(samples=len(X), features=1.0)
    else:
        words += ", batch 43"
    require_refused(
        projection, open_vectors(tmp_path / "x.npy", batch_rows=1000), InvalidInputError, words
    )


@each
def test_ragged_lists_of_a_parquet_file(projection: Any, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = decaying(300, 12).tolist()
    rows[250] = rows[250][:11]
    table = pa.table({"v": pa.array(rows, pa.list_(pa.float32()))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=100)
    source = open_vectors(tmp_path / "x.parquet", batch_rows=64)
    require_refused(
        projection,
        source,
        InvalidInputError,
        r"column 'v' must have lists of 12.* got 11 in row 250",
    )


LEARNED = [way for name, way in EVERY_WAY.items() if name != "random"]
each_learned = pytest.mark.parametrize(
    "projection", LEARNED, ids=[name for name in EVERY_WAY if name != "random"]
)


@each_learned
@pytest.mark.parametrize("rotation", [None, "random"])
def test_bits_beyond_the_directions_of_the_data_are_combinations_of_those(
    projection: Any, rotation: str | None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    poor = {
        "fewer rows than bits": decaying(6, 12),
        "constant columns": np.hstack([decaying(500, 5), np.full((500, 7), 7.5)]),
        "a low rank": np.rint(64 * decaying(500, 5)) @ rng.integers(-3, 4, (5, 12)),
        "fewer features than bits": decaying(500, 5),
    }
    for rows in poor.values():
        np.save(tmp_path / "x.npy", rows.astype(np.float32))
        source = open_vectors(tmp_path / "x.npy")
        hasher = ProjectionHash(8, projection=projection, rotation=rotation)
        with pytest.warns(UserWarning, match="n_bits=8 is more than the 5 directions"):
            found = hasher.fit(source).components_.astype(np.float64)
        assert found.shape == (rows.shape[1], 8)
        assert np.linalg.matrix_rank(found, tol=1e-4) == 5
        five = ProjectionHash(5, projection=projection, rotation=rotation).fit(source).components_
        span = np.linalg.qr(five.astype(np.float64))[0]
        assert np.allclose(span @ (span.T @ found), found, atol=1e-4)
        if rotation is None:
            if isinstance(projection, PCA):  # a sample for more bits may have other rows
                assert np.allclose(found[:, :5], five, atol=1e-6)
            assert np.allclose(np.linalg.norm(found, axis=0), 1.0, atol=1e-5)
        else:  # orthonormal rows within the span: inner products stay what they are there
            assert np.allclose(found @ found.T, span @ span.T, atol=1e-5)


def test_random_directions_mind_neither_few_rows_nor_a_low_rank() -> None:
    assert ProjectionHash(20, projection="random", rotation=None).fit(
        np.ones((2, 3))
    ).components_.shape == (3, 20)


@pytest.mark.parametrize("path", ["vectors.npy", Path("vectors.npy")])
def test_the_name_of_a_file_is_no_matrix(path: Any) -> None:
    says = (
        r"X must be vectors, got the text 'vectors.npy'. .* bitkin.io.open_vectors\('vectors.npy'\)"
    )
    with pytest.raises(InvalidInputError, match=says):
        ProjectionHash(4).fit(path)
