"""Principal directions of a stream, followed vector by vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitkin.checks import is_number
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections.base import StreamingProjection, require_more_features
from bitkin.randomness import Draws

if TYPE_CHECKING:
    from bitkin.hashers.projection.trackers import OPASTTracker


class OPAST(StreamingProjection):
    """Orthonormal directions that follow the principal subspace of a stream, moved a little by
    every vector.

    The tracker of "Streaming Binary Sketching based on Subspace Tracking and Diagonal
    Uniformization" (Morvan et al., 2018), after "Fast orthonormal PAST algorithm" (Abed-Meraim et
    al., 2000): about 4 · n_features · n_bits operations per vector, and memory for the directions
    and a few n_bits² matrices.

    Parameters
    ----------
    forgetting : "auto" or float, default "auto"
        Weight of the past at each step (the paper's β), above 0 and up to 1. 1: all vectors weigh
        the same, so that after 50,000 of them a turn of the stream is hardly followed any more.
        Below 1, about the last 1 / (1 − forgetting) vectors count. "auto": about the last 32 for
        each bit, and no fewer than 1,024; the rows of a `fit` all weigh the same.

    Notes
    -----
    The first eight vectors are held back: the median of their distances to their median tells how
    long a vector is, so that neither the scale of a stream matters nor a wild vector at its start.
    Until then directions are random.

    A vector farther from the mean than ten times the root mean square of those before it is pulled
    back to that distance, and counted: one vector of 10¹⁸ weighs as much as 100 ordinary ones, and
    no more. A stream that truly grows is followed, a factor of ten within about a twentieth as many
    vectors as it had. Equal vectors at the start of a stream count for its mean, not for that
    distance.

    Directions span the principal subspace, but are no principal axes one by one: the covariance
    along them, which is followed too, is not diagonal.

    A memory of 32 vectors per bit captures as much of a stream that stays as it is: at 16 and 64
    bits, of GIST, Fashion-MNIST, word and sentence vectors, 0.98 to 1.007 times what
    `forgetting=1` does. Of 15 streams, most of which change, its epochs find 0.756 of the true 10
    neighbours in the best 100, those of `forgetting=1` 0.711. Two rules that lengthen and shorten
    the memory as the stream does found less (0.739 and 0.746): at rest a longer one gains nothing.
    Where the same few kinds of vectors come again and again in bursts, `forgetting=1` is ahead
    (0.781 against 0.773, with fewer epochs).

    Directions start at random, and count as a tenth of one vector of usual length along each: as a
    whole vector, directions that 8 vectors per bit made captured 0.73 instead of 0.87 of what PCA
    does (GIST, 16 bits), and those of 8,000 vectors 0.9961 instead of 0.9965.

    Any cut of a stream into batches gives the same directions to the last bit. They stay
    orthonormal to about 10⁻⁵ in float32: looked at every 1,024 vectors, and mended where it is
    needed.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((4000, 20)) * np.arange(20, 0, -1)
    >>> opast = bitkin.projections.OPAST()
    >>> hasher = bitkin.ProjectionHash(n_bits=4, projection=opast, rotation="unifdiag").fit(X)
    >>> hasher.encode(X)
    Codes(4,000 rows, 4 × 1-bit, from ...)
    """

    def __init__(self, forgetting: float | str = "auto") -> None:
        self.forgetting = forgetting

    def tracker(self, n_features: int, n_bits: int, *, center: bool, draws: Draws) -> OPASTTracker:
        """Return a tracker that has seen nothing yet, on a random basis."""
        from bitkin.hashers.projection.trackers import OPASTTracker  # which loads Numba

        self.require_parameters()
        require_more_features(n_features, n_bits, "OPAST")
        return OPASTTracker(
            n_features, n_bits, forgetting=self.forgetting, center=center, draws=draws
        )

    def require_parameters(self) -> None:
        """Raise unless `forgetting` can be used."""
        value = self.forgetting
        if isinstance(value, str) and value == "auto":
            return
        if isinstance(value, str) or not (is_number(value) and 0 < value <= 1):
            raise InvalidInputError(
                f"forgetting must be 'auto', or above 0 and at most 1, got {value!r}. 1 forgets "
                "nothing, 0.999 all but about the last 1,000 vectors."
            )
