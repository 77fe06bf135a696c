"""Make the files of this folder: one saved by every class that can be saved, with what it answered
on that day.

They were made by bitkin 0.1 as of commit 8f136e9, before the rooms were moved, and are never made
again: later versions must load them and answer the same. A new class gets a new file beside them.

    python -m tests.saved.make FOLDER
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin

HERE = Path(__file__).parent
FloatRows = npt.NDArray[np.float32]


def rows(n_rows: int = 150, n_features: int = 13) -> FloatRows:
    """Rows of small whole numbers, the same on every machine."""
    words = np.random.Philox(key=7).random_raw(n_rows * n_features)
    return ((words % np.uint64(41)).astype(np.float32) - 20).reshape(n_rows, n_features)


def labels() -> list[str]:
    """A class for every row, which the first two features tell."""
    return [
        f"{'ab'[int(row[0] > 0)]}.{'xyz'[int(row[1] > -7) + int(row[1] > 7)]}" for row in rows()
    ]


def far_from_zero(hasher: bitkin.ProjectionHash) -> FloatRows:
    """Rows none of whose bits hangs on the last digits of a product."""
    X = rows(400)[150:]
    return X[(np.abs(hasher.project(X)) > 1e-2).all(axis=1)][:20]


def make(folder: Path) -> None:
    """Save one object of every kind to `folder`, and their answers to `answers.npz`."""
    X = rows()
    answers: dict[str, Any] = {}

    codes = bitkin.WTAHash(20, 4).fit(X).encode(X)
    codes.save(folder / "Codes.bitkin")
    answers["Codes.symbols"] = codes.symbols()

    for index in (
        bitkin.FlatIndex(codes.spec),
        bitkin.MultiIndex(codes.spec),
        bitkin.BandIndex(codes.spec),
        bitkin.CellIndex(codes.spec, n_cells=12, probes=3),
    ):
        name = type(index).__name__
        index.add(codes, ids=np.arange(len(codes)) * 3)
        index.remove([6, 30])
        index.save(folder / f"{name}.bitkin")
        found = index.search(codes[:9], 5)
        answers[f"{name}.ids"], answers[f"{name}.distances"] = found.ids, found.distances

    wta = bitkin.WTAHash(12, 3, densify="optimal", random_state=5).fit(X)
    wta.save(folder / "WTAHash.bitkin")
    answers["WTAHash.symbols"] = wta.transform(X[:9])

    bitkin.SignHash().fit(X).save(folder / "SignHash.bitkin")

    minhash = bitkin.MinHash(16, random_state=3).fit([["a", "b"], ["c"]])
    minhash.save(folder / "MinHash.bitkin")
    answers["MinHash.symbols"] = minhash.transform([["a", "b", "c"], ["b"], ["d", "e"]])

    for projection, rotation in (("pca", "itq"), ("nystrom", "unifdiag"), ("random", "isohash")):
        hasher = bitkin.ProjectionHash(
            6, projection=projection, rotation=rotation, random_state=1
        ).fit(X)
        hasher.save(folder / f"ProjectionHash-{projection}.bitkin")
        answers[f"ProjectionHash-{projection}.rows"] = far_from_zero(hasher)
        answers[f"ProjectionHash-{projection}.symbols"] = hasher.transform(far_from_zero(hasher))

    epochs = None
    for projection in ("opast", "frequent-directions"):
        live = bitkin.ProjectionHash(
            4, projection=projection, rotation="unifdiag", refresh=30
        ).partial_fit(X[:60])
        live.save(folder / f"ProjectionHash-{projection}.bitkin")
        kept = far_from_zero(live)
        answers[f"ProjectionHash-{projection}.rows"] = kept
        answers[f"ProjectionHash-{projection}.symbols"] = live.transform(kept)
        live.partial_fit(X[60:])
        answers[f"ProjectionHash-{projection}.projected_later"] = live.project(X[:9])
        if epochs is None:
            epochs = bitkin.EpochIndex()
            for first in (0, 70):
                epochs.add(live.snapshot(), X[first : first + 70], ids=np.arange(first, first + 70))
                live.partial_fit(X[first:])
            epochs.save(folder / "EpochIndex.bitkin")
            found = epochs.search(X[:9], 5)
            answers["EpochIndex.ids"], answers["EpochIndex.distances"] = found.ids, found.distances

    kernel_map = bitkin.KernelMap(anchors=7, gamma=1e-3, random_state=2).fit(X)
    kernel_map.save(folder / "KernelMap.bitkin")
    answers["KernelMap.values"] = kernel_map.transform(X[:9])

    classifier = bitkin.HeshingClassifier(n_buckets=256, alpha=1e-4, random_state=4).partial_fit(
        X[:100], labels()[:100], classes=sorted(set(labels()))
    )
    classifier.save(folder / "HeshingClassifier.bitkin")
    answers["HeshingClassifier.scores"] = classifier.decision_function(X[:9])
    classifier.partial_fit(X[100:], labels()[100:])
    answers["HeshingClassifier.labels_later"] = classifier.predict(X[:30])

    # What only the command line writes: corrections, and a stream that was stopped half way.
    run = [sys.executable, "-m", "bitkin"]
    np.save(folder / "rows.npy", X)
    encode = ["encode", "ProjectionHash-pca.bitkin", "rows.npy", "-o", "rows.bitkin"]
    subprocess.run([*run, *encode, "--corrections", "Corrections.bitkin"], cwd=folder, check=True)
    stream = [
        *run,
        "stream",
        "--dim",
        "13",
        "--bits",
        "4",
        "-o",
        "stream.codes",
        "--state",
        "stream.bitkin",
    ]
    stream += ["--epochs", "50"]
    subprocess.run(stream, input=X[:80].tobytes(), cwd=folder, check=True)
    with TemporaryDirectory() as later:
        shutil.copytree(folder, later, dirs_exist_ok=True)
        subprocess.run(stream, input=X[80:].tobytes(), cwd=later, check=True)
        answers["stream.codes_later"] = np.fromfile(Path(later) / "stream.codes", np.uint8)
    # The same as a state of version 3, which notes what it has read.
    (folder / "stream-3").mkdir(exist_ok=True)
    subprocess.run(stream, input=X[:80].tobytes(), cwd=folder / "stream-3", check=True)
    np.savez_compressed(folder / "answers.npz", **answers)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
