"""The shape of the package: what may import what, what is public, and what an import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bitkin

PACKAGE = Path(bitkin.__file__).parent

# The list of rooms stands in docs/design.md, from the ground up.
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"
ROOMS = [
    line.split() for line in DESIGN.read_text().split("```rooms\n")[1].split("```")[0].splitlines()
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def room_of(module: str) -> str:
    """The room that a dotted name inside the package lies in: the longest listed beginning of
    it.
    """
    parts = module.split(".")
    beginnings = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    room = next((name for name in beginnings if name in LEVEL), None)
    assert room is not None, f"{module} has no place in the list of rooms of docs/design.md"
    return room


def imports_of(path: Path) -> list[str]:
    """What a file imports of the package, wherever in the file, `TYPE_CHECKING` blocks included."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name.removeprefix("bitkin.") for name in names if name.split(".")[0] == "bitkin"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_dependencies_point_downward(path: Path) -> None:
    inside = path.relative_to(PACKAGE)
    room = room_of(".".join(inside.with_suffix("").parts))
    for name in imports_of(path):
        # the whole package is above all but the command line
        other = room_of("_load" if name == "bitkin" else name)
        assert other == room or LEVEL[other] < LEVEL[room], f"{inside} must not import {name}"


def test_a_package_names_what_its_own_files_hold() -> None:
    for path in PACKAGE.rglob("*/__init__.py"):
        own = ".".join(path.parent.relative_to(PACKAGE).parts)
        for name in imports_of(path):
            assert name.startswith(f"{own}."), f"{path} must not import {name}"


def test_no_two_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert not {name: files for name, files in homes.items() if len(files) > 1}


def test_no_folder_is_too_full_to_look_through() -> None:
    # The package itself also holds what everything stands on, and names that users import from.
    for folder in {path.parent for path in FILES} - {PACKAGE}:
        assert len(list(folder.glob("*.py"))) <= 15, folder


def test_every_room_of_the_list_is_there() -> None:
    for room in LEVEL:
        inside = PACKAGE.joinpath(*room.split("."))
        assert inside.is_dir() or inside.with_suffix(".py").is_file(), (
            f"docs/design.md lists {room}"
        )


def test_every_public_name_is_there_and_listed() -> None:
    assert set(bitkin.__all__) == set(bitkin._HOMES) | {"__version__"}
    for name in bitkin.__all__:
        assert getattr(bitkin, name) is not None
    assert dir(bitkin) == sorted(bitkin.__all__)
    with pytest.raises(AttributeError, match="no attribute 'FlatIndx'"):
        bitkin.FlatIndx  # noqa: B018


def loaded_by(statement: str) -> set[str]:
    code = (
        f"import sys; {statement}; print(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_numpy_at_most() -> None:
    heavy = {
        "numba",
        "scipy",
        "sklearn",
        "dask",
        "fastapi",
        "typer",
        "rich",
        "pyarrow",
        "h5py",
        "matplotlib",
        "pandas",
    }
    assert not loaded_by("import bitkin") & heavy
    assert (
        not loaded_by("import bitkin; bitkin.Codes, bitkin.CodeSpec, bitkin.load, bitkin.errors")
        & heavy
    )


def test_a_process_that_only_encodes_does_not_load_numba(tmp_path: Path) -> None:
    fitting = """
import numpy as np, bitkin
X = np.random.default_rng(0).standard_normal((40, 9))
hasher = bitkin.ProjectionHash(4, rotation="itq").fit(X)
hasher.save("model.bitkin")
bitkin.load("model.bitkin").encode(X)"""
    inside = f"import os; os.chdir({str(tmp_path)!r})"
    assert "numba" not in loaded_by(f"{inside}{fitting}")
    encoding = """
import contextlib, io, sys
sys.argv = ["bitkin", "encode", "model.bitkin", "X.npy", "-o", "codes.bitkin"]
np.save("X.npy", X)
from bitkin.__main__ import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()"""
    assert "numba" not in loaded_by(f"{inside}{fitting}{encoding}")
    assert (tmp_path / "codes.bitkin").exists()


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
