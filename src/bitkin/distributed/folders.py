"""Files that workers read: those of a folder by name, and which worker cannot read one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dask.utils import natural_sort_key
from distributed import get_worker

from bitkin.distributed.cluster import block
from bitkin.errors import FileAccessError
from bitkin.io.vectors.formats import has_vector_suffix

SUFFIX = ".bitkin"
PARQUET = ".parquet"


@block
def list_vector_files(paths: Sequence[str]) -> list[str]:
    """Return files as they are, and in the place of a folder its files of vectors, by name."""
    return [
        file
        for path in paths
        for file in files_named(
            Path(path), has_vector_suffix, "files of vectors, such as .npy, .parquet or .fvecs"
        )
    ]


@block
def list_code_files(paths: Sequence[str]) -> list[str]:
    """Return files as they are, and in the place of a folder its files of codes, by name: what
    `bitkin encode` and `Codes.save` write, or else `ShardedCodes.to_parquet`.
    """

    def holds_codes(file: Path) -> bool:
        return file.suffix in (SUFFIX, PARQUET)

    files: list[str] = []
    for path in map(Path, paths):
        found = files_named(path, holds_codes, f"files of codes that end in {SUFFIX}")
        ours = [one for one in found if one.endswith(SUFFIX)]
        files += ours or found
    return files


def files_named(path: Path, is_wanted: Callable[[Path], bool], what: str) -> list[str]:
    """Return a file as it is, and of a folder the files that are wanted, hidden ones left out, in
    order of their names, numbers in them by what they count: 10 after 9.
    """
    if not path.is_dir():
        return [str(path)]
    try:
        inside = [
            file
            for file in path.iterdir()
            if not file.name.startswith((".", "_")) and is_wanted(file) and file.is_file()
        ]
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not inside:
        raise FileAccessError(f"{path} must hold {what}, and has none{_on_this_worker()}.")
    return sorted(map(str, inside), key=natural_sort_key)


def missing_on_worker(error: FileAccessError) -> FileAccessError:
    """Return the error of a path, with the worker that cannot read it."""
    return FileAccessError(
        f"{error} That was{_on_this_worker()}: give paths that all workers can read."
    )


def _on_this_worker() -> str:
    """Return the address of the worker that runs this task, if one does."""
    try:
        return f" on worker {get_worker().address}"
    except ValueError:  # without a client Dask works in threads of this process
        return ""
