"""Short texts that are equal only for equal inputs, to know what a stored run belongs to.

Code of one's own counts by the text of its source files, and of those of one's own that they
import; with the values that its functions take from their modules. Installed packages count by
version. What no value and no text says does not: the environment, clocks, files read elsewhere.
"""

from __future__ import annotations

import ast
import copyreg
import hashlib
import json
import logging
import os
import pickle
import platform
import re
import sys
from contextlib import suppress
from dataclasses import fields
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec, resolve_name
from itertools import chain
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pandas as pd

from apportion._version import __version__
from apportion.errors import written
from apportion.faces import homes_of
from apportion.own_code import is_own
from apportion.policies.registry import policies_named
from apportion.registry import parts_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from apportion.sim import Workload
    from apportion.sim.elastic_workload import ElasticWorkload

logger = logging.getLogger(__name__)

_PACKAGES = ("numpy", "pandas", "scipy", "cvxpy", "highspy", "clarabel")

_SAID: set[str] = set()
"""What has been said to be unknowable, so that it is said once."""


def versions() -> dict[str, str]:
    """Return the versions of Python, apportion and everything that computes."""
    found = {"python": platform.python_version(), "apportion": __version__}
    return found | {package: _version(package) for package in _PACKAGES}


@cache
def _version(package: str) -> str:
    """Return the version of an installed package, which may have another name than its module."""
    with suppress(PackageNotFoundError):
        return version(package)
    names = sorted({*packages_distributions().get(package, ())})
    return " ".join(map(version, names)) or "unknown"


@cache
def program() -> str:
    """Return a digest of all files of this package and of `versions`, 64 hexadecimal digits.

    A version alone would hide every change of the code within it.
    """
    inner = {home.split(".")[1] for home, _ in homes_of("apportion").values()}
    found: dict[str, Path] = {}
    for name in ("apportion", *(f"apportion.{each}" for each in inner)):  # may lie elsewhere
        spec = find_spec(name)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path, _, files in os.walk(folder):
                if Path(path).name != "__pycache__":
                    place = Path(name.replace(".", "/"), Path(path).relative_to(folder))
                    found |= {(place / each).as_posix(): Path(path, each) for each in files}
    held = [(name, _held(file)) for name, file in sorted(found.items())]
    return hashlib.sha256(repr((versions(), held)).encode()).hexdigest()


_UNCOUNTED = ("name", "notes", "job_types_drawn")
"""Fields of workloads that change no result."""


def workload_fingerprint(workload: Workload | ElasticWorkload) -> str:
    """Return a digest of the jobs and of all that is told of them, 16 hexadecimal digits.

    The name and the notes do not count.
    """
    told = {each.name: getattr(workload, each.name) for each in fields(workload)}
    if workload.elastic:
        used = sorted(set(workload.jobs["application"]))
        told["applications"] = {name: workload.applications[name] for name in used}
    digest = _Digest()
    digest.add({name: told[name] for name in told if name not in _UNCOUNTED})
    return digest.close()[:16]


def fingerprint(*parts: object, names: Iterable[str] = ()) -> str:
    """Return a digest of everything that one result depends on, 16 hexadecimal digits.

    This package, byte for byte, Python and the solvers (`program`) always count.

    Parameters
    ----------
    parts
        What the result is made of: values, objects, functions (`content`).
    names
        More texts that may be names of registered parts, such as types of jobs.
    """
    return hashlib.sha256(f"{program()} {content(*parts, names=names)}".encode()).hexdigest()[:16]


def content(*values: object, names: Iterable[str] = ()) -> str:
    """Return a digest of values and of the files in which their code is written, 64 digits.

    Any text among them that is the name of a policy or of another registered part stands for that
    part as well, and any that names a file, as ``"requests.csv(gpus=8)"`` does, for what the file
    holds. Where code or state cannot be told, as of a function that was typed in, a digest is
    returned that no other call returns, and a line in the log says why.

    Parameters
    ----------
    values
        What to go through, in this order.
    names
        More texts that may be names of parts; of files that they name only the names count.
    """
    digest = _Digest()
    for value in values:
        digest.add(value)
    digest.look_up(names)
    return digest.close()


_READ: dict[str, tuple[object, bytes]] = {}
"""Text of files as it was when their module was met first: what runs is what was imported."""


