"""All runs of a sweep, checked before the first one begins."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from apportion.checks import listed, number
from apportion.checks import seed as check_seed
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments.fingerprint import run_fingerprint, workload_fingerprint
from apportion.experiments.sweeps.sources import made_for, sources_of
from apportion.sim import simulate
from apportion.sim.deciders import Decider, get_decider
from apportion.sim.settings import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.experiments.sweeps.sources import Source
    from apportion.sim import Workload

__all__ = ["Plan", "PlannedRun", "plan_sweep"]

_LEAST_LOAD, _MOST_LOAD = 1e-6, 1e6

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlannedRun:
    """One simulation, small enough to be sent anywhere.

    Attributes
    ----------
    policy, source, cluster, load, seed, resample, settings
        What it takes to run it; `settings` are those of `apportion.simulate`.
    fingerprint
        Equal only for runs with equal results.
    """

    policy: Decider
    source: Source
    cluster: Cluster
    load: float
    seed: int
    resample: bool
    settings: Mapping[str, Any]
    fingerprint: str

    @property
    def label(self) -> dict[str, Any]:
        """What tells the run from the others: the first columns of its row."""
        return {
            "policy": self.policy.label,
            "workload": self.source.name,
            "load": self.load,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Attributes
    ----------
    runs
        In the order of the table: by workload, load, policy and seed, each as given.
    cluster, settings, resample
        The same for all of them.
    notes
        What a reader of the results must know of the workloads, as they are for the first seed.
    """

    runs: tuple[PlannedRun, ...]
    cluster: Cluster
    settings: Mapping[str, Any]
    resample: bool
    notes: tuple[str, ...]


def plan_sweep(
    policies: Iterable[str | Decider],
    workloads: Any,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    loads: Sequence[float] = (1.0,),
    seeds: Sequence[int] = (0,),
    resample: bool = False,
    **settings: Any,
) -> Plan:
    """List the runs of `apportion.sweep`, which has the same parameters, and check them.

    Every workload is made once, and every policy tried on the first job of each.

    Raises
    ------
    InputError
        For whatever would stop all runs of a policy or of a workload.
    """
    chosen = _policies(policies)
    sources = sources_of(workloads)
    cluster = Cluster.of(cluster)
    loads = _loads(loads)
    seeds = _seeds(seeds)
    settings = _settings(chosen, settings)
    runs: list[PlannedRun] = []
    notes: list[str] = []
    for source in sources:
        # Not of the seeds given, so that another seed leaves the fingerprints as they were.
        first = made_for(source, cluster, 1.0, 0, resample=False)
        _check(source, first, cluster, loads)
        _try_policies(chosen, first, cluster, settings)
        mark = f"{source.mark} {workload_fingerprint(first)}"
        of_first_seed = made_for(source, cluster, 1.0, seeds[0], resample=resample)
        notes += [_for_all(note, source.name, seeds) for note in of_first_seed.notes]
        for load, policy, seed in product(loads, chosen, seeds):
            data = f"{mark} load {load!r} resample {resample}"
            fingerprint = run_fingerprint(policy, data, cluster, {**settings, "seed": seed})
            runs.append(
                PlannedRun(policy, source, cluster, load, seed, resample, settings, fingerprint)
            )
    return Plan(tuple(runs), cluster, settings, resample, tuple(notes))


def _for_all(note: str, workload: str, seeds: Sequence[int]) -> str:
    """Turn the note of the first seed into one of all seeds, headed by the workload."""
    low, high = min(seeds), max(seeds)
    listed = ", ".join(map(str, seeds))
    if len(seeds) > 1:
        named = f"seeds {low} to {high}" if high - low == len(seeds) - 1 else f"seeds {listed}"
        note = re.sub(rf"\bseed {seeds[0]}\b", named, note)
    return note if note.startswith(f"{workload}: ") else f"{workload}: {note}"


def _policies(policies: Iterable[str | Decider]) -> list[Decider]:
    """Look up every policy and scheduler; refuse none, one name as a text, and repetitions."""
    chosen = [get_decider(policy) for policy in listed("policies", policies)]
    if not chosen:
        raise InputError("There is no policy to sweep over: the list of policies is empty.")
    _refuse_repetitions("policies", [policy.label for policy in chosen])
    return chosen


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


def _settings(deciders: Sequence[Decider], given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings of `simulate` and spell them out: a default given is no other run."""
    for name, instead in (("seed", "seeds=[...]"), ("pair_estimates", "learn_pairs=")):
        if name in given:
            raise InputError(f"A sweep has no {name}=; give {instead} in place of it.")
    told = {name: value for name, value in given.items() if name != "mechanism"}
    settings = settings_for(deciders, given.get("mechanism"), told)
    return {name: settings[name] for name in settings if name not in ("seed", "pair_estimates")}


def _check(source: Source, workload: Workload, cluster: Cluster, loads: Sequence[float]) -> None:
    """Refuse jobs that cannot run on the cluster, and loads where there are no arrivals."""
    workload.throughput_of(cluster)
    if not workload.jobs["arrival_s"].any() and any(load != 1 for load in loads):
        raise InputError(
            f"All jobs of the workload {source.name!r} arrive at time 0, so that a load changes "
            f"nothing; leave out loads, or let the jobs arrive over time."
        )


def _try_policies(
    policies: Sequence[Decider], workload: Workload, cluster: Cluster, settings: Mapping[str, Any]
) -> None:
    """Run one step of the first job under each policy, for the sake of the checks of `simulate`."""
    one = replace(workload, jobs=workload.jobs.head(1).assign(total_steps=1.0))
    for policy in policies:
        try:
            simulate(policy, one, cluster, **settings)
        except InputError:
            raise
        except Exception as error:  # of this one job; the runs are to tell of their own
            logger.info("%s fails for a single job: %s", policy.label, error)
