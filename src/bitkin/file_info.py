"""`describe_file`: what a file of ours holds, whatever it is, without reading the rows of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bitkin._load import load
from bitkin.codes import Codes
from bitkin.epochs.epoch_index import EpochIndex
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.rotations import AutoRotation
from bitkin.index.base import RowIndex
from bitkin.io.reader import StoredFile, read_file
from bitkin.io.vectors import open_vectors
from bitkin.io.vectors.files.zip_arrays import ZipArrays
from bitkin.io.vectors.formats import has_vector_suffix
from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
from bitkin.rescoring.correction_files import CLASS_NAME as CORRECTIONS
from bitkin.stream_files.epoch_folder import is_begun, list_models
from bitkin.stream_files.state import is_state, load_state
from bitkin.stream_files.written import BYTES_PER_CORRECTION, WrittenStream

Facts = dict[str, Any]


def describe_file(path: str | os.PathLike[str], *, verify: bool = False) -> Facts:
    """Return what a file holds, as a dict of plain values; the first is its kind.

    Files of ours are known by what is in them: models, codes, corrections, indexes, classifiers,
    states of streams; codes of a stream by the models beside them, its corrections by the state or
    the codes beside them, and an encoding that was interrupted by its name. Files of vectors are
    known by their suffix, and results of a search by their arrays.

    Parameters
    ----------
    path : path
        The file; or the folder that keeps the models of a stream.
    verify : bool, default False
        Also read all of a file of ours, and compare its checksums.

    Examples
    --------
    >>> import bitkin, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.bitkin"
    >>> bitkin.Codes.from_symbols([[0, 1, 1], [1, 1, 0]], bits_per_symbol=1).save(path)
    >>> info = bitkin.describe_file(path)
    >>> info["kind"], info["rows"], info["code"]
    ('codes', 2, '3 × 1-bit')
    """
    path = Path(path)
    if not path.exists():
        raise FileAccessError(f"{path} cannot be read: No such file or directory.")
    if path.is_dir():
        return _about_folder(path)
    if path.name.startswith(".") and path.name.endswith(".partial"):
        return _about_partial(path)
    size = {"bytes": path.stat().st_size}
    if has_vector_suffix(path):
        return _about_vectors(path) | size
    folder = path.with_name(f"{path.name}.epochs")
    if is_begun(folder) and not is_state(path):
        return _about_stream_codes(path, folder) | size
    try:
        stored = read_file(path, mmap=not verify)  # without a map, all checksums are compared
    except BitkinError:
        of_stream = _about_stream_corrections(path)
        if of_stream is None:
            raise
        return of_stream | size
    about = _about_state(path) if is_state(path) else _about_stored(stored, path)
    if stored.fingerprint is not None:
        about["fingerprint"] = stored.fingerprint
    return about | size | ({"verified": True} if verify else {})


def _about_stored(stored: StoredFile, path: Path) -> Facts:
    if stored.class_name == CORRECTIONS:
        rows = len(stored.tensor("corrections", "float32", (None, 2)))
        return {"kind": "corrections", "rows": rows, "metric": stored.parameter("metric")}
    held = load(path, mmap=True)
    for kind, describe in _KINDS.items():
        if isinstance(held, kind):
            return describe(held)
    return _about_model(held)


def _about_codes(codes: Codes) -> Facts:
    return {
        "kind": "codes",
        "rows": len(codes),
        "code": str(codes.spec),
        "bytes_per_code": codes.spec.n_bytes,
        "empty_rows": 0 if codes.empty is None else int(codes.empty.sum()),
    }


def _about_index(index: RowIndex) -> Facts:
    about = {
        "kind": "index",
        "class": type(index).__name__,
        "rows": len(index),
        "code": str(index.spec),
    }
    settings = ("band_bits", "probes", "score", "budget", "n_cells")
    return about | {name: getattr(index, name) for name in settings if hasattr(index, name)}


def _about_epochs(index: EpochIndex) -> Facts:
    return {
        "kind": "index",
        "class": "EpochIndex",
        "rows": len(index),
        "epochs": len(index.epochs),
        "metric": index.metric,
    }


def _about_model(model: Any) -> Facts:
    """Describe a hasher, or another estimator."""
    about: Facts = {"kind": "model", "class": type(model).__name__}
    if isinstance(model, Hasher):
        about["code"] = str(model.spec_)
    if hasattr(model, "n_features_in_"):
        about["features"] = int(model.n_features_in_)
    about["parameters"] = {
        name: _plain(value) for name, value in model.get_params(deep=False).items()
    }
    if isinstance(model, ProjectionHash) and isinstance(model.rotation, AutoRotation):
        about["chosen_rotation"] = repr(model.rotation_)
    if hasattr(model, "stream_"):
        about["vectors_learned_from"] = int(model.n_seen_)
    return about


def _about_classifier(classifier: HeshingClassifier) -> Facts:
    about = _about_model(classifier) | {"kind": "classifier"}
    return about | {
        "classes": len(classifier.classes_),
        "levels": int(classifier.taxonomy_.n_levels),
        "rows_learned_from": int(classifier.class_counts_.sum()),
    }


_KINDS: dict[type, Callable[[Any], Facts]] = {
    Codes: _about_codes,
    EpochIndex: _about_epochs,
    RowIndex: _about_index,
    HeshingClassifier: _about_classifier,
}


def _about_state(path: Path) -> Facts:
    state = load_state(path)
    settings = state.settings
    about: Facts = {
        "kind": "state of a stream",
        "vectors": state.position.n_vectors,
        "epochs": state.position.n_epochs,
        "codes": settings.get("--out"),
    }
    if settings.get("--corrections") is not None:
        about |= {"corrections": settings["--corrections"], "metric": settings.get("--metric")}
    if state.hasher is not None:
        model = _about_model(state.hasher)
        about |= {name: model[name] for name in ("code", "features", "parameters")}
    return about


def _about_stream_codes(path: Path, folder: Path) -> Facts:
    about: Facts = {"kind": "codes of a stream"}
    try:
        written = WrittenStream(path)
        about |= {"rows": written.n_rows, "code": str(written.spec)}
        if written.n_skipped:
            about["skipped_rows"] = written.n_skipped
    except BitkinError as error:
        about["problem"] = str(error)
    return about | {"epochs": len(list_models(folder)), "models": str(folder)}


def _about_stream_corrections(path: Path) -> Facts | None:
    """Describe corrections that a stream wrote, which are numbers without a header; None unless a
    state beside them names them, or codes beside them are as many.
    """
    n_rows, rest = divmod(path.stat().st_size, BYTES_PER_CORRECTION)
    about: Facts = {"kind": "corrections of a stream", "rows": n_rows}
    for other in sorted(path.parent.iterdir()):
        if other.is_file() and is_state(other):
            settings = load_state(other).settings
            named = settings.get("--corrections")
            if named is not None and (other.resolve().parent / named).resolve() == path.resolve():
                return about | {"metric": settings.get("--metric"), "state": str(other)}
    for folder in sorted(path.parent.glob("*.epochs")):
        codes = folder.with_suffix("")
        is_stream = rest == 0 and codes.is_file() and is_begun(folder)
        if is_stream and WrittenStream(codes).n_rows == n_rows:
            return about | {"codes": str(codes)}
    return None


def _about_folder(path: Path) -> Facts:
    if (path / "collection.db").is_file():
        raise InvalidInputError(
            f"{path} is a collection. Ask bitkin collection stats, or Collection.stats()."
        )
    if not is_begun(path):
        raise InvalidInputError(
            f"{path} is a folder, and neither a collection nor a stream's models. Give a file."
        )
    return {"kind": "models of a stream", "epochs": len(list_models(path))}


def _about_partial(path: Path) -> Facts:
    """Describe what `bitkin encode` has written so far."""
    target = path.with_name(path.name.removeprefix(".").removesuffix(".partial"))
    about: Facts = {"kind": "interrupted encoding", "of": str(target)}
    try:
        journal = json.loads(path.with_name(f"{path.name}.json").read_text("utf-8"))
        about |= {"rows_done": int(journal["rows"]), "rows": int(journal["work"]["shape"][0])}
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        about["rows_done"] = 0  # without a journal it begins again
    return about


def _about_result(path: Path) -> Facts | None:
    """Describe what `bitkin search --out` wrote, by the headers of its arrays; None for other
    archives.
    """
    with ZipArrays(path) as archive:
        names = set(archive.keys)
        if names not in ({"ids", "distances"}, {"offsets", "ids", "distances"}):
            return None
        shapes = {name: archive.header(name).shape for name in names}
        dtype = archive.header("distances").dtype
    ids, offsets = shapes["ids"], shapes.get("offsets")
    if shapes["distances"] != ids or len(ids) != (2 if offsets is None else 1):
        return None
    about: Facts = {"kind": "search result"}
    if offsets is None:
        about |= {"queries": ids[0], "neighbours_per_query": ids[1]}
    else:
        about |= {"queries": max(0, sum(offsets) - 1), "found": ids[0]}
    meaning = "symbols of codes that differ" if dtype.kind == "i" else "estimated or exact"
    return about | {"distances": f"{dtype}, {meaning}"}


def _about_vectors(path: Path) -> Facts:
    if path.suffix == ".npz":
        result = _about_result(path)
        if result is not None:
            return result
    try:
        source = open_vectors(path)
    except CorruptFileError:
        raise
    except BitkinError as error:
        return {"kind": "vectors", "problem": str(error)}
    about: Facts = {"kind": "vectors", "rows": source.shape[0], "features": source.shape[1]}
    return about | {"numbers": str(source.dtype), "sparse": bool(source.sparse)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)
