from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from tests.cli.conftest import Run


def bags(n: int = 120, d: int = 300, seed: int = 0) -> scipy.sparse.csr_matrix:
    rng = np.random.default_rng(seed)
    return scipy.sparse.csr_matrix(rng.integers(1, 5, (n, d)) * (rng.random((n, d)) < 0.05))


@pytest.mark.parametrize(
    ("options", "hasher"),
    [
        (("--method", "wta", "--window", "auto"), bitkin.WTAHash(window="auto")),
        (
            (
                *(
                    "--method",
                    "wta",
                    "--hashes",
                    40,
                    "--window",
                    280,
                    "--degree",
                    2,
                    "--densify",
                    "rotation",
                ),
                *("--alphabet", 200, "--layout", "independent", "--seed", 3),
            ),
            bitkin.WTAHash(
                40,
                280,
                degree=2,
                densify="rotation",
                alphabet_size=200,
                layout="independent",
                random_state=3,
            ),
        ),
        (
            ("-m", "wta", "--window", 60, "--densify", "none"),
            bitkin.WTAHash(window=60, densify=None),
        ),
        (
            ("--method", "sign"),
            bitkin.SignHash(),
        ),
        (
            ("-m", "wta", "--hashes", 40, "--degree", 2, "--coefficients", "--center"),
            bitkin.WTAHash(40, degree=2, coefficients=True, center=True),
        ),
        (
            ("-m", "wta", "--window", 60, "--no-center", "--scale", "--no-coefficients"),
            bitkin.WTAHash(window=60, center=False, scale=True),
        ),
        (
            ("--method", "minhash", "--hashes", 50, "--symbol-bits", 4),
            bitkin.MinHash(50, bits_per_symbol=4),
        ),
        (
            (
                "--bits",
                16,
                "--projection",
                "nystrom",
                "--sample-rows",
                100,
                "--sample-features",
                0.4,
                "--sampling",
                "norms",
                "--truncate",
                0.001,
                "--rotation-rows",
                90,
                "--rotation",
                "itq",
                "--rotation-iterations",
                7,
            ),
            bitkin.ProjectionHash(
                16,
                projection=bitkin.projections.Nystrom(100, 0.4, "norms", 1e-3),
                rotation=bitkin.rotations.ITQ(7, 90),
            ),
        ),
        (
            ("--projection", "opast", "--rotation", "unifdiag"),
            bitkin.ProjectionHash(256, projection="opast", rotation="unifdiag"),
        ),
        (
            ("--projection", "frequent-directions", "--rotation", "random", "--bits", 100),
            bitkin.ProjectionHash(100, projection="frequent-directions", rotation="random"),
        ),
    ],
    ids=str,
)
def test_every_method_goes_all_the_way(
    options: tuple[Any, ...], hasher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    scipy.sparse.save_npz("bags.npz", bags())
    [fitted] = run("fit", "bags.npz", "-o", "model", "--json", *options).objects
    assert run("encode", "model", "bags.npz", "-o", "codes").code == 0
    assert run("index", "codes", "-o", "index").code == 0
    found = run("search", "index", "bags.npz", "-m", "model", "-k", 1, "--json").objects
    codes = hasher.fit(bags()).encode(bags())
    assert fitted["fingerprint"] == hasher.fingerprint_
    assert (fitted["bits"], fitted["symbols"]) == (codes.spec.n_bits, codes.spec.n_symbols)
    assert bitkin.load("codes") == codes
    assert sum(row["ids"] == [i] for i, row in enumerate(found)) > 110


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "wtaa"), ("'--method'", "'wtaa'", "Did you mean 'wta'?")),
        (
            ("--method", "wta", "--bits", 8),
            ("'--bits'", "means nothing for --method wta", "projection"),
        ),
        (
            ("--hashes", 8),
            ("'--hashes'", "means nothing for --method projection", "wta and minhash"),
        ),
        (
            ("--method", "wta", "--window", "wide"),
            ("'--window'", "'wide' is neither a number from 2 on nor 'auto'"),
        ),
        (("--scale",), ("'--scale'", "means nothing for --method projection", "wta")),
        (
            ("--method", "minhash", "--coefficients"),
            ("'--coefficients'", "means nothing for --method minhash", "wta"),
        ),
        (("--method", "wta", "--window", "none"), ("'--window'", "'none' is neither")),
        (("--method", "wta", "--window", "1"), ("'--window'", "'1' is neither")),
        (("--method", "wta", "--degree", 65), ("'--degree'", "64")),
        (
            ("--sample-rows", 0.1),
            ("'--sample-rows'", "means nothing for --projection pca; it belongs to nystrom"),
        ),
        (
            ("--rotation-rows", 99, "--rotation", "none"),
            ("'--rotation-rows'", "means nothing for --rotation none; it belongs to auto and itq"),
        ),
        (
            ("--projection", "nystrom", "--sample-features", "many"),
            ("'--sample-features'", "'many' is neither a count nor a share such as 0.05"),
        ),
        (
            ("--projection", "nystrom", "--sampling", "norm"),
            ("'--sampling'", "Did you mean 'norms'?"),
        ),
        (("--method", "wta", "--densify", "rotatio"), ("'--densify'", "Did you mean 'rotation'?")),
    ],
    ids=str,
)
def test_options_of_another_method_are_wrong_usage(
    options: tuple[Any, ...], words: tuple[str, ...], folder: Path, run: Run
) -> None:
    done = run("fit", "vectors.npy", "-o", "m", *options)
    assert done.code == 2
    assert all(word in " ".join(done.err.split()) for word in words)
    assert not Path("m").exists()


