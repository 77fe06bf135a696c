"""Files of every class that can be loaded, rightly signed and changed within: each is refused, or
the object works.

File `number` of a seed is always the same, so that one that fails can be made again alone.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin import (
    BandIndex,
    CellIndex,
    Codes,
    EpochIndex,
    FlatIndex,
    HeshingClassifier,
    KernelMap,
    MinHash,
    MultiIndex,
    ProjectionHash,
    SignHash,
    Taxonomy,
    WTAHash,
    distances,
    projections,
)
from bitkin._load import _MODULES
from bitkin.errors import BitkinError
from bitkin.io.reader import StoredFile, read_file
from bitkin.io.writer import write_file
from bitkin.stream_files.state import StreamPosition, load_state, save_state
from bitkin.stream_files.taken import TakenInputs, TakenVectors

N_FEATURES = 7
VALUES: list[Any] = [
    0,
    1,
    2,
    3,
    -1,
    5,
    7,
    8,
    9,
    64,
    65,
    512,
    2**31 - 1,
    2**31,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64,
]
VALUES += [
    True,
    False,
    None,
    "",
    "x",
    "auto",
    "l2",
    "1",
    0.0,
    0.5,
    1.0,
    -1.0,
    1e300,
    5e-324,
    [],
    [1],
    [[]],
    {},
    {"a": 1},
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    7,
    64,
    2**31 - 1,
    -(2**31),
    2**53,
    2**62,
    2**63 - 1,
    -(2**63),
    -(2**63) + 5,
    1e300,
    -1e300,
    1e38,
]
NUMBERS += [float("nan"), float("inf"), 5e-324, 0.5]

_JSON_TENSORS = ("stream.state", "taxonomy", "given_taxonomy", "feature_names")
_SIGNED_BY_NAME = ("Codes", "FlatIndex", "MultiIndex", "BandIndex", "CellIndex", "EpochIndex")

Rng = np.random.Generator


class Parts(NamedTuple):
    """What a file holds."""

    class_name: str
    parameters: dict[str, Any]
    fingerprint: str | None
    tensors: dict[str, npt.NDArray[Any]]


class RightFingerprint(str):
    """Stands for the fingerprint that an attacker would have computed: it fits whatever was
    loaded.
    """

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def parts_of(path: Path) -> Parts:
    """Return what a file of ours holds, to be changed."""
    stored = read_file(path)
    entries = [entry for entry in stored._entries.values() if not entry.is_padding]
    tensors = {
        entry.name: stored.tensor(entry.name, entry.dtype, entry.shape).copy() for entry in entries
    }
    return Parts(
        stored.class_name, json.loads(json.dumps(stored._parameters)), stored.fingerprint, tensors
    )


def write_parts(path: Path, parts: Parts) -> None:
    """Sign and write what a file is to hold."""
    write_file(path, *parts)


def load_signed(path: Path) -> Any:
    """Load a file as `bitkin.load` does, whose fingerprint is right whatever it holds."""
    stored: StoredFile = read_file(path)
    if stored.class_name not in _SIGNED_BY_NAME:
        stored.fingerprint = RightFingerprint(stored.fingerprint)
    kind = getattr(importlib.import_module(_MODULES[stored.class_name]), stored.class_name)
    return kind.from_stored(stored)


def good_objects(folder: Path) -> dict[str, Parts]:
    """Return the parts of a good file of every class, in several forms, by name."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((300, N_FEATURES)) * np.linspace(3, 1, N_FEATURES)).astype(np.float32)
    sparse = scipy.sparse.csr_array(np.where(np.abs(X) > 1.5, X, 0))
    codes = Codes.from_symbols(rng.integers(0, 4, (40, 9)), bits_per_symbol=2)
    empty = Codes(
        codes.words, codes.spec, empty=(codes.words == 0).all(axis=(1, 2)), fingerprint="abc"
    )
    made: dict[str, Any] = {"codes": codes, "codes with empty rows": empty}
    for kind in (FlatIndex, MultiIndex):
        made[kind.__name__] = kind(codes.spec)
    made["BandIndex"] = BandIndex(codes.spec, 4, probes=2, budget=20)
    made["CellIndex"] = CellIndex(codes.spec, 5, probes=2)
    for index in made.values():
        if not isinstance(index, Codes):
            index.add(codes, rng.permutation(99)[:40])
    made |= {
        "minhash": MinHash(16).fit(np.abs(X)),
        "minhash of sets": MinHash(9, method="independent", bits_per_symbol=3).fit(),
        "signs": SignHash().fit(X),
        "wta": WTAHash(16, 3).fit(X),
        "wta of products": WTAHash(
            9, 2, degree=2, coefficients=True, densify="optimal", layout="independent"
        ).fit(sparse),
        "wta auto": WTAHash(9, "auto", output="onehot", random_state=None).fit(sparse),
        "pca": ProjectionHash(4).fit(X),
        "random": ProjectionHash(
            70, projection="random", rotation=None, center=False, normalize=True
        ).fit(X),
        "rbf": KernelMap("rbf", 5).fit(X),
        "sparse anchors": KernelMap("cosine", sparse[:6]).fit(sparse),
        "chi2": KernelMap("chi2", 4, gamma=0.5).fit(np.abs(X)),
    }
    made["snapshot"] = made["pca"].snapshot()
    opast: dict[str, Any] = {"projection": "opast", "rotation": "unifdiag", "refresh": 10}
    made |= {
        "opast": ProjectionHash(3, **opast).partial_fit(X),
        "opast counted": ProjectionHash(3, epochs=50, **opast).partial_fit(X),
        "opast watched": ProjectionHash(3, epochs=0.2, **opast).partial_fit(X),
        "opast without epochs": ProjectionHash(
            3, epochs=None, **{**opast, "rotation": "isohash"}
        ).partial_fit(X[:50]),
        "opast held": ProjectionHash(3, **opast).partial_fit(X[:5]),
        "sketch": ProjectionHash(
            2, projection=projections.FrequentDirections(4, 16), rotation=None, epochs=0.3
        ).partial_fit(X[:100]),
        "sketch held": ProjectionHash(
            2, projection="frequent-directions", rotation="random"
        ).partial_fit(X[:9]),
    }
    tree = Taxonomy.from_paths(
        [("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f",), ("g", 1), ("g", (2, None))]
    )
    y = np.array([tree.classes[i] for i in rng.integers(0, 5, 60)] + [(2, None)], dtype=object)[:60]
    bags = np.abs(X[:60])
    made |= {
        "classifier": HeshingClassifier(taxonomy=tree, n_buckets=16, alpha=1e-3).fit(bags, list(y)),
        "classifier in parts": HeshingClassifier(n_buckets=16, fit_intercept=True).partial_fit(
            bags, list(map(str, y))
        ),
        "softmax": HeshingClassifier(loss="softmax", max_bytes=400, alpha="auto", max_iter=2).fit(
            bags, list(map(str, y))
        ),
    }
    index = EpochIndex()
    index.add(made["pca"], X[:20])
    index.add(
        ProjectionHash(4, projection="random", rotation=None).fit(X),
        X[20:40],
        ids=np.arange(100, 120),
    )
    made["EpochIndex"] = index
    objects = {}
    for name, one in made.items():
        one.save(folder / "object")
        objects[name] = parts_of(folder / "object")
    taken = TakenInputs(last=TakenVectors())
    taken.add(np.ones((300, 7), dtype=np.float32))
    save_state(
        folder / "object",
        made["opast counted"],
        StreamPosition(300, 8400, 2400, 0, 1, "f32"),
        {"--bits": 3},
        taken,
    )
    objects["state of a stream"] = parts_of(folder / "object")
    return objects


