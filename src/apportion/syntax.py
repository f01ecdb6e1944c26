"""Syntax trees, made one at a time, in any thread.

CPython 3.11 counts the depth of all trees that are being made together: two at once may end in a
SystemError.
"""

from __future__ import annotations

import ast
import inspect
import threading
from typing import Any

_ONE = threading.Lock()


def syntax_tree(text: str | bytes, mode: str = "exec") -> ast.AST:
    """Parse Python text."""
    with _ONE:
        return ast.parse(text, mode=mode)


def first_line(code: Any) -> int:
    """Return the line where a class or function begins in its file, which is parsed for it.

    Raises
    ------
    OSError, TypeError
        If there is no such file, or what is given has no code.
    """
    with _ONE:
        return inspect.getsourcelines(code)[1]
