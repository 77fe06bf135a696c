"""Every exported hasher, in small instances. Exporting a hasher is what gets it tested: add its
instances here.
"""

from __future__ import annotations

import inspect
from typing import Any

import bitkin
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.registry import (
    PROJECTIONS,
    ROTATIONS,
    projection_for,
    rotation_for,
)


def _all_rows(**parameters: Any) -> bitkin.projections.Nystrom:
    """A sample of all rows, so that a bad number anywhere in a source is met."""
    return bitkin.projections.Nystrom(samples=1.0, features=0.9, **parameters)


def _projection_hashes() -> list[Hasher]:
    """Projections and rotations in pairs: each of them at least once, with a partner of its own.

    The slots know nothing of each other, so the whole grid would prove no more than this.
    scikit-learn's checks have data of three features, so those instances have one or two bits.
    """
    # Models that `fit` makes and nothing changes after that.
    fitted: list[tuple[Any, Any, dict[str, Any]]] = [
        ("random", None, {"n_bits": 65, "center": False}),
        ("random", "itq", {"n_bits": 13, "normalize": True, "random_state": 3}),
        ("pca", "auto", {"n_bits": 2}),
        (
            bitkin.projections.PCA(solver="randomized"),
            "isohash",
            {"n_bits": 5, "normalize": True, "random_state": 3},
        ),
        (_all_rows(sampling="norms"), "unifdiag", {"n_bits": 2, "random_state": 3}),
        (
            _all_rows(orthonormalize=False),
            bitkin.rotations.UnifDiag(start="random"),
            {"n_bits": 5, "center": False},
        ),
        (bitkin.projections.Nystrom(samples=0.5, features=0.6), "random", {"n_bits": 5}),
        # A streaming projection with a rotation that cannot follow a stream.
        ("opast", "itq", {"n_bits": 1}),
    ]
    # Models that can continue to learn after `fit`.
    following: list[tuple[Any, Any, dict[str, Any]]] = [
        ("opast", "unifdiag", {"n_bits": 1}),
        (
            bitkin.projections.FrequentDirections(chunk_rows=20),
            "random",
            {"n_bits": 1, "random_state": 3},
        ),
        ("opast", None, {"n_bits": 5, "center": False, "refresh": 1, "epochs": None}),
        (
            bitkin.projections.OPAST(forgetting=0.99),
            "isohash",
            {"n_bits": 5, "normalize": True, "epochs": 50},
        ),
        ("frequent-directions", "unifdiag", {"n_bits": 5, "epochs": 0.1}),
    ]
    hashers = [
        bitkin.ProjectionHash(projection=projection, rotation=rotation, **parameters)
        for projection, rotation, parameters in fitted + following
    ]
    # What is in no pair, such as a new one, gets an instance of its own.
    paired: set[type] = {type(projection_for(hasher.projection)) for hasher in hashers}
    paired |= {type(rotation_for(hasher.rotation)) for hasher in hashers}
    hashers += [
        bitkin.ProjectionHash(2, projection=kind(), rotation="random")
        for kind in PROJECTIONS.values()
        if kind not in paired
    ]
    hashers += [
        bitkin.ProjectionHash(2, projection="opast", rotation=kind())
        for kind in ROTATIONS.values()
        if kind not in paired
    ]
    return hashers


INSTANCES: dict[str, list[Hasher]] = {
    "MinHash": [
        bitkin.MinHash(n_hashes=8),
        bitkin.MinHash(n_hashes=65, bits_per_symbol=1, method="independent"),
        bitkin.MinHash(n_hashes=13, bits_per_symbol=17, random_state=3),
    ],
    "ProjectionHash": _projection_hashes(),
    "SignHash": [bitkin.SignHash()],
    "WTAHash": [
        bitkin.WTAHash(n_hashes=8, window=2),
        bitkin.WTAHash(
            n_hashes=65, window=2, layout="independent", densify="rotation", alphabet_size=10
        ),
        bitkin.WTAHash(n_hashes=13, window="auto", degree=2, coefficients=True, random_state=3),
        bitkin.WTAHash(n_hashes=9, window=2, densify=None, degree=3, layout="independent"),
    ],
}


def exported() -> list[type[Hasher]]:
    """All hashers among the public names."""
    public = [getattr(bitkin, name) for name in bitkin.__all__]
    return [value for value in public if inspect.isclass(value) and issubclass(value, Hasher)]


def instances() -> list[Hasher]:
    """All small instances of all exported hashers."""
    return [instance for kind in exported() for instance in INSTANCES[kind.__name__]]


def scikit_learn_instances() -> list[Hasher]:
    """Those that the data of scikit-learn's checks can serve: some of it has three features
    only.
    """
    return [hasher for hasher in instances() if _features_needed(hasher) <= 3]


def _features_needed(hasher: Any) -> int:
    """How many features rows must have: learned directions are no more than those, drawn ones any
    number.
    """
    return int(hasher.n_bits) if hasattr(hasher, "n_bits") and not seed_decides(hasher) else 1


def meets_every_row(hasher: Any) -> bool:
    """Whether fitting a source reads each of its rows; a sample does not, unless a rotation looks
    at the rest.
    """
    projection = getattr(hasher, "projection", None)
    sampled = isinstance(projection, bitkin.projections.Nystrom) and projection.samples != 1.0
    rotation = rotation_for(hasher.rotation) if sampled else None
    return not sampled or (rotation is not None and rotation.needs_rows)


def takes_lists_as_sets(hasher: Any) -> bool:
    """Whether a list of lists holds members and not numbers of a matrix; `test_sets` has the
    promises for those.
    """
    return isinstance(hasher, bitkin.MinHash)


def has_seed(hasher: Any) -> bool:
    """Whether anything is drawn; there is one SignHash for every width."""
    return "random_state" in hasher.get_params()


def seed_decides(hasher: Any) -> bool:
    """Whether another seed is sure to give another model; learned directions may come out the
    same.
    """
    if not has_seed(hasher):
        return False
    return not isinstance(hasher, bitkin.ProjectionHash) or hasher.projection == "random"


def expected_failures(hasher: Any) -> dict[str, str]:
    """Checks of scikit-learn that cannot apply, and why."""
    if takes_lists_as_sets(hasher):
        return {
            "check_transformer_data_not_an_array": "gives a matrix as a list of lists, which here "
            "are sets"
        }
    return {}
