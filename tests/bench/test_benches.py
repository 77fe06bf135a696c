"""Every mode of every bench runs, at a size that tells nothing: no bench can fall behind the code.

They run in this process, one after another, with data of their own making.
"""

from __future__ import annotations

import importlib
import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bitkin

BENCH = Path(__file__).parents[2] / "bench"

# File -> the arguments of each mode.
MODES: dict[str, list[str]] = {
    "cells.py": ["", "64 --keep {folder}"],
    "collection.py": ["speed", "rivals"],
    "collection_schema.py": [""],
    "collection_speed.py": ["onet_tasks_minilm384 made_1m_128"],
    "dedup.py": ["--quick"],
    "distributed.py": ["encode fit", "search"],
    "dwta.py": ["", "alphabets", "classify", "windows"],
    "encode.py": [""],
    "epochs.py": ["1"],
    "figures/winner_ranks.py": ["--out {folder}/ranks.png"],
    "figures/wta_choices.py": [""],
    "filters.py": ["", "--quick MultiIndex BandIndex"],
    "funnel.py": ["goal", "stages", "rabitq"],
    "hamming.py": [""],
    "heshing.py": [
        "--sections hashes,theorem2,late --seeds 1 --sets newsgroups20",
        "--sections table,curve,rivals --seeds 1 --sets newsgroups20 --out {folder}/runs.jsonl",
        "--sections table --seeds 1 --sets newsgroups20_known,onet,imclef07a,tinyimagenet",
        "--sections speed --sets newsgroups20,icd10cm",
    ],
    "_tree_run.py": ['{{"set":"newsgroups20","method":"heshing","n_buckets":256,"seeds":1}}'],
    "lone.py": [""],
    "losses.py": [""],
    "minhash.py": [""],
    "mixing.py": ["--sets imclef07a --shards 1 2"],
    "one_pass.py": ["--sets imclef07a newsgroups20"],
    "orthonormality.py": ["--features 20 --bits 4"],
    "projection.py": [
        "rotations",
        "fit --seeds 1",
        "wide",
        "bound",
        "precision --seeds 2",
        "grid --seeds 2",
    ],
    "recommend.py": [
        "intervals --sets glove100_100k newsgroups20_bow --seeds 1",
        "compared lower predicted --sets fashion_mnist",
        "large cut",
    ],
    "service.py": [""],
    "sizing.py": [""],
    "stream.py": ["--vectors 100 --rounds 1"],
    "stream_drift.py": [""],
    "stream_precision.py": [
        "--sections curves --seeds 2 --rows 400 --plot {folder}/curves.png",
        "--sections refresh variance --seeds 1 --rows 400",
    ],
    "sublinear.py": ["multi64 multi128", "random", "settings --bits 64"],
    "sublinear_bands.py": ["", "--quick", "--only million"],
    "truth.py": [""],
    "wta.py": ["", "center"],
}
ELSEWHERE = {"walks.py"}  # test_walks.py
PEERS = {
    "cells.py": ["faiss"],
    "dedup.py": ["datasketch"],
    "distributed.py": ["dask"],
    "figures/winner_ranks.py": ["matplotlib"],
    "figures/wta_choices.py": ["matplotlib"],
    "funnel.py": ["faiss"],
    "hamming.py": ["faiss"],
    "heshing.py": ["matplotlib"],
    "lone.py": ["faiss"],
    "minhash.py": ["datasketch", "rensa"],
    "mixing.py": ["dask"],
    "projection.py": ["faiss"],
    "service.py": ["fastapi"],
    "sizing.py": ["dask"],
    "stream_precision.py": ["matplotlib"],
    "sublinear.py": ["faiss"],
    "sublinear_bands.py": ["faiss"],
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let benches be tiny, and forget their helpers afterwards: another size needs others."""
    monkeypatch.setenv("BITKIN_BENCH", "tiny")
    monkeypatch.syspath_prepend(str(BENCH))

    def forget() -> None:
        for name, module in list(sys.modules.items()):
            # by where it is: bench/distributed.py is called as Dask's package is
            if str(getattr(module, "__file__", None)).startswith(str(BENCH)):
                del sys.modules[name]

    forget()
    yield
    forget()
    importlib.invalidate_caches()


def require_figures(printed: str) -> None:
    """Fail unless a bench printed JSON lines, and every line that begins like one is."""
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    assert lines, printed
    for line in lines:
        assert isinstance(json.loads(line), dict)


def test_every_bench_is_run_here() -> None:
    files = {str(path.relative_to(BENCH)) for path in BENCH.rglob("*.py")}
    public = {name for name in files if not Path(name).name.startswith("_")}
    assert public == set(MODES) - {"_tree_run.py"} | ELSEWHERE, "add its modes to MODES"


@pytest.mark.usefixtures("few_threads")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("file", "arguments"), [(file, mode) for file, modes in MODES.items() for mode in modes]
)
def test_it_runs(
    file: str,
    arguments: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for peer in PEERS.get(file, []):
        pytest.importorskip(peer, reason=f"{peer} comes with the extra `bench` or `plot`")
    bitkin.set_threads(1)
    words = arguments.format(folder=tmp_path).split()
    monkeypatch.setattr(sys, "argv", [str(BENCH / file), *words])
    runpy.run_path(str(BENCH / file), run_name="__main__")
    printed = capsys.readouterr().out
    if file.startswith("figures/"):
        assert printed
    else:
        require_figures(printed)
        assert '"failed"' not in printed.replace('"failed": "No module named', "")


def test_a_bench_without_its_data_says_where_to_put_it(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(BENCH / "stream.py")],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "BITKIN_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("cifar10_gist960.npz is not here: put the data sets beside")
