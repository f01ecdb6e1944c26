"""Where in code of one's own something was answered or went wrong: function, file and line.

Code of one's own is what is neither this package, nor Python's library, nor an installed package,
unless that one offers parts by entry points (`apportion.registry.Registry`).
"""

from __future__ import annotations

import inspect
import sys
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from sysconfig import get_path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_MADE = "<string>"
"""File of the methods that dataclasses make."""

_INSTALLED = ("site-packages", "dist-packages")


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
        module = str(frame.f_globals.get("__name__", ""))
        if _is_of_package(module):
            called = True
        elif called and _is_own(frame.f_code.co_filename, module):
            found = _shown(frame.f_code.co_qualname, frame.f_code.co_filename, line)
    if found is None and error.__cause__ is not None:
        return place_of(error.__cause__)
    return found


def written_in(part: Any, method: str | None = None) -> str | None:
    """Return where the method of a part of one's own begins, or None if it is not one's own.

    Parameters
    ----------
    part
        A value, a class or a function.
    method
        Its name, unless it is a function; of a class that has no such method the first one counts.
    """
    kind = part if isinstance(part, type) else type(part)
    of_class = [getattr(kind, method or "", None), *vars(kind).values()]
    for each in [part] if inspect.isroutine(part) else of_class:
        function = inspect.unwrap(each) if callable(each) else each
        code = getattr(function, "__code__", None)
        if code is None or code.co_filename == _MADE:
            continue
        if _is_own(code.co_filename, str(getattr(function, "__module__", ""))):
            return _shown(code.co_qualname, code.co_filename, code.co_firstlineno)
    return None if inspect.isroutine(part) else _class_in(kind)


def _class_in(kind: type) -> str | None:
    """Return where a class of one's own begins that has no methods, if its source is there."""
    try:
        file = inspect.getfile(kind)
        if not _is_own(file, kind.__module__):
            return None
        return _shown(kind.__qualname__, file, inspect.findsource(kind)[1] + 1)
    except (OSError, TypeError):
        return None


def answered_by(part: Any, method: str | None = None) -> str:
    """Return a sentence behind what refuses an answer, which says whose it is.

    Parameters
    ----------
    part, method
        As in `written_in`; the sentence is empty if they are not one's own.
    """
    place = written_in(part, method)
    return "" if place is None else f" Answered by {place}."


def asked(what: str, part: Callable[..., Any], *given: Any) -> Any:
    """Return what a function of a user's answers.

    Raises
    ------
    InputError
        If it fails; with what was asked, the error, and where it comes from.
    """
    try:
        return part(*given)
    except Exception as error:  # whatever a function of somebody's does
        said = f"{type(error).__name__}: {said_with_place(error)}".rstrip(".")
        raise InputError(f"{what} could not be asked for: {said}.") from error


def said_with_place(error: BaseException) -> str:
    """Return what an error says, and where in code of one's own it comes from, if it does."""
    text, place = str(error), place_of(error)
    if place is None or place in text:
        return text
    return f"{text} Raised in {place}." if text.endswith(".") else f"{text}, raised in {place}."


def note_place(error: BaseException) -> None:
    """Add a note of where in code of one's own an error comes from, if it does, and once."""
    place = place_of(error)
    note = f"raised in {place}"
    if place is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _is_of_package(module: str) -> bool:
    return module.partition(".")[0] == "apportion"


def _is_own(file: str, module: str) -> bool:
    """Whether code is of one's own; text that was compiled is, if it is that of a script."""
    top = module.partition(".")[0]
    if _is_of_package(module):
        return False
    if file.startswith("<"):
        return top == "__main__"
    if file.endswith(".pyx"):  # compiled code names its source as it lay where it was made
        return False
    if any(folder in Path(file).parts for folder in _INSTALLED):
        return _offers_parts(top)
    return top not in _LIBRARY and not file.startswith(get_path("stdlib"))


_LIBRARY = frozenset(sys.stdlib_module_names) - {"__main__"}


@cache
def _offers_parts(top: str) -> bool:
    """Whether an installed package has entry points that this one looks at."""
    names = packages_distributions().get(top, ())
    entries = [entry for name in set(names) for entry in distribution(name).entry_points]
    return any(entry.group.startswith("apportion.") for entry in entries)


def _shown(name: str, file: str, line: int) -> str:
    """Write a place by the file's name alone: workers may stand in another folder."""
    return f"{name} ({Path(file).name}:{line})"
