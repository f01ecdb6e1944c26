"""What every mechanism has: a name, and settings that are checked, described and read by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from apportion.checks import number
from apportion.checks import seconds as check_seconds
from apportion.errors import unknown_name
from apportion.kinds import check_fields
from apportion.names import check_known

if TYPE_CHECKING:
    from dataclasses import Field

__all__ = [
    "SHORTEST_S",
    "MechanismSettings",
    "Setting",
    "about",
    "check_overheads",
    "overheads_of",
]

SHORTEST_S = 1e-3
"""Least length of a round, a lease or an interval, seconds: each of them costs time to compute."""


class Setting(NamedTuple):
    """One setting of a mechanism.

    Attributes
    ----------
    name
        As an argument of `apportion.simulate` and, with hyphens, as an option.
    field
        As an argument of the mechanism.
    kind
        Annotation, as text.
    default
        Where it is not given.
    help
        What it is, in a line.
    """

    name: str
    field: str
    kind: str
    default: Any
    help: str


def about(text: str, name: str | None = None) -> dict[str, str | None]:
    """Describe a field of a mechanism: its line of help, and its name outside of the value.

    Errors call it by that name, whichever of the two the value was given by.
    """
    return {"help": text, "name": name}


@dataclass(frozen=True, kw_only=True)
class MechanismSettings:
    """What every mechanism has: a name, and its fields as settings."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)
        least_s = getattr(self, "resolve_seconds", None)
        if least_s is not None:
            check_seconds("resolve_seconds", least_s, infinite=True)
        most_s = getattr(self, "resolve_every", None)
        if most_s is not None:
            words = "a number of seconds"
            number("resolve_every", most_s, least=SHORTEST_S, infinite=True, words=words)
        for kind in ("placement", "network"):
            named, default = getattr(self, kind, None), getattr(type(self), kind, None)
            if isinstance(named, str) and named != default:
                check_known(kind, named)

    @classmethod
    def settings(cls) -> tuple[Setting, ...]:
        """Return the settings of the mechanism in their order."""
        return tuple(_described(each) for each in fields(cls))

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Any:
        """Make the mechanism of settings by name; None stands for the default.

        Raises
        ------
        InputError
            For a value that is out of range or not of its kind.
        """
        given = [each for each in cls.settings() if settings.get(each.name) is not None]
        return cls(**{each.field: settings[each.name] for each in given})

    def by_name(self) -> dict[str, Any]:
        """Return ``mechanism``, its name, and its settings by name, as runs record them."""
        values = {each.name: getattr(self, each.field) for each in self.settings()}
        return {"mechanism": self.name, **values}


def _described(entry: Field[Any]) -> Setting:
    name = entry.metadata["name"] or entry.name
    return Setting(name, entry.name, str(entry.type), entry.default, entry.metadata["help"])


def check_overheads(overheads: float | Mapping[str, float]) -> list[tuple[str, float]]:
    """Return what a start costs, seconds: of whom, in words (empty for all), and how much.

    Raises
    ------
    InputError
        For what is no number of seconds, by job type if they are given by job type.
    """
    name = "preemption_overhead_seconds"
    by_type = overheads if isinstance(overheads, Mapping) else {None: overheads}
    words = {kind: "" if kind is None else f"[{kind!r}]" for kind in by_type}
    return [(words[kind], check_seconds(name + words[kind], s)) for kind, s in by_type.items()]


def overheads_of(overheads: float | Mapping[str, float], job_types: Iterable[str]) -> list[float]:
    """Return what a start costs each of some jobs, seconds, by their types.

    Raises
    ------
    InputError
        For a job type that is not among those of which it is said.
    """
    if not isinstance(overheads, Mapping):
        return [float(overheads) for _ in job_types]
    found = []
    for job_type in job_types:
        if job_type not in overheads:
            raise unknown_name("job type in preemption_overhead_seconds", job_type, overheads)
        found.append(float(overheads[job_type]))
    return found
