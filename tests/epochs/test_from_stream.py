"""An index of what a stream run wrote: rows by their numbers, and what cannot be searched."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import EpochIndex, StreamRun
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.stream_files import written

X: npt.NDArray[np.float32] = (
    np.random.default_rng(4).standard_normal((500, 11)) * np.linspace(3, 1, 11)
).astype("f4")
WITH_NAN = X.copy()
SKIPPED = [0, 1, 300]
WITH_NAN[SKIPPED] = np.nan


# streams here begin without a fit, so their first rows are warned of
pytestmark = pytest.mark.filterwarnings("ignore:The first .* rows were coded by random directions")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(rows: npt.NDArray[Any], *, epochs: Any = 100, **options: Any) -> None:
    hasher = bitkin.ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=epochs)
    options = {"state": "state", "corrections": "kept", **options}
    with StreamRun(hasher, "codes", on_skip=lambda row, text: None, **options) as run:
        run.encode(rows)


def truth(rows: npt.NDArray[Any], metric: str = "l2") -> EpochIndex:
    """The same, row by row from the models beside the codes."""
    lines = map(json.loads, Path("codes.epochs/rows.jsonl").read_text().splitlines())
    models = [(line["row"], line["model"]) for line in lines if "model" in line]
    stops = [row for row, _ in models[1:]] + [len(rows)]
    index = EpochIndex(metric)
    for (first, name), stop in zip(models, stops, strict=True):
        ids = np.setdiff1d(np.arange(first, stop), SKIPPED if np.isnan(rows).any() else [])
        index.add(bitkin.load(Path("codes.epochs", name)), rows[ids], ids=ids)
    return index


def require_same(index: EpochIndex, expected: EpochIndex) -> None:
    assert [e.fingerprint for e in index.epochs] == [e.fingerprint for e in expected.epochs]
    found, right = index.search(X[:20], 7), expected.search(X[:20], 7)
    assert found.ids.tolist() == right.ids.tolist()
    np.testing.assert_allclose(found.distances, right.distances, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("form", ["raw", "jsonl"])
def test_a_state_or_codes_become_an_index(metric: str, form: str) -> None:
    write(WITH_NAN, metric=metric, output_format=form)
    index = EpochIndex.from_stream("state")
    assert (len(index), index.metric, index.ids[-1]) == (500, metric, 499)
    require_same(index, truth(WITH_NAN, metric))
    assert not np.isin(index.search(X, 500).ids, SKIPPED).any()
    require_same(EpochIndex.from_stream("codes", corrections="kept", metric=metric), index)
    Path("codes.epochs").rename("models")
    other = EpochIndex.from_stream("codes", corrections="kept", metric=metric, epochs_to="models")
    require_same(other, index)


def test_vectors_stand_for_corrections_and_replace_random_directions() -> None:
    write(WITH_NAN, corrections=None)
    index = EpochIndex.from_stream("state", vectors=WITH_NAN)
    by_stream = truth(WITH_NAN)
    first, second = by_stream.epochs[:2]
    assert [epoch.fingerprint for epoch in index.epochs] == [
        epoch.fingerprint for epoch in by_stream.epochs[1:]
    ]
    assert index.epochs[0].n_rows == first.n_rows + second.n_rows
    later = EpochIndex()
    moved = np.setdiff1d(np.arange(second.n_rows + first.n_rows + 3), SKIPPED)
    model = next(Path("codes.epochs").glob("00001-*"))
    later.add(bitkin.load(model), X[moved], ids=moved)
    found = index.search(X[:20], 7, allow=moved)
    assert found.ids.tolist() == later.search(X[:20], 7, allow=moved).ids.tolist()


def test_what_a_killed_run_wrote_after_its_state_is_left_out() -> None:
    write(X)
    with Path("codes").open("ab") as file:
        file.write(bytes(7))
    index = EpochIndex.from_stream("state")
    assert len(index) == 500
    Path("moved").mkdir()
    for name in ("state", "codes", "kept", "codes.epochs"):
        Path(name).rename(Path("moved", name))
    require_same(EpochIndex.from_stream("moved/state"), index)


@pytest.mark.parametrize("form", ["raw", "jsonl"])
@pytest.mark.parametrize("step", ["_size_of", "_read_rows", "_read_codes", "_read_corrections"])
def test_a_reader_beside_a_writer_gives_every_row_its_model(
    form: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the run writes between any two steps of reading its codes."""
    hasher = bitkin.ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=100)
    with StreamRun(hasher, "codes", corrections="kept", output_format=form) as run:
        run.encode(X[:150])
        read = getattr(written, step)
        rest = iter([X[150:]])

        def write_and_read(*arguments: Any) -> Any:
            for rows in rest:
                run.encode(rows)
            return read(*arguments)

        monkeypatch.setattr(written, step, write_and_read)
        beside = written.WrittenStream("codes", corrections="kept")
        whole = written.WrittenStream("codes", corrections="kept")
    assert (beside.n_rows, whole.n_rows) == (500 if step == "_size_of" else 150, 500)
    for part, right in zip(beside.parts(), whole.parts(), strict=False):
        n = len(part.codes)
        assert (part.first_row, part.codes.fingerprint) == (
            right.first_row,
            right.codes.fingerprint,
        )
        assert part.codes.to_bytes().tolist() == right.codes.to_bytes()[:n].tolist()
        assert part.corrections is not None
        assert right.corrections is not None
        assert part.corrections.tolist() == right.corrections[:n].tolist()


