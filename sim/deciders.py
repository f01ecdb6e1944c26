"""Who decides, and by which mechanism: policies share out time, schedulers give GPUs; by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.decider import Decider, OwnScheduler
from apportion.mechanism.deciders import DECIDERS, is_decider
from apportion.mechanisms import MECHANISMS
from apportion.mechanisms.settings import settings_of
from apportion.names import OTHER_SCHEDULER_NAMES, is_scheduler_name, standard
from apportion.policies import Policy, get_policy, policy_table
from apportion.policies.registry import is_known, unknown_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from apportion.mechanism.own import Decides

AnyDecider = Policy | Decider
"""What a simulation can be run under: mechanisms ask policies; the others make their schedulers."""

ELASTIC: Final = "configurations"
"""The mechanism of elastic jobs."""


class Manner(NamedTuple):
    """How a simulation runs under a decider; see `apportion.mechanism.decider.Decider`."""

    works_by: tuple[str, ...]
    works_how: str
    asks_for_speeds: bool
    passes_over: Mapping[str, tuple[str, ...]]


def manner_of(decider: Any) -> Manner:
    """Return what a decider says of that, and what it leaves out as of any policy."""
    names: tuple[str, ...] = ("rounds", "exact", "leases")
    how = "is a policy, which shares out time"
    passes_over: dict[str, tuple[str, ...]] = {}
    if getattr(decider, "places_gangs", False):
        names, how = ("leases",), "is a policy that places gangs and works by leases"
        passes_over = {"leases": ("placement", "resolve_seconds", "resolve_every")}
    elif decider.integral:
        names += ("configurations",)
    return Manner(
        getattr(decider, "works_by", names),
        getattr(decider, "works_how", how),
        getattr(decider, "asks_for_speeds", True),
        getattr(decider, "passes_over", passes_over),
    )


def get_decider(decider: str | AnyDecider | Decides, *, elastic: bool = False) -> Any:
    """Return a policy, a scheduler or a rule of elastic jobs by name, or the object itself.

    Parameters
    ----------
    decider
        The name, or the object; anything that has ``decide`` as a `Scheduler` of the loop is one,
        and anything that makes such a one for each run, by ``make(about)``.
    elastic
        Whether it is for elastic jobs, for which some names stand for another rule.

    Raises
    ------
    InputError
        For an unknown name, with the nearest one, for a class in place of a value, and for what
        says by which mechanisms it works and not all else that a `Decider` says.
    """
    if isinstance(decider, type) and any(hasattr(decider, name) for name in _OF_DECIDERS):
        raise InputError(f"policy is the class {decider.__name__}; write {decider.__name__}(...).")
    found = _named(decider) if isinstance(decider, str) else decider
    if not is_decider(found):
        return get_policy(found)  # type: ignore[arg-type]
    if not hasattr(found, "works_by"):
        return OwnScheduler(found)
    asked = () if hasattr(found, "objective") else _ASKED  # a policy need not say all of it
    lacks = [each for each in asked if not hasattr(found, each)]
    if lacks:
        raise InputError(
            f"{type(found).__name__} says works_by, and lacks {', '.join(lacks)}; derive it from "
            f"apportion.mechanism.decider.Decider."
        )
    instead = getattr(found, "of_elastic", None) if elastic and isinstance(decider, str) else None
    return instead or found


_ASKED = tuple(name for name in vars(Decider) if not name.startswith("_"))
"""What is asked of whoever says by which mechanisms it works."""
_OF_DECIDERS = ("decide", "make", "works_by", "objective")


def _named(name: str) -> Any:
    """Return what has a name.

    Only a name that nobody knows yet is looked up among the installed packages, which takes long.
    """
    if name in list(DECIDERS):
        return DECIDERS[name]
    if is_known(name):
        return get_policy(name)
    if name in DECIDERS:
        return DECIDERS[name]
    other = standard(name, OTHER_SCHEDULER_NAMES)
    if other in list(DECIDERS):
        return DECIDERS[other]
    near = difflib.get_close_matches(name, [*policy_table()["name"], *DECIDERS], n=1)
    if near and near[0] in DECIDERS:
        raise unknown_name("scheduler", name, DECIDERS)
    if not is_scheduler_name(name) and not is_known(name, installed=True):
        raise unknown_policy(name, DECIDERS)
    return get_policy(name)


def knows_durations(decider: AnyDecider, jobs: pd.DataFrame) -> bool:
    """Whether a decider goes by how long jobs will run, which a log tells and users do not.

    A policy does if it reads ``steps_remaining``; others say so themselves
    (`apportion.mechanism.decider.Decider.knows_durations`).
    """
    says = getattr(decider, "knows_durations", None)
    reads = getattr(decider, "columns", ())
    return "steps_remaining" in reads if says is None else bool(says(jobs))


def usual_mechanism(
    decider: AnyDecider, beside: Iterable[AnyDecider], told: Mapping[str, Any]
) -> str:
    """Return the mechanism by which a decider works where none is named.

    Whoever works in several ways works in that of those beside it, so that as many as can be are
    compared under the same: ``"iterations"`` if one of them has a gate, ``"queue"`` if one is a
    queue, ``"leases"`` if one offers GPUs or places gangs. A policy that is not drawn there works
    by ``"leases"`` if there is a network, or a setting that only leases heed, else by ``"rounds"``.

    Parameters
    ----------
    decider
        A policy or a scheduler.
    beside
        All deciders of the comparison, with or without this one.
    told
        Settings by name that were given.
    """
    ways = {manner_of(each).works_by[0] for each in (decider, *beside)}
    for name in ("iterations", "queue", "leases"):
        if name in ways.intersection(manner_of(decider).works_by):
            return name
    of_leases = settings_heeded_by("leases") - settings_heeded_by("rounds") | {"network"}
    return "leases" if told.keys() & of_leases else "rounds"


def check_who_decides(deciders: Sequence[AnyDecider], mechanism: str) -> None:
    """Refuse deciders that do not work by the mechanism."""
    for decider in deciders:
        manner = manner_of(decider)
        if mechanism in manner.works_by:
            continue
        if mechanism == ELASTIC and manner.works_by[0] == "rounds":
            raise InputError(
                f"{decider.label!r} does not decide in whole numbers; mechanism={mechanism!r} is "
                f"for 'sia', 'pollux', 'deepboot', 'optimus', 'lyra', 'afs' and others that do, "
                f"over elastic jobs."
            )
        raise InputError(
            f"{decider.label!r} {manner.works_how}; mechanism={mechanism!r} is for others. Leave "
            f"out one of the two."
        )


def check_passed_over(deciders: Iterable[AnyDecider], mechanism: Any) -> None:
    """Refuse settings that say nothing to one of the deciders."""
    for decider in deciders:
        manner = manner_of(decider)
        for field in manner.passes_over.get(mechanism.name, ()):
            value, own = getattr(mechanism, field), type(mechanism).settings()
            name, default = next((each.name, each.default) for each in own if each.field == field)
            if value != default:
                raise InputError(
                    f"{name}={written(value)} does nothing to {decider.label!r}, which "
                    f"{manner.works_how}; leave it out."
                )


def settings_heeded_by(mechanism: str) -> set[str]:
    """Return the names of the settings that a mechanism heeds."""
    return {setting.name for setting in settings_of(MECHANISMS[mechanism])}