def forged_parts(objects: dict[str, Parts], seed: int, number: int) -> tuple[str, Parts]:
    """Return the name and the parts of one forged file."""
    rng = np.random.default_rng([seed, number])
    name = list(objects)[int(rng.integers(0, len(objects)))]
    good = objects[name]
    parts = Parts(
        good.class_name,
        json.loads(json.dumps(good.parameters)),
        good.fingerprint,
        dict(good.tensors),
    )
    with np.errstate(all="ignore"):
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            if not parts.tensors or rng.random() < 0.5:
                _change_json(parts.parameters, rng)
            else:
                _change_tensors(parts.tensors, rng)
    return name, parts


def use(name: str, path: Path) -> bool:
    """Load a file and use what it holds; return whether it was loaded, and not refused by an error
    of ours.
    """
    try:
        if name == "state of a stream":
            load_state(path)
        loaded = load_signed(path)
    except BitkinError:
        return False
    _USES[type(loaded).__name__](loaded, path.with_name("again"))
    return True


def _pick(values: list[Any], rng: Rng) -> Any:
    return values[int(rng.integers(0, len(values)))]


def _change_json(value: Any, rng: Rng) -> None:
    """Change one entry somewhere in what JSON can hold: another value, a near one, one that is
    elsewhere, or none.
    """
    places = [(holder, key) for holder in _holders(value) for key in _keys(holder)]
    if not places:
        return
    holder, key = _pick(places, rng)
    kind = int(rng.integers(0, 8))
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind in (2, 3) and type(holder[key]) in (int, float):
        holder[key] += (
            _pick([-1, 1, 2, -2, 0.5], rng)
            if type(holder[key]) is float
            else _pick([-1, 1, 2, -2], rng)
        )
    elif kind == 4:
        other, other_key = _pick(places, rng)
        holder[key] = json.loads(json.dumps(other[other_key]))
    elif kind == 5 and isinstance(holder, dict):
        holder["more"] = 1
    else:
        holder[key] = json.loads(json.dumps(_pick(VALUES, rng)))


def _holders(value: Any) -> list[Any]:
    if not isinstance(value, (dict, list)):
        return []
    return [
        value,
        *(
            holder
            for inner in (value.values() if isinstance(value, dict) else value)
            for holder in _holders(inner)
        ),
    ]


def _keys(holder: Any) -> list[Any]:
    return list(holder) if isinstance(holder, dict) else list(range(len(holder)))


