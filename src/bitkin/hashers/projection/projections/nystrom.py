"""Principal directions from a sample of rows and, in those, a sample of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.checks import is_number, one_of, whole_number
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections.base import (
    VISIBLE,
    Learned,
    Projection,
    count_visible,
)
from bitkin.hashers.projection.projections.sampling import (
    SampledRows,
    features_by_norms,
    most_rows,
    rows_by_norms,
    uniform_features,
    uniform_rows,
)
from bitkin.hashers.projection.statistics.centred_rows import CentredRows
from bitkin.hashers.projection.statistics.row_sample import RowSample, row_count
from bitkin.hashers.projection.statistics.spectra import (
    leading_combinations,
    orthonormalize,
    round_to_grid,
)
from bitkin.hashers.projection.training import TrainingVectors, round_mean
from bitkin.memory import require_memory
from bitkin.randomness import Draws


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LearnedFromSample(Learned):
    """What `Nystrom` found, and from what."""

    row_numbers: npt.NDArray[np.int64]
    """The rows sampled; with sampling="norms" some come several times."""

    features: npt.NDArray[np.int64]
    """The features sampled of them, likewise."""


class Nystrom(Projection):
    """Approximate principal directions from a sample of rows and features (generalized Nystrom).

    The method of "Hashing with Generalized Nyström Approximation" (Yun et al., 2012). From c
    sampled rows, the columns of the paper's C, and r features of those, W = U Σ Vᵀ, the directions
    are C V Σ⁺: about the principal directions of all rows, at a cost that grows with the sample.

    Parameters
    ----------
    samples : int or float, default 0.05
        Rows to sample (the paper's c): a count, or a share as a float up to 1.0. A share stands for
        at most 8,192 rows, or 32 per bit where that is more; a count is taken as it is.
    features : int or float, default 0.3
        Features of them to sample (the paper's r), likewise. It hardly matters for orthonormal
        directions, which see all features once more.
    sampling : {"uniform", "norms"}, default "uniform"
        "norms": rows and features with replacement, by their squared lengths about the mean
        (ConstantTimeSVD). It reads all rows twice before it samples.
    truncate : float or None, default None
        The γ of the paper's modified method: only directions with σ² ≥ γ · ‖C‖₁ · ‖C‖∞ are kept, k′
        of them. The code keeps its length: the other n_bits − k′ directions are drawn at random, at
        right angles to those kept.
    orthonormalize : bool, default True
        Make the directions orthonormal, after one step of subspace iteration with the sampled rows,
        C Cᵀ · directions, which reads nothing more. False is the paper's own form, as it comes.

    Notes
    -----
    Rows that are not sampled are not read, and the mean is that of the sample (of all rows with
    "norms"). A NaN in a row that is not read stays unnoticed, except in an array in memory, which
    `fit` always looks through. A rotation that learns from rows reads a sample of its own: 3,000
    rows, 5 % of Fashion-MNIST, are too few to learn ITQ from at 128 bits (mean average precision
    0.481 against 0.493).

    Mean average precision with ITQ on Fashion-MNIST, 64 and 128 bits, six seeds: PCA 0.384 and
    0.499; the default 0.377 and 0.497; orthonormal without the step 0.373 and 0.491; the paper's
    form 0.347 and 0.458.

    `statistics` of uniform samples can be fed on several machines and merged; `from_statistics`
    makes of them what `learn` would.

    Directions need as many features as bits, and one row more. Where a share gives fewer, it is
    raised, with a warning unless there are fewer than 1,000 rows or 100 features anyway. Where the
    sampled features vary along too few directions, all features are used.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((4000, 50)) * np.arange(50, 0, -1)
    >>> nystrom = bitkin.projections.Nystrom(samples=0.1, features=20)
    >>> bitkin.ProjectionHash(n_bits=8, projection=nystrom).fit(X).encode(X)
    Codes(4,000 rows, 8 × 1-bit, from ...)
    """

    reads_all_rows: ClassVar[bool] = False

    def __init__(
        self,
        samples: int | float = 0.05,
        features: int | float = 0.3,
        sampling: str = "uniform",
        truncate: float | None = None,
        orthonormalize: bool = True,
    ) -> None:
        self.samples = samples
        self.features = features
        self.sampling = sampling
        self.truncate = truncate
        self.orthonormalize = orthonormalize

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> LearnedFromSample:
        """Return about the principal directions, the mean of the sample, and what was sampled."""
        self.require_parameters()
        size, fewest = _count_or_share(self.samples, "samples"), n_bits + vectors.center
        most = most_rows(n_bits)
        n_bits = min(n_bits, vectors.n_features)  # the hasher fills up the rest
        if vectors.n_rows is not None and not vectors.sparse:
            n_sampled = row_count(vectors.n_rows, _at_least(size, fewest), fewest, most)
            _require_sample(n_sampled, vectors.n_features)
        if self.sampling == "norms":
            return self._learn_from(
                rows_by_norms(vectors, size, n_bits, draws), n_bits, vectors.center, draws
            )
        rows, numbers, n = vectors.sample(_at_least(size, fewest), fewest, most)
        sample = uniform_rows(rows, numbers, n, size, n_bits, center=vectors.center)
        return self._learn_from(sample, n_bits, vectors.center, draws)

    def statistics(self, n_bits: int, *, center: bool, key: int) -> RowSample:
        """Return what to update with rows, here or on several machines, and to merge; `key` decides
        which are kept.
        """
        self.require_parameters()
        if self.sampling == "norms":
            raise InvalidInputError(
                "sampling='norms' reads rows more than once. Use sampling='uniform'."
            )
        fewest = n_bits + center
        size = _at_least(_count_or_share(self.samples, "samples"), fewest)
        return RowSample(key, size, fewest, most_rows(n_bits))

    def from_statistics(
        self, sample: RowSample, n_bits: int, *, center: bool, draws: Draws
    ) -> LearnedFromSample:
        """Return what `learn` does, from rows that were sampled before."""
        rows, size = sample.rows, _count_or_share(self.samples, "samples")
        n_bits = min(n_bits, rows.shape[1])
        uniform = uniform_rows(rows, sample.row_numbers, sample.n, size, n_bits, center=center)
        return self._learn_from(uniform, n_bits, center, draws)

    def require_parameters(self) -> None:
        """Raise unless every parameter can be used."""
        _count_or_share(self.samples, "samples")
        _count_or_share(self.features, "features")
        one_of(self.sampling, "sampling", ("uniform", "norms"))
        if self.truncate is not None and not (
            is_number(self.truncate) and 0 < self.truncate < np.inf
        ):
            raise InvalidInputError(
                f"truncate must be None or a number above 0, the paper's γ, got {self.truncate!r}."
            )
        if not isinstance(self.orthonormalize, (bool, np.bool_)):
            raise InvalidInputError(
                f"orthonormalize must be True or False, got {self.orthonormalize!r}."
            )

    def _learn_from(
        self, sample: SampledRows, n_bits: int, center: bool, draws: Draws
    ) -> LearnedFromSample:
        # With C the sampled rows and W ≈ C on some features, WWᵀ = V Σ² Vᵀ: the directions are
        # Cᵀ V Σ⁺, combinations of the sampled rows.
        rows = sample.centred(center)
        combinations, features = self._combinations(rows, sample, n_bits, draws)
        directions = rows.transposed_times(combinations)
        if self.orthonormalize:
            directions = _refine(rows, orthonormalize(directions))
        return LearnedFromSample(
            round_to_grid(self._complete(directions, n_bits, draws)),
            round_mean(sample.mean) if center else None,
            row_numbers=sample.numbers,
            features=features,
        )

    def _combinations(
        self, rows: CentredRows, sample: SampledRows, n_bits: int, draws: Draws
    ) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Return V Σ⁺ (c, ≤ n_bits) for the directions that are kept, strongest first, and the
        features used.
        """
        some = features_by_norms if self.sampling == "norms" else uniform_features
        size = _count_or_share(self.features, "features")
        part, features = some(rows, size, n_bits, draws)
        # Eigenvalues σ² of W Wᵀ estimate those of the scatter of all n rows,
        # for the weights √(n/c) and √(d/r) make up for what was not sampled.
        # So "visible" is n times the variance per row.
        values, combinations = leading_combinations(part, n_bits, draws)
        lowest = sample.n * VISIBLE * sample.mean_square
        if self.truncate is not None:
            # the modified method: σ² ≥ γ · ‖C‖₁ · ‖C‖∞
            lowest = max(lowest, float(self.truncate) * float(np.prod(rows.largest_sums())))
        elif np.count_nonzero(values > lowest) < n_bits:
            # The sampled features span too little: solve on all features, and raise if not even
            # those vary.
            features = np.arange(rows.shape[1])
            values, combinations = leading_combinations(rows, n_bits, draws)
            count_visible(values / sample.n, sample.mean_square, rows.shape[0])
        kept = int(np.count_nonzero(values[: combinations.shape[1]] > lowest))
        # V_k Σ_k⁺, column by column
        return combinations[:, :kept] / np.sqrt(values[:kept]), features

    def _complete(self, directions: Floats, n_bits: int, draws: Draws) -> Floats:
        """Return `n_bits` directions, orthonormal where asked: those given and, after truncation,
        random ones.
        """
        kept = directions.shape[1]
        if self.truncate is None:  # rows do not vary along more than these
            return orthonormalize(directions) if self.orthonormalize else directions
        if kept == n_bits and not self.orthonormalize:
            return directions
        # QR keeps the span of the first columns, so random
        # ones end up at right angles to those kept.
        basis = orthonormalize(
            np.hstack([directions, draws.normals((len(directions), n_bits - kept))])
        )
        return basis if self.orthonormalize else np.hstack([directions, basis[:, kept:]])


def _refine(rows: CentredRows, directions: Floats) -> Floats:
    """Return what all features of the sampled rows make of orthonormal directions, strongest
    first.
    """
    # One step of subspace iteration, Cᵀ(C · D · A): the axes A diagonalize (C·D)ᵀ(C·D), so that the
    # columns come out strongest first.
    seen = rows.times(directions)
    with threads.blas_in_one_thread():
        axes = np.linalg.eigh(seen.T @ seen)[1][:, ::-1]
        along_axes = seen @ axes
    return rows.transposed_times(along_axes)


def _count_or_share(value: Any, name: str) -> int | float:
    """Return a count of at least 1 as an int, or a share above 0 up to 1.0 as a float."""
    if is_number(value) and isinstance(value, (int, np.integer)):
        return whole_number(value, name, low=1)
    if is_number(value) and 0.0 < value <= 1.0:
        return float(value)
    raise InvalidInputError(
        f"{name} must be a count from 1 up, or a share as a float above 0 and up to 1.0, got "
        f"{value!r}."
    )


def _at_least(size: int | float, fewest: int) -> int | float:
    """Return a count raised to `fewest`; a share is raised once the number of rows is known."""
    return size if isinstance(size, float) else max(size, fewest)


def _require_sample(n_rows: int, n_features: int) -> None:
    require_memory(
        8 * n_rows * n_features,  # in float32, and the sampled features of them once more
        f"A sample of {n_rows:,} rows of {n_features:,} features",
        "Use Nystrom with fewer samples.",
    )
