"""Settings that the simulations of an experiment share, and those of each where these differ.

Where no mechanism is named and no single one suits all deciders, each works by its own: what was
given by name is then a setting of every decider whose mechanism heeds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final

from apportion.checks import choice, listed, number
from apportion.errors import InputError, written
from apportion.mechanisms.start_costs import multiplied
from apportion.sim.deciders import usual_mechanism
from apportion.sim.settings import (
    HELD,
    STARTS,
    charged,
    check_elastic,
    check_heeded,
    heeds,
    settings_for,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import pandas as pd

    from apportion.mechanisms import Mechanism
    from apportion.sim import ElasticWorkload, Workload
    from apportion.sim.deciders import AnyDecider

USUAL: Final = "usual"
"""Stands for the multiples of what a start costs that small comparisons show."""

FEW = 300
"""Jobs that are simulated with other costs of a start besides unasked, as that takes seconds."""

_TIMES = (0.0, 5.0)

ByPolicy = dict[str, dict[str, Any]]
"""All settings of each policy or scheduler, by its label; none where all share theirs."""


def settings_of(
    deciders: Sequence[AnyDecider],
    workloads: Iterable[Workload | ElasticWorkload],
    mechanism: Mechanism | str | None,
    given: Mapping[str, Any],
) -> tuple[dict[str, Any], ByPolicy]:
    """Check the settings of an experiment; elastic jobs have a mechanism of their own.

    Parameters
    ----------
    deciders, workloads
        What is to run.
    mechanism, given
        As for `apportion.sim.settings.settings_for`.

    Returns
    -------
    dict, dict
        If all run by the same mechanism: all settings, which they share, and nothing by policy.
        Else what was given, with the ``seed`` and None as ``mechanism``, and all settings of each
        by its label.

    Raises
    ------
    InputError
        As `apportion.sim.settings.settings_for`, and where a workload does not run by the
        mechanism. A setting need be heeded by one of the deciders only.
    """
    elastic = [each.elastic for each in workloads]
    told = {name: value for name, value in given.items() if value is not None}
    ways = {each.label: usual_mechanism(each, deciders, told) for each in deciders}
    if mechanism is not None or all(elastic) or len({*ways.values()}) == 1:
        return _checked(deciders, mechanism, given, elastic), {}
    by_policy = _each(deciders, ways, told, elastic)
    seed = next(iter(by_policy.values()))["seed"]
    return {"mechanism": None, **told, "seed": seed}, by_policy


def _checked(
    deciders: Sequence[AnyDecider],
    mechanism: Mechanism | str | None,
    given: Mapping[str, Any],
    elastic: Sequence[bool],
) -> dict[str, Any]:
    """Return all settings of those that run by one mechanism, what a start costs among them."""
    told = charged(deciders, mechanism, given, elastic=all(elastic))
    chosen, settings = settings_for(deciders, mechanism, told, elastic=all(elastic))
    for each in elastic:
        check_elastic(chosen, elastic=each)
    return settings


def costs_of_starts(
    settings: Iterable[Mapping[str, Any]], times: Sequence[float] | str, jobs: pd.DataFrame
) -> dict[float, dict[str, float]]:
    """Return what a start costs by job type where it costs some times as much, by these times.

    Parameters
    ----------
    settings
        Of all simulations.
    times
        Numbers, of which 1 is left out; or `USUAL`, for 0 and 5 as far as they say something, of a
        workload small enough that this takes seconds.
    jobs
        Of the workload.

    Raises
    ------
    InputError
        Where a start costs nothing, or not all mechanisms are told what it does, and for a multiple
        for which a round or a lease is too short.
    """
    if isinstance(times, str):
        choice("start_costs", times, [USUAL])
        few = len(jobs) <= FEW and "job_type" in jobs
        return _found(settings, _TIMES, jobs)[0] if few else {}
    checked = [number("A multiple of start_costs", each) for each in listed("start_costs", times)]
    if not checked:
        return {}
    found, shortest_s = _found(settings, checked, jobs)
    missing = [each for each in checked if each != 1 and each not in found]
    if missing and shortest_s is None:
        raise InputError(
            f"start_costs={written(times)} does nothing: a start costs nothing here, or not "
            f"everybody runs by a mechanism that heeds {STARTS}. Leave it out."
        )
    if missing:
        raise InputError(
            f"start_costs holds {missing[0]:g}, by which some job would not start within a round "
            f"or lease of {shortest_s:g} s; valid: smaller multiples."
        )
    return found


def _found(
    settings: Iterable[Mapping[str, Any]], times: Sequence[float], jobs: pd.DataFrame
) -> tuple[dict[float, dict[str, float]], float | None]:
    """Return costs as far as there are any, and the shortest round; None where nobody is told."""
    settings = list(settings)
    given = [each.get(STARTS) for each in settings]
    if any(each is None or not _costs(each) for each in given):
        return {}, None
    shortest_s = min(float(each.get(name) or inf) for each in settings for name in HELD)
    costs = {each: multiplied(given[0], each, jobs["job_type"]) for each in times if each != 1}
    return {
        each: cost for each, cost in costs.items() if max(cost.values()) < shortest_s
    }, shortest_s


def _costs(seconds: Any) -> bool:
    """Whether starts of any job cost something."""
    return any(seconds.values()) if isinstance(seconds, Mapping) else seconds != 0


def _each(
    deciders: Sequence[AnyDecider],
    ways: Mapping[str, str],
    told: Mapping[str, Any],
    elastic: Sequence[bool],
) -> ByPolicy:
    """Return all settings of each decider, which works by the mechanism that stands in `ways`."""
    groups: dict[str, list[AnyDecider]] = {}
    for each in deciders:
        groups.setdefault(ways[each.label], []).append(each)
    nobodys = [name for name in told if not _heeding(name, deciders, ways)]
    for name in nobodys:
        check_heeded(name, told[name], groups)
    found = {}
    for way, group in groups.items():
        # What is told of speeds that nobody asks for is left to the first of them to refuse.
        own = [name for name in told if name in nobodys or _heeding(name, group, ways)]
        found[way] = _checked(group, way, {name: told[name] for name in own}, elastic)
    return {each.label: found[ways[each.label]] for each in deciders}


def _heeding(name: str, deciders: Iterable[AnyDecider], ways: Mapping[str, str]) -> list[str]:
    """Return the labels of those to whom a setting says something."""
    return [each.label for each in deciders if heeds(each, ways[each.label], name)]


def without(
    names: Collection[str], settings: Mapping[str, Any], by_policy: ByPolicy
) -> tuple[dict[str, Any], ByPolicy]:
    """Return settings, and those by policy, without some of them."""

    def left(own: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in own.items() if name not in names}

    return left(settings), {label: left(own) for label, own in by_policy.items()}


def notes_on_mechanisms(
    settings: Mapping[str, Any], by_policy: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Say who runs by which mechanism, and which settings say something to some only.

    Parameters
    ----------
    settings, by_policy
        As `settings_of` returns them.
    """
    if not by_policy:
        return []
    ways: dict[str, list[str]] = {}
    for label, own in by_policy.items():
        ways.setdefault(own["mechanism"], []).append(label)
    rest = max(ways, key=lambda way: len(ways[way]))
    said = {way: ", ".join(labels) for way, labels in ways.items() if way != rest}
    said[rest] = "the others" if len(ways[rest]) > 1 else ways[rest][0]
    who = "; ".join(f"{way} for {labels}" for way, labels in said.items())
    notes = [f"by several mechanisms, each with its own settings: {who}"]
    for name, value in settings.items():
        without = [label for label, own in by_policy.items() if name not in own]
        if name != "mechanism" and without:
            notes.append(f"{name}={written(value)} does nothing to {', '.join(without)}")
    return notes
