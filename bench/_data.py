"""The real data sets, where they lie beside the project; benches that need one end with a word
where they do not.
"""

from __future__ import annotations

import os
from pathlib import Path

from _tiny import TINY, made_file

FOLDER = Path(os.environ.get("BITKIN_DATA", Path(__file__).parents[2] / "shared" / "data"))


def data_file(name: str) -> Path:
    """Return the path of a data set, or end the bench; a tiny run makes its own."""
    if TINY:
        return made_file(name)
    path = FOLDER / name
    if not path.exists():
        raise SystemExit(
            f"{name} is not here: put the data sets beside the project, or name their folder in "
            "BITKIN_DATA."
        )
    return path
