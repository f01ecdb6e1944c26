"""What every mechanism has: a name, and settings that are checked, described and read by name."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from apportion.annotations import check_fields
from apportion.checks import number
from apportion.checks import seconds as check_seconds
from apportion.errors import InputError, unknown_name, written
from apportion.mechanisms.start_costs import MEASURED, RESTART_S, UNMEASURED_S, measured_start_s
from apportion.names import check_known

if TYPE_CHECKING:
    from dataclasses import Field

logger = logging.getLogger(__name__)

_ALIKE = 0.75
"""Least share of letters that a misspelt name has in common with the name that is meant."""

SHORTEST_S = 1e-3
"""Least length of a round, a lease or an interval, seconds: each of them costs time to compute."""

TICK_S = 2.0**-20
"""Least time between two instants under leases, seconds: about a microsecond.

Times of events are multiples of it, so that two that only rounding tells apart are one instant. As
it is a power of two, sums and differences of such times are exact for 200 years.
"""


LOST = "lost when a job starts, resumes or moves: 60, 'bert=60,others=20', a csv, or measured"
"""What a start costs, in a line: for all mechanisms alike."""

OTHERS = "others"
"""Stands for the job types that are not named, where seconds are given by job type."""

SecondsByType = float | str | Mapping[str, float]
"""Seconds of every job, or by job type; `OTHERS` for those that are not named; `MEASURED`."""


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


def described(default: Any, help: str, name: str | None = None, *, hash: bool | None = None) -> Any:
    """Make a field of a mechanism, with its line of help, and its name outside of the value.

    Errors call it by that name, whichever of the two the value was given by.
    """
    return field(default=default, metadata={"help": help, "name": name}, hash=hash)


@dataclass(frozen=True, kw_only=True)
class MechanismSettings:
    """What every mechanism of the package has: a name, its fields as settings, and its parts."""

    name: ClassVar[str]
    home: ClassVar[str]
    """Where its parts are made, ``module:function``; loaded when a run begins."""
    elastic: ClassVar[bool] = False
    """Whether it is for elastic jobs, and for no others."""
    tells_speeds: ClassVar[bool] = False
    """Whether policies are told speeds that may be estimates."""
    tells_pairs: ClassVar[bool] = False
    """Whether they may be told estimates of pairs of jobs."""
    tick_s: ClassVar[float] = 0.0
    """All happens at multiples of it, seconds; 0 for any time."""

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
            given, default = getattr(self, kind, None), getattr(type(self), kind, None)
            usual = given is None or (isinstance(given, str) and given == default)
            if not usual and (kind == "placement" or isinstance(given, str)):
                check_known(kind, given)

    def parts(self, decider: Any, about: Any) -> Any:
        """Make scheduler, runtime and columns of a run, as a `Mechanism` does."""
        return resolve_name(self.home)(self, decider, about)

    @classmethod
    def settings(cls) -> tuple[Setting, ...]:
        """Return the settings of the mechanism in their order."""
        return tuple(_setting(each) for each in fields(cls))

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


def settings_of(mechanism: Any) -> tuple[Setting, ...]:
    """Return the settings by name of a mechanism; one of one's own need have none."""
    named = getattr(mechanism, "settings", None)
    return () if named is None else tuple(named())


def _setting(entry: Field[Any]) -> Setting:
    name, words = (entry.metadata.get(key) for key in ("name", "help"))
    return Setting(name or entry.name, entry.name, str(entry.type), entry.default, words or "")


def check_by_type(name: str, value: SecondsByType) -> list[tuple[str, float]]:
    """Return what a setting costs, seconds: of whom, in words (empty for all), and how much.

    Parameters
    ----------
    name
        What users call it.
    value
        A number, or one for each job type, with `OTHERS` for those that are not named; or
        `MEASURED` for those of `measured_start_s`.

    Raises
    ------
    InputError
        For what is no number of seconds, by job type if they are given by job type.
    """
    if isinstance(value, str) and value == MEASURED:
        return [(f" ({MEASURED})", max(UNMEASURED_S, *RESTART_S.values()))]
    if isinstance(value, str):
        raise InputError(
            f"{name} is {value!r}; it must be a number of seconds, one by job type, such as "
            f"{{'bert': 60, 'others': 20}}, or {MEASURED!r}."
        )
    by_type = value if isinstance(value, Mapping) else {None: value}
    words = {kind: "" if kind is None else f"[{kind!r}]" for kind in by_type}
    return [(words[kind], check_seconds(name + words[kind], s)) for kind, s in by_type.items()]


def seconds_by_type(name: str, value: SecondsByType, job_types: Iterable[str]) -> list[float]:
    """Return what a setting costs each of some jobs, seconds, by their types.

    `name` and `value` are as in `check_by_type`.

    Raises
    ------
    InputError
        For a job type that is not among those of which it is said.
    """
    if isinstance(value, str) and value == MEASURED:
        return list(map(measured_start_s, job_types))
    if not isinstance(value, Mapping):
        return [float(value) for _ in job_types]
    found = []
    for job_type in job_types:
        if job_type not in value and OTHERS not in value:
            raise InputError(
                f"{name} has no seconds for the job type {written(job_type)}, only for "
                f"{', '.join(map(written, value))}; add it, or {OTHERS!r} for all others."
            )
        found.append(float(value.get(job_type, value.get(OTHERS, 0.0))))
    return found


def check_types_named(mechanism: Any, here: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a misspelt job type among those by which a mechanism is told seconds.

    A table may list more types than a workload has: types that are known, as they have speeds, say
    nothing. A name that nobody knows is refused if it reads like a type of the workload that is
    not named, or if the mapping names no type that is known; else it is logged as a warning.

    Parameters
    ----------
    mechanism
        Of whose settings those are looked at that may be given by job type.
    here, known
        Types of the jobs, and all of which something is known.

    Raises
    ------
    InputError
        With the setting, the name, and the type that is meant.
    """
    here, known = set(here), {*here, *known, OTHERS}
    for setting in settings_of(mechanism):
        value = getattr(mechanism, setting.field, None)
        if "Mapping[str, float]" not in setting.kind or not isinstance(value, Mapping):
            continue
        what, unknown = f"job type in {setting.name}", [each for each in value if each not in known]
        for name in unknown:
            near = [each for each in sorted(here - value.keys()) if _reads_like(str(name), each)]
            if near or not (known - {OTHERS}) & value.keys():
                raise unknown_name(what, name, near or [*sorted(here), OTHERS])
        if unknown:
            logger.warning(
                "No job is of the %s: %s.",
                f"types in {setting.name}",
                ", ".join(map(repr, unknown)),
            )


def _reads_like(name: str, job_type: str) -> bool:
    """Whether a name is nearly a type; numbers tell types apart, as of ResNet-18 and ResNet-50."""
    alike = difflib.SequenceMatcher(None, name.lower(), job_type.lower()).ratio() >= _ALIKE
    return alike and re.findall("[0-9]+", name) == re.findall("[0-9]+", job_type)
