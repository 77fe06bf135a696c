"""Every exported projection and rotation. Exporting one is what gets it tested: as it is by
default, and with the parameters listed here where others take another path.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import bitkin
from bitkin import projections, rotations

# Parameters that take other paths than the defaults do.
OTHERS: dict[str, list[dict[str, Any]]] = {
    "FrequentDirections": [{"sketch_size": 7, "chunk_rows": 20}],
    "ITQ": [{"n_iter": 3, "max_rows": 100}],
    "IsoHash": [{"n_iter": 20, "tolerance": 1e-8}],
    "Nystrom": [
        {"samples": 1.0, "features": 0.9},
        {"samples": 0.5, "features": 0.6, "sampling": "norms"},
        {"samples": 0.5, "features": 0.6, "truncate": 1e-3},
        {"samples": 0.5, "features": 0.6, "orthonormalize": False},
    ],
    "OPAST": [{"forgetting": 0.99}],
    "PCA": [{"solver": "randomized"}],
    "UnifDiag": [{"start": "random"}],
}


def exported(module: ModuleType, base: type) -> list[type[Any]]:
    """All classes of a kind among a module's public names that can be made."""
    public = [getattr(module, name) for name in module.__all__]
    return [
        one
        for one in public
        if inspect.isclass(one) and issubclass(one, base) and not inspect.isabstract(one)
    ]


def instances(module: ModuleType, base: type) -> list[Any]:
    """All of them by default, then with other parameters."""
    return [
        kind(**parameters)
        for kind in exported(module, base)
        for parameters in [{}, *OTHERS.get(kind.__name__, [])]
    ]


def each_projection() -> list[Any]:
    """Small instances of every exported projection."""
    return instances(projections, projections.Projection)


def each_rotation() -> list[Any]:
    """Small instances of every exported rotation."""
    return instances(rotations, rotations.Rotation)


def draws_directions(projection: Any) -> bool:
    """Whether directions are drawn, any number of them and not orthonormal."""
    return isinstance(projection, bitkin.projections.RandomProjection)


def promises_orthonormal(projection: Any) -> bool:
    """Whether directions are at right angles and of length 1."""
    return not draws_directions(projection) and getattr(projection, "orthonormalize", True)


NONSENSE: tuple[Any, ...] = ("nonsense", -7.5, float("nan"), [3], {"a": 1}, object())
"""Values that no parameter of any of them can have."""
