"""Methods to be tried: what every hasher of the package offers at a number of bits.

A class in `HASHERS` says by itself which of its forms are worth trying (`Hasher.variants`), so a
new projection, rotation or hasher takes part in every comparison without a word here; a test proves
that every exported hasher is in the list. A hasher of somebody else's takes part as soon as its
class is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from bitkin.arrays import Batch
from bitkin.checks import shown, suggest
from bitkin.errors import InvalidInputError
from bitkin.evaluate.trials.trial import Trial
from bitkin.hashers.base import Hasher
from bitkin.hashers.minhash.minhash import MinHash
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.projections.base import StreamingProjection
from bitkin.hashers.projection.registry import projection_for
from bitkin.hashers.sign_hash.sign_hash import SignHash
from bitkin.hashers.wta.wta_hash import WTAHash

HASHERS: tuple[type[Hasher], ...] = (ProjectionHash, WTAHash, MinHash, SignHash)
_OF_SETS: tuple[type[Hasher], ...] = (MinHash,)  # whose codes compare rows as sets
_MOST_STREAMED_COLUMNS = 4_096  # of projections that follow every row


def list_hashers() -> list[type[Hasher]]:
    """Return the hashers of the package, and classes of others that have variants of their own."""
    found, todo = list(HASHERS), [Hasher]
    while todo:
        for kind in todo.pop().__subclasses__():
            todo.append(kind)
            if "variants" in vars(kind) and kind not in found:
                found.append(kind)
    return found


@dataclass(frozen=True)
class CodeMethod:
    """A hasher, not fitted yet, under its name."""

    name: str
    n_bits: int
    """As it was asked for: signs of coordinates have as many as there are columns."""
    hasher: Hasher
    given: bool = False
    """Whether it is a hasher of the caller's, which is taken as it is."""

    def fit(self, rows: Batch) -> Hasher:
        """Return a copy of the hasher that has learned from some rows."""
        fitted: Hasher = clone(self.hasher).fit(rows)
        return fitted


def takes_minutes(hasher: Hasher, n_features: int) -> bool:
    """Whether a hasher follows every row in so many columns that it is tried only where it is asked
    for by name.
    """
    return (
        isinstance(hasher, ProjectionHash)
        and isinstance(projection_for(hasher.projection), StreamingProjection)
        and n_features > _MOST_STREAMED_COLUMNS
    )


def list_methods(
    bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
) -> list[CodeMethod]:
    """Return what can be tried at a number of bits, for rows that are CSR or dense."""
    kinds = _OF_SETS if metric == "jaccard" else list_hashers()
    methods: dict[str, CodeMethod] = {}
    for kind in kinds:
        forms = kind.variants(bits, sparse=sparse, metric=metric, random_state=random_state)
        for name, hasher in forms.items():
            methods.setdefault(name, CodeMethod(name, bits, hasher))
    return list(methods.values())


def choose_methods_at(
    wanted: Any, bits: Sequence[int], trial: Trial, random_state: Any = 0
) -> list[CodeMethod]:
    """Return the methods of some names at several numbers of bits, as `find_methods` does, for the
    rows of a trial.
    """
    return find_methods(
        wanted, bits, sparse=trial.sparse, metric=trial.metric, random_state=random_state
    )


def choose_methods(wanted: Any, bits: int, trial: Trial, random_state: Any = 0) -> list[CodeMethod]:
    """Return the methods of some names at one number of bits, for the rows of a trial."""
    return choose_methods_at(wanted, [bits], trial, random_state)


def find_methods(
    wanted: Any, bits: Sequence[int], *, sparse: bool, metric: str, random_state: Any = 0
) -> list[CodeMethod]:
    """Return the methods of some names, all for None, at several numbers of bits; raise for a name
    that does not exist.

    A name may be the beginning of several, as "pca" is of "pca × itq", and have an x for the ×. A
    hasher that is not fitted is a method too, of as many bits as it makes. Each code comes once:
    signs of coordinates are the same whatever is asked for.
    """
    names = None if wanted is None else _list_wanted(wanted)
    chosen: dict[tuple[str, str], CodeMethod] = {}
    for n_bits in bits:
        methods = list_methods(n_bits, sparse=sparse, metric=metric, random_state=random_state)
        if names is not None:
            methods = [method for name in names for method in _find_named(name, methods)]
        for method in methods:
            chosen.setdefault((method.name, repr(method.hasher.get_params())), method)
    return list(chosen.values())


def _list_wanted(wanted: Any) -> list[Any]:
    """Return names and hashers one by one."""
    if isinstance(wanted, (str, Hasher)):
        return [wanted]
    try:
        listed = list(wanted)
    except TypeError:
        listed = [wanted]
    if not listed:
        raise InvalidInputError("methods must name at least one method, got none.")
    for one in listed:
        if not isinstance(one, (str, Hasher)):
            raise InvalidInputError(
                "methods must be names such as 'pca x itq', or hashers such as WTAHash(128), got "
                f"{shown(one)}."
            )
    return listed


def _find_named(wanted: str | Hasher, methods: list[CodeMethod]) -> list[CodeMethod]:
    """Return those of a name, or that begin with it."""
    if isinstance(wanted, Hasher):
        name = " ".join(repr(wanted).split())
        return [CodeMethod(name, getattr(wanted, "n_bits", 0), wanted, given=True)]
    name = re.sub(r"\s*(?:×|\bx\b|\*)\s*", " × ", wanted.strip().lower())
    found = [method for method in methods if method.name == name]
    if not found:
        found = [method for method in methods if re.match(re.escape(name) + r"( ×|,)", method.name)]
    if not found:
        names = [method.name for method in methods]
        firsts = [re.split(" ×|,", one)[0] for one in names]
        raise InvalidInputError(
            f"methods must be names out of {', '.join(names)}, got {shown(wanted)}."
            f"{suggest(name, [*names, *firsts])}"
        )
    return found
