from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import apportion
from apportion.faces import homes_of

ROOT = Path(__file__).parents[1]
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = {name: ROOT / folder for name, folder in SETUP["package-dir"].items()}
LINKED = sorted(set(FOLDERS) - {"apportion"})

BELOW = {"apportion.policies", "apportion.mechanism", "apportion.estimators"}
FACES = {
    *("apportion.cli", "apportion.compare", "apportion.elastic", "apportion.experiments"),
    "apportion.report",
}
FORBIDDEN = {
    "apportion.policies": (BELOW - {"apportion.policies"}) | FACES | {"apportion.sim"},
    "apportion.mechanism": (BELOW - {"apportion.mechanism"}) | FACES | {"apportion.sim"},
    "apportion.estimators": (BELOW - {"apportion.estimators"}) | FACES | {"apportion.sim"},
    "apportion.sim": FACES,
}
FACE_MODULES = {"__init__", "__main__", "compare", "testing"}
SHARED_WORDS = sorted(
    f"{folder}{file.stem}"
    for folder in ("", "mechanisms/")
    for file in FOLDERS["apportion"].glob(f"{folder}*.py")
    if folder or file.stem not in FACE_MODULES
)


def sources(package: str) -> list[Path]:
    files = FOLDERS[package].rglob("*.py")
    return sorted(file for file in files if not any(link.is_symlink() for link in file.parents))


@cache
def parsed(file: Path) -> ast.Module:
    """Return what a file says; several tests ask."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> list[tuple[int, str]]:
    """Absolute names of what a file imports anywhere in it, with line numbers."""
    found = []
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def forbidden_imports(file: Path, forbidden: set[str]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imports(file)
        if any(f"{name}.".startswith(f"{package}.") for package in forbidden)
    ]


def test_every_package_is_listed_and_every_listed_package_is_there() -> None:
    found = set()
    for name, folder in FOLDERS.items():
        for file in folder.rglob("__init__.py"):
            inner = file.parent.relative_to(folder).parts
            if not (name == "apportion" and inner and f"apportion.{inner[0]}" in LINKED):
                found.add(".".join([name, *inner]))
    assert found == set(SETUP["packages"])


@pytest.mark.parametrize("package", LINKED)
def test_links_point_at_their_folders(package: str) -> None:
    link = FOLDERS["apportion"] / package.removeprefix("apportion.")
    if not link.exists():
        pytest.skip(f"{link.name} is not linked in this checkout; installs do not need it")
    assert link.resolve() == FOLDERS[package].resolve()


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_imports_go_down_only(package: str) -> None:
    wrong = [
        line for file in sources(package) for line in forbidden_imports(file, FORBIDDEN[package])
    ]
    assert not wrong


@pytest.mark.parametrize("module", SHARED_WORDS)
def test_shared_words_know_nothing_above_them(module: str) -> None:
    above = BELOW | FACES | {"apportion.sim"}
    assert not forbidden_imports(FOLDERS["apportion"] / f"{module}.py", above)


def test_the_check_of_imports_sees_wrong_ones(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("def f():\n    from apportion.sim import run\nimport apportion.simple\n")
    names = [name for _, name in imports(file)]
    assert names == ["apportion.simple", "apportion.sim.run"]
    assert [f"{name}.".startswith("apportion.sim.") for name in names] == [False, True]


@pytest.mark.parametrize("package", sorted(FOLDERS))
def test_imports_are_absolute(package: str) -> None:
    bare = {name.removeprefix("apportion.") for name in LINKED}
    for file in sources(package):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}:{node.lineno} is relative"
        for line, name in imports(file):
            assert name.split(".")[0] not in bare, f"{file}:{line} imports {name}"


def test_the_face_loads_nothing_heavy() -> None:
    code = "import sys, apportion; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(run.stdout.split())
    assert "apportion" in loaded
    assert not loaded & {"numpy", "pandas", "scipy", "cvxpy", "highspy", "clarabel", "joblib"}


LAZY = sorted(
    ".".join([package, *file.parent.relative_to(FOLDERS[package]).parts])
    for package in FOLDERS
    for file in sources(package)
    if file.name == "__init__.py" and "lazily(__name__)" in file.read_text(encoding="utf-8")
)


PUBLIC: list[str] = vars(apportion)["__all__"]  # made at run time, so type checkers do not know it


def test_no_public_name_is_there_twice() -> None:
    assert sorted(set(PUBLIC)) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_resolve(name: str) -> None:
    assert getattr(apportion, name) is not None


@pytest.mark.parametrize("package", LAZY)
def test_faces_offer_what_they_list_and_load_it_when_asked(package: str) -> None:
    face = importlib.import_module(package)
    assert set(face.__all__) - {"__version__"} == set(homes_of(package))
    assert dir(face) == sorted(face.__all__)
    for name in face.__all__:
        assert not inspect.ismodule(getattr(face, name)), name
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = face.no_such_name
