"""Read hostile vector files in a process of little memory: `seed first stop folder`, and a line of
JSON comes out.

A process that dies, or takes too long over a file, leaves the file in the folder.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import traceback
from pathlib import Path

from tests.io.vectors.hostile import good_files, hostile_file, read_all
from tests.limited import SECONDS_A_FILE, limit_memory


def main(seed: int, first: int, stop: int, folder: Path) -> None:
    """Read files `first` to `stop`, and tell how many were read and which did something else than
    be refused.
    """
    files = good_files()
    # all that is ever imported or compiled is so before memory is limited
    for name, data in files.items():
        (folder / name).write_bytes(data)
        assert read_all(folder / name), name
        (folder / name).unlink()
    limit_memory()
    n_read, failures = 0, []
    for number in range(first, stop):
        name, data = hostile_file(files, seed, number)
        path = folder / f"{number}-{name}"
        path.write_bytes(data)
        faulthandler.dump_traceback_later(SECONDS_A_FILE, exit=True)
        try:
            n_read += read_all(path)
        except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
            failures.append({"number": number, "name": name, "error": traceback.format_exc()})
        faulthandler.cancel_dump_traceback_later()
        path.unlink()
    print(json.dumps({"n_read": n_read, "failures": failures}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
