"""How well the bits of a collection's codes are used, from a sample of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bitkin.checks import whole_number
from bitkin.evaluate.reporting.content import CodeStatistics
from bitkin.service.explorer.sample import sample_rows

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.collection.collection import Collection

MOST_SAMPLED = 20_000
"""Rows whose codes are looked at, at most."""
MOST_CORRELATED = 64
"""Bits whose correlations are told."""


def describe_bits(collection: Collection, n: int = 2000) -> dict[str, Any]:
    """Return how often each bit of the codes is set, and how bits go together, as JSON holds it.

    A symbol of several bits (MinHash, winner-take-all) counts as several: bit p of symbol j is
    number p · n_symbols + j, plane after plane, as codes are stored.

    Parameters
    ----------
    collection : Collection
        Any.
    n : int, default 2000
        Rows looked at, up to 20,000. Those with nothing to hash are left out.

    Returns
    -------
    dict
        "n_bits", "n_symbols", "bits_per_symbol"; "balance", the share of ones per bit; "entropy",
        the bits of information in a code if its bits were independent; "correlation" of every two
        of the "bits" listed, evenly chosen where there are more than 64, as a "matrix", 0 for a bit
        that never changes; "sample", the rows looked at, "empty", those left out; "note", what to
        know of them, or None.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
    >>> items = bitkin.Collection.create(None, bitkin.ProjectionHash(n_bits=8).fit(X))
    >>> _ = items.add(X)
    >>> about = describe_bits(items)
    >>> about["n_bits"], len(about["balance"]), about["sample"]
    (8, 8, 100)
    """
    n = whole_number(n, "n", low=1, high=MOST_SAMPLED)
    codes = sample_rows(collection, n).codes
    statistics = CodeStatistics.from_codes("codes", codes)
    shown = _evenly(statistics.n_bits, MOST_CORRELATED)
    n_empty = int(codes.empty_rows().sum())
    return {
        "n_bits": statistics.n_bits,
        "n_symbols": codes.spec.n_symbols,
        "bits_per_symbol": codes.spec.bits_per_symbol,
        "balance": statistics.ones.round(4).tolist(),
        "entropy": round(float(statistics.entropy.sum()), 3),
        "correlation": {
            "bits": shown.tolist(),
            # adding 0 makes 0 of −0
            "matrix": (statistics.correlation[np.ix_(shown, shown)].round(3) + 0.0).tolist(),
        },
        "sample": len(codes) - n_empty,
        "empty": n_empty,
        "note": _note(collection, codes),
    }


def _evenly(n: int, most: int) -> Any:
    return np.arange(n) if n <= most else np.arange(most) * n // most


def _note(collection: Collection, codes: Codes) -> str | None:
    """Return what to know of the codes: which bits they have, and which hasher made them."""
    notes = []
    spec = codes.spec
    if spec.bits_per_symbol > 1:
        notes.append(
            f"A code has {spec.n_symbols} symbols of {spec.bits_per_symbol} bits. Bits are counted "
            f"plane after plane: the first bit of every symbol, then the second."
        )
    epochs = len(collection.epochs)
    if epochs > 1:
        current = getattr(collection.hasher, "fingerprint_", None)
        if codes.fingerprint == current:
            notes.append(
                f"Rows are of {epochs} epochs. What is shown is what the current hasher makes of "
                "them."
            )
        else:
            notes.append(
                f"Rows are of {epochs} epochs, each with a hasher of its own, and no vectors are "
                "kept to encode them again."
            )
    return " ".join(notes) or None