def _change_tensors(tensors: dict[str, npt.NDArray[Any]], rng: Rng) -> None:
    name = _pick(sorted(tensors), rng)
    tensor = tensors[name]
    if name in _JSON_TENSORS and rng.random() < 0.9:
        try:
            told = json.loads(tensor.tobytes())
        except ValueError:  # changed before
            return
        _change_json(told, rng)
        tensors[name] = np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)
        return
    kind = int(rng.integers(0, 12))
    if kind == 0:
        del tensors[name]
    elif kind == 1 and len(tensor):
        tensors[name] = tensor[:-1]
    elif kind == 2 and len(tensor):
        tensors[name] = np.concatenate([tensor, tensor[-1:]])
    elif kind == 3:
        tensors[name] = tensor.astype(
            _pick([np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_], rng)
        )
    elif kind == 4:
        tensors[name] = np.zeros_like(tensor)
    elif kind == 5:
        tensors[name] = tensor[::-1].copy()
    elif kind == 6:
        tensors["more"] = tensor
    elif tensor.size:
        changed = tensor.copy()
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, tensor.size))
            changed.reshape(-1)[at : at + 1] = np.array([_pick(NUMBERS, rng)]).astype(tensor.dtype)
        tensors[name] = changed


def _rows(n_features: int, n: int = 20) -> Any:
    """Return rows of any width, not negative; very wide ones are sparse."""
    rng = np.random.default_rng(1)
    if n_features <= 1000:
        return rng.random((n, n_features)).astype(np.float32)
    columns = np.tile([0, n_features // 2, n_features - 1], n).astype(np.int32)
    parts = (
        rng.random(3 * n).astype(np.float32),
        columns,
        np.arange(0, 3 * n + 1, 3, dtype=np.int32),
    )
    return scipy.sparse.csr_array(parts, shape=(n, n_features))


def _use_codes(codes: Codes, again: Path) -> None:
    if codes.spec.n_symbols > 1000:
        return
    codes.verify()
    distances(codes[:2], codes)
    codes.symbols()
    codes.save(again)


def _use_index(index: Any, again: Path) -> None:
    if index.spec.n_symbols > 1000:
        return
    queries = index.codes(index.ids[:3])
    queries = Codes(queries.words, queries.spec, fingerprint=index.fingerprint)
    index.search(queries, 3)
    index.search_radius(queries, 1)
    index.verify()
    if int(index.snapshot.next_id) < 2**62:
        index.remove(index.add(queries)[:1])
        index.search(queries, 3)
    index.save(again)


def _use_epochs(index: EpochIndex, again: Path) -> None:
    widths = {len(epoch.scorer.model.components) for epoch in index._state.epochs}
    for width in widths:
        index.search(_rows(width, 3), 2)
    index.verify()
    index.save(again)


def _use_hasher(hasher: Any, again: Path) -> None:
    if hasher.spec_.n_symbols > 4096 or getattr(hasher, "n_features_in_", N_FEATURES) > 2**20:
        return
    if hasattr(hasher, "n_features_in_"):
        X = _rows(hasher.n_features_in_)
        hasher.encode(X)
        hasher.transform(X)
    else:
        hasher.encode([[1, 2], [], [3]])
    hasher.save(again)


def _use_projection(hasher: ProjectionHash, again: Path) -> None:
    X = _rows(hasher.n_features_in_, 300)
    hasher.encode(X)
    hasher.transform(X)
    hasher.snapshot().encode(X)
    if hasattr(hasher, "stream_"):
        if hasher.epochs is not None:
            hasher.drift()
        for codes in hasher.sketch_stream(X[:200]):
            codes.symbols()
        hasher.partial_fit(X[200:])
        hasher.sketch(X[0])
        if hasher.epochs is not None:
            hasher.new_epoch().encode(X)
        hasher.drift(hasher.snapshot())
    hasher.save(again)


def _use_map(made: KernelMap, again: Path) -> None:
    made.transform(_rows(made.n_features_in_))
    made.save(again)


def _use_classifier(model: HeshingClassifier, again: Path) -> None:
    X = _rows(model.n_features_in_)
    model.predict(X)
    model.predict_path(X)
    model.predict_path(X, min_margin=0.1)
    model.predict_top(X, 2)
    model.decision_function(X)
    if model.loss == "softmax":
        model.predict_proba(X)
    model.empty_rows(X)
    known = [model.taxonomy_.classes[number] for number in model._model.class_numbers]
    model.partial_fit(X, [known[row % len(known)] for row in range(X.shape[0])])
    model.predict(X)
    model.save(again)


_USES: dict[str, Callable[[Any, Path], None]] = {
    "Codes": _use_codes,
    "FlatIndex": _use_index,
    "MultiIndex": _use_index,
    "BandIndex": _use_index,
    "CellIndex": _use_index,
    "EpochIndex": _use_epochs,
    "MinHash": _use_hasher,
    "SignHash": _use_hasher,
    "WTAHash": _use_hasher,
    "ProjectionHash": _use_projection,
    "KernelMap": _use_map,
    "HeshingClassifier": _use_classifier,
}
