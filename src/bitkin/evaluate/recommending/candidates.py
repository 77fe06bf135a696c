"""Which codes take part: every method of the registry, at each number of bits that makes sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bitkin.errors import InvalidInputError
from bitkin.evaluate.recommending.settings import RecommendSettings
from bitkin.evaluate.trials.methods import CodeMethod, choose_methods_at
from bitkin.evaluate.trials.trial import Trial
from bitkin.hashers.base import Hasher
from bitkin.hashers.minhash.minhash import MinHash
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.projections.base import StreamingProjection
from bitkin.hashers.projection.registry import PROJECTIONS, projection_for
from bitkin.hashers.sign_hash.sign_hash import SignHash

CodeKey = tuple[str, int]
"""A method, and bits."""
LEADERS = ("pca × random", "opast", "nystrom")
"""Methods that fit quickly and are seldom far behind: the first of them that takes part is tried
first, and the others have to be better.
"""
_LEARNED_ROTATIONS = ("auto", "itq", "isohash")
_MOST_LEARNED_BITS = 512  # iterations of a rotation take minutes beyond, and gain next to nothing
_MOST_MODEL_NUMBERS = 1 << 24  # columns × bits: wide sparse rows take minutes to learn beyond
_ROTATIONS_OF_STREAMS = ("auto", "unifdiag", None)


def list_codes(trial: Trial, settings: RecommendSettings) -> dict[str, list[CodeMethod]]:
    """Return the codes that take part by the name of the method, the shortest first."""
    bits = settings.bits
    if not settings.own_bits:
        # a code as long as a vector in bytes finds less than the vector
        most = max(bits[0], 8 * _bytes_of_vector(trial))
        bits = tuple(n for n in bits if n <= most)
    if settings.streaming:
        codes = _streaming_codes(trial, settings, bits)
    else:
        codes = choose_methods_at(settings.methods, bits, trial, settings.random_state)
    by_name: dict[str, list[CodeMethod]] = {}
    for code in codes:
        if code.given or _is_sensible(code, trial, settings):
            by_name.setdefault(code.name, []).append(code)
    if not by_name:
        raise InvalidInputError(
            f"bits must leave a code that suits {trial.n_features} columns, got {settings.bits}."
        )
    return by_name


def leader_of(codes: Mapping[str, Sequence[CodeMethod]]) -> str:
    """Return the method that is tried first."""
    return next((name for name in LEADERS if name in codes), next(iter(codes)))


def size_of_code(code: CodeMethod, trial: Trial) -> int:
    """Return how many bits a code will have."""
    return trial.n_features if isinstance(code.hasher, SignHash) else code.n_bits


def key_of(code: CodeMethod, trial: Trial) -> CodeKey:
    """Return what tells a code from others."""
    return code.name, size_of_code(code, trial)


def size_up_to(codes: Sequence[CodeMethod], bits: int, trial: Trial) -> CodeMethod:
    """Return the longest of some codes up to a size, else the shortest."""
    fitting = [code for code in codes if size_of_code(code, trial) <= bits]
    return fitting[-1] if fitting else codes[0]


def _bytes_of_vector(trial: Trial) -> int:
    if trial.sparse:
        return int(8 * trial.rows.nnz / max(1, trial.rows.shape[0]))
    return trial.n_features


def _is_sensible(code: CodeMethod, trial: Trial, settings: RecommendSettings) -> bool:
    """Whether a code can be learned in reasonable time, and at all."""
    hasher = code.hasher
    if not isinstance(hasher, ProjectionHash):
        return True
    if settings.own_bits and settings.methods is not None:
        return True
    if not settings.own_bits and code.n_bits * trial.n_features > _MOST_MODEL_NUMBERS:
        shortest: int = settings.bits[0]
        return code.n_bits == shortest
    if isinstance(projection_for(hasher.projection), StreamingProjection):
        # they follow the principal directions row by row: PCA finds them at once, where it may
        asked_for = settings.streaming or settings.methods is not None
        return asked_for and code.n_bits < trial.n_features
    return hasher.rotation not in _LEARNED_ROTATIONS or code.n_bits <= _MOST_LEARNED_BITS


def _streaming_codes(
    trial: Trial, settings: RecommendSettings, bits: tuple[int, ...]
) -> list[CodeMethod]:
    """Return codes whose hashers continue to learn, or never learn anything."""
    listed = [code for n_bits in bits for code in _streaming_at(n_bits, trial, settings)]
    codes = {(code.name, repr(code.hasher.get_params())): code for code in listed}
    if settings.methods is None:
        return list(codes.values())
    named = choose_methods_at(settings.methods, bits, trial, settings.random_state)
    names = {code.name for code in named}
    # "opast" stands for each of its rotations
    chosen = [c for c in codes.values() if {c.name, c.name.split(" × ")[0]} & names]
    listed_names = {code.name for code in chosen}
    chosen += [c for c in named if c.name not in listed_names and follows_stream(c.hasher)]
    if not chosen:
        # without their rotations, as `methods` takes them
        known = ", ".join(dict.fromkeys(name.split(" × ")[0] for name, _ in codes))
        raise InvalidInputError(
            f"methods must follow a stream, or learn nothing, with streaming=True: {known}, got "
            f"{', '.join(sorted(names))}."
        )
    return chosen


def follows_stream(hasher: Hasher) -> bool:
    """Whether a hasher continues to learn, or its codes do not depend on rows at all."""
    if isinstance(hasher, (MinHash, SignHash)) or hasattr(hasher, "partial_fit"):
        return True
    return (
        isinstance(hasher, ProjectionHash)
        and hasher.projection == "random"
        and hasher.rotation is None
        and not hasher.center
    )


def _streaming_at(n_bits: int, trial: Trial, settings: RecommendSettings) -> list[CodeMethod]:
    options: dict[str, Any] = {
        "normalize": trial.metric == "cosine",
        "random_state": settings.random_state,
    }
    forms: dict[str, Hasher] = {}
    for projection, kind in PROJECTIONS.items():
        if not issubclass(kind, StreamingProjection):
            continue
        for rotation in _ROTATIONS_OF_STREAMS:
            name = f"{projection} × {rotation or 'none'}".removesuffix(" × auto")
            forms[name] = ProjectionHash(
                n_bits, projection=projection, rotation=rotation, **options
            )
    forms["random × none"] = ProjectionHash(
        n_bits, projection="random", rotation=None, center=False, **options
    )
    for kind in (MinHash, SignHash):
        forms |= kind.variants(
            n_bits, sparse=trial.sparse, metric=trial.metric, random_state=settings.random_state
        )
    return [CodeMethod(name, n_bits, hasher) for name, hasher in forms.items()]
