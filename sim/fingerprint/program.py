"""What computes: this package, byte for byte, Python, and whatever solves."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from apportion._version import __version__
from apportion.faces import homes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["files_digest", "program", "versions"]

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
