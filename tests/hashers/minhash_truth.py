"""MinHash in plain Python: the definitions, one member at a time."""

from __future__ import annotations

from collections.abc import Iterable

from bitkin import MinHash

_ALL = 2**64 - 1
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def hash_of_string(string: str) -> int:
    """Blocks of 16 bytes, zero-padded, both halves scrambled and added to the state; length and a
    mix at the end.
    """
    data = string.encode("utf-8", "surrogatepass")
    padded = data.ljust(max(16, -(-len(data) // 16) * 16), b"\0")
    state = 0x2545F4914F6CDD1D
    for at in range(0, len(padded), 16):
        for half, factor in (
            (padded[at : at + 8], 0x9E3779B97F4A7C15),
            (padded[at + 8 : at + 16], 0xC2B2AE3D27D4EB4F),
        ):
            x = int.from_bytes(half, "little") * factor & _ALL
            state ^= (x ^ x >> 32) * factor & _ALL
        state = state * 0xC6A4A7935BD1E995 & _ALL
    x = state ^ len(data)
    x = (x ^ x >> 32) * _MIX_1 & _ALL
    x = (x ^ x >> 29) * _MIX_2 & _ALL
    return x ^ x >> 32


def shingles_of_text(text: str, kind: str, size: int) -> list[str]:
    """Runs of `size` words or characters, or all there are."""
    units, glue = (text.split(), " ") if kind == "words" else (list(text), "")
    return (
        [glue.join(units[i : i + size]) for i in range(max(1, len(units) - size + 1))]
        if units
        else []
    )


def symbols_of_set(hasher: MinHash, members: Iterable[int]) -> list[int]:
    """The symbols of one set that is not empty, as the module of the kernels describes them."""
    keys, orders, salts, _ = (table.tolist() for table in hasher._tables)  # or keys, steps, …
    n, bits = hasher.spec_.n_symbols, hasher.spec_.bits_per_symbol
    mixed = [_mixed(member, *keys) for member in members]
    if hasher.method == "independent":
        values = [min((g * factor + shift) & _ALL for g in mixed) for shift, factor, _ in orders]
    elif hasher.method == "fast-similarity":
        values = _rounds(mixed, orders, n)
    else:
        values = _bins([min(max(g, 1), _ALL - 1) for g in mixed], orders, n)
    return [_symbol(value ^ salt, bits) for value, salt in zip(values, salts, strict=True)]


def _bins(hashes: list[int], orders: list[list[int]], n: int) -> list[int]:
    bins: dict[int, list[int]] = {}
    for hashed in hashes:
        bins.setdefault((hashed >> 32) * n >> 32, []).append(hashed)
    power = 1 << (n - 1).bit_length()
    values = []
    for i, (shift, factor, _) in enumerate(orders):
        walk = ((shift + t * factor) % power for t in range(power))
        donor = next(place for place in walk if place in bins)
        values.append(min(bins[i]) if i in bins else max(bins[donor]))
    return values


def _rounds(hashes: list[int], steps: list[int], n: int) -> list[int]:
    """The least (round, hash) in each bin, over all rounds."""
    best: dict[int, tuple[int, int]] = {}
    for r, step in enumerate(steps):
        if len(best) == n:
            break
        for g in hashes:
            factor = ((g >> 32) * _MIX_1 & _ALL) >> 32 | 1
            hashed = (g + step * factor) & _ALL
            place = hashed % len(steps) * n // len(steps)
            best[place] = min(best.get(place, (r, hashed)), (r, hashed))
    return [best[place][0] << 44 | best[place][1] >> 20 for place in range(n)]


def _mixed(number: int, before: int, between: int) -> int:
    x = number ^ before
    x = (x ^ x >> 32) * _MIX_1 & _ALL
    x = (x ^ x >> 29 ^ between) * _MIX_2 & _ALL
    return x ^ x >> 32


def _symbol(x: int, bits: int) -> int:
    x = x * _MIX_1 & _ALL
    x = (x ^ x >> 32) * _MIX_2 & _ALL
    return x >> (64 - bits)
