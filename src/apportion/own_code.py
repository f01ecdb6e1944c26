"""Where in code of one's own something was answered or went wrong: function, file and line.

Code of one's own is what is neither this package, nor Python's library, nor an installed package.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from sysconfig import get_path
from traceback import walk_tb
from typing import Any

from apportion.syntax import PARSING


def is_own(file: str, module: str) -> bool:
    """Whether code is of one's own; what was typed in is, if it is that of a script."""
    if _is_of_package(module) or file.endswith(".pyx"):  # which lay where the code was compiled
        return False
    if file.startswith("<"):
        return module == "__main__"
    installed = {"site-packages", "dist-packages"}.intersection(Path(file).parts)
    return not installed and not file.startswith(get_path("stdlib"))


def _is_of_package(module: str) -> bool:
    return module.partition(".")[0] == "apportion"


def place_of(error: BaseException) -> str | None:
    """Return where in code of one's own an error comes from, or None if it comes from no such.

    It is the innermost line that this package has called, directly or not; or else that of the
    error from which this one was raised.

    Returns
    -------
    str or None
        Such as ``"Mine.objective (parts.py:16)"``.
    """
    found, called = None, False
    for frame, line in walk_tb(error.__traceback__):
        module, code = str(frame.f_globals.get("__name__", "")), frame.f_code
        called = called or _is_of_package(module)
        if called and is_own(code.co_filename, module):
            found = _shown(code.co_qualname, code.co_filename, line)
    return place_of(error.__cause__) if found is None and error.__cause__ else found


def said_with_place(error: BaseException) -> str:
    """Return what an error says, and where in code of one's own it comes from, if it does."""
    text, place = str(error), place_of(error)
    if place is None or place in text:
        return text
    return f"{text} Raised in {place}." if text.endswith(".") else f"{text}, raised in {place}."


def written_in(part: Any, method: str | None = None) -> str | None:
    """Return where a part of one's own, or its method, begins, or None if it is not one's own."""
    kind = part if isinstance(part, type) or inspect.isroutine(part) else type(part)
    for each in (inspect.unwrap(getattr(kind, method or "", kind)), kind):
        try:
            file = inspect.getfile(each)
            if is_own(file, each.__module__):
                with PARSING:
                    return _shown(each.__qualname__, file, inspect.getsourcelines(each)[1])
        except (OSError, TypeError):  # compiled, typed in, or no code
            continue
    return None


def answered_by(part: Any, method: str | None = None) -> str:
    """Return a sentence behind what refuses an answer, which says whose it is, if one's own."""
    place = written_in(part, method)
    return "" if place is None else f" Answered by {place}."


def _shown(name: str, file: str, line: int) -> str:
    """Write a place by the file's name alone: workers may stand in another folder."""
    return f"{name} ({Path(file).name}:{line})"
