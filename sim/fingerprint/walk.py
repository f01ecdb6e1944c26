"""A digest of values and of all code that they reach: equal only where both are equal.

What comes with installed packages is known by name, and each package by its version and its record
of files. Everything else is gone through: functions with their bytecode, constants, default
arguments, closures and the globals that they use, classes with their members and bases, objects
with their state. Texts that name files stand for what the files hold. Comments, docstrings, layout
and the place of code do not count. Nor does what no value says: the environment, clocks.
"""

from __future__ import annotations

import hashlib
import pickle
import types
import weakref
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.policies.registry import policies_named
from apportion.registry import Registry, parts_named
from apportion.sim.fingerprint.installed import (
    compiled_digest,
    constants_of,
    copied_by,
    files_of,
    globals_of,
    has,
    package_of,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import CodeType, FunctionType

_PLAIN = (type(None), bool, int, float, complex, bytes, type(...), type(NotImplemented))
_BUILT_IN = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType),
)
_WRAPPING = (
    *(types.MethodType, property, staticmethod, classmethod, cached_property),
    *(weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet),
)
_UNCOUNTED = frozenset(
    {
        *("__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__"),
        *("__dict__", "__doc__", "__firstlineno__", "__module__", "__slotnames__"),
        *("__static_attributes__", "__weakref__", "_abc_impl"),
    }
)
"""Members of classes that say nothing of what they do."""


