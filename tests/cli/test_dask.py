"""`--dask`: the commands do on a cluster what they do here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

import bitkin
from bitkin.cli.app import app
from bitkin.distributed.cluster import results_in_order
from tests.distributed.clusters import ANY_PORT

runner = CliRunner()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",
            dashboard_address=ANY_PORT,
        ) as cluster,
        Client(cluster),
    ):
        yield cluster.scheduler_address


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).standard_normal((303, 12)).astype(np.float32)
    folder = tmp_path / "shards"
    folder.mkdir()
    for i, part in enumerate(np.array_split(rows, 3)):
        np.save(folder / f"{i}.npy", part)
    return folder


def rows_of(folder: Path) -> npt.NDArray[np.float32]:
    return np.concatenate([np.load(folder / f"{i}.npy") for i in range(3)])


def run(*arguments: object) -> str:
    done = runner.invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done.output


def test_fit_says_how_to_encode_on_the_same_cluster(
    shards: Path, tmp_path: Path, address: str
) -> None:
    said = run("fit", shards, "--method", "wta", "-o", tmp_path / "model", "--dask", address)
    assert f"{shards} -o codes.bitkin --dask {address}" in said


def test_fit_and_encode_give_what_they_give_here(
    shards: Path, tmp_path: Path, address: str
) -> None:
    files = sorted(shards.glob("*.npy"))
    for name, where, given in (
        ("here", [], files),
        ("there", ["--dask", address], [shards]),
    ):
        model, codes = tmp_path / f"{name}.bitkin", tmp_path / f"{name}-codes.bitkin"
        run("fit", *given, "--bits", 8, "-o", model, *where)
        told = run("encode", model, *given, "-o", codes, *where)
        assert "303 codes of 8 × 1-bit" in told
    here, there = (bitkin.load(tmp_path / f"{name}-codes.bitkin") for name in ("here", "there"))
    assert here == there


@pytest.fixture
def interrupted_after_one(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Ctrl-C comes once the codes of the first partition are written."""

    def results(
        client: Client, tasks: Sequence[Any], shared: Sequence[Any]
    ) -> Iterator[bitkin.Codes]:
        with closing(results_in_order(client, tasks, shared)) as made:
            yield next(made)
        raise KeyboardInterrupt

    monkeypatch.setattr("bitkin.distributed.encoding.results_in_order", results)
    return monkeypatch


def test_an_interrupted_encode_continues(
    shards: Path, tmp_path: Path, address: str, interrupted_after_one: pytest.MonkeyPatch
) -> None:
    model, codes = tmp_path / "model.bitkin", tmp_path / "codes.bitkin"
    run("fit", shards, "--bits", 8, "-o", model, "--dask", address)
    encode = list(map(str, ("encode", model, shards, "-o", codes, "--dask", address)))
    assert runner.invoke(app, encode).exit_code != 0
    assert not codes.exists()
    interrupted_after_one.undo()
    assert "from row 101 on" in run(*encode)
    assert bitkin.load(codes) == bitkin.load(model).encode(rows_of(shards))


def test_other_files_do_not_continue_what_was_interrupted(
    shards: Path, tmp_path: Path, address: str, interrupted_after_one: pytest.MonkeyPatch
) -> None:
    model, codes = tmp_path / "model.bitkin", tmp_path / "codes.bitkin"
    run("fit", shards, "--bits", 8, "-o", model, "--dask", address)
    encode = list(map(str, ("encode", model, shards, "-o", codes, "--dask", address)))
    runner.invoke(app, encode)
    interrupted_after_one.undo()
    np.save(shards / "1.npy", np.load(shards / "1.npy") + 1)
    refused = runner.invoke(app, encode)
    assert refused.exit_code == 1
    assert "beginning of other work" in f"{refused.output} {refused.exception}"
    run(*encode, "--fresh")
    assert bitkin.load(codes) == bitkin.load(model).encode(rows_of(shards))


def test_corrections_and_a_cluster_do_not_go_together(
    shards: Path, tmp_path: Path, address: str
) -> None:
    model = tmp_path / "model.bitkin"
    run("fit", shards, "--bits", 8, "-o", model, "--dask", address)
    out, corrections = tmp_path / "codes.bitkin", tmp_path / "corrections.bitkin"
    encode = ["encode", model, shards, "-o", out, "--corrections", corrections, "--dask", address]
    refused = runner.invoke(app, list(map(str, encode)))
    assert refused.exit_code == 2
    assert "cannot be made with --dask" in refused.output
