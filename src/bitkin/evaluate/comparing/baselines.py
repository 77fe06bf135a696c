"""What a user would otherwise search with: indexes of FAISS, at sizes like those of our codes.

Each says how it is made of vectors of so many features. FAISS itself is loaded when the first is
made.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bitkin.checks import shown, suggest
from bitkin.errors import InvalidInputError, MissingExtraError

BASELINES = (
    "faiss PQ",
    "faiss OPQ",
    "faiss RaBitQ",
    "faiss SQ4",
    "faiss SQ8",
    "faiss fp16",
    "faiss HNSW32",
    "faiss HNSW32 fp16",
    "faiss HNSW32 SQ8",
)
_BITS_PER_PART = 8  # of a product quantizer
_SCALARS = {"faiss SQ4": ("QT_4bit", 4), "faiss SQ8": ("QT_8bit", 8), "faiss fp16": ("QT_fp16", 16)}
_GRAPHS = {
    "faiss HNSW32": (None, "float32", 32),
    "faiss HNSW32 fp16": ("QT_fp16", "float16", 16),
    "faiss HNSW32 SQ8": ("QT_8bit", "int8", 8),
}
_LINKS = 32  # per row of a graph
_QUERY_BITS = 8  # of RaBitQ: hardly rounded, and a fortieth of the time of queries as they are
# FAISS's own 50 iterations on all rows take minutes; these find within 0.01 of it
_OPQ_ITERATIONS, _OPQ_ROWS = 20, 10_000


@dataclass(frozen=True)
class Baseline:
    """An index of FAISS, not made yet.

    Attributes
    ----------
    name : str
    n_bits : int
        Of a row.
    make : callable
        Takes the module faiss, the number of features and whether rows are compared by inner
        products; returns an index without rows.
    vectors : str or None
        How a graph keeps vectors; None for what is scanned.
    work : float
        What it takes beside one of our methods, roughly.
    """

    name: str
    n_bits: int
    make: Callable[[Any, int, bool], Any]
    vectors: str | None = None
    work: float = 1.0

    @property
    def scans(self) -> bool:
        """Whether a search looks at every row, so that a sample says something about all."""
        return self.vectors is None

    @property
    def stage(self) -> str:
        """The stage of ours that it is like: a graph measures the rows that it looks at."""
        return "estimate" if self.scans else "exact"


def import_faiss() -> Any:
    """Return the module; raise where it is not there."""
    try:
        return importlib.import_module("faiss")
    except ImportError:
        raise MissingExtraError(
            "baselines of FAISS need faiss, which is not installed: pip install 'bitkin[faiss]'. "
            "baselines=False goes without."
        ) from None


def choose_baselines(
    wanted: Any, bits: Sequence[int], n_features: int, *, sparse: bool
) -> list[Baseline]:
    """Return the baselines that `bitkin.compare` was asked for."""
    names = check_baselines(wanted)
    if names is None:  # auto: what is possible
        has_faiss = importlib.util.find_spec("faiss") is not None
        names = BASELINES if has_faiss and not sparse else ()
    if not names:
        return []
    import_faiss()
    if sparse:
        raise InvalidInputError(
            "baselines must be 'auto' or False for CSR rows, which FAISS does not take, got "
            f"{shown(wanted)}."
        )
    return [baseline for name in names for baseline in _at_sizes(name, bits, n_features)]


def check_baselines(wanted: Any) -> tuple[str, ...] | None:
    """Return names of baselines; None for "auto"."""
    if wanted is True or wanted is False:
        return BASELINES if wanted else ()
    if isinstance(wanted, str) and wanted == "auto":
        return None
    names = [wanted] if isinstance(wanted, str) else wanted
    try:
        names = list(names)
    except TypeError:
        names = [wanted]
    known = {name.lower(): name for name in BASELINES}
    for name in names:
        if not isinstance(name, str) or name.lower() not in known:
            hint = suggest(name, list(known)) if isinstance(name, str) else ""
            raise InvalidInputError(
                "baselines must be 'auto', True, False or names out of "
                f"{', '.join(BASELINES)}, got {shown(name)}.{hint}"
            )
    return tuple(dict.fromkeys(known[name.lower()] for name in names))


def _at_sizes(name: str, bits: Sequence[int], d: int) -> list[Baseline]:
    """Return a baseline at the sizes of some codes, or at its own."""
    if name in _SCALARS:
        kind, per_feature = _SCALARS[name]
        return [Baseline(name, per_feature * d, partial(_make_scalar, kind), work=0.7)]
    if name in _GRAPHS:
        graph, vectors, per_feature = _GRAPHS[name]
        make = partial(_make_graph, graph)
        return [Baseline(name, per_feature * d, make, vectors=vectors, work=1.5)]
    if name == "faiss RaBitQ":
        widths = dict.fromkeys(min(b, d) for b in bits)
        return [Baseline(name, b, partial(_make_rabitq, b), work=0.7) for b in widths]
    make_pq, work = (_make_pq, 1.5) if name == "faiss PQ" else (_make_opq, 4.0)
    parts = dict.fromkeys(max(1, b // _BITS_PER_PART) for b in bits)
    return [Baseline(name, _BITS_PER_PART * m, partial(make_pq, m), work=work) for m in parts]


def _metric(faiss: Any, by_product: bool) -> int:
    return int(faiss.METRIC_INNER_PRODUCT if by_product else faiss.METRIC_L2)


def _make_scalar(kind: str, faiss: Any, d: int, by_product: bool) -> Any:
    quantizer = getattr(faiss.ScalarQuantizer, kind)
    return faiss.IndexScalarQuantizer(d, quantizer, _metric(faiss, by_product))


def _make_graph(kind: str | None, faiss: Any, d: int, by_product: bool) -> Any:
    metric = _metric(faiss, by_product)
    if kind is None:
        return faiss.IndexHNSWFlat(d, _LINKS, metric)
    return faiss.IndexHNSWSQ(d, getattr(faiss.ScalarQuantizer, kind), _LINKS, metric)


def _make_rabitq(n_bits: int, faiss: Any, d: int, by_product: bool) -> Any:
    """RaBitQ of rotated rows, after PCA where there are fewer bits than features."""
    if not hasattr(faiss, "IndexRaBitQ"):
        raise InvalidInputError(f"faiss {faiss.__version__} has no RaBitQ; 1.11 has.")
    # PCA subtracts the mean, which changes the order of inner products
    if n_bits < d and not by_product:
        rotation = faiss.PCAMatrix(d, n_bits, 0, True)
    else:
        rotation = faiss.RandomRotationMatrix(d, n_bits)
    index = faiss.IndexRaBitQ(n_bits, _metric(faiss, by_product))
    index.qb = _QUERY_BITS
    return faiss.IndexPreTransform(rotation, index)


def _make_pq(parts: int, faiss: Any, d: int, by_product: bool) -> Any:
    _require_parts(parts, d)
    padded = -(-d // parts) * parts
    index = faiss.IndexPQ(padded, parts, _BITS_PER_PART, _metric(faiss, by_product))
    index.pq.cp.min_points_per_centroid = 1  # fewer rows than FAISS likes are no reason to print
    if padded == d:
        return index
    return faiss.IndexPreTransform(faiss.RemapDimensionsTransform(d, padded, False), index)


def _make_opq(parts: int, faiss: Any, d: int, by_product: bool) -> Any:
    _require_parts(parts, d)
    reduced = d // parts * parts
    rotation = faiss.OPQMatrix(d, parts, reduced)
    rotation.niter, rotation.max_train_points = _OPQ_ITERATIONS, _OPQ_ROWS
    inner = faiss.ProductQuantizer(reduced, parts, _BITS_PER_PART)
    inner.cp.min_points_per_centroid = 1
    rotation.pq = inner
    vars(rotation)["kept_quantizer"] = inner  # FAISS holds a pointer to it
    index = faiss.IndexPQ(reduced, parts, _BITS_PER_PART, _metric(faiss, by_product))
    index.pq.cp.min_points_per_centroid = 1
    return faiss.IndexPreTransform(rotation, index)


def _require_parts(parts: int, d: int) -> None:
    if parts > d:
        raise InvalidInputError(
            f"{parts} parts of {_BITS_PER_PART} bits need as many features, got {d}."
        )