class Walk:
    """Goes through values and all that they are made of.

    Parameters
    ----------
    met
        Identity of what has been met, with the number under which it stands in the digest.
    """

    def __init__(self, met: Mapping[int, int]) -> None:
        self._hash = hashlib.sha256()
        self._met = dict(met)
        self._alive: list[object] = []
        self._place: list[str] = []
        self._texts: dict[str, None] = {}
        self._packages: set[str] = set()
        self.untold: dict[str, str] = {}

    def digest(self, *, with_packages: bool = False) -> str:
        """Return the digest of all that was added."""
        if with_packages:
            for package in sorted(self._packages):
                self._write("package", record(package))
        return self._hash.hexdigest()

    def look_up(self, names: Iterable[str]) -> None:
        """Add every registered part and every file of which a name was met, and what parts name.

        Of `names`, files do not count.
        """
        asked, told = set[str](), set(names)
        while new := sorted((self._texts.keys() | told) - asked):
            asked.update(new)
            for name in new:
                for part in (*parts_named(name), *policies_named(name)):
                    self._write("part", name)
                    self.add(part, name)
        for text in sorted(self._texts):
            for digest in files_of(text):
                self._write("file", text, digest)

    def add(self, value: Any, name: str = "") -> None:
        """Add a value, and say what it is called where it stands."""
        self._place.append(name)
        kind = type(value)
        if kind is str:
            self._texts[value] = None
            self._write("str", value)
        elif kind in _PLAIN:
            self._write(kind.__name__, repr(value))
        elif kind is tuple:  # not remembered: compilers share equal constants as they like
            self._list(value)
        elif id(value) in self._met:
            self._write("again", self._met[id(value)])
        else:
            self._met[id(value)] = len(self._met)
            self._alive.append(value)
            self._add_new(value)
        self._place.pop()

    def _write(self, kind: str, *words: object) -> None:
        self._hash.update(repr((kind, *words)).encode("utf-8", "backslashreplace"))

    def _add_new(self, value: Any) -> None:
        """Add what has parts, by its kind."""
        add = _CONTAINERS.get(type(value), Walk._object)
        next((way for kinds, way in _WAYS if isinstance(value, kinds)), add)(self, value)

    def _list(self, value: Sequence[object]) -> None:
        self._write(type(value).__name__, len(value))
        for member in value:
            self.add(member)

    def _set(self, value: Iterable[object]) -> None:
        """Add members by their digests: sets have no order."""
        found = []
        for member in value:
            inner = Walk(self._met)
            inner._place = self._place
            inner.add(member)
            found.append(inner.digest())
            self._texts |= inner._texts
            self._packages |= inner._packages
            self.untold |= inner.untold
        self._write(type(value).__name__, sorted(found))

    def _dict(self, value: Mapping[Any, object]) -> None:
        self._write("dict", len(value))
        for key, member in value.items():
            self.add(key)
            self.add(member, str(key) if isinstance(key, str) else "")

    def _sorted(self, kind: str, members: Mapping[str, object]) -> None:
        """Add members by name, in the order of their names."""
        self._write(kind, sorted(members))
        for name in sorted(members):
            self.add(members[name], name)

    def _array(self, value: Any) -> None:
        self._write("array", value.dtype.str, value.shape)
        if value.dtype.hasobject or value.dtype.names:
            self.add(value.tolist())
        else:
            self._hash.update(np.ascontiguousarray(value).tobytes())

    def _function(self, value: FunctionType) -> None:
        """Add a function; of one that a package has made for its caller what it was given."""
        home = str(value.__globals__.get("__name__", ""))
        theirs = package_of(home)
        if theirs is not None:
            self._packages.add(theirs)
            names = ((value.__module__, value.__qualname__), (home, value.__code__.co_qualname))
            if any(has(*name, value) for name in names):
                self._write("function", value.__module__, value.__qualname__)
                return
            self._write("inner function", home, value.__code__.co_qualname)
        else:
            self._code(value.__code__, value.__globals__)
        self.add([value.__defaults__, value.__kwdefaults__, vars(value)])
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                held = [cell.cell_contents]
            except ValueError:  # not assigned yet
                held = []
            self.add(held, name)

    def _code(self, code: CodeType, space: Mapping[str, Any]) -> None:
        """Add what code does, with the globals that it uses; not where it stands in which file."""
        self._write(
            *("code", code.co_name, code.co_code, code.co_exceptiontable, code.co_flags),
            *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
            *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        )
        for constant in constants_of(code):
            if isinstance(constant, types.CodeType):
                self._code(constant, space)
            else:
                self.add(constant)
        self._sorted("globals", globals_of(code, space))

    def _class(self, value: type) -> None:
        theirs = package_of(value.__module__)
        if theirs is not None and has(value.__module__, value.__qualname__, value):
            self._packages.add(theirs)
            self._write("class", value.__module__, value.__qualname__)
            return
        self._write("own class", value.__qualname__)
        self.add([type(value), value.__bases__])
        self._sorted("members", {k: v for k, v in vars(value).items() if k not in _UNCOUNTED})

    def _path(self, value: PurePath) -> None:
        self._write("path")
        self.add(str(value))

    def _module(self, value: types.ModuleType) -> None:
        """Add all of a module that is no package's; what is compiled by its file."""
        theirs = package_of(value.__name__)
        if theirs is not None:
            self._packages.add(theirs)
            self._write("module", value.__name__)
            return
        self._write("own module", compiled_digest(value))
        self._sorted("globals", {k: v for k, v in vars(value).items() if k[:2] != "__"})

    def _built_in(self, value: Any) -> None:
        """Add what is written in C: by name where a package has it, else by its file."""
        owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
        self._write("built in", getattr(value, "__qualname__", value.__name__))
        if isinstance(owner, types.ModuleType) and package_of(owner.__name__) is None:
            self._write("own module", compiled_digest(owner))
        else:
            self.add(owner)

    def _wrapping(self, value: Any) -> None:
        """Add a method or a property by what it wraps, a cache that forgets by its kind."""
        self._write(type(value).__name__)
        for name in ("fget", "fset", "fdel", "func", "__func__", "__self__"):
            if hasattr(value, name):
                self.add(getattr(value, name), name)

    def _registry(self, value: Registry[Any]) -> None:
        self._write("registry", value.group)
        self._sorted("added", value.added())

    def _object(self, value: Any) -> None:
        """Add an object by its class and by what makes a copy of it, as pickle would."""
        home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(name, str) and has(home, name, value):
            self._packages.add(str(home).partition(".")[0])
            self._write("named", home, name)
            return
        if hasattr(value, "__wrapped__"):  # by a decorator that makes objects
            self._write("wrapper", getattr(value, "targetoptions", None))
            self.add([type(value), value.__wrapped__])
            return
        try:
            parts = copied_by(value)
            if isinstance(parts, str):
                self._named(value, parts)
                return
            self._write("object")
            self.add([type(value), *parts])
        except (pickle.PicklingError, *_UNTELLABLE) as error:
            self._untold(value, str(error))

    def _named(self, value: object, name: str) -> None:
        """Add an object that is known by a name in the module of a package, such as a ufunc."""
        home = pickle.whichmodule(value, name)  # type: ignore[attr-defined]
        theirs = package_of(home)
        if theirs is None or not has(home, name, value):
            raise TypeError(f"{name!r} is all that it tells of itself")
        self._packages.add(theirs)
        self._write("named", home, name)

    def _untold(self, value: object, reason: str) -> None:
        place = ".".join(filter(None, self._place)) or f"a {type(value).__name__}"
        self.untold[place] = reason


_UNTELLABLE = (AttributeError, TypeError, ValueError, NotImplementedError, RecursionError)


_CONTAINERS: dict[type, Any] = {
    list: Walk._list,
    dict: Walk._dict,
    set: Walk._set,
    frozenset: Walk._set,
}

_WAYS: tuple[tuple[Any, Any], ...] = (
    (types.MappingProxyType, Walk._dict),
    (np.ndarray, Walk._array),
    (PurePath, Walk._path),
    (types.FunctionType, Walk._function),
    (type, Walk._class),
    (types.ModuleType, Walk._module),
    (_BUILT_IN, Walk._built_in),
    (_WRAPPING, Walk._wrapping),
    (Registry, Walk._registry),
)
"""How what is no object with a state is added, by kind."""