class _Digest:
    """Goes through values and all that they are made of."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._met: dict[int, tuple[int, object]] = {}
        self._texts: set[str] = set()
        self._modules: set[str] = set()
        self._files: dict[str, tuple[str, str]] = {}
        self._untold: dict[str, str] = {}

    def close(self) -> str:
        """Return the digest of all that was added; one that never comes again if it is untold."""
        for each in sorted(self._files.values()):
            self._write("source", *each)
        for what, why in self._untold.items():
            self._write(uuid4().hex)
            if what not in _SAID:
                _SAID.add(what)
                logger.warning(
                    "Nobody can tell whether %s is as it was (%s): what depends on it runs anew.",
                    *(what, why),
                )
        return self._hash.hexdigest()

    def look_up(self, names: Iterable[str]) -> None:
        """Add every registered part and every file of which a name was met, and what parts name.

        Of `names`, files do not count.
        """
        asked, told = set[str](), set(names)
        while new := sorted((self._texts | told) - asked):
            asked.update(new)
            for name in new:
                for part in (*parts_named(name), *policies_named(name)):
                    self._write("part", name)
                    self.add(part, name)
        for text in sorted(self._texts):
            for held in _files_of(text):
                self._write("file", text, held)

    def add(self, value: Any, name: str = "") -> None:
        """Add a value, which is called by a name where it stands."""
        kind = type(value)
        if kind in (type(None), bool, int, float, complex, str, bytes, type(...)):
            self._texts |= {value} if kind is str else set()
            self._write(kind.__name__, value)
        elif id(value) in self._met and kind is not tuple:  # compilers share equal tuples
            self._write("again", self._met[id(value)][0])
        else:
            self._met[id(value)] = len(self._met), value
            try:
                self._add_new(value, kind)
            except _UNTELLABLE as error:
                self._untold[name or f"a {kind.__name__}"] = str(error)

    def _write(self, *words: object) -> None:
        self._hash.update(repr(words).encode("utf-8", "backslashreplace"))

    def _add_new(self, value: Any, kind: type) -> None:
        """Add what has parts, by its kind."""
        if kind in (list, tuple, set, frozenset):
            self._write(kind.__name__, len(value))
            for member in value if kind in (list, tuple) else sorted(value, key=repr):
                self.add(member)
        elif kind in (dict, MappingProxyType):
            self._write("dict", len(value))
            for key, member in value.items():
                self.add(key)
                self.add(member, str(key))
        elif isinstance(value, pd.DataFrame):
            self.add(["table", *value.columns, len(value)])
            self.add(pd.util.hash_pandas_object(value, index=True).to_numpy())
        elif isinstance(value, PurePath):
            self.add(str(value))
        elif isinstance(value, ModuleType):
            self._write("module", value.__name__)
            self._module(value.__name__)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, (property, staticmethod, classmethod, cached_property)):
            for each in ("fget", "fset", "fdel", "func", "__func__"):
                self.add(getattr(value, each, None), each)
        elif hasattr(value, "__wrapped__"):  # by a decorator that makes objects
            self.add([kind, value.__wrapped__])
        else:
            self._object(value, kind)

    def _function(self, value: FunctionType) -> None:
        code, space = value.__code__, value.__globals__
        module, name = str(space.get("__name__")), code.co_qualname
        self._write("function", module, name, code.co_firstlineno)
        if code.co_filename == "<string>" and value.__name__.startswith("__"):
            return  # made for a class by its fields
        own = self._source(module, code.co_filename)
        if own:
            self._code(code, space)
        if own or "<locals>" in name:
            self.add([value.__defaults__, value.__kwdefaults__, vars(value)])
            for free, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
                with suppress(ValueError):  # not assigned yet
                    self.add(cell.cell_contents, free)

    def _code(self, code: CodeType, space: Mapping[str, Any]) -> None:
        """Add what a program may have put into a module: values that code takes from there."""
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, space)
            else:
                self.add(constant)
        for name in code.co_names:
            if name in space and name[:2] != "__":
                self.add(space[name], name)

    def _class(self, value: type) -> None:
        self._write("class", value.__module__, value.__qualname__)
        made = [each for each in vars(value).values() if isinstance(each, FunctionType)]
        files = [each.__code__.co_filename for each in made if each.__code__.co_filename[0] != "<"]
        file = [*files, getattr(sys.modules.get(value.__module__), "__file__", None) or ""][0]
        if self._source(value.__module__, file) or "<locals>" in value.__qualname__:
            self.add([type(value), value.__bases__])
            for name, member in vars(value).items():
                if isinstance(member, FunctionType) or not name.startswith(("__", "_abc_")):
                    self.add(member, name)

    def _object(self, value: Any, kind: type) -> None:
        """Add an object by its class and by what makes a copy of it, as pickle would."""
        reduce = copyreg.dispatch_table.get(kind)
        made: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(made, str):  # its name in a module
            home = str(pickle.whichmodule(value, made))  # type: ignore[attr-defined]
            if getattr(sys.modules.get(home), made, None) is not value:
                raise TypeError(f"{made!r} is all that it tells of itself")
            self._write("named", home, made)
            self._module(home)
            return
        call, arguments, state, members, pairs = (*made, None, None, None)[:5]
        if isinstance(state, dict):  # without what it has worked out of the rest
            state = {n: each for n, each in state.items() if not _is_worked_out(kind, n)}
        self.add([kind, call, arguments, state, members and [*members], pairs and [*pairs]])

    def _source(self, module: str, file: str) -> bool:
        """Add a file of one's own, and those that it imports; return whether it is of one's own."""
        there = Path(file).is_file()
        if not (there and is_own(file, module)):
            top = module.partition(".")[0]
            self._module(top)
            if there or top in self._files:
                return False
            self._untold[f"code of {module}"] = "it has no file"
        elif file not in self._files:
            loaded = sys.modules.get(module)
            spec = getattr(loaded, "__spec__", None)
            if spec is None or _READ.get(file, (None,))[0] is not spec:
                _READ[file] = spec, Path(file).read_bytes()
            text = _READ[file][1]
            self._files[file] = module, hashlib.sha256(text).hexdigest()
            around = module if Path(file).name == "__init__.py" else module.rpartition(".")[0]
            package = getattr(loaded, "__package__", None) or around
            for name in _imported(text) if file.endswith(".py") else ():
                with suppress(ImportError):
                    self._module(resolve_name(name, package))
        return True

    def _module(self, name: str) -> None:
        """Add the source of a module and of those around it; of an installed one its version."""
        top = name.partition(".")[0]
        if not name or name in self._modules:
            return
        self._modules.add(name)
        self._module(name.rpartition(".")[0])
        if top in self._files:  # installed
            return
        spec = None
        with suppress(Exception):  # whatever a package of one's own raises when it is imported
            spec = find_spec(name)
        origin = spec.origin if spec is not None and spec.has_location else None
        place = next(
            filter(None, [origin, *((spec and spec.submodule_search_locations) or ())]), ""
        )
        if is_own(place, name) if place else top not in sys.stdlib_module_names:
            if origin is not None:
                self._source(name, origin)
        else:
            self._files[top] = top, "" if top in sys.stdlib_module_names else _version(top)


_UNTELLABLE = (
    *(AttributeError, TypeError, ValueError, NotImplementedError, RecursionError),
    *(pickle.PicklingError, SyntaxError),
)


def _is_worked_out(kind: type, name: object) -> bool:
    """Whether an attribute holds what an object has worked out of the others."""
    return isinstance(getattr(kind, str(name), None), cached_property)


@cache
def _imported(text: bytes) -> tuple[str, ...]:
    """Return the names of modules that a source may import, wherever in it, dots included."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            dot = "." if node.module else ""
            found += [home, *(f"{home}{dot}{each.name}" for each in node.names)]
    return tuple(found)


