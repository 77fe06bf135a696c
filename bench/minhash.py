"""How fast is MinHash, from numbers, strings and raw texts, beside rensa and datasketch, and how
exact?

python bench/minhash.py
"""

from __future__ import annotations

import os

os.environ["RAYON_NUM_THREADS"] = "1"  # rensa's; read when it is loaded

from collections.abc import Callable
from typing import Any

import datasketch
import numpy as np
import numpy.typing as npt
import rensa
import scipy.sparse

import bitkin
from _timing import interleaved, report
from _tiny import sized

N_HASHES, N_SETS, SET_SIZE = sized((128, 2000, 200), (128, 20, 30))
Strings = list[list[str]]


def rensa_objects(sets: Strings) -> list[Any]:
    """One `RMinHash` a set, which beats rensa's own batch calls on lists of strings as often as
    not.
    """
    out = []
    for one in sets:
        minhash = rensa.RMinHash(num_perm=N_HASHES, seed=42)
        minhash.update(one)
        out.append(minhash)
    return out


def rensa_matrix(sets: Strings) -> Any:
    return rensa.RMinHash.digest_matrix_from_token_sets(sets, N_HASHES, 42)


def datasketch_of(sets: list[Any], hashfunc: Callable[[Any], int] | None = None) -> list[Any]:
    return list(datasketch.MinHash.generator(sets, num_perm=N_HASHES, hashfunc=hashfunc))


def datasketch_as_documented(sets: Strings) -> list[Any]:
    """One `update` a member, as its documentation shows first."""
    out = []
    for one in sets:
        minhash = datasketch.MinHash(num_perm=N_HASHES)
        for word in one:
            minhash.update(word.encode("utf8"))
        out.append(minhash)
    return out


def random_tokens(rng: np.random.Generator) -> tuple[Strings, npt.NDArray[np.uint64]]:
    """Sets of words that look like words, 2 to 12 letters from a vocabulary of 100,000, and their
    hashes.
    """
    letters = rng.integers(97, 123, (100_000, 12)).astype(np.uint8)
    lengths = rng.integers(2, 13, len(letters))
    vocabulary = [
        row[:length].tobytes().decode() for row, length in zip(letters, lengths, strict=True)
    ]
    chosen = rng.integers(0, len(vocabulary), (N_SETS, SET_SIZE))
    hashes = rng.integers(0, 2**64, len(vocabulary), dtype=np.uint64)
    return [[vocabulary[w] for w in row] for row in chosen.tolist()], hashes[chosen]


def texts_of(sets: Strings) -> list[str]:
    """Documents of 200 words, so with 198 shingles of three."""
    return [" ".join(words) for words in sets]


def shingled_in_python(texts: list[str]) -> Strings:
    return [
        [" ".join(words[i : i + 3]) for i in range(len(words) - 2)]
        for words in map(str.split, texts)
    ]


def speed() -> None:
    strings, numbers = random_tokens(np.random.default_rng(0))
    arrays = list(numbers)
    number_lists = numbers.tolist()
    # datasketch takes 32 bits
    small_lists = [[number & 0xFFFFFFFF for number in row] for row in number_lists]
    offsets = np.arange(0, N_SETS * SET_SIZE + 1, SET_SIZE)
    ragged = bitkin.Sets(numbers.reshape(-1), offsets)
    columns = (numbers.reshape(-1) >> np.uint64(33)).astype(np.int32)
    csr = scipy.sparse.csr_array(
        (np.ones(len(columns), np.float32), columns, offsets.copy()), shape=(N_SETS, 2**31 - 1)
    )
    csr.sum_duplicates()
    texts = texts_of(strings)
    hasher = bitkin.MinHash(N_HASHES).fit()
    independent = bitkin.MinHash(N_HASHES, method="independent").fit()

    times = interleaved(
        {
            "Sets": lambda: hasher.encode(ragged),
            "arrays": lambda: hasher.encode(arrays),
            "CSR": lambda: hasher.encode(csr),
            "number lists": lambda: hasher.encode(number_lists),
            "strings": lambda: hasher.encode(strings),
            "texts": lambda: hasher.encode_texts(texts),
            "shingles": lambda: hasher.encode(bitkin.shingles(texts)),
            "independent": lambda: independent.encode(ragged),
            "rensa objects": lambda: rensa_objects(strings),
            "rensa matrix": lambda: rensa_matrix(strings),
            "rensa texts": lambda: rensa_objects(shingled_in_python(texts)),
            "rensa hashed": lambda: rensa.RMinHash.digest_matrix_from_flat_token_hashes(
                numbers.reshape(-1), offsets.astype(np.uint64), N_HASHES, 42
            ),
            "rensa rho": lambda: rensa.RMinHash.digest_matrix_from_token_sets_rho(
                strings, N_HASHES, 42
            ),
            "datasketch strings": lambda: _datasketch_strings(strings),
            "datasketch strings, one update a member": lambda: datasketch_as_documented(strings),
            "datasketch numbers": lambda: datasketch_of(small_lists, hashfunc=int),
        },
        rounds=7,
    )
    report("microseconds a set", **{name: time / N_SETS * 1e6 for name, time in times.items()})
    rensa_strings = min(times["rensa objects"], times["rensa matrix"])
    sizes = {"sets": N_SETS, "members": SET_SIZE, "n_hashes": N_HASHES, "threads": 1}
    for form in ("Sets", "arrays", "CSR"):
        ratio = rensa_strings / times[form]
        report(f"numbers as {form} against rensa's strings", **sizes, ratio=ratio, wanted=3.0)
    report(
        "strings against rensa's strings",
        **sizes,
        ratio=rensa_strings / times["strings"],
        wanted=1 / 1.5,
    )
    for way in ("texts", "shingles"):
        ratio = times["rensa texts"] / times[way]
        report(
            f"raw texts by {way} against rensa with shingles made in Python",
            **sizes,
            ratio=ratio,
            wanted=2.0,
        )
    one_by_one = "strings, one update a member"
    for ours, theirs in (
        *(("Sets", "numbers"), ("CSR", "numbers"), ("arrays", "numbers"), ("strings", "strings")),
        *(("strings", one_by_one), ("Sets", one_by_one)),
    ):
        ratio = times[f"datasketch {theirs}"] / times[ours]
        report(f"{ours} against datasketch's {theirs}", **sizes, ratio=ratio, wanted=50.0)
    report(
        "texts held a few at a time against all sets made first",
        ratio=times["shingles"] / times["texts"],
    )
    ratio = times["rensa hashed"] / times["independent"]
    report("independent hashes against rensa's, both on 64-bit numbers", **sizes, ratio=ratio)


