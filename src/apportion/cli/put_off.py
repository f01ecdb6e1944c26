"""Imports that a command does without for as long as nobody asks for what they hold."""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _PutOff(ModuleType):
    """A module that is imported when one of its functions is called, or anything else is asked."""

    functions: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name not in self.functions:
            return getattr(self._imported(), name)
        return lambda *args, **kwargs: getattr(self._imported(), name)(*args, **kwargs)

    def _imported(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles meanwhile: what is imported stays, and is looked through many times."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def put_off(module: str, *functions: str) -> Iterator[None]:
    """Let those who import functions of a module meanwhile have them when they call them first.

    Where the module has been imported already nothing changes.
    """
    if module in sys.modules:
        yield
        return
    spec = find_spec(module)
    if spec is None:
        yield
        return
    stands_in = _PutOff(module)
    stands_in.functions, stands_in.__spec__ = functions, spec
    stands_in.__path__ = spec.submodule_search_locations or []
    sys.modules[module] = stands_in
    package, _, name = module.rpartition(".")
    inside = vars(sys.modules[package]) if package else {}
    inside.setdefault(name, stands_in)  # as of any module of a package
    try:
        yield
    finally:
        if sys.modules.get(module) is stands_in:
            del sys.modules[module]
        if inside.get(name) is stands_in:
            del inside[name]
