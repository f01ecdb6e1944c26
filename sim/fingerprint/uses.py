"""What code uses: constants, globals down to what it takes from modules of one's own, files."""

from __future__ import annotations

import builtins
import dis
import hashlib
import importlib
import re
from importlib.util import resolve_name
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from apportion.sim.fingerprint.installed import package_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType

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
