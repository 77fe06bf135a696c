"""How much of everything the experiment of NYSTROM does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sweep:
    """Shares that are sampled at some number of bits. A share that gives fewer rows or features
    than bits would be raised, so that shares have to grow with bits.
    """

    bits: int
    samples: tuple[float, ...]
    features: tuple[float, ...]

    @property
    def axes(self) -> dict[str, tuple[float, ...]]:
        """The shares of samples and of features."""
        return {"samples": self.samples, "features": self.features}


@dataclass(frozen=True, slots=True)
class NystromSizes:
    """How much of everything."""

    rows: int = 20_000
    queries: int = 1000
    runs: int = 5
    bits: tuple[int, ...] = (16, 32, 64, 128, 256)
    sweeps: tuple[Sweep, ...] = (
        Sweep(32, samples=(0.005, 0.01, 0.02, 0.05, 0.1), features=(0.05, 0.1, 0.2, 0.3, 0.4)),
        Sweep(256, samples=(0.02, 0.05, 0.1, 0.2), features=(0.35, 0.5, 0.7, 1.0)),
    )
    bound_rows: int = 6000
    bound_bits: int = 64
    timed_rounds: int = 5
