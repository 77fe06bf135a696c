"""Principal directions of a stream, from a sketch of its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections.base import StreamingProjection, require_more_features
from bitkin.memory import require_memory
from bitkin.randomness import Draws

if TYPE_CHECKING:
    from bitkin.hashers.projection.trackers import FrequentDirectionsTracker


class FrequentDirections(StreamingProjection):
    """The strongest directions of a frequent-directions sketch of the centred stream.

    "Online sketching hashing" (Leng et al., 2015), with rotation="random". Rows come in chunks;
    each is centred by its own mean, and what the mean moves by enters the sketch as a row, so that
    the sketch is that of rows centred by the mean of all.

    Parameters
    ----------
    sketch_size : int or None, default None
        Rows of the sketch (the paper's l), at least `n_bits`; None: 4 · `n_bits`. The streaming
        paper compares with 50.
    chunk_rows : int, default 256
        Rows that are taken in at once. A chunk that is not full waits, and is taken in at the end
        of `fit`.

    Notes
    -----
    For the sketch B of centred rows A, ‖AᵀA − BᵀB‖₂ ≤ ‖A − A_k‖²_F / (sketch_size − k) for every k
    < sketch_size. The covariance that rotations see is the sketch's: diagonal, and at most what it
    truly is.

    Trackers of several streams can be merged. A vector counts as it is, however long: one of 10¹⁸
    becomes the first direction. Use OPAST where such may come.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((4000, 20)) * np.arange(20, 0, -1)
    >>> sketch = bitkin.projections.FrequentDirections(sketch_size=8)
    >>> bitkin.ProjectionHash(n_bits=4, projection=sketch, rotation="random").fit(X).encode(X)
    Codes(4,000 rows, 4 × 1-bit, from ...)
    """

    def __init__(self, sketch_size: int | None = None, chunk_rows: int = 256) -> None:
        self.sketch_size = sketch_size
        self.chunk_rows = chunk_rows

    def tracker(
        self, n_features: int, n_bits: int, *, center: bool, draws: Draws
    ) -> FrequentDirectionsTracker:
        """Return a tracker that has seen nothing yet."""
        from bitkin.hashers.projection.trackers import FrequentDirectionsTracker

        self.require_parameters()
        require_more_features(n_features, n_bits, "frequent directions")
        size = 4 * n_bits if self.sketch_size is None else int(self.sketch_size)
        if size < n_bits:
            raise InvalidInputError(
                f"sketch_size must be at least n_bits = {n_bits}, got {size}: a sketch has no more "
                f"directions than rows. Use sketch_size={4 * n_bits}, or fewer bits."
            )
        _require_memory(n_features, size, int(self.chunk_rows))
        return FrequentDirectionsTracker(
            n_features,
            n_bits,
            sketch_size=size,
            chunk_rows=int(self.chunk_rows),
            center=center,
            draws=draws,
        )

    def require_parameters(self) -> None:
        """Raise unless every parameter can be used."""
        if self.sketch_size is not None:
            whole_number(self.sketch_size, "sketch_size", low=1)
        whole_number(self.chunk_rows, "chunk_rows", low=1)


def _require_memory(n_features: int, sketch_size: int, chunk_rows: int) -> None:
    """Raise unless the sketch, which has room for twice its rows, or a chunk can be held, and what
    is made of them.
    """
    rows = 2 * sketch_size
    require_memory(
        # the rows and shrunk ones; inner products and what the solver needs
        8 * rows * (2 * n_features + 3 * rows),
        f"A sketch of sketch_size={sketch_size} and {n_features} features",
        "Use a smaller sketch_size.",
    )
    require_memory(
        16 * chunk_rows * n_features,  # what waits, all of it as one array, and that in float64
        f"A chunk of chunk_rows={chunk_rows} and {n_features} features",
        "Use a smaller chunk_rows.",
    )
