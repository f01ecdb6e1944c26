"""What computes: this package, byte for byte, Python, and whatever solves; and what code uses.

Installed packages are known by name, version and record of files. Code uses constants, globals down
to what it takes from modules of one's own, and files.
"""

from __future__ import annotations

import builtins
import copyreg
import ctypes
import dis
import hashlib
import importlib
import os
import platform
import re
import sys
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from importlib.util import find_spec, resolve_name
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from apportion._version import __version__
from apportion.faces import homes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import CodeType


_PACKAGES = ("numpy", "pandas", "scipy", "cvxpy", "highspy", "clarabel")


def versions() -> dict[str, str]:
    """Return the versions of Python, apportion and everything that computes."""
    found = {"python": platform.python_version(), "apportion": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


@cache
def program() -> str:
    """Return a digest of all files of this package and of `versions`, 64 hexadecimal digits.

    A version alone would hide every change of the code within it.
    """
    inner = {home.split(".")[1] for home, _ in homes_of("apportion").values()}
    return files_digest(["apportion", *(f"apportion.{each}" for each in inner)], versions())


def files_digest(packages: Iterable[str], facts: object = None) -> str:
    """Return a digest of all files of packages by their place in them, wherever they lie.

    Parameters
    ----------
    packages
        Names; those inside others that lie in another folder are named as well.
    facts
        What else is told by it.
    """
    found: dict[str, Path] = {}
    for name in packages:
        spec = find_spec(name)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path, _, files in os.walk(folder):
                if Path(path).name != "__pycache__":
                    place = Path(name.replace(".", "/"), Path(path).relative_to(folder))
                    found |= {(place / each).as_posix(): Path(path, each) for each in files}
        if spec is not None and spec.origin is not None and not spec.submodule_search_locations:
            found[name] = Path(spec.origin)
    digest = hashlib.sha256(repr(facts).encode())
    for name, file in sorted(found.items()):
        digest.update(f"\n{name} ".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


_FOLDERS = frozenset({"site-packages", "dist-packages"})
_PYTHON = frozenset(sys.stdlib_module_names) - {"__main__"}


def package_of(module: str | None) -> str | None:
    """Return the installed package, at the top, to which a module belongs; None for one's own.

    This package and Python's library count as installed, wherever they lie.
    """
    top = (module or "").partition(".")[0]
    return top if _is_installed(top) else None


@cache
def _is_installed(top: str) -> bool:
    if top == "apportion" or top in _PYTHON:
        return True
    try:
        spec = find_spec(top) if top and top != "__main__" else None
    except ValueError:  # of a module that was made and not imported
        return False
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    return any(place and _FOLDERS.intersection(Path(place).parts) for place in places)


def has(module: str | None, name: str, value: object) -> bool:
    """Whether a module of an installed package has this very value under a (dotted) name."""
    found: object = sys.modules.get(module or "")
    if found is None or package_of(module) is None:
        return False
    for each in name.split("."):
        found = getattr(found, each, None)
    return found is value


@cache
def record(package: str) -> str:
    """Return what tells an installed package from another one of the same name.

    The digest of its list of files, which holds a digest of each, and its version; of this
    package and of Python `program`, in which all versions that compute are.
    """
    if package == "apportion" or package in _PYTHON:
        return program()
    try:
        found = [distribution(package)]
    except PackageNotFoundError:
        found = [distribution(each) for each in packages_distributions().get(package, ())]
    if not found:  # put there by hand
        return f"{package} {files_digest([package])}"
    told = [(each.name, each.version, each.read_text("RECORD")) for each in found]
    return f"{package} {hashlib.sha256(repr(told).encode()).hexdigest()}"


def compiled_digest(module: ModuleType) -> str:
    """Return a digest of the file of a module that has no code of Python; no text for others."""
    file = Path(getattr(module, "__file__", None) or "")
    if not file.is_file() or file.suffix in (".py", ".pyc"):
        return ""
    return hashlib.sha256(file.read_bytes()).hexdigest()


_ABSENT = "absent"
"""Stands for a name that nothing has: code that asks for it fails, or does without."""


def constants_of(code: CodeType) -> list[Any]:
    """Return the constants that are used, in order; a docstring is there without being used."""
    used = {each.arg for each in dis.get_instructions(code) if each.opcode in dis.hasconst}
    return [constant for number, constant in enumerate(code.co_consts) if number in used]


def globals_of(code: CodeType, space: Mapping[str, Any]) -> dict[str, Any]:
    """Return the globals that code uses, by name, and what it imports.

    Of a module of one's own only what is taken from it by name; all of it where it is used
    otherwise.

    Parameters
    ----------
    code
        Of a function; functions inside it are asked for apart.
    space
        Its globals.
    """
    found: dict[str, Any] = {}
    steps = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    for place, step in enumerate(steps):
        after = steps[place + 1 :]
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval[:2] != "__":
            named = space.get(step.argval, getattr(builtins, step.argval, _ABSENT))
            found |= _taken(step.argval, named, after)
        elif step.opname == "IMPORT_NAME":
            found |= _imported(step.argval, steps[place - 2].argval, space, after)
    return found


def _taken(name: str, value: Any, after: Sequence[dis.Instruction]) -> dict[str, Any]:
    """Follow the attributes that are taken from a module at once."""
    for step in takewhile(lambda step: step.opname in ("LOAD_ATTR", "LOAD_METHOD"), after):
        if not isinstance(value, ModuleType) or package_of(value.__name__) is not None:
            break
        name, value = f"{name}.{step.argval}", getattr(value, step.argval, _ABSENT)
    return {name: value}


def _imported(
    name: str, level: int, space: Mapping[str, Any], after: Sequence[dis.Instruction]
) -> dict[str, Any]:
    """Return what a function imports when it is called."""
    package = str(space.get("__package__") or "")
    full = resolve_name("." * level + name, package) if level else name
    if package_of(full) is not None:
        return {full: _ABSENT}
    try:
        module = importlib.import_module(full)
    except ImportError:
        return {full: _ABSENT}
    taken = [
        step.argval
        for step in takewhile(lambda step: step.opname != "POP_TOP", after)
        if step.opname == "IMPORT_FROM"
    ]
    return {f"{full}.{each}": getattr(module, each, _ABSENT) for each in taken} or {full: module}


def copied_by(value: Any) -> str | list[Any]:
    """Return what makes a copy of an object, as pickle would: a name, or a call and its parts.

    Of the state what the object has worked out of the rest (`cached_property`) is left out.

    Raises
    ------
    TypeError
        For a library that ctypes has loaded; any other error is that of the object itself.
    """
    if isinstance(value, ctypes.CDLL):
        raise TypeError("a library that ctypes has loaded")
    reduce = copyreg.dispatch_table.get(type(value))
    made: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
    if isinstance(made, str):
        return made
    call, arguments, state, members, pairs = (*made, None, None, None)[:5]
    if isinstance(state, dict):
        state = {
            name: each
            for name, each in state.items()
            if not isinstance(getattr(type(value), str(name), None), cached_property)
        }
    return [call, arguments, state, members and [*members], pairs and [*pairs]]


def files_of(text: str) -> list[str]:
    """Return digests of files that a text names: the whole, or parts of ``a.csv(b=c.csv)``."""
    found = [_held(text), *map(_held, re.split(r"[(),=]", text))]
    return [each for each in found if each is not None]


def _held(name: str) -> str | None:
    """Return the digest of a file; None for a text that is no name of one that can be read."""
    file = Path(name.strip(" '\""))
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
    except (OSError, ValueError):
        return None
