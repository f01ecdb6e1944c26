"""`check_scheduler` and `check_mechanism`: what is kept whoever decides, beside any other part."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from apportion.checks import seed as check_seed
from apportion.mechanism.queue import QueueScheduler
from apportion.sim.deciders import ELASTIC, get_decider, manner_of
from apportion.sim.network.registry import NETWORKS
from apportion.sim.settings import BELIEFS, mechanism_for
from apportion.testing.lone_gangs import check_lone_gangs, check_lone_jobs
from apportion.testing.run_case import Drawn, RunCase, part_of
from apportion.testing.same_runs import (
    same_in_two_workers,
    same_twice,
    same_under_other_names,
    same_when_pickled,
    same_with_equal_jobs_swapped,
    same_with_types_in_another_order,
    same_without_gpus_of_a_type,
)
from apportion.testing.schedule import check_held, check_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.own import Decides
    from apportion.mechanisms import Mechanism
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.run import Run
    from apportion.sim.workload import Workload
    from apportion.testing.run_case import On

_KINDS = {"leases": "racks", "iterations": "sending", "configurations": "elastic"}
"""What is drawn, by mechanism; jobs on several types for all others."""

_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "rounds": [{"leases": False, "round_seconds": 500.0}, {"preemption_overhead_seconds": 45.0}],
    "leases": [{}, {"checkpoint_seconds_per_gpu": 0.0}],
    "queue": [{}, {"preemption_overhead_seconds": 45.0}],
}
"""Settings of the runs, by mechanism."""


def check_scheduler(
    scheduler: str | AnyDecider | Decides,
    *,
    gangs: bool = True,
    seed: int = 0,
    n_jobs: int = 2,
    on: On | None = None,
    **settings: Any,
) -> None:
    """Check on small drawn workloads that whoever decides keeps what `simulate` promises.

    With `settings` it is the parts that these name that are checked, beside a scheduler that keeps
    the contract: ``check_scheduler("fifo", placement="mine")``, ``check_scheduler("ada_srsf",
    gate="mine")``, ``order="mine"``, ``mechanism=Mine()``, ``network=Mine()``.

    - `check_schedule` holds of its schedules, with costs of starts and without, and with jobs that
      share devices if the policy lets them; policies that lend idle GPUs leave none idle. Of
      elastic jobs and under a mechanism of one's own no device is held twice.
    - The same run twice is the same to the last bit, and so is that of a copy, as it is sent to
      other processes; the figures of two seeds are the same in two worker processes.
    - Jobs may stand in any order, and have any names whose order is the same: ties of jobs that
      arrive together are broken by their names, and nothing else is. Jobs that are equal in
      everything may change their names with each other: each gets what the other had. Neither
      does anything change if the types of the cluster stand in another order, or the cluster
      lists a type of which it has no GPU.
    - Few jobs run on few GPUs as well: one job alone, and a gang as large as the cluster.
    - A job that is alone in the cluster is done when its steps are done where it is fastest, and
      has a finish-time fairness of 1: in rounds on one type; under leases on every network, apart
      from the checkpoints at the ends of its leases, on racks whose best shape has to be found.
    - Under leases a gang that got a bad shape while the cluster was full has the best one that
      there is within one lease after the others have gone.

    The last two are asked of schedulers without `settings` that work in rounds, in queues or by
    leases.

    Parameters
    ----------
    scheduler
        A policy, which is run in rounds, a scheduler, which works by its usual mechanism, or the
        name of one.
    gangs
        Whether there are jobs with several GPUs; not for those that serve single-GPU jobs only.
    seed
        Seed of the workloads, see `apportion.testing.run_case`.
    n_jobs
        2 compares with worker processes, which takes seconds to start them; 1 leaves that out.
    on
        Workload and cluster in place of drawn ones, as for a part that knows some job types only.
    **settings
        As `simulate` takes them.

    Raises
    ------
    AssertionError
        For the first property that does not hold; the message names it, the part, the numbers, the
        input and where the part is written.
    """
    decider = get_decider(scheduler)
    chosen = _mechanism_of(decider, settings)
    kind = _kind_of(chosen)
    part, how = part_of(decider, settings), {"seed": check_seed(seed)}
    how |= {} if gangs else {"gangs": False}
    *others, told = _settings_of(chosen, settings)
    fewer = [Drawn.of(None, kind, **how, jobs=jobs) for jobs in ("one", "few") if on is None]
    many = Drawn.of(on, kind, **how)
    runs: list[tuple[RunCase, Run]] = []
    for each, jobs in [*product([told], fewer), *product([*others, told], [many])]:
        case = RunCase(part, decider, jobs.workload, jobs.cluster, each, jobs.text)
        runs.append((case, case.run()))
        _can_be(*runs[-1], chosen)
    _is_the_same(*runs[-1], kind, n_jobs=n_jobs)
    usual = manner_of(decider).works_by[0]
    if not settings and usual in _SETTINGS:
        check_lone_jobs(decider, gangs=gangs)
        if usual == "leases" and gangs:
            check_lone_gangs(decider)


def _mechanism_of(decider: AnyDecider, settings: Mapping[str, Any]) -> Any:
    """Return the mechanism that a run will have."""
    told = {name: value for name, value in settings.items() if name not in _OF_RUNS}
    elastic = manner_of(decider).works_by[0] == ELASTIC
    mechanism = told.pop("mechanism", ELASTIC if elastic else None)
    return mechanism_for([decider], mechanism, told)


_OF_RUNS = ("seed", "beliefs", *BELIEFS)
"""Settings that are none of a mechanism."""


def _kind_of(mechanism: Any) -> str:
    if mechanism.elastic:
        return "elastic"
    network = getattr(mechanism, "network", None)
    usual = _KINDS.get(mechanism.name, "types")
    return usual if network in (None, "none") else kind_for(network)


def kind_for(network: Any) -> str:
    """Return what is drawn for a network: jobs that train models which networks know."""
    model = NETWORKS[network]({}) if isinstance(network, str) else network
    return "links" if hasattr(model, "with_topology") else "racks"


def _settings_of(mechanism: Any, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings of the runs; the last are those with which all is checked."""
    cases = [{}] if "mechanism" in settings else _SETTINGS.get(mechanism.name, [{}])
    return [{**each, **settings} for each in cases]