def exactness() -> None:
    """Mean absolute error over pairs of every similarity; each library makes its own choice of hash
    functions.
    """
    rng = np.random.default_rng(1)
    n_pairs = sized(2000, 20)
    shared = rng.integers(0, SET_SIZE + 1, n_pairs)
    words = [f"w{i}" for i in range(2 * SET_SIZE)]
    firsts = [[f"{words[i]} {p}" for i in range(SET_SIZE)] for p in range(n_pairs)]
    seconds = [
        [f"{words[i]} {p}" for i in range(SET_SIZE - s, 2 * SET_SIZE - s)]
        for p, s in enumerate(shared)
    ]
    truth = shared / (2 * SET_SIZE - shared)
    estimates: dict[str, Any] = {}
    for bits in (8, 16, 32):
        for method in ("fast-similarity", "one-permutation", "independent"):
            hasher = bitkin.MinHash(N_HASHES, bits_per_symbol=bits, method=method).fit()
            a, b = hasher.encode(firsts), hasher.encode(seconds)
            pairs = [hasher.jaccard(a[p], b[p])[0, 0] for p in range(n_pairs)]
            estimates[f"{method}, {bits} bits a symbol"] = pairs
    for name, make in (("rensa", rensa_objects), ("datasketch", _datasketch_strings)):
        pairs_of = zip(make(firsts), make(seconds), strict=True)
        estimates[name] = [a.jaccard(b) for a, b in pairs_of]
    errors = {
        name: float(np.abs(np.array(found) - truth).mean()) for name, found in estimates.items()
    }
    ours = errors["fast-similarity, 8 bits a symbol"]
    best_peer = min(errors["rensa"], errors["datasketch"])
    report(
        "mean absolute error of Jaccard",
        pairs=n_pairs,
        **{name: round(error, 5) for name, error in errors.items()},
        bytes_a_code={"ours": N_HASHES, "rensa": 4 * N_HASHES, "datasketch": 4 * N_HASHES},
        ratio=best_peer / ours,
        wanted=1.0,
    )


def exactness_by_size() -> None:
    """Mean absolute error for sets of several sizes and similarities, at equal hashes and at equal
    bytes: rensa has 4 bytes a hash, ours 1.
    """
    rng = np.random.default_rng(5)
    n_pairs = sized(2000, 20)
    for size in sized((5, 13, 26, 64, 200, 1000), (5, 26)):
        for similarity in (0.2, 0.5, 0.8):
            shared = round(2 * size * similarity / (1 + similarity))
            members = rng.integers(0, 2**63, (n_pairs, 2 * size - shared), dtype=np.uint64)
            pair = (members[:, :size], members[:, size - shared :])
            offsets = np.arange(0, n_pairs * size + 1, size)
            truth = shared / (2 * size - shared)
            errors = {}
            for method, n_hashes in (
                *(("fast-similarity", n) for n in (N_HASHES, 4 * N_HASHES)),
                *(("one-permutation", N_HASHES), ("independent", N_HASHES)),
            ):
                hasher = bitkin.MinHash(n_hashes, method=method).fit()
                a, b = (hasher.encode(bitkin.Sets(x.reshape(-1), offsets)) for x in pair)
                found = [hasher.jaccard(a[p], b[p])[0, 0] for p in range(n_pairs)]
                errors[f"{method}, {n_hashes} bytes"] = float(
                    np.abs(np.array(found) - truth).mean()
                )
            one, other = (
                np.array(
                    rensa.RMinHash.digest_matrix_from_flat_token_hashes(
                        x.reshape(-1), offsets.astype(np.uint64), N_HASHES, 42
                    ).to_rows()
                )
                for x in pair
            )
            errors[f"rensa, {4 * N_HASHES} bytes"] = float(
                np.abs((one == other).mean(axis=1) - truth).mean()
            )
            report(
                "mean absolute error by size",
                members=size,
                jaccard=truth,
                **{name: round(error, 4) for name, error in errors.items()},
                ratio=errors[f"rensa, {4 * N_HASHES} bytes"]
                / errors[f"fast-similarity, {4 * N_HASHES} bytes"],
                wanted=1.0,
            )


def _datasketch_strings(sets: Strings) -> list[Any]:
    return datasketch_of([[word.encode() for word in words] for words in sets])


def main() -> None:
    bitkin.set_threads(1)
    speed()
    exactness()
    exactness_by_size()


if __name__ == "__main__":
    main()
