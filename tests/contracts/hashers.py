"""Every exported hasher, in small instances. Exporting a hasher is what gets it tested: add its
instances here.
"""

from __future__ import annotations

import inspect
from typing import Any

import bitkin
from bitkin.hashers.base import Hasher


def _all_rows(**parameters: Any) -> bitkin.projections.Nystrom:
    """A sample of all rows, so that a bad number anywhere in a source is met."""
    return bitkin.projections.Nystrom(samples=1.0, features=0.9, **parameters)


ROTATIONS: tuple[Any, ...] = (
    None,
    "itq",
    "unifdiag",
    bitkin.rotations.UnifDiag(start="random"),
    "isohash",
    "random",
)


def _streams() -> list[Hasher]:
    """Those that can go on learning, and one that cannot; of one bit where two features must do."""
    chunks = bitkin.projections.FrequentDirections(chunk_rows=20)
    forgetting = bitkin.projections.OPAST(forgetting=0.99)
    return [
        bitkin.ProjectionHash(n_bits=1, projection="opast", rotation="unifdiag"),
        bitkin.ProjectionHash(n_bits=1, projection="opast", rotation="itq"),
        bitkin.ProjectionHash(n_bits=1, projection=chunks, rotation="random", random_state=3),
        bitkin.ProjectionHash(
            n_bits=5, projection="opast", rotation="unifdiag", refresh=1, epochs=None
        ),
        bitkin.ProjectionHash(
            n_bits=5, projection=forgetting, rotation="isohash", normalize=True, epochs=50
        ),
        bitkin.ProjectionHash(
            n_bits=5, projection="opast", rotation=None, center=False, epochs=0.1
        ),
        bitkin.ProjectionHash(n_bits=5, projection="frequent-directions", rotation="unifdiag"),
    ]


INSTANCES: dict[str, list[Hasher]] = {
    "MinHash": [
        bitkin.MinHash(n_hashes=8),
        bitkin.MinHash(n_hashes=65, bits_per_symbol=1, method="independent"),
        bitkin.MinHash(n_hashes=13, bits_per_symbol=17, random_state=3),
    ],
    "ProjectionHash": [
        bitkin.ProjectionHash(n_bits=8, projection="random", rotation=None),
        bitkin.ProjectionHash(n_bits=65, projection="random", rotation=None, center=False),
        bitkin.ProjectionHash(n_bits=13, projection="random", normalize=True, random_state=3),
        bitkin.ProjectionHash(n_bits=2, center=False),
        bitkin.ProjectionHash(n_bits=2, normalize=True, random_state=3),
        bitkin.ProjectionHash(n_bits=2, projection=bitkin.projections.PCA(solver="randomized")),
        bitkin.ProjectionHash(n_bits=2, projection=_all_rows(sampling="norms"), random_state=3),
        bitkin.ProjectionHash(n_bits=2, projection=_all_rows(orthonormalize=False), center=False),
        *(
            bitkin.ProjectionHash(n_bits=n_bits, projection=projection, rotation=rotation)
            for n_bits, nystrom in (
                (2, _all_rows()),
                (5, bitkin.projections.Nystrom(samples=0.5, features=0.6)),
            )
            for projection in ("pca", nystrom, "random")
            for rotation in ROTATIONS
        ),
        *_streams(),
    ],
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
    return 1 if seed_decides(hasher) else int(hasher.n_bits)


def meets_every_row(hasher: Any) -> bool:
    """Whether fitting a source reads each of its rows; a sample does not, unless a rotation looks
    at the rest.
    """
    projection = getattr(hasher, "projection", None)
    sampled = isinstance(projection, bitkin.projections.Nystrom) and projection.samples != 1.0
    return not sampled or hasher.rotation not in (None, "random")


def takes_lists_as_sets(hasher: Any) -> bool:
    """Whether a list of lists holds members and not numbers of a matrix; `test_sets` has the
    promises for those.
    """
    return isinstance(hasher, bitkin.MinHash)


def seed_decides(hasher: Any) -> bool:
    """Whether another seed is sure to give another model; learned directions may come out the
    same.
    """
    return not isinstance(hasher, bitkin.ProjectionHash) or hasher.projection == "random"


def expected_failures(hasher: Any) -> dict[str, str]:
    """Checks of scikit-learn that cannot apply, and why."""
    if takes_lists_as_sets(hasher):
        return {
            "check_transformer_data_not_an_array": "gives a matrix as a list of lists, which here "
            "are sets"
        }
    return {}
