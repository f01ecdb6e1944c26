"""Who decides: policies, which share out time, and schedulers, which give GPUs; by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InputError, unknown_name
from apportion.mechanism.decider import Decider
from apportion.mechanism.deciders import DECIDERS, is_decider
from apportion.mechanism.own import OwnScheduler
from apportion.names import OTHER_SCHEDULER_NAMES, is_scheduler_name, standard
from apportion.policies import Policy, get_policy, policy_table
from apportion.policies.registry import is_known, unknown_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from apportion.mechanism.own import Decides

AnyDecider = Policy | Decider
"""What a simulation can be run under: mechanisms ask policies; the others make their schedulers."""


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
