"""Every exported hasher, in small instances. Exporting a hasher is what gets it tested: add its instances here."""

from __future__ import annotations

import inspect
from typing import Any

import bitkin
from bitkin.hashers import Hasher


def _all_rows(**parameters: Any) -> bitkin.projections.Nystrom:
    """A sample of all rows, so that a bad number anywhere in a source is met."""
    return bitkin.projections.Nystrom(samples=1.0, features=0.9, **parameters)


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
            bitkin.ProjectionHash(n_bits=2, projection=projection, rotation=rotation)
            for projection in ("pca", _all_rows(), "random")
            for rotation in (None, "itq", "unifdiag", "isohash", "random")
        ),
    ],
    "WTAHash": [
        bitkin.WTAHash(n_hashes=8, window=2),
        bitkin.WTAHash(n_hashes=65, window=2, layout="independent", densify="rotation", alphabet_size=10),
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


def takes_lists_as_sets(hasher: Any) -> bool:
    """Whether a list of lists holds members and not numbers of a matrix; `test_sets` has the promises for those."""
    return isinstance(hasher, bitkin.MinHash)


def seed_decides(hasher: Any) -> bool:
    """Whether another seed is sure to give another model; learned directions may come out the same."""
    return not isinstance(hasher, bitkin.ProjectionHash) or hasher.projection == "random"


def expected_failures(hasher: Any) -> dict[str, str]:
    """Checks of scikit-learn that cannot apply, and why."""
    if takes_lists_as_sets(hasher):
        return {"check_transformer_data_not_an_array": "gives a matrix as a list of lists, which here are sets"}
    return {}
