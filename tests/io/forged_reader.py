"""Load and use forged files of ours in a process of little memory: `seed first stop folder`, then a
line of JSON.

A process that dies, or takes too long over a file, leaves the file in the folder.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import traceback
from pathlib import Path

from tests.io.forged_objects import forged_parts, good_objects, use, write_parts
from tests.limited import SECONDS_A_FILE, limit_memory


def main(seed: int, first: int, stop: int, folder: Path) -> None:
    """Use files `first` to `stop`, and tell how many were loaded and which did something else than
    work.
    """
    objects = good_objects(folder)
    # all that is ever imported or compiled is so before memory is limited
    for name, parts in objects.items():
        write_parts(folder / "object", parts)
        assert use(name, folder / "object"), name
    limit_memory()
    n_loaded, failures = 0, []
    for number in range(first, stop):
        name, parts = forged_parts(objects, seed, number)
        path = folder / f"{number}-{name}"
        write_parts(path, parts)
        faulthandler.dump_traceback_later(SECONDS_A_FILE, exit=True)
        try:
            n_loaded += use(name, path)
        except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
            failures.append({"number": number, "name": name, "error": traceback.format_exc()})
        faulthandler.cancel_dump_traceback_later()
        path.unlink()
    print(json.dumps({"n_loaded": n_loaded, "failures": failures}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
