"""The shape of the package: what may import what, what is public, and what an import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bitkin

PACKAGE = Path(bitkin.__file__).parent

# From the ground up: a room imports from rooms below it. The file format is below the codes, which save themselves.
ROOMS = [
    ["interrupts"],
    ["kernels", "data", "_version"],
    ["errors", "notices"],
    ["checks"],
    ["code_spec"],
    ["threads", "randomness", "locks"],
    ["io"],
    ["codes"],
    ["theory"],
    ["hashers"],
    ["index"],
    ["interop"],
    ["dedup"],
    ["learn"],
    ["evaluate"],
    ["collection"],
    ["distributed"],
    ["service"],
    ["_load"],
    ["cli"],
    ["__init__", "__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


def imports_of(path: Path) -> list[str]:
    """Rooms that a file imports, wherever in the file, `TYPE_CHECKING` blocks included."""
    rooms = []
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"bitkin.{alias.name}" for alias in node.names] if node.module == "bitkin" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms += [name.split(".")[1] for name in names if name.startswith("bitkin.")]
    return rooms


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_dependencies_point_downward(path: Path) -> None:
    inside = path.relative_to(PACKAGE)
    room = inside.parts[0].removesuffix(".py")
    assert room in LEVEL, f"{room} has no place in ROOMS"
    if room == "__init__":
        return
    for other in imports_of(path):
        assert other == room or LEVEL[other] < LEVEL[room], f"{inside} must not import from {other}"


def test_every_public_name_is_there_and_listed() -> None:
    assert set(bitkin.__all__) == set(bitkin._HOMES) | {"__version__"}
    for name in bitkin.__all__:
        assert getattr(bitkin, name) is not None
    assert dir(bitkin) == sorted(bitkin.__all__)
    with pytest.raises(AttributeError, match="no attribute 'FlatIndx'"):
        bitkin.FlatIndx  # noqa: B018


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_numpy_at_most() -> None:
    heavy = {"numba", "scipy", "sklearn", "dask", "fastapi", "typer", "rich", "pyarrow", "h5py", "matplotlib", "pandas"}
    assert not loaded_by("import bitkin") & heavy
    assert not loaded_by("import bitkin; bitkin.Codes, bitkin.CodeSpec, bitkin.load, bitkin.errors") & heavy


def test_a_process_that_only_encodes_does_not_load_numba(tmp_path: Path) -> None:
    fitting = """
import numpy as np, bitkin
X = np.random.default_rng(0).standard_normal((40, 9))
hasher = bitkin.ProjectionHash(4, rotation="itq").fit(X)
hasher.save("model.bitkin")
bitkin.load("model.bitkin").encode(X)"""
    assert "numba" not in loaded_by(f"import os; os.chdir({str(tmp_path)!r}){fitting}")


def test_every_error_is_a_bitkin_error_and_the_builtin_it_promises() -> None:
    import builtins

    from bitkin import errors

    for name, kind in vars(errors).items():
        if isinstance(kind, type) and name != "BitkinError":
            assert issubclass(kind, errors.BitkinError)
            line = next(line for line in (errors.__doc__ or "").splitlines() if name in line)
            builtin = getattr(builtins, line.split("(")[1].split(")")[0])
            assert issubclass(kind, builtin)
            assert str(kind("what to do")) == "what to do"
