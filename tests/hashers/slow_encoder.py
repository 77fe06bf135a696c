"""A program that encodes in tiny batches and says when it has begun, to be killed: MODEL VECTORS
CODES SECONDS.
"""

from __future__ import annotations

import sys
import time

import bitkin
from bitkin.hashers import encoding
from bitkin.io.vectors import open_vectors


def main(model: str, vectors: str, codes: str, seconds: float) -> None:
    """Encode, with a pause after every batch and a checkpoint every few."""
    encoding._BATCH_BYTES = 7 * 17 * 4
    encoding._SECONDS_BETWEEN_CHECKPOINTS = 4 * seconds
    begun: list[int] = []

    def progress(rows: int) -> None:
        if not begun:
            print("ready", flush=True)
        begun.append(rows)
        time.sleep(seconds)

    encoding.encode_to_file(bitkin.load(model), open_vectors(vectors), codes, progress=progress)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
