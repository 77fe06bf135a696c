"""What does a Dask cluster cost, and does it find the same? Its parts stand in _distributed.py.

    python bench/distributed.py                       # all parts, half an hour
    python bench/distributed.py encode fit --rounds 5
    python bench/distributed.py search --rows 50000000

This file is called as Dask's own package is, which has to be found before it.
"""

import sys
from pathlib import Path

if Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    sys.path.append(sys.path.pop(0))

from _distributed import main

if __name__ == "__main__":
    main()
