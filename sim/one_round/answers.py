"""From what a scheduler has decided, in numbers, to what users read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.allocation import Allocation
from apportion.cluster import TIERS
from apportion.mechanism.labelled.plan import Assignment, RoundPlan

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.about import AboutRun
    from apportion.sim.one_round.running import RunningGang
    from apportion.sim.one_round.state import RoundState
    from apportion.sim.solves.asked import Answer

__all__ = ["allocation_of", "plan_of", "racks_of"]


def plan_of(gangs: Gangs | None, state: RoundState, about: AboutRun | None) -> RoundPlan:
    """Return who has which devices, with labels, and what has changed.

    Parameters
    ----------
    gangs
        Who has devices from now on; ``None`` for those that had them before.
    state, about
        What there was before, and the numbers of jobs and types.
    """
    if gangs is None or about is None:
        now = [_assignment(*gang, state.cluster) for gang in state.running if about is not None]
    else:
        now = _assignments(gangs, state, about)
    before = {job: gang for gang in state.running for job in gang.jobs}
    has = {job: gang for gang in now for job in gang.jobs}
    return RoundPlan(
        number=0,
        assignments=tuple(now),
        started=tuple(job for job in has if job not in before),
        moved=tuple(job for job in has if job in before and _moved(before[job], has[job])),
        preempted=tuple(job for job in before if job not in has),
    )


def _moved(before: RunningGang, now: Assignment) -> bool:
    return (before.accelerator, {*before.devices}) != (now.accelerator, {*now.devices})


def _assignments(gangs: Gangs, state: RoundState, about: AboutRun) -> list[Assignment]:
    """Return one for each gang, in the order of the decision."""
    ids, names = about.workload.jobs.index.tolist(), about.present.accelerators
    members: dict[int, list[Hashable]] = {}
    held: dict[int, tuple[str, tuple[int, ...]]] = {}
    lines = zip(gangs.job.tolist(), gangs.gang.tolist(), gangs.devices, strict=True)
    for job, gang, (kind, devices) in lines:
        members.setdefault(gang, []).append(ids[job])
        if state.available is not None:
            held[gang] = names[kind], state.available.outside(names[kind], devices)
    return [_assignment(tuple(jobs), *held[gang], state.cluster) for gang, jobs in members.items()]


def _assignment(
    jobs: tuple[Hashable, ...], accelerator: str, devices: Sequence[int], cluster: Cluster
) -> Assignment:
    machines = sorted({device // cluster.gpus_per_machine for device in devices})
    return Assignment(jobs, accelerator, tuple(machines), tuple(sorted(devices)))


def racks_of(plan: RoundPlan, cluster: Cluster) -> tuple[tuple[int, ...], ...]:
    """Return the racks of each gang of a plan."""
    size = cluster.machines_per_rack
    return tuple(
        tuple(sorted({0 if size is None else machine // size for machine in gang.machines}))
        for gang in plan.assignments
    )


def allocation_of(answer: Answer, decider: Any, state: RoundState, about: AboutRun) -> Allocation:
    """Put labels on what a policy has answered; jobs that it was not asked about have zeros."""
    solution, every = answer.solution, state.tensor.jobs
    ids = about.workload.jobs.index.tolist()
    rows = [ids[job] for job in answer.jobs.tolist()]
    pairs = [f"{rows[one]} + {rows[other]}" for one, other in solution.pairs.tolist()]
    shown = X = pd.DataFrame(
        np.asarray(solution.X, dtype=float),
        index=pd.Index([*rows, *pairs], tupleize_cols=False),
        columns=_options(answer, about),
    )
    shown = X.reindex(pd.Index([*every, *pairs], tupleize_cols=False), fill_value=0.0)
    if X.columns.nlevels == 1:
        shown = shown.reindex(columns=list(state.cluster.accelerators), fill_value=0.0)
    throughput = pd.Series(solution.throughput, index=rows, name="throughput", dtype=float)
    names = answer.instance.resource_names or range(len(solution.prices))
    return Allocation(
        X=shown,
        throughput=throughput.reindex(every, fill_value=0.0),
        objective=solution.objective,
        prices=pd.Series(solution.prices, index=list(names), name="price", dtype=float),
        gap=solution.gap,
        status=solution.status,
        policy=repr(decider),
        unit=decider.unit,
        message=solution.message,
        stats=solution.stats,
        integral=decider.integral,
    )


def _options(answer: Answer, about: AboutRun) -> pd.Index:
    """Return the labels of options: accelerators, or several levels by name."""
    called: Mapping[str, Any] = {
        "accelerator": about.present.accelerators.__getitem__,
        "tier": TIERS.__getitem__,
        "gpus": int,
    }
    levels = {
        name: [called.get(name, _any_place)(each) for each in codes.tolist()]
        for name, codes in answer.labels.items()
    }
    several = pd.MultiIndex.from_arrays(list(levels.values()), names=list(levels))
    return several if len(levels) > 1 else pd.Index(levels["accelerator"])


def _any_place(number: int) -> int | str:
    return "any" if number < 0 else number
