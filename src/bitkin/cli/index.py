"""`bitkin index`: codes in files → an index in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitkin.cli.arguments import Json, out_option, require_other_file
from bitkin.cli.output import print_json, progress_bar

_ROWS_AT_ONCE = 1 << 20


def index(
    codes: Annotated[list[Path], typer.Argument(help="Codes made by bitkin encode.", show_default=False)],
    out: Annotated[Path, out_option("The index to write.")],
    ids: Annotated[Path | None, typer.Option(help="An .npy file of ids, one a row; by default 0, 1, 2, …")] = None,
    json: Json = False,
) -> None:
    """Build an exact index over codes.

    Example: bitkin index codes.bitkin -o index.bitkin
    """
    from bitkin._load import load
    from bitkin.codes import Codes
    from bitkin.errors import InvalidInputError
    from bitkin.index.flat import FlatIndex

    require_other_file(out, codes if ids is None else [*codes, ids])
    parts = [load(path, mmap=True) for path in codes]
    for path, part in zip(codes, parts, strict=True):
        if not isinstance(part, Codes):
            raise InvalidInputError(f"{path} holds {type(part).__name__}, not Codes. Make codes with bitkin encode.")
    total = sum(len(part) for part in parts)
    numbers = None if ids is None else read_ids(ids)
    if numbers is not None and len(numbers) != total:
        raise InvalidInputError(f"{ids} must hold one id a row, got {len(numbers)} for {total} rows.")
    built = FlatIndex(parts[0].spec)
    done = 0
    with progress_bar("indexing", total) as report:
        for part in parts:
            for first in range(0, len(part), _ROWS_AT_ONCE):
                some = part[first : first + _ROWS_AT_ONCE]
                built.add(some, None if numbers is None else numbers[done : done + len(some)])
                done += len(some)
                report(done)
    built.save(out)
    if json:
        print_json(index=out, rows=len(built), bytes=out.stat().st_size)
    else:
        print(f"{out}: {len(built):,} codes of {built.spec}, {out.stat().st_size:,} bytes")
        print(f"next: bitkin search {out} queries.npy --model model.bitkin -k 10")


def read_ids(path: Path):  # type: ignore[no-untyped-def]  # NumPy is loaded inside
    """Return the ids in an .npy file."""
    import numpy as np

    from bitkin.checks import id_array
    from bitkin.errors import FileAccessError, InvalidInputError

    try:
        return id_array(np.load(path, allow_pickle=False), str(path))
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{path} must be an .npy file of whole numbers: {error}") from error
