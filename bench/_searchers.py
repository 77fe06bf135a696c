"""What a user would search vectors with: bitkin's collections, FAISS, hnswlib and usearch behind
one face, each with the knob that trades time for recall.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin

K = 10
Rows = npt.NDArray[np.float32]
Found = npt.NDArray[np.int64]


@dataclass
class Searcher:
    """A built index."""

    search: Callable[[Rows, Any], Found]
    """Queries and a setting of the knobs -> ids of the ten nearest."""
    settings: Sequence[Sequence[Any]]
    """One series for every setting of a second knob, each from the quickest to the one that finds
    most.
    """
    n_bytes: int
    """Of everything that a search needs."""


@dataclass
class Method:
    """A way to search, not built yet."""

    name: str
    ours: bool
    build: Callable[[Rows, str], Searcher]
    needs: str = ""
    """A module that may not be there."""
    kind: str = field(default="other")
    """ "hnsw", "ivf" or "other": what the goals name."""

    @property
    def there(self) -> bool:
        return not self.needs or importlib.util.find_spec(self.needs) is not None


def _collection(n_bits: int, kept: str, index: str) -> Callable[[Rows, str], Searcher]:
    def build(rows: Rows, metric: str) -> Searcher:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # more bits than features are meant
            hasher = bitkin.ProjectionHash(n_bits=n_bits, random_state=0).fit(rows)
        collection = bitkin.Collection.create(
            None, hasher, vectors=kept, metric=metric, index=index
        )
        collection.add(rows)
        collection.compact()  # room for more rows, which the others' files have none of either

        def search(queries: Rows, setting: tuple[int, int]) -> Found:
            oversample, probes = setting
            if index == "cells":
                return collection.search(queries, K, probes=probes, oversample=oversample).ids
            return collection.search(queries, K, oversample=oversample).ids

        n_bytes = collection.nbytes + sum(
            array.nbytes for array in vars(hasher).values() if isinstance(array, np.ndarray)
        )
        in_cells = [[(some, probes) for probes in _PROBES] for some in (2, 3, 4, 6, 10, 20, 40)]
        flat = [[(some, 0) for some in (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)]]
        return Searcher(search, in_cells if index == "cells" else flat, n_bytes)

    return build


def _size(index: Any) -> int:
    return int(faiss.serialize_index(index).nbytes)


def _faiss(
    spec: str, knob: str, settings: Sequence[int], factor: str = ""
) -> Callable[[Rows, str], Searcher]:
    """An index of FAISS's factory. `factor` is a second knob that follows the first, as the rows
    that a refinement looks at do.
    """

    def build(rows: Rows, metric: str) -> Searcher:
        n_lists = int(2 ** np.round(np.log2(4 * np.sqrt(len(rows)))))
        d = rows.shape[1]
        parts = max(m for m in range(1, d // 2 + 1) if d % m == 0)  # of a product quantizer
        text = spec.format(lists=n_lists, parts=parts)
        # rows of cosine have length 1, so that l2 orders them as cosine does
        index = faiss.index_factory(d, text)
        space = faiss.ParameterSpace()
        index.train(rows)
        index.add(rows)

        def search(queries: Rows, setting: int) -> Found:
            space.set_index_parameter(index, knob, setting)
            if factor:
                space.set_index_parameter(index, factor, 4)
            return np.asarray(index.search(queries, K)[1])

        return Searcher(search, [settings], _size(index))

    return build


_EFS = (10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512)
_PROBES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)


def _hnswlib(rows: Rows, metric: str) -> Searcher:
    import hnswlib

    index = hnswlib.Index(space="l2", dim=rows.shape[1])
    index.init_index(max_elements=len(rows), M=16, ef_construction=200, random_seed=0)
    index.set_num_threads(1)
    index.add_items(rows)

    def search(queries: Rows, ef: int) -> Found:
        index.set_ef(ef)
        return np.asarray(index.knn_query(queries, K, num_threads=1)[0], dtype=np.int64)

    return Searcher(search, [_EFS], int(index.index_file_size()))


def _usearch(rows: Rows, metric: str) -> Searcher:
    from usearch.index import Index

    index: Any = Index(ndim=rows.shape[1], metric="l2sq", dtype="f16", connectivity=16)
    index.add(np.arange(len(rows)), rows, threads=1)

    def search(queries: Rows, ef: int) -> Found:
        index.expansion_search = ef
        keys = np.asarray(index.search(queries, K, threads=1).keys, dtype=np.int64)
        return keys.reshape(len(queries), K)

    return Searcher(search, [_EFS], int(index.memory_usage))


def methods() -> list[Method]:
    """All of them."""
    ours = [
        Method(f"{bits} bits, {kept}, {index}", True, _collection(bits, kept, index))
        for bits, kept, index in (
            (128, "float32", "flat"),
            (128, "float32", "cells"),
            (256, "float32", "cells"),
            (128, "float16", "cells"),
            (128, "int8", "cells"),
            (256, "int8", "cells"),
        )
    ]
    hnsw = [
        Method(f"faiss HNSW16, {name}", False, _faiss(spec, "efSearch", _EFS), kind="hnsw")
        for name, spec in (("fp16", "HNSW16_SQfp16"), ("SQ8", "HNSW16_SQ8"))
    ]
    ivf = [
        Method(f"faiss IVF, {name}", False, _faiss(spec, "nprobe", _PROBES, factor), kind="ivf")
        for name, spec, factor in (
            ("flat", "IVF{lists},Flat", ""),
            ("SQ8", "IVF{lists},SQ8", ""),
            ("PQ fast scan, refine", "IVF{lists},PQ{parts}x4fs,RFlat", "k_factor_rf"),
        )
    ]
    others = [
        Method("hnswlib", False, _hnswlib, needs="hnswlib", kind="hnsw"),
        Method("usearch, f16", False, _usearch, needs="usearch", kind="hnsw"),
    ]
    return [*ours, *hnsw, *ivf, *others]
