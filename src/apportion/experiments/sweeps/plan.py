"""All runs of a sweep, checked before the first one begins."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

from apportion.checks import listed, number
from apportion.checks import seed as check_seed
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments.fitted_jobs import made_for
from apportion.experiments.plan import Plan, check_by, check_jobs_on, deciders_of, simulations_of
from apportion.experiments.shared import ByPolicy, notes_on_mechanisms, settings_of, without
from apportion.experiments.simulations import Setup
from apportion.experiments.sources import sources_of
from apportion.sim import ElasticWorkload, simulate
from apportion.sim.settings import heeded_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.experiments.machine.cells import Cell
    from apportion.experiments.sources import Source
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SweepSettings
    from apportion.sim import Workload
    from apportion.sim.deciders import AnyDecider

Clusters: TypeAlias = (
    "Cluster | Mapping[str, int] | str | Sequence[Cluster | Mapping[str, int] | str]"
)
"""One cluster, or several in a list."""

_LEAST_LOAD, _MOST_LOAD = 1e-6, 1e6
"""Beyond these, times of arrival lose their digits beside durations."""

logger = logging.getLogger(__name__)


def plan_sweep(
    policies: Iterable[str | AnyDecider | Decides],
    workloads: Any,
    cluster: Clusters,
    *,
    loads: Sequence[float] = (1.0,),
    seeds: Sequence[int] = (0,),
    resample: bool | Literal["blocks"] = False,
    by: str | None = None,
    **settings: Unpack[SweepSettings],
) -> Plan:
    """List the runs of `apportion.sweep`, which has the same parameters, and check them.

    Every workload is made once, and every policy tried on the first job of each.

    Raises
    ------
    InputError
        For whatever would stop all runs of a policy or of a workload.
    """
    asked = AskedSweep(_loads(loads), _seeds(seeds), resample, by)
    return planned(policies, workloads, cluster, asked, settings)


@dataclass(frozen=True)
class AskedSweep:
    """What varies beside policies, workloads and clusters, and what is kept of the runs.

    Attributes
    ----------
    loads, seeds, resample, by
        As of `apportion.sweep`.
    """

    loads: Sequence[float] = (1.0,)
    seeds: Sequence[int] = (0,)
    resample: bool | Literal["blocks"] = False
    by: str | None = None


def planned(
    policies: Iterable[str | AnyDecider | Decides],
    workloads: Any,
    cluster: Clusters,
    asked: AskedSweep,
    settings: Mapping[str, Any],
) -> Plan:
    """List runs as `plan_sweep`, of which this is the part that checks no lists of numbers."""
    policies = listed("policies", policies, "a list of names")
    sources = sources_of(workloads)
    clusters = _clusters(cluster)
    (one_cluster, *_) = clusters
    several = clusters if len(clusters) > 1 else ()
    loads, seeds, resample, by = asked.loads, asked.seeds, asked.resample, asked.by
    named = {source.name: source for source in sources}
    first_on = partial(made_for, cluster=one_cluster, load=1.0, seed=0, resample=False)
    firsts = [first_on(each, beside=several) for each in sources]
    chosen = deciders_of(policies, firsts)
    shared, by_policy = _settings(chosen, firsts, settings)
    setup = Setup(
        *(named, one_cluster, shared, resample, by_policy),
        by=by,
        clusters=several,
    )
    cells: list[Cell] = []
    notes: list[str] = []
    for source, first in zip(sources, firsts, strict=True):
        check_by(by, first)
        for each in clusters:
            on_it = made_for(source, each, 1.0, 0, resample=False, beside=several)
            _check(source, on_it, each, loads)
            _try_policies(chosen, on_it, setup, each)
            drawn = made_for(source, each, 1.0, seeds[0], resample=resample, beside=several)
            notes += [_for_all(note, source.name, seeds) for note in drawn.notes]
        cells += simulations_of(source, chosen, setup, loads, seeds)
    notes += notes_on_mechanisms(shared, by_policy)
    return Plan(tuple(cells), setup, tuple(dict.fromkeys(notes)))


def _clusters(given: Clusters) -> tuple[Cluster, ...]:
    """Return the clusters, of which no two are written alike."""
    if isinstance(given, Cluster | Mapping | str) or not isinstance(given, Iterable):
        return (Cluster.of(given),)
    found = [Cluster.of(each) for each in given]
    if not found:
        raise InputError("There is no cluster: the list of clusters is empty.")
    _refuse_repetitions("clusters", [str(each) for each in found])
    return tuple(found)


def _for_all(note: str, workload: str, seeds: Sequence[int]) -> str:
    """Turn the note of the first seed into one of all seeds, headed by the workload."""
    low, high = min(seeds), max(seeds)
    listed = ", ".join(map(str, seeds))
    if len(seeds) > 1:
        named = f"seeds {low} to {high}" if high - low == len(seeds) - 1 else f"seeds {listed}"
        note = re.sub(rf"\bseed {seeds[0]}\b", named, note)
    return note if note.startswith(f"{workload}: ") else f"{workload}: {note}"


def _loads(loads: Sequence[float]) -> list[float]:
    valid = "a list of numbers > 0, e.g. [0.5, 1.0, 1.5]"
    found = _listed("loads", loads, valid)
    return [number("A load", load, least=_LEAST_LOAD, most=_MOST_LOAD) for load in found]


def _seeds(seeds: Sequence[int]) -> list[int]:
    valid = "a list of whole numbers >= 0, e.g. [0, 1, 2]"
    found = _listed("seeds", seeds, valid)
    return [check_seed(each, "A seed") for each in found]


def _listed(what: str, values: Any, valid: str) -> list[Any]:
    """Make a list, without repetitions, of at least one value."""
    found = listed(what, values, valid)
    if not found:
        raise InputError(f"{what} is empty; it must be {valid}.")
    _refuse_repetitions(what, found)
    return found


def _refuse_repetitions(what: str, values: Sequence[Any]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise InputError(f"{what} holds {value!r} twice; every run may stand only once.")


def _settings(
    deciders: Sequence[AnyDecider],
    workloads: Sequence[Workload | ElasticWorkload],
    given: Mapping[str, Any],
) -> tuple[dict[str, Any], ByPolicy]:
    """Check the settings of `simulate` and spell them out: a default given is no other run."""
    if "seed" in given:
        raise InputError("A sweep has no seed=; give seeds=[...] in place of it.")
    if given.get("pair_estimates") is not None:
        raise InputError(
            "A sweep has many workloads, and pair_estimates= is a table of one; compare each of "
            "them with its own."
        )
    told = {name: value for name, value in given.items() if name != "mechanism"}
    found = settings_of(deciders, workloads, given.get("mechanism"), told)
    return without(("seed", "pair_estimates"), *found)


def _check(
    source: Source, workload: Workload | ElasticWorkload, cluster: Cluster, loads: Sequence[float]
) -> None:
    """Refuse jobs that cannot run on the cluster, and loads where there are no arrivals."""
    check_jobs_on(workload, cluster)
    if not workload.jobs["arrival_s"].any() and any(load != 1 for load in loads):
        raise InputError(
            f"All jobs of the workload {source.name!r} arrive at time 0, so that a load changes "
            f"nothing; leave out loads, or let the jobs arrive over time."
        )


def _try_policies(
    policies: Sequence[AnyDecider],
    workload: Workload | ElasticWorkload,
    setup: Setup,
    cluster: Cluster,
) -> None:
    """Run one step of the first job under each policy, for the sake of the checks of `simulate`."""
    if workload.elastic is True:  # which has no job of one step
        return
    one = replace(workload, jobs=workload.jobs.head(1).assign(total_steps=1.0))
    for policy in policies:
        try:
            simulate(policy, one, cluster, **heeded_by(policy, setup.settings_of(policy.label)))
        except InputError:
            raise
        except Exception as error:  # of this one job; the runs are to tell of their own
            logger.info("%s fails for a single job: %s", policy.label, error)
