"""Short texts that are equal only for equal inputs, to know what a stored run belongs to.

Code of one's own counts by the text of its source files, and of those of one's own that they
import; with the values that its functions take from their modules. Installed packages count by
version. What no value and no text says does not: the environment, clocks.
"""

from __future__ import annotations

import ast
import copyreg
import hashlib
import logging
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
from types import CodeType, FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pandas as pd

from apportion._version import __version__
from apportion.errors import written
from apportion.faces import homes_of
from apportion.own_code import is_own
from apportion.policies.registry import policies_named
from apportion.registry import parts_named
from apportion.syntax import PARSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.sim import Workload
    from apportion.sim.elastic_workload import ElasticWorkload

logger = logging.getLogger(__name__)

_PACKAGES = ("numpy", "pandas", "scipy", "cvxpy", "highspy", "clarabel")

_UNCOUNTED = ("name", "notes", "job_types_drawn")
"""Fields of workloads that change no result."""

_SAID: set[str] = set()
"""What has been said to be unknowable, so that it is said once."""

_READ: dict[str, tuple[object, bytes]] = {}
"""Text of files as it was when their module was met first: what runs is what was imported."""


def versions() -> dict[str, str]:
    """Return the versions of Python, apportion and everything that computes."""
    found = {"python": platform.python_version(), "apportion": __version__}
    return found | {package: _version(package) for package in _PACKAGES}


@cache
def _version(module: str) -> str:
    """Return the version of the installed package of a module; none of what `program` tells."""
    if module == "apportion" or module in sys.stdlib_module_names:
        return ""
    with suppress(PackageNotFoundError):
        return version(module)
    names = sorted({*packages_distributions().get(module, ())})
    return " ".join(map(version, names)) or "unknown"


_WRAPPERS = (property, staticmethod, classmethod, cached_property, type(_version))


