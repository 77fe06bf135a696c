"""Windows: which features every symbol of a code compares, drawn once from the seed.

Window w has K components. Component k, at place w·K + k, is the product of p factors,
x[features[0, w·K + k]] · … · x[features[p − 1, w·K + k]]. Within a window no feature repeats in the
same factor.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import memory
from bitkin.errors import InvalidInputError
from bitkin.kernels.blocks import read_only
from bitkin.kernels.hashing.wta import NO_PLACE
from bitkin.locks import ModelLock
from bitkin.randomness import Draws

LAYOUTS = ("partition", "independent")
_PLACES_PER_PASS = 1 << 20  # drawn or inverted at a time, to save memory
_drawing = ModelLock()


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """All that decides the windows."""

    n_features: int
    n_hashes: int
    window: int
    degree: int
    layout: str
    seed: int

    @property
    def n_permutations(self) -> int:
        """Permutations per factor in the partition layout: ⌈n_hashes / ⌊n_features / window⌋⌉,
        since a window never straddles two.
        """
        return -(-self.n_hashes // (self.n_features // self.window))

    def features(self) -> npt.NDArray[np.uint32]:
        """Draw the windows: uint32 (degree, n_hashes · window)."""
        self._require_memory()
        out = np.empty((self.degree, self.n_hashes * self.window), dtype=np.uint32)
        draw_into = self._partition_into if self.layout == "partition" else self._independent_into
        for factor in range(self.degree):
            draw_into(out[factor], Draws(self.seed, f"windows:{factor}"))
        return out

    def coefficients(self, features: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        """Return √(p! / ∏ aᵢ!) for every component, aᵢ counting how often each feature is among its
        p factors.
        """
        # Sorted, equal factors of a component stand together. The r-th of a run of equal factors
        # multiplies `repeats` by r, so that a run of length a contributes a!.
        ordered = np.sort(features, axis=0)
        run = np.ones(features.shape[1], dtype=np.int64)
        repeats = np.ones(features.shape[1])
        for factor in range(1, self.degree):
            run = np.where(ordered[factor] == ordered[factor - 1], run + 1, 1)
            repeats *= run
        return np.sqrt(math.factorial(self.degree) / repeats)

    def _partition_into(self, out: npt.NDArray[np.uint32], draws: Draws) -> None:
        """Draw one permutation after another, each cut into ⌊n_features / window⌋ windows."""
        # Features of a permutation that fill whole windows; the rest of it is left over.
        whole = self.n_features // self.window * self.window
        step = max(1, _PLACES_PER_PASS // self.n_features) * whole
        for start in range(0, len(out), step):
            part = out[start : start + step]
            part[:] = draws.permutations(self.n_features, -(-len(part) // whole))[
                :, :whole
            ].reshape(-1)[: len(part)]

    def _independent_into(self, out: npt.NDArray[np.uint32], draws: Draws) -> None:
        """Draw every window on its own: K different features in random order."""
        windows = out.reshape(self.n_hashes, self.window)
        done = 0
        while done < self.n_hashes:
            if self.window**2 > self.n_features:
                windows[done] = draws.choice(self.n_features, self.window)
                done += 1
                continue
            # With K² ≤ n_features, K draws all differ more often than not (the birthday problem):
            # draw for all missing windows at once, and keep those without a repeated feature.
            missing = self.n_hashes - done
            drawn = draws.below(self.n_features, missing * self.window).reshape(
                missing, self.window
            )
            ordered = np.sort(drawn, axis=1)
            good = drawn[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
            windows[done : done + len(good)] = good
            done += len(good)

    def _require_memory(self) -> None:
        places = self.n_hashes * self.window
        # uint32 windows of every factor, and the draws of one factor
        needed = 4 * (self.degree + 1) * places + 32 * max(places, self.n_features)
        if places >= int(NO_PLACE) or needed > memory.physical_memory():
            raise InvalidInputError(
                f"n_hashes must be smaller: {self.n_hashes} windows of {self.window} features do "
                "not fit in memory."
            )


class Windows:
    """The windows of a plan as kernels take them, drawn on first use and left out of pickles."""

    def __init__(self, plan: WindowPlan, weighted: bool) -> None:
        self.plan = plan
        self.weighted = weighted

    @functools.cached_property
    def features(self) -> npt.NDArray[np.uint32]:
        """The feature of every place and factor: uint32 (degree, n_hashes · window)."""
        return read_only(self.plan.features())

    @functools.cached_property
    def coefficients(self) -> npt.NDArray[np.float64]:
        """The weight of every place, or nothing where all are 1."""
        return read_only(self.plan.coefficients(self.features) if self.weighted else np.empty(0))

    @functools.cached_property
    def places(self) -> FeaturePlaces:
        """From features to places, which only sparse rows need."""
        return find_places(self.plan, self.features)

    @functools.cached_property
    def columns(self) -> npt.NDArray[np.int64]:
        """All features that any window looks at, ascending."""
        return read_only(np.unique(self.features).astype(np.int64))

    @functools.cached_property
    def features_of_columns(self) -> npt.NDArray[np.uint32]:
        """Like `features`, for rows that have the `columns` alone."""
        return read_only(np.searchsorted(self.columns, self.features).astype(np.uint32))

    def prepare(self, *, sparse: bool) -> None:
        """Draw what hashing needs, once, however many threads ask."""
        drawn = vars(self)  # where cached properties are once they have been computed
        if "coefficients" in drawn and ("places" if sparse else "features") in drawn:
            return
        with _drawing:
            _ = self.places if sparse else self.features
            _ = self.coefficients

    def __reduce__(self) -> tuple[Any, ...]:
        return Windows, (self.plan, self.weighted)


@dataclass(frozen=True, slots=True, eq=False)
class FeaturePlaces:
    """The places where each feature is the first factor: how a sparse row finds its windows.

    With a stride, the places of feature f are `places[f · stride : (f + 1) · stride]`, NO_PLACE
    where there are fewer; with stride 0 they are `places[starts[f] : starts[f + 1]]`. `most` is the
    number of places of the feature that has most.
    """

    places: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.uint32]
    stride: int
    most: int


def find_places(plan: WindowPlan, features: npt.NDArray[np.uint32]) -> FeaturePlaces:
    """Invert windows: from place → feature to feature → places, by the first factor."""
    first = features[0]
    n_places = features.shape[1]
    # In the partition layout every permutation has each feature at most once: a table with one
    # column per permutation holds all places, unless the last one is mostly unused.
    stride = plan.n_permutations
    if plan.layout == "partition" and stride * plan.n_features <= 2 * n_places:
        table = np.full(plan.n_features * stride, NO_PLACE, dtype=np.uint32)
        whole = plan.n_features // plan.window * plan.window
        for start in range(0, n_places, whole):
            for begin in range(start, min(start + whole, n_places), _PLACES_PER_PASS):
                part = first[begin : min(begin + _PLACES_PER_PASS, start + whole)].astype(np.int64)
                table[part * stride + start // whole] = np.arange(
                    begin, begin + len(part), dtype=np.uint32
                )
        no_starts = read_only(np.zeros(1, dtype=np.uint32))
        return FeaturePlaces(read_only(table), no_starts, stride, stride)
    # Otherwise the places of a feature are a run of the sorted places, as long as its count.
    counts = np.bincount(first, minlength=plan.n_features)
    starts = np.zeros(plan.n_features + 1, dtype=np.uint32)
    np.cumsum(counts, out=starts[1:])
    places = np.argsort(first, kind="stable").astype(np.uint32)
    return FeaturePlaces(read_only(places), read_only(starts), 0, int(counts.max(initial=0)))