def _files_of(text: str) -> Iterator[str]:
    """Yield digests of files that a text names: the whole, or parts of ``a.csv(b=c.csv)``."""
    for name in (text, *re.split(r"[(),=]", text)):
        with suppress(OSError, ValueError):
            file = Path(name.strip(" '\""))
            if file.is_file():
                yield _held(file)


def _held(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def texts_of(workload: Workload | ElasticWorkload, facts: Mapping[str, object]) -> list[str]:
    """Return the texts in the jobs of a workload, and in what is told of it: some may be names."""
    columns = [
        workload.jobs[each] for each in workload.jobs if workload.jobs[each].dtype.kind == "O"
    ]
    lists = [each if isinstance(each, list | tuple) else [each] for each in facts.values()]
    found = chain.from_iterable([*lists, *(column.unique() for column in columns)])
    return sorted({each for each in found if isinstance(each, str)})


def settings_text(settings: Mapping[str, object]) -> str:
    """Write settings, in one order of names."""
    return json.dumps(dict(settings), sort_keys=True, default=_mark)


def changed_settings(before: str, now: str) -> list[str]:
    """Say which settings differ in two texts of `settings_text`, with what they were and are."""
    old, new = json.loads(before), json.loads(now)
    return [
        f"{name} was {_shown(old, name)} and is {_shown(new, name)} now"
        for name in sorted({*old, *new})
        if (name in old) != (name in new) or old.get(name) != new.get(name)
    ]


def _shown(settings: Mapping[str, object], name: str) -> str:
    """Write the value of a setting that may not be among them."""
    return written(settings[name]) if name in settings else "not there"


def _mark(value: object) -> str:
    """Write an object among the settings so that others read differently, in any process."""
    shown = re.sub(r" at 0x[0-9a-fA-F]+", "", written(value))
    return f"{shown} {content(value)[:16]}"