@pytest.mark.parametrize("form", ["raw", "jsonl"])
def test_half_a_line_that_a_killed_run_left_is_passed_over(form: str) -> None:
    write(X, output_format=form)
    index = EpochIndex.from_stream("state")
    for name in ("codes", "codes.epochs/rows.jsonl"):
        if form == "jsonl" or name != "codes":
            with Path(name).open("ab") as file:
                file.write(b'{"row": 500, "mo')
    require_same(EpochIndex.from_stream("state"), index)
    require_same(EpochIndex.from_stream("codes", corrections="kept"), index)


def test_a_list_of_models_shorter_than_the_state_knows_is_named() -> None:
    write(X)
    rows = Path("codes.epochs/rows.jsonl")
    rows.write_bytes(rows.read_bytes()[:-3])
    with pytest.raises(CorruptFileError, match="bytes where the state knows of"):
        EpochIndex.from_stream("state")


def test_a_stream_of_one_row_or_none() -> None:
    write(X[:1])
    assert EpochIndex.from_stream("state").search(X[0], 1).ids.tolist() == [[0]]
    write(X[:0], fresh=True)
    with pytest.raises(InvalidInputError, match="names no models"):
        EpochIndex.from_stream("state")


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (lambda: Path("codes").write_bytes(b"12"), CorruptFileError, "codes has 2 codes where"),
        (lambda: Path("kept").write_bytes(b"12"), CorruptFileError, "corrections of 0 vectors"),
        (lambda: Path("kept").unlink(), FileAccessError, "kept cannot be read"),
        (lambda: Path("codes").unlink(), FileAccessError, "codes cannot be read"),
        (
            lambda: Path("codes.epochs/rows.jsonl").write_text("[]\n"),
            CorruptFileError,
            "lines that are not those of a stream",
        ),
        (
            lambda: Path("codes.epochs/rows.jsonl").write_text('{"row": 0, "model": "../x"}\n'),
            CorruptFileError,
            "lines that are not those of a stream",
        ),
        (
            lambda: next(Path("codes.epochs").glob("00000-*")).unlink(),
            CorruptFileError,
            "lacks the model 00000-",
        ),
        (lambda: Path("codes.epochs").rename("x"), FileAccessError, "as epochs_to"),
    ],
    ids=lambda value: "",
)
def test_damage_is_named(damage: Any, error: type[Exception], says: str) -> None:
    write(X)
    damage()
    with pytest.raises(error, match=says):
        EpochIndex.from_stream("state")


def test_what_cannot_be_searched_says_why() -> None:
    write(X, corrections=None)
    with pytest.raises(InvalidInputError, match=r"state has no corrections.*Give the vectors"):
        EpochIndex.from_stream("state")
    with pytest.raises(InvalidInputError, match="vectors must be all of the stream, got 9 for 500"):
        EpochIndex.from_stream("state", vectors=X[:9])
    write(X, fresh=True, metric="ip")
    with pytest.raises(InvalidInputError, match="metric must be 'ip', for which state has"):
        EpochIndex.from_stream("state", metric="l2")
    write(X, fresh=True, epochs=None, corrections=None)
    with pytest.raises(InvalidInputError, match="made by a model that moves"):
        EpochIndex.from_stream("state")


def test_rows_of_random_directions_are_warned_of_unless_vectors_are_given() -> None:
    write(X, epochs=200)
    says = r"The first 128 of 500 rows were coded by random.*index\.remove\(range\(128\)\)"
    with pytest.warns(UserWarning, match=says):
        index = EpochIndex.from_stream("state")
    index.remove(np.arange(128))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EpochIndex.from_stream("state", vectors=X)
        write(X[:50], fresh=True)  # all of them are
        EpochIndex.from_stream("state")