def test_a_warning_is_one_line_and_a_window_beyond_the_features_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    scipy.sparse.save_npz("bags.npz", bags(d=9000).multiply(bags(d=9000, seed=1)).tocsr())
    done = run("fit", "bags.npz", "--method", "wta", "-o", "model")
    assert done.code == 0
    assert done.err.startswith("bitkin: warning: --window 4 leaves 9")
    assert len(done.err.splitlines()) == 1
    done = run("fit", "bags.npz", "--method", "wta", "--window", 9001, "-o", "other")
    assert done.code == 0
    assert done.err.startswith("bitkin: warning: --window 9001 is more than the 9000 features")
    assert len(done.err.splitlines()) == 1


def test_a_projection_that_follows_streams_has_fewer_bits_than_features_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((500, 20)).astype(np.float32)
    np.save("vectors.npy", X)
    [fitted] = run(
        "fit",
        "vectors.npy",
        "-o",
        "model",
        "--json",
        "--projection",
        "opast",
        "--rotation",
        "unifdiag",
    ).objects
    assert fitted["bits"] == 19
    live = bitkin.load("model").partial_fit(X)
    assert live.n_seen_ == 1000
    failed = run("fit", "vectors.npy", "-o", "other", "--projection", "opast", "--bits", 20)
    assert failed.code == 1
    assert "--bits must be below n_features = 20" in failed.err


@pytest.mark.parametrize(
    ("options", "hasher"),
    [
        (
            ("--projection", "opast", "--rotation", "random", "--forgetting", "0.99"),
            bitkin.ProjectionHash(
                5,
                projection=bitkin.projections.OPAST(0.99),
                rotation=bitkin.rotations.RandomRotation(),
            ),
        ),
        (
            ("--projection", "opast", "--rotation", "random", "--forgetting", "auto"),
            bitkin.ProjectionHash(5, projection="opast", rotation="random"),
        ),
        (
            ("--rotation", "unifdiag", "--rotation-start", "random"),
            bitkin.ProjectionHash(5, rotation=bitkin.rotations.UnifDiag("random")),
        ),
    ],
)
def test_options_of_a_projection_and_of_a_rotation_reach_them(
    options: tuple[str, ...],
    hasher: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
) -> None:
    monkeypatch.chdir(tmp_path)
    X = (np.random.default_rng(0).standard_normal((300, 9)) * np.arange(9, 0, -1)).astype("f4")
    np.save("vectors.npy", X)
    done = run("fit", "vectors.npy", "-o", "model", "--bits", 5, *options)
    assert done.code == 0, done
    assert bitkin.load("model").fingerprint_ == hasher.fit(X).fingerprint_


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--forgetting", "0.99"), ("'--forgetting'", "belongs to opast")),
        (("--projection", "opast", "--forgetting", "2"), ("'--forgetting'", "'2' is neither")),
        (("--rotation-start", "random"), ("'--rotation-start'", "--rotation unifdiag")),
        (
            ("--rotation", "unifdiag", "--rotation-start", "here"),
            ("'--rotation-start'", "'here' is not one of identity, random"),
        ),
        (("--method", "wta", "--forgetting", "1"), ("'--forgetting'", "belongs to projection")),
    ],
)
def test_options_that_belong_to_another_part_are_named(
    options: tuple[str, ...], words: tuple[str, ...], run: Run
) -> None:
    done = run("fit", "vectors.npy", "-o", "model", *options)
    assert done.code == 2
    for word in words:
        assert word in done.err
