"""`bitkin info` and `describe_file`: every kind of file, and what a user wants to know of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from tests.cli.conftest import Run

SAVED = Path(__file__).parent.parent / "saved"

EXPECTED: dict[str, dict[str, Any]] = {
    "Codes.bitkin": {"kind": "codes", "rows": 150, "empty_rows": 0},
    "FlatIndex.bitkin": {"kind": "index", "class": "FlatIndex", "rows": 148},
    "MultiIndex.bitkin": {"kind": "index", "class": "MultiIndex", "rows": 148},
    "BandIndex.bitkin": {"kind": "index", "class": "BandIndex", "rows": 148, "score": "distance"},
    "EpochIndex.bitkin": {"kind": "index", "class": "EpochIndex", "metric": "l2"},
    "Corrections.bitkin": {"kind": "corrections", "rows": 150, "metric": "l2"},
    "ProjectionHash-pca.bitkin": {"kind": "model", "class": "ProjectionHash", "features": 13},
    "ProjectionHash-opast.bitkin": {"kind": "model", "vectors_learned_from": 60},
    "WTAHash.bitkin": {"kind": "model", "class": "WTAHash", "features": 13},
    "MinHash.bitkin": {"kind": "model", "class": "MinHash"},
    "KernelMap.bitkin": {"kind": "model", "class": "KernelMap", "features": 13},
    "HeshingClassifier.bitkin": {"kind": "classifier", "rows_learned_from": 100},
    "stream.bitkin": {"kind": "state of a stream", "vectors": 80, "codes": "stream.codes"},
    "stream-3/stream.bitkin": {"kind": "state of a stream", "vectors": 80},
    "stream.codes": {
        "kind": "codes of a stream",
        "rows": 80,
        "code": "4 × 1-bit",
        "epochs": 1,
        "bytes": 80,
    },
    "stream.codes.epochs": {"kind": "models of a stream", "epochs": 1},
    "rows.npy": {"kind": "vectors", "rows": 150, "features": 13, "numbers": "float32"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_kind_of_file_is_described(name: str) -> None:
    for verify in (False, True):
        about = bitkin.describe_file(SAVED / name, verify=verify)
        assert about.items() >= EXPECTED[name].items(), about
    assert next(iter(about)) == "kind"


def test_every_saved_file_is_described() -> None:
    for path in SAVED.glob("*.bitkin"):
        assert bitkin.describe_file(path)["bytes"] == path.stat().st_size


def test_what_describes_a_model(tmp_path: Path) -> None:
    about = bitkin.describe_file(SAVED / "ProjectionHash-pca.bitkin")
    model = bitkin.load(SAVED / "ProjectionHash-pca.bitkin")
    assert about["fingerprint"] == model.fingerprint_
    assert about["code"] == str(model.spec_)
    assert about["parameters"]["n_bits"] == 6


def test_the_command_prints_text_or_json_lines(run: Run) -> None:
    codes, model = SAVED / "Codes.bitkin", SAVED / "WTAHash.bitkin"
    done = run("info", codes, model)
    assert done.code == 0
    assert f"{codes}: codes\n  rows            150\n" in done.out
    assert f"\n\n{model}: model\n" in done.out
    first, second = run("info", codes, model, "--json", "--verify").objects
    assert (first["kind"], first["rows"], first["verified"]) == ("codes", 150, True)
    assert second["class"] == "WTAHash"


def test_an_interrupted_encoding_and_a_stream_that_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.hashers import encoding
    from bitkin.hashers.encoding import encode_to_file
    from bitkin.io.vectors import open_vectors

    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    hasher = bitkin.ProjectionHash(4).fit(X)

    def stop(rows: int) -> None:
        if rows == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(encoding, "_BATCH_BYTES", 10 * 6 * 4)
    with pytest.raises(KeyboardInterrupt):
        encode_to_file(hasher, open_vectors(X), tmp_path / "codes", progress=stop)
    about = bitkin.describe_file(tmp_path / ".codes.partial")
    assert (about["kind"], about["rows_done"], about["rows"]) == ("interrupted encoding", 20, 50)
    live = bitkin.ProjectionHash(4, projection="opast", rotation="unifdiag")
    bitkin.StreamRun(live, tmp_path / "out", state=tmp_path / "state").close()
    assert bitkin.describe_file(tmp_path / "state")["vectors"] == 0


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("no-such", FileAccessError, "no-such cannot be read: No such file"),
        (
            "folder",
            InvalidInputError,
            "folder is a folder, and neither a collection nor a stream's models",
        ),
        ("text", CorruptFileError, "text is not a bitkin file, but text. Models come from"),
        ("umlauts", CorruptFileError, "umlauts is not a bitkin file, but text"),
        ("bytes", CorruptFileError, "bytes is not a bitkin file, or is cut short"),
        ("nothing", CorruptFileError, "nothing is not a bitkin file, or is cut short"),
        ("cut", CorruptFileError, "cut has .* bytes where its header announces"),
        ("cut.npy", BitkinError, "cut.npy"),
    ],
)
def test_what_is_no_file_of_ours_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text").write_text("a text that is no file of bitkin\n")
    Path("umlauts").write_text("ä" * 99, encoding="utf-8")
    Path("bytes").write_bytes(bytes([200, 1, 201, 255]) * 20)
    Path("nothing").touch()
    Path("cut").write_bytes((SAVED / "Codes.bitkin").read_bytes()[:-7])
    Path("cut.npy").write_bytes((SAVED / "rows.npy").read_bytes()[:-7])
    with pytest.raises(error, match=says):
        bitkin.describe_file(name)


def test_a_flipped_bit_in_the_rows_is_found_by_verify_alone(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "codes"
    shutil.copy(SAVED / "Codes.bitkin", path)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    assert run("info", path).code == 0
    done = run("info", path, "--verify")
    assert done.code == 1
    assert "is damaged: the checksum of words does not fit" in done.err


def test_corrections_of_a_stream_are_known_by_what_is_beside_them(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    hasher = bitkin.ProjectionHash(4, projection="opast", rotation="random", epochs=30)
    files: dict[str, Any] = {"state": tmp_path / "state", "corrections": tmp_path / "kept"}
    with bitkin.StreamRun(hasher, tmp_path / "codes", metric="ip", **files) as stream:
        stream.encode(X)
    about = bitkin.describe_file(tmp_path / "kept")
    assert (about["kind"], about["rows"]) == ("corrections of a stream", 50)
    assert (about["metric"], about["state"]) == ("ip", str(tmp_path / "state"))
    (tmp_path / "state").unlink()
    assert bitkin.describe_file(tmp_path / "kept")["codes"] == str(tmp_path / "codes")
    (tmp_path / "other").write_bytes(bytes(8))  # not as many as there are codes
    with pytest.raises(BitkinError, match="other"):
        bitkin.describe_file(tmp_path / "other")


def test_a_file_that_cannot_be_described_does_not_hide_the_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not ours")
    done = run("info", SAVED / "Codes.bitkin", tmp_path / "text", SAVED / "WTAHash.bitkin")
    assert done.code == 1
    assert "Codes.bitkin: codes" in done.out
    assert "WTAHash.bitkin: model" in done.out
    assert done.err.startswith(f"bitkin: {tmp_path / 'text'}")
    assert len(run("info", SAVED / "Codes.bitkin", "absent", "--json").objects) == 1


@pytest.mark.parametrize("lengths", [(1.0, 1.0), (0.2, 5.0)])
def test_which_rotation_was_chosen(
    run: Run, lengths: tuple[float, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((400, 30))) * rng.uniform(*lengths, (400, 1))
    hasher = bitkin.ProjectionHash(8).fit(X)
    hasher.save("model")
    (about,) = run("info", "model", "--json").objects
    assert about["chosen_rotation"] == repr(hasher.rotation_)
    assert repr(hasher.rotation_) in run("info", "model").out
    bitkin.ProjectionHash(8, rotation="itq").fit(X).save("given")
    (about,) = run("info", "given", "--json").objects
    assert "chosen_rotation" not in about


def test_a_search_result_is_described_by_its_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "k.npz", ids=np.zeros((7, 3), int), distances=np.zeros((7, 3), np.float32))
    about = bitkin.describe_file(tmp_path / "k.npz")
    assert (
        about.items()
        >= {
            "kind": "search result",
            "queries": 7,
            "neighbours_per_query": 3,
            "distances": "float32, estimated or exact",
        }.items()
    )
    ids, distances = np.zeros(7, int), np.zeros(7, np.int32)
    np.savez(tmp_path / "r.npz", offsets=np.arange(8), ids=ids, distances=distances)
    about = bitkin.describe_file(tmp_path / "r.npz")
    assert (about["kind"], about["queries"], about["found"]) == ("search result", 7, 7)
    assert about["distances"] == "int32, symbols of codes that differ"
    # names alone do not make a result
    np.savez(tmp_path / "other.npz", ids=np.zeros(7, int), distances=np.zeros((7, 3)))
    assert bitkin.describe_file(tmp_path / "other.npz")["kind"] == "vectors"


def test_codes_of_a_stream_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    shutil.copytree(SAVED / "stream.codes.epochs", tmp_path / "codes.epochs")
    (tmp_path / "codes").write_bytes(b"{")
    for model in (tmp_path / "codes.epochs").glob("*.bitkin"):
        model.unlink()
    about = bitkin.describe_file(tmp_path / "codes")
    assert about["kind"] == "codes of a stream"
    assert "cannot be read" in about["problem"]