@cache
def program() -> str:
    """Return a digest of all files of this package and of `versions`, 64 hexadecimal digits.

    A version alone would hide every change of the code within it.
    """
    digest = hashlib.sha256(repr(versions()).encode())
    inner = {f"apportion.{home.split('.')[1]}" for home, _ in homes_of("apportion").values()}
    for name in sorted({"apportion", *inner}):  # folders inside may lie elsewhere
        spec = find_spec(name)
        for folder in (spec and spec.submodule_search_locations) or ():
            for file in sorted(Path(folder).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    place = file.relative_to(folder).as_posix()
                    digest.update(f"\n{name} {place} {_held(file)}".encode())
    return digest.hexdigest()


def workload_fingerprint(workload: Workload | ElasticWorkload) -> str:
    """Return a digest of the jobs and of all that is told of them, 16 hexadecimal digits.

    The name and the notes do not count.
    """
    told = {each.name: getattr(workload, each.name) for each in fields(workload)}
    if workload.elastic is True:
        used = sorted(set(workload.jobs["application"]))
        told["applications"] = {name: workload.applications[name] for name in used}
    return content({name: told[name] for name in told if name not in _UNCOUNTED})[:16]


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
    digest = hashlib.sha256()
    writer, asked = _Writer(digest.update), set[str]()
    try:
        writer.dump(values)
        while new := sorted({*writer.texts, *names} - asked):
            asked.update(new)
            for name in new:
                for part in (*parts_named(name), *policies_named(name)):
                    writer.dump((name, part))
    except Exception as error:  # of whatever class of one's own
        if str(error) not in _SAID:
            _SAID.add(str(error))
            logger.warning(
                "Nobody can tell whether %s is as it was (%s): what depends on it runs anew.",
                *(written(values[0]), error),
            )
        return hashlib.sha256(uuid4().bytes).hexdigest()
    files = {text: held for text in sorted(writer.texts) if (held := _files_of(text))}
    writer.dump((files, sorted(writer.sources.values())))
    return digest.hexdigest()


class _Writer(pickle.Pickler):
    """Writes values as `pickle` does, but nobody reads it; code by the files where it stands."""

    def __init__(self, write: Any) -> None:
        super().__init__(SimpleNamespace(write=write), 4)
        self.fast = True  # equal texts read alike, whether they are one object or two
        self.texts: set[str] = set()
        self.sources: dict[str, tuple[str, str]] = {}
        self._own: dict[str, bool] = {}
        self._met: dict[int, object] = {}

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a value, if it is not written as `pickle` would."""
        kind = type(value)
        if kind is str:
            self.texts.add(value)
        elif kind in (set, frozenset):
            return kind.__name__, sorted(value, key=repr)
        elif kind is MappingProxyType:
            return kind.__name__, dict(value)
        elif isinstance(value, pd.DataFrame):
            rows = pd.util.hash_pandas_object(value, index=True).to_numpy()
            return kind.__name__, list(value.columns), rows
        elif isinstance(value, PurePath):
            return "path", str(value)
        elif isinstance(value, ModuleType):
            self._module(value.__name__)
            return "module", value.__name__
        elif isinstance(value, FunctionType | type):
            again = id(value) in self._met
            self._met[id(value)] = value
            told = self._function(value) if isinstance(value, FunctionType) else self._class(value)
            return told[:3] if again and told else told
        elif kind in _WRAPPERS:
            names = ("fget", "fset", "fdel", "func", "__func__", "__wrapped__")
            return kind.__name__, [getattr(value, name, None) for name in names]
        return None

    def reducer_override(self, value: Any) -> Any:
        """Return what makes a copy of an object, without what it has worked out of the rest."""
        kind = type(value)
        if isinstance(value, type) or kind in copyreg.dispatch_table:
            return NotImplemented
        made = value.__reduce_ex__(4)
        if not (isinstance(made, tuple) and len(made) > 2 and isinstance(made[2], dict)):
            return made
        worked_out = [n for n in made[2] if isinstance(getattr(kind, n, None), cached_property)]
        return *made[:2], {n: made[2][n] for n in made[2] if n not in worked_out}, *made[3:]

    def _function(self, value: FunctionType) -> Any:
        code, space = value.__code__, value.__globals__
        name, module = code.co_qualname, str(space.get("__name__"))
        if code.co_filename == "<string>" and value.__name__.startswith("__"):
            return "made of the fields of a class", name
        own = self._stands(module, code.co_filename)
        head = ("function", module, f"{name}:{code.co_firstlineno}")
        if not own and "<" not in name:
            return head
        held = [each.cell_contents for each in value.__closure__ or ()]
        taken = _taken(code, space) if own else ()
        return *head, value.__defaults__, value.__kwdefaults__, vars(value), held, taken

    def _class(self, value: type) -> Any:
        module = value.__module__
        made = [each.__code__ for each in vars(value).values() if isinstance(each, FunctionType)]
        files = [each.co_filename for each in made if _is_there(each.co_filename, module)]
        file = [*files, getattr(sys.modules.get(module), "__file__", None) or ""][0]
        named = getattr(sys.modules.get(module), value.__qualname__, None) is value
        if not self._stands(module, file) and named:
            return None  # by its name
        members = {
            name: each
            for name, each in vars(value).items()
            if isinstance(each, FunctionType) or not name.startswith(("__", "_abc_"))
        }
        return "class", module, value.__qualname__, type(value), value.__bases__, members

    def _stands(self, module: str, file: str) -> bool:
        """Add the file where code stands, or its package; return whether it is of one's own.

        Raises
        ------
        TypeError
            If it is of one's own, and there is no file.
        """
        top = module.partition(".")[0]
        if _is_there(file, module):
            self._source(module, file)
            return True
        if (self._module(top) or _version(top) == "unknown") and not Path(file).is_file():
            raise TypeError(f"the code of {module!r} is in no file")
        return False

    def _module(self, name: str) -> bool:
        """Add a module that is imported by its name, or its package; whether it is one's own."""
        around = name.rpartition(".")[0]
        if name and name not in self._own and (not around or self._module(around)):
            file = _place_of(name)
            self._own[name] = bool(file) and is_own(file, name)
            if _is_there(file, name):
                self._source(name, file)
            elif not around:
                self.sources[name] = name, _version(name)
        return self._own.get(name, False)

    def _source(self, module: str, file: str) -> None:
        """Add the text of a file, and what it imports, wherever in it."""
        if file in self.sources:
            return
        loaded = sys.modules.get(module)
        spec = getattr(loaded, "__spec__", None)
        if spec is None or _READ.get(file, (None,))[0] is not spec:
            _READ[file] = spec, Path(file).read_bytes()
        text = _READ[file][1]
        self.sources[file] = module, hashlib.sha256(text).hexdigest()
        around = module if Path(file).stem == "__init__" else module.rpartition(".")[0]
        package = getattr(loaded, "__package__", None) or around
        for name in (package, *(_imported(text) if file.endswith(".py") else ())):
            with suppress(ImportError):
                self._module(resolve_name(name, package))


def _taken(code: CodeType, space: Mapping[str, Any]) -> list[Any]:
    """Return what a program may have put into a module, as far as code takes it from there.

    And texts, which may name files.
    """
    names = [name for name in code.co_names if name in space and name[:2] != "__"]
    found: list[Any] = [(name, space[name]) for name in names]
    for each in code.co_consts:
        found += _taken(each, space) if isinstance(each, CodeType) else []
        found += [each] if isinstance(each, str) else []
    return found


def _is_there(file: str, module: str) -> bool:
    """Whether a file of one's own is there."""
    return Path(file).is_file() and is_own(file, module)


def _place_of(name: str) -> str:
    """Return the file of a module, or a folder of one without; none of what is not there."""
    with suppress(Exception):  # whatever a package of one's own raises when it is imported
        spec = find_spec(name)
        if spec is not None:
            origin = [spec.origin] if spec.has_location else []
            return str([*origin, *(spec.submodule_search_locations or ())][0])
    return ""


@cache
def _imported(text: bytes) -> tuple[str, ...]:
    """Return the names of modules that a source may import, with the dots before them."""
    found: list[str] = []
    with PARSING:
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            found += [home, *(f"{home}{'.' * bool(node.module)}{each.name}" for each in node.names)]
    return tuple(found)


def _files_of(text: str) -> list[str]:
    """Return digests of files that a text names: the whole, or parts of ``a.csv(b=c.csv)``."""
    found = []
    for name in (text, *re.split(r"[(),=]", text)):
        with suppress(OSError, ValueError):
            file = Path(name.strip(" '\""))
            found += [_held(file)] if file.is_file() else []
    return found


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
