"""Things by name: those that come with the package, and those of one's own or of other packages."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from weakref import WeakValueDictionary

from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")

logger = logging.getLogger(__name__)

_CAN_BE_GIVEN = re.compile(r"""(?!\s)[^,()='"]*(?<!\s)(?!^)""")
"""Names that can stand in a list of the command line, and before settings in brackets."""


class Registry(MutableMapping[str, T], Generic[T]):
    """A mapping from names to things of one kind.

    A name that is not known is looked up among the installed packages: one that declares an entry
    point of this name in the group of the registry offers what the entry point loads. What was
    assigned may be assigned anew, as when a cell of a notebook runs again; a name that comes with
    the package or an installed one keeps its meaning.

    Every registry is in `all`, by its group. Pickled, it is a reference: in another process it is
    the registry of that group there.

    Parameters
    ----------
    kind
        What the things are called, e.g. ``"placement"``.
    group
        Group of the entry points, e.g. ``"apportion.placements"``.
    built_in
        What comes with the package, by name.
    is_one
        Tells whether a value is of the kind.
    own
        What one of one's own is, in words, where it may be given itself in place of its name.
    beside
        Kind of what is given by name in the same place, and what tells whether a name is one's.

    Examples
    --------
    >>> shapes = Registry("shape", "example.shapes", {"round": 1.0}, lambda value: value > 0)
    >>> shapes["square"] = 2.0
    >>> sorted(shapes)
    ['round', 'square']
    """

    all: ClassVar[WeakValueDictionary[str, Registry[Any]]] = WeakValueDictionary()
    """Every registry of this process, by group."""

    def __init__(
        self,
        kind: str,
        group: str,
        built_in: Mapping[str, T],
        is_one: Callable[[T], bool],
        own: str = "",
        beside: tuple[str, Callable[[str], bool]] | None = None,
    ) -> None:
        self.kind, self.group, self._words, self._beside = kind, group, own, beside
        self._known = dict(built_in)
        self._built_in = frozenset(built_in)
        self._own: dict[str, T] = {}
        self._is_one = is_one
        self._home: str = sys._getframe(1).f_globals["__name__"]
        Registry.all[group] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process finds it: by the module that makes it, and its group."""
        return _of_group, (self._home, self.group)

    def __getitem__(self, name: str) -> T:
        """Return what has the name.

        Raises
        ------
        InputError
            For an unknown name, with the nearest one, and for an entry point of another kind.
        """
        if name not in self:
            raise unknown_name(self.kind, name, self._known)
        return self._known[name]

    def of(self, given: str | T) -> T:
        """Return what has the name, or what is given if it is of the kind.

        Raises
        ------
        InputError
            For an unknown name, with the nearest one, and for what is not of the kind.
        """
        if isinstance(given, str):
            return self[given]
        if not self._is_one(given):
            raise InputError(
                f"The {self.kind} is {written(given)}; it must be one of {', '.join(self)}, or "
                f"{self._words}."
            )
        return given

    def name_of(self, given: str | T) -> str:
        """Return the name of what is given, or how it reads if it has none."""
        if isinstance(given, str):
            return given
        alike = ((name, each) for name, each in self.items() if type(each) is type(given))
        known = next((name for name, each in alike if each == given), None)
        return known or getattr(given, "name", None) or repr(given)

    def __setitem__(self, name: str, value: T) -> None:
        """Make something known by a name.

        Raises
        ------
        InputError
            If something else has the name that was not assigned, the value is not of the kind, or
            nobody could give the name, as on the command line.
        """
        if not (isinstance(name, str) and _CAN_BE_GIVEN.fullmatch(name)):
            raise InputError(
                f"{written(name)} cannot be the name of a {self.kind}: it must be a text of "
                f"one character or more, without commas, brackets, quotes and equals signs."
            )
        if self._beside is not None and self._beside[1](name):
            raise InputError(f"There is already a {self._beside[0]} {name!r}; choose another name.")
        own = name in self._own or name not in self._known
        self._enter(name, value)
        if own:
            self._own[name] = value

    def _enter(self, name: str, value: T) -> None:
        """Make something known by a name, after the checks of an assignment."""
        if name not in self._own and self._known.get(name, value) is not value:
            raise InputError(f"There is already a {self.kind} {name!r}: {self._known[name]!r}.")
        if not self._is_one(value):
            raise InputError(f"{written(value)} is no {self.kind}; {name!r} must be one.")
        self._known[name] = value

    def __delitem__(self, name: str) -> None:
        """Forget a name."""
        del self._known[name]
        self._own.pop(name, None)

    def own(self) -> dict[str, T]:
        """Return what was assigned in this process, by name: no built-in and no entry point."""
        return dict(self._own)

    def added(self) -> dict[str, T]:
        """Return what did not come with the package, as far as it is known by now, by name."""
        return {name: each for name, each in self._known.items() if name not in self._built_in}

    def take_over(self, own: Mapping[str, T]) -> None:
        """Know what another process has assigned, in place of all that was assigned here."""
        for name in self._own:
            del self._known[name]
        self._known.update(own)
        self._own = dict(own)

    def __contains__(self, name: object) -> bool:
        """Tell whether a name is known, or offered by an installed package."""
        if not isinstance(name, str):
            return False
        if name not in self._known:
            for entry in offered(group=self.group, name=name):
                self._load(entry)
        return name in self._known

    def _load(self, entry: EntryPoint) -> None:
        """Know what an installed package offers.

        Raises
        ------
        InputError
            If it cannot be loaded, or is not of the kind; it names the package.
        """
        package = getattr(entry.dist, "name", "an installed package")
        offer = f"{package} offers {entry.value!r} as the {self.kind} {entry.name!r}"
        try:
            value = entry.load()
        except Exception as error:  # whatever a module of somebody's does when it is imported
            raise InputError(
                f"{offer}, which cannot be loaded: {type(error).__name__}: {error}."
            ) from error
        try:
            self._enter(entry.name, value)
        except InputError as error:
            raise InputError(f"{offer}. {error}") from error

    def load(self) -> None:
        """Know all that installed packages offer; what cannot be loaded is logged as a warning."""
        for entry in offered(group=self.group):
            if entry.name not in self._known:
                try:
                    self._load(entry)
                except InputError as error:
                    logger.warning("%s", error)

    def get(self, name: str, default: Any = None) -> Any:
        """Return what has the name, or the default."""
        return self._known[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        """Go through the names that are known by now."""
        return iter(self._known)

    def __len__(self) -> int:
        """Count them."""
        return len(self._known)


def offered(**wanted: str) -> EntryPoints:
    """Return the entry points of installed packages, of a group or a group and a name.

    A file of every package has to be read for it. What was read is kept until a folder changes in
    which packages are looked for, as it does when one is installed.
    """
    folders = tuple((folder, _changed_ns(folder)) for folder in sys.path)
    found: EntryPoints = _entry_points(folders).select(**wanted)
    return found


@lru_cache(maxsize=1)
def _entry_points(folders: tuple[tuple[str, int], ...]) -> Any:
    """Return all entry points that the folders hold, given when each was changed."""
    return entry_points()


def _changed_ns(folder: str) -> int:
    """Return when something was put into a folder or taken away, or -1 if it is not there."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return -1


def _of_group(home: str, group: str) -> Registry[Any]:
    """Return the registry of a group, which importing a module makes."""
    if group not in Registry.all:
        import_module(home)
    return Registry.all[group]


def parts_named(name: str) -> list[Any]:
    """Return what stands under a name in any registry and did not come with the package."""
    added = (registry.added() for _, registry in sorted(Registry.all.items()))
    return [parts[name] for parts in added if name in parts]
