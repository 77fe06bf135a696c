"""Texts → vectors: what the name of an embedder stands for, and how a collection remembers it."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.errors import FileAccessError, InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from bitkin.collection.collection import Collection

    Embedder = Callable[[list[str]], npt.NDArray[np.float32]]
    Waiting = Callable[[], AbstractContextManager[Any]]

ATTRIBUTE = "embed"
_KINDS = "sentence-transformers:MODEL, or hash:DIM such as hash:256"
_MOST_HASHED = 1 << 16


def open_embedder(name: str, waiting: Waiting = nullcontext) -> Embedder:
    """Return what makes float32 vectors of texts, one row each; a model is loaded inside the block
    that `waiting` gives.

    `sentence-transformers:MODEL` takes a name, the path of a folder, or the name of an installed
    package that holds a model in its folder `model`. `hash:DIM` counts hashed pieces of 3 to 5
    letters: good for spelling, not for meaning; it needs nothing installed.

    Examples
    --------
    >>> open_embedder("hash:64")(["rain", "rainy"]).shape
    (2, 64)
    """
    kind, _, which = name.partition(":")
    if kind == "hash" and which.isascii() and which.isdigit() and 1 <= int(which) <= _MOST_HASHED:
        return _hashed(int(which))
    if kind == "sentence-transformers" and which:
        return _sentence_transformer(which, waiting)
    raise InvalidInputError(f"embed must be {_KINDS}, got {name!r}.")


def _hashed(n_features: int) -> Embedder:
    import numpy as np
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), n_features=n_features, norm="l2", dtype=np.float32
    )

    def embed(texts: list[str]) -> Any:
        return np.ascontiguousarray(vectorizer.transform(texts).toarray(), dtype=np.float32)

    return embed


def _sentence_transformer(model_name: str, waiting: Waiting) -> Embedder:
    os.environ.setdefault("TQDM_DISABLE", "1")  # its bars beside ours
    try:
        with waiting():
            library = importlib.import_module("sentence_transformers")
    except ImportError:
        raise MissingExtraError(
            "embed='sentence-transformers:…' needs sentence-transformers, which is not installed: "
            "pip install 'bitkin[embed]'"
        ) from None
    import numpy as np

    try:
        with waiting():
            model = library.SentenceTransformer(_installed_model(model_name) or model_name)
    # a model that is not there, or not whole: each library below it has errors of its own
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FileAccessError(
            f"embed='sentence-transformers:{model_name}' cannot be opened: {reason} Give the "
            "folder of a model, or the name of one that can be downloaded."
        ) from error

    def embed(texts: list[str]) -> Any:
        made = model.encode(texts, convert_to_numpy=True, show_progress_bar=False)
        return np.ascontiguousarray(made, dtype=np.float32)

    return embed


def _installed_model(name: str) -> str | None:
    """Return the folder of a model inside an installed package, None where there is none."""
    module = name.replace("-", "_")
    if not module.isidentifier() or Path(name).exists():
        return None
    spec = importlib.util.find_spec(module)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (Path(folder) / "model" / "modules.json").is_file():
            return str(Path(folder) / "model")
    return None


def absolute_name(name: str) -> str:
    """Return `name` with the path of a model made absolute, so that it holds from any folder."""
    kind, _, which = name.partition(":")
    if kind == "sentence-transformers" and which and Path(which).is_dir():
        return f"{kind}:{Path(which).absolute()}"
    return name


def embedder_name(collection: Collection, given: str | None) -> str:
    """Return the name of the embedder given, or of the one that the collection remembers, which
    must be the same.
    """
    known = collection.attribute(ATTRIBUTE)
    if given is not None and known is not None and absolute_name(given) != known:
        raise InvalidInputError(
            f"embed must be {known!r}, which made the vectors of {collection.path}, got "
            f"{given!r}. Leave it out."
        )
    name = given if known is None else known
    if not isinstance(name, str):
        raise InvalidInputError(
            f"{collection.path} does not say how texts become vectors. Give "
            "embed='sentence-transformers:MODEL', or embed='hash:256'."
        )
    return name


def remember_embedder(collection: Collection, name: str) -> None:
    """Let the collection say from now on what its texts are embedded by: once rows are there that
    were, or another one could not be tried.
    """
    if collection.attribute(ATTRIBUTE) is None:
        collection.set_attribute(ATTRIBUTE, absolute_name(name))
