"""How close does encoding come to the machine's matrix product, and what does packing add?

python bench/encode.py
"""

from __future__ import annotations

import time

import numpy as np

import bitkin
from _timing import interleaved, report
from _tiny import sized

N, D, N_BITS = sized((65_536, 768, 256), (300, 40, 70))
SIDE = sized(4096, 64)


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D), dtype=np.float32)
    hasher = bitkin.ProjectionHash(n_bits=N_BITS, projection="random").fit(X[:1000])
    square = rng.standard_normal((SIDE, SIDE), dtype=np.float32)
    out = np.empty_like(square)
    product = np.empty((N, N_BITS), dtype=np.float32)
    step = (1 << 24) // (4 * D)  # what `bitkin encode` takes at a time
    batches = [slice(first, first + step) for first in range(0, N, step)]
    # The same through the public call, which has scikit-learn check every batch; a source gives 8
    # MB by default.
    small_batches = [slice(first, first + 2604) for first in range(0, N, 2604)]

    def multiply_in_batches() -> None:
        for rows in batches:
            np.matmul(X[rows], hasher.components_, out=product[rows])

    for n_threads in (1, 2):
        bitkin.set_threads(n_threads)
        times = interleaved(
            {
                "sgemm": lambda: np.matmul(square, square, out=out),
                "product": multiply_in_batches,
                "encode": lambda: [
                    hasher.encode_batch(X[rows], "X", rows.start) for rows in batches
                ],
                "public": lambda: [hasher.encode(X[rows]) for rows in small_batches],
                "encode at once": lambda: hasher.encode(X),
            },
            rounds=11,
            pause=0.1,
        )
        flops = 2.0 * N * D * N_BITS
        rate = 2.0 * SIDE**3 / times["sgemm"]
        report(
            "encode in batches",
            rows=N,
            batch_rows=step,
            d=D,
            n_bits=N_BITS,
            threads=n_threads,
            sgemm_gflops=rate / 1e9,
            encode_gflops=flops / times["encode"] / 1e9,
            share_of_sgemm=flops / times["encode"] / rate,
            share_of_sgemm_public_encode=flops / times["public"] / rate,
            share_of_sgemm_at_once=flops / times["encode at once"] / rate,
            wanted=0.8,
            product_alone_share=flops / times["product"] / rate,
            packing_adds=times["encode"] / times["product"] - 1,
            wanted_at_most=0.1,
            vectors_a_second=N / times["encode"],
        )
    start = time.perf_counter()
    same = np.array_equal(hasher.encode(X[:3000]).symbols(), hasher.project(X[:3000]) >= 0)
    if not same:
        raise SystemExit("codes are not the signs of the projections")
    report("signs checked", rows=3000, seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main()
