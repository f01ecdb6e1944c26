"""`check_scheduler`: what every scheduler keeps, and every policy carried out in rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim import generate_rack_workload, generate_workload, simulate
from apportion.sim.deciders import get_decider, manner_of
from apportion.sim.given_order import by_arrival_and_id
from apportion.testing.lone_gangs import check_lone_gangs, check_lone_jobs, works_on_racks
from apportion.testing.schedule import check_schedule
from apportion.testing.stays import TOLERANCE

if TYPE_CHECKING:
    import pandas as pd

    from apportion.mechanism.own import Decides
    from apportion.sim import Run, Workload
    from apportion.sim.deciders import AnyDecider

__all__ = ["check_scheduler"]

_TYPES = Cluster({"v100": 4, "p100": 4, "k80": 8}, gpus_per_machine=4)
_RACKS = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
_CASES: dict[str, list[dict[str, Any]]] = {
    "rounds": [
        {"leases": False, "round_seconds": 500.0},
        {"preemption_overhead_seconds": 45.0},
    ],
    "leases": [{}, {"checkpoint_seconds_per_gpu": 0.0}],
    "queue": [{}, {"preemption_overhead_seconds": 45.0}],
}
"""Settings of the runs, by mechanism."""


def check_scheduler(
    scheduler: str | AnyDecider | Decides, *, gangs: bool = True, seed: int = 0
) -> None:
    """Check on small generated workloads that a scheduler keeps what `simulate` promises.

    - `check_schedule` holds of its schedules, with costs of starts and without, and with jobs that
      share devices if the policy lets them; policies that lend idle GPUs leave none idle.
    - The same run twice is the same to the last bit.
    - Jobs may stand in any order, and have any names whose order is the same: ties of jobs that
      arrive together are broken by their names, and nothing else is. Jobs that are equal in
      everything may change their names with each other: each gets what the other had. Neither
      does anything change if the types of the cluster stand in another order, or the cluster
      lists a type of which it has no GPU.
    - A job that is alone in the cluster is done when its steps are done where it is fastest, and
      has a finish-time fairness of 1: in rounds on one type; under leases on every network, apart
      from the checkpoints at the ends of its leases, on racks whose best shape has to be found.
    - Under leases a gang that got a bad shape while the cluster was full has the best one that
      there is within one lease after the others have gone.

    Parameters
    ----------
    scheduler
        A policy, which is run in rounds, a scheduler, which works by leases, or the name of one.
    gangs
        Whether there are jobs with several GPUs; not for those that serve single-GPU jobs only.
    seed
        Seed of the workloads.

    Raises
    ------
    AssertionError
        For the first property that does not hold; the message names it, the scheduler and the
        numbers.
    """
    decider = get_decider(scheduler)
    manner, on_racks = manner_of(decider), works_on_racks(decider)
    usual = manner.works_by[0]
    if usual not in _CASES:
        raise InputError(
            f"{decider.label!r} {manner.works_how}, of which check_scheduler knows nothing; it is "
            f"for what works by {', '.join(map(repr, _CASES))}."
        )
    cluster, drawn = (_RACKS, _on_racks) if on_racks else (_TYPES, _on_types)
    workload, cases = drawn(seed, gangs), _CASES[usual]
    declared: dict[str, Any] = {}
    if usual == "rounds":
        conserving = "leaves_gpus_idle" not in decider.traits
        declared = {"sharing": decider.space_sharing, "work_conserving": conserving}
    *others, settings = cases
    for other in others:
        _checked(decider, workload, cluster, other, declared)
    run = _checked(decider, workload, cluster, settings, declared)
    same = [_same_twice, _same_under_other_names, _same_with_equal_jobs_swapped]
    if not on_racks:
        same.append(_same_with_types_in_another_order)
    same.append(_same_without_gpus_of_a_type)
    for check in same:
        check(decider, workload, cluster, settings, run)
    check_lone_jobs(decider, gangs=gangs)
    if on_racks and gangs:
        check_lone_gangs(decider)


def _on_types(seed: int, gangs: bool) -> Workload:
    """Draw jobs of a few rounds each, of which some come twice at once."""
    drawn = generate_workload(
        jobs=14,
        seed=seed,
        jobs_per_hour=40,
        scale_factors={1: 0.6, 2: 0.3, 4: 0.1} if gangs else "single",
        weights="gavel",
        deadlines={50.0: 1.0},
    )
    jobs = drawn.jobs.assign(
        total_steps=drawn.jobs["total_steps"] * 0.03,
        entity=np.where(np.arange(len(drawn)) % 3 == 0, "red", "blue"),
    )
    return replace(drawn, jobs=_with_twins(jobs))


def _on_racks(seed: int, gangs: bool) -> Workload:
    """Draw jobs of some leases each, of which some come twice at once."""
    drawn = generate_rack_workload(jobs=24, seed=seed, max_scale_factor=16 if gangs else 1)
    rng = np.random.default_rng(seed)
    jobs = drawn.jobs.assign(
        total_steps=drawn.jobs["total_steps"] * 0.3,
        arrival_s=np.sort(rng.integers(0, 40, len(drawn)) * 600.0),
    )
    return replace(drawn, jobs=_with_twins(jobs))


def _with_twins(jobs: pd.DataFrame) -> pd.DataFrame:
    """Repeat every third job, right behind it, and give all new names."""
    copies = np.where(np.arange(len(jobs)) % 3 == 0, 2, 1)
    repeated = jobs.loc[jobs.index.repeat(copies)]
    return repeated.set_axis([f"job-{k}" for k in range(len(repeated))])


def _checked(
    decider: AnyDecider,
    workload: Workload,
    cluster: Cluster,
    settings: dict[str, Any],
    declared: dict[str, Any],
) -> Run:
    """Run a workload and check the schedule."""
    run = simulate(decider, workload, cluster, **settings)
    try:
        check_schedule(run, workload, cluster, **declared)
    except AssertionError as error:
        error.add_note(f"{decider!r} on {cluster} with {settings}")
        raise
    return run


def _fail(decider: AnyDecider, broken: str, numbers: str) -> NoReturn:
    raise AssertionError(f"{decider!r} is not {broken}: {numbers}.")


def _compare(decider: AnyDecider, broken: str, expected: pd.Series, got: pd.Series) -> None:
    """Compare completion times by job."""
    off = (got.reindex(expected.index) - expected).abs() / expected
    if not (off <= TOLERANCE).all():
        job: Any = off.idxmax()
        _fail(decider, broken, f"job {job!r} is complete at {got[job]}, not {expected[job]} s")


def _same_twice(
    decider: AnyDecider, workload: Workload, cluster: Cluster, settings: dict[str, Any], run: Run
) -> None:
    again = simulate(decider, workload, cluster, **settings)
    for name, table in {"jobs": run.jobs, "rounds": run.rounds, **run.tables}.items():
        other = {"jobs": again.jobs, "rounds": again.rounds, **again.tables}[name]
        if not table.equals(other):
            _fail(decider, "deterministic", f"a second run has another table {name!r}")


def _same_under_other_names(
    decider: AnyDecider, workload: Workload, cluster: Cluster, settings: dict[str, Any], run: Run
) -> None:
    """Give all jobs names that come in the same order, and put their rows in another one."""
    names = [f"other-{place * 7 + 3}" for place in _order_of_names(workload)]
    renamed = workload.jobs.set_axis(names)
    shuffled = renamed.iloc[np.random.default_rng(len(names)).permutation(len(names))]
    other = replace(workload, jobs=shuffled)
    got = simulate(decider, other, cluster, **settings).jobs["completion_s"]
    got = got.loc[names].set_axis(run.jobs.index)
    _compare(decider, "indifferent to the names and rows of jobs", run.jobs["completion_s"], got)


def _order_of_names(workload: Workload) -> list[int]:
    """Return the place of each job in the order in which ties are broken."""
    return by_arrival_and_id(workload).jobs.index.get_indexer(workload.jobs.index).tolist()


def _same_with_equal_jobs_swapped(
    decider: AnyDecider, workload: Workload, cluster: Cluster, settings: dict[str, Any], run: Run
) -> None:
    """Turn the names of jobs that are equal in everything around; each has what its name had."""
    jobs = workload.jobs
    equal = jobs.fillna(-1.0).groupby(jobs.columns.tolist(), sort=False).indices.values()
    place = np.arange(len(jobs))
    for twins in equal:
        place[twins] = twins[::-1]
    swapped = replace(workload, jobs=jobs.set_axis(jobs.index[place]))
    got = simulate(decider, swapped, cluster, **settings).jobs["completion_s"]
    _compare(decider, "indifferent to equal jobs", run.jobs["completion_s"], got)


def _same_with_types_in_another_order(
    decider: AnyDecider, workload: Workload, cluster: Cluster, settings: dict[str, Any], run: Run
) -> None:
    names = list(cluster.gpus)
    turned = replace(cluster, gpus={name: cluster.gpus[name] for name in [*names[1:], names[0]]})
    got = simulate(decider, workload, turned, **settings).jobs["completion_s"]
    _compare(decider, "indifferent to the order of types", run.jobs["completion_s"], got)


def _same_without_gpus_of_a_type(
    decider: AnyDecider, workload: Workload, cluster: Cluster, settings: dict[str, Any], run: Run
) -> None:
    known = replace(workload, throughputs=workload.throughputs.assign(none=5.0))
    more = replace(cluster, gpus={"none": 0, **cluster.gpus}, prices_per_gpu_hour={"none": 1.0})
    got = simulate(decider, known, more, **settings).jobs["completion_s"]
    _compare(decider, "indifferent to a type without GPUs", run.jobs["completion_s"], got)
