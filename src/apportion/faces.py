"""What a package offers: names whose modules are loaded when somebody asks for them.

The imports of a face stand in its ``if TYPE_CHECKING:``, where editors and type checkers read them,
each name ``as`` itself, which says that it is offered. At run time the same lines say where a name
is, and make ``__all__``. So nobody waits for what is not used: a solve loads no simulator.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

from apportion.syntax import PARSING

if TYPE_CHECKING:
    from collections.abc import Callable


def lazily(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, which loads a name on first use.

    Functions are given as users call them, explaining errors (`apportion.annotations.at_the_door`);
    callers inside take a function from the module that defines it, as it is.

    Parameters
    ----------
    package
        ``__name__`` of the package.
    """
    face = sys.modules[package].__dict__
    homes = homes_of(package)
    named = {*homes, *({"__version__"} & face.keys())}
    # Constants, classes, functions; a list of its own would say every name again.
    face["__all__"] = sorted(named, key=lambda name: (not name.isupper(), name[0].islower(), name))

    def getattr_(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, own_name = homes[name]
        value = getattr(importlib.import_module(module), own_name)
        door = pkgutil.resolve_name("apportion.annotations:at_the_door")
        face[name] = value = door(value) if name in face["__all__"] else value
        return value

    face["__dir__"] = lambda: sorted(face["__all__"])
    return getattr_


def homes_of(package: str) -> dict[str, tuple[str, str]]:
    """Return the module that defines each name that a face offers, and its name there."""
    source = sys.modules[package].__spec__.loader.get_source(package)  # type: ignore[union-attr]
    with PARSING:
        blocks = ast.parse(source).body
    return {
        each.asname or each.name: (node.module or "", each.name)
        for block in blocks
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
