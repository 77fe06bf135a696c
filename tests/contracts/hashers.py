"""Every exported hasher, in small instances. Exporting a hasher is what gets it tested: add its instances here."""

from __future__ import annotations

import inspect

import bitkin
from bitkin.hashers import Hasher

INSTANCES: dict[str, list[Hasher]] = {
    "ProjectionHash": [
        bitkin.ProjectionHash(n_bits=8),
        bitkin.ProjectionHash(n_bits=65, center=False),
        bitkin.ProjectionHash(n_bits=13, normalize=True, random_state=3),
    ],
}


def exported() -> list[type[Hasher]]:
    """All hashers among the public names."""
    public = [getattr(bitkin, name) for name in bitkin.__all__]
    return [value for value in public if inspect.isclass(value) and issubclass(value, Hasher)]


def instances() -> list[Hasher]:
    """All small instances of all exported hashers."""
    return [instance for kind in exported() for instance in INSTANCES[kind.__name__]]
