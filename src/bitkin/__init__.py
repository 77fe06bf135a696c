"""bitkin: short codes that keep relatives close. Hash vectors, search the codes at memory speed,
learn from them.

Public names load on first use, so `import bitkin` loads NumPy at most.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bitkin._version import __version__
from bitkin.interrupts import sealed as _sealed

if TYPE_CHECKING:
    from bitkin import (
        dedup,
        distributed,
        errors,
        evaluate,
        file_search,
        interop,
        io,
        projections,
        rotations,
        stream_files,
        theory,
        vector_stores,
    )
    from bitkin._load import load
    from bitkin.client.async_client import AsyncClient
    from bitkin.client.client import Client
    from bitkin.code_spec import CodeSpec
    from bitkin.codes import Codes, distances
    from bitkin.collection.collection import Collection
    from bitkin.collection.results import Hits, Records
    from bitkin.epochs.epoch_index import EpochIndex
    from bitkin.evaluate.comparing.compare import compare
    from bitkin.evaluate.comparing.report import Report
    from bitkin.evaluate.diagnosis.diagnose import diagnose
    from bitkin.evaluate.diagnosis.diagnosis import Diagnosis
    from bitkin.evaluate.diagnosis.finding import Finding
    from bitkin.evaluate.recommending.recommend import recommend
    from bitkin.evaluate.recommending.recommendation import Recommendation
    from bitkin.evaluate.recommending.watch import RecommendProgress
    from bitkin.file_info import describe_file
    from bitkin.file_search.search import search_files
    from bitkin.hashers.kernel_map.kernel_map import KernelMap
    from bitkin.hashers.minhash.minhash import MinHash
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.hashers.projection.streams.drift import Drift
    from bitkin.hashers.sign_hash.sign_hash import SignHash
    from bitkin.hashers.wta import WTAHash
    from bitkin.index.bands.band_index import BandIndex
    from bitkin.index.bands.tuning import BandTuning
    from bitkin.index.cells.cell_index import CellIndex
    from bitkin.index.cells.tuning import CellTuning
    from bitkin.index.flat import FlatIndex
    from bitkin.index.multi.multi_index import MultiIndex
    from bitkin.index.results import Hit, Neighbors, RaggedNeighbors
    from bitkin.learn.features import hashed_node_weights, hierarchical_features
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
    from bitkin.learn.metrics import (
        flat_error,
        hierarchical_error,
        hierarchical_scores,
        level_errors,
    )
    from bitkin.learn.taxonomy.taxonomy import Taxonomy
    from bitkin.learn.texts import text_features
    from bitkin.rescoring.correction_files import load_corrections, save_corrections
    from bitkin.rescoring.corrections import corrections
    from bitkin.rescoring.rescore import rescore
    from bitkin.sets.sets import Sets
    from bitkin.sets.shingles import shingles
    from bitkin.stream_files.run import StreamRun
    from bitkin.stream_files.state import StreamPosition
    from bitkin.threads import get_threads, set_threads
    from bitkin.warming import WarmUp, warmup

# Public name -> where it lives: a module, or an attribute of one behind the colon.
_HOMES = {
    "AsyncClient": "bitkin.client.async_client:AsyncClient",
    "BandIndex": "bitkin.index.bands.band_index:BandIndex",
    "BandTuning": "bitkin.index.bands.tuning:BandTuning",
    "CellIndex": "bitkin.index.cells.cell_index:CellIndex",
    "CellTuning": "bitkin.index.cells.tuning:CellTuning",
    "Client": "bitkin.client.client:Client",
    "CodeSpec": "bitkin.code_spec:CodeSpec",
    "Codes": "bitkin.codes:Codes",
    "Collection": "bitkin.collection.collection:Collection",
    "Diagnosis": "bitkin.evaluate.diagnosis.diagnosis:Diagnosis",
    "Drift": "bitkin.hashers.projection.streams.drift:Drift",
    "EpochIndex": "bitkin.epochs.epoch_index:EpochIndex",
    "Finding": "bitkin.evaluate.diagnosis.finding:Finding",
    "FlatIndex": "bitkin.index.flat:FlatIndex",
    "HeshingClassifier": "bitkin.learn.heshing.heshing_classifier:HeshingClassifier",
    "Hit": "bitkin.index.results:Hit",
    "Hits": "bitkin.collection.results:Hits",
    "KernelMap": "bitkin.hashers.kernel_map.kernel_map:KernelMap",
    "MinHash": "bitkin.hashers.minhash.minhash:MinHash",
    "MultiIndex": "bitkin.index.multi.multi_index:MultiIndex",
    "Neighbors": "bitkin.index.results:Neighbors",
    "ProjectionHash": "bitkin.hashers.projection.projection_hash:ProjectionHash",
    "RaggedNeighbors": "bitkin.index.results:RaggedNeighbors",
    "RecommendProgress": "bitkin.evaluate.recommending.watch:RecommendProgress",
    "Recommendation": "bitkin.evaluate.recommending.recommendation:Recommendation",
    "Records": "bitkin.collection.results:Records",
    "Report": "bitkin.evaluate.comparing.report:Report",
    "Sets": "bitkin.sets.sets:Sets",
    "SignHash": "bitkin.hashers.sign_hash.sign_hash:SignHash",
    "StreamPosition": "bitkin.stream_files.state:StreamPosition",
    "StreamRun": "bitkin.stream_files.run:StreamRun",
    "Taxonomy": "bitkin.learn.taxonomy.taxonomy:Taxonomy",
    "WTAHash": "bitkin.hashers.wta:WTAHash",
    "WarmUp": "bitkin.warming:WarmUp",
    "compare": "bitkin.evaluate.comparing.compare:compare",
    "corrections": "bitkin.rescoring.corrections:corrections",
    "dedup": "bitkin.dedup",
    "describe_file": "bitkin.file_info:describe_file",
    "diagnose": "bitkin.evaluate.diagnosis.diagnose:diagnose",
    "distances": "bitkin.codes:distances",
    "distributed": "bitkin.distributed",
    "errors": "bitkin.errors",
    "evaluate": "bitkin.evaluate",
    "file_search": "bitkin.file_search",
    "flat_error": "bitkin.learn.metrics:flat_error",
    "get_threads": "bitkin.threads:get_threads",
    "hashed_node_weights": "bitkin.learn.features:hashed_node_weights",
    "hierarchical_error": "bitkin.learn.metrics:hierarchical_error",
    "hierarchical_features": "bitkin.learn.features:hierarchical_features",
    "hierarchical_scores": "bitkin.learn.metrics:hierarchical_scores",
    "interop": "bitkin.interop",
    "io": "bitkin.io",
    "level_errors": "bitkin.learn.metrics:level_errors",
    "load": "bitkin._load:load",
    "load_corrections": "bitkin.rescoring.correction_files:load_corrections",
    "projections": "bitkin.projections",
    "recommend": "bitkin.evaluate.recommending.recommend:recommend",
    "rescore": "bitkin.rescoring.rescore:rescore",
    "rotations": "bitkin.rotations",
    "save_corrections": "bitkin.rescoring.correction_files:save_corrections",
    "search_files": "bitkin.file_search.search:search_files",
    "set_threads": "bitkin.threads:set_threads",
    "shingles": "bitkin.sets.shingles:shingles",
    "stream_files": "bitkin.stream_files",
    "text_features": "bitkin.learn.texts:text_features",
    "theory": "bitkin.theory",
    "vector_stores": "bitkin.vector_stores",
    "warmup": "bitkin.warming:warmup",
}

__all__ = [
    "AsyncClient",
    "BandIndex",
    "BandTuning",
    "CellIndex",
    "CellTuning",
    "Client",
    "CodeSpec",
    "Codes",
    "Collection",
    "Diagnosis",
    "Drift",
    "EpochIndex",
    "Finding",
    "FlatIndex",
    "HeshingClassifier",
    "Hit",
    "Hits",
    "KernelMap",
    "MinHash",
    "MultiIndex",
    "Neighbors",
    "ProjectionHash",
    "RaggedNeighbors",
    "RecommendProgress",
    "Recommendation",
    "Records",
    "Report",
    "Sets",
    "SignHash",
    "StreamPosition",
    "StreamRun",
    "Taxonomy",
    "WTAHash",
    "WarmUp",
    "__version__",
    "compare",
    "corrections",
    "dedup",
    "describe_file",
    "diagnose",
    "distances",
    "distributed",
    "errors",
    "evaluate",
    "file_search",
    "flat_error",
    "get_threads",
    "hashed_node_weights",
    "hierarchical_error",
    "hierarchical_features",
    "hierarchical_scores",
    "interop",
    "io",
    "level_errors",
    "load",
    "load_corrections",
    "projections",
    "recommend",
    "rescore",
    "rotations",
    "save_corrections",
    "search_files",
    "set_threads",
    "shingles",
    "stream_files",
    "text_features",
    "theory",
    "vector_stores",
    "warmup",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bitkin' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    with _sealed:  # modules that are left half-loaded by Ctrl-C cannot always be loaded again
        value = importlib.import_module(module)
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