def _can_be(case: RunCase, run: Run, mechanism: Any) -> None:
    """Check the schedule, as far as the mechanism says what it must be."""
    if "schedule" not in run.tables or mechanism.name == "iterations":
        return  # nobody has devices, or jobs share them as they like
    network = case.settings.get("network")
    told: dict[str, Any] = {"network": None if isinstance(network, str) else network}
    if mechanism.name == "rounds" and "placement" not in case.settings:
        told["work_conserving"] = "leaves_gpus_idle" not in case.decider.traits
    sharing = getattr(case.decider, "space_sharing", False)
    try:
        if mechanism.name in ("rounds", "queue", "leases"):
            workload = cast("Workload", case.workload)
            check_schedule(run, workload, case.cluster, sharing=sharing, **told)
        else:
            check_held(run, case.workload, case.cluster, sharing=sharing)
    except AssertionError as error:
        case.fail("carried out as it can be", str(error), error)


def _is_the_same(case: RunCase, run: Run, kind: str, *, n_jobs: int) -> None:
    """Check what must not change a run."""
    same = [same_twice, same_under_other_names, same_with_equal_jobs_swapped]
    if kind == "types":
        same.append(same_with_types_in_another_order)
    if kind != "elastic":
        same.append(same_without_gpus_of_a_type)
    same.append(same_when_pickled)
    if n_jobs > 1:
        same.append(same_in_two_workers)
    for check in same:
        check(case, run)


@dataclass(frozen=True)
class FirstInQueue(QueueScheduler):
    """First come, first served, on the fastest type that is free."""

    name = "first_in_queue"

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, Iterable[int]]]:
        """Go through the jobs in the order of their arrival."""
        for job in jobs.active.tolist():
            yield job, np.argsort(-jobs.speed[job], kind="stable")


_DECIDE: dict[str, tuple[Any, ...]] = {
    "queue": (FirstInQueue(),),
    "leases": ("max_min_fairness", "dally_no_wait"),
    "iterations": ("ada_srsf",),
    "configurations": ("afs", "sia"),
}
"""Who decides, by mechanism."""


def check_mechanism(
    mechanism: Mechanism | str,
    *,
    schedulers: Iterable[str | AnyDecider | Decides] | None = None,
    seed: int = 0,
    n_jobs: int = 2,
    on: On | None = None,
) -> None:
    """Check that `check_scheduler` holds of who is carried out by a mechanism.

    Parameters
    ----------
    mechanism
        The mechanism, or its name.
    schedulers
        Who decides, of whom the contract holds by other mechanisms; by default policies, and for
        the mechanisms of the package who works by them.
    seed, n_jobs, on
        As for `check_scheduler`.

    Raises
    ------
    AssertionError
        For the first property that does not hold, as `check_scheduler`.
    """
    chosen: Any = mechanism_for([], mechanism, {})
    usual = ("sia",) if chosen.elastic else ("isolated", "max_min_fairness")
    decide = _DECIDE.get(chosen.name, usual) if schedulers is None else tuple(schedulers)
    for place, each in enumerate(decide):
        given: dict[str, Any] = {"mechanism": mechanism, "n_jobs": 1 if place else n_jobs}
        check_scheduler(each, seed=seed, on=on, **given)
