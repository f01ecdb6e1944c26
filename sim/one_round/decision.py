"""What one round has come to: who has which devices now, with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.allocation import Allocation
from apportion.cluster import TIERS

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.about import AboutRun
    from apportion.sim.one_round.given import RoundState
    from apportion.sim.solves.standing import Answer

_COLUMNS = ("accelerator", "racks", "machines", "devices", "status")


@dataclass(frozen=True)
class Assignment:
    """One gang and its devices, for one round.

    Devices and machines are numbered from 0 within their accelerator type.
    """

    job: Hashable
    accelerator: str
    machines: tuple[int, ...]
    devices: tuple[int, ...]


@dataclass(frozen=True)
class RoundPlan:
    """The gangs of a round.

    Parameters
    ----------
    assignments
        The gangs, those with the highest priority first.
    started
        Jobs that did not run in the round before.
    moved
        Jobs that run on, on other devices.
    preempted
        Jobs that ran in the round before and wait in this one.
    """

    assignments: tuple[Assignment, ...]
    started: tuple[Hashable, ...]
    moved: tuple[Hashable, ...]
    preempted: tuple[Hashable, ...]

    @property
    def jobs(self) -> tuple[Hashable, ...]:
        """Every job that runs in the round."""
        return tuple(gang.job for gang in self.assignments)

    @property
    def extended(self) -> tuple[Hashable, ...]:
        """Jobs whose lease is extended: they run on, on the same devices."""
        changed = {*self.started, *self.moved}
        return tuple(job for job in self.jobs if job not in changed)


@dataclass(frozen=True, eq=False, repr=False)
class RoundDecision:
    """Who has which devices now: what `apportion.solve_round` returns.

    Devices and machines are numbered from 0 within their accelerator type, racks likewise.

    Attributes
    ----------
    plan
        The gangs, and who is new: `RoundPlan.started`, ``moved``, ``preempted`` and ``extended``.
    waiting
        Jobs that had no devices, and have none.
    racks
        Racks of each gang of the plan.
    allocation
        What the policy was asked last and has answered: shares of time, or whole decisions, with
        objective and certificate. Jobs about which it was not asked have a row of zeros. ``None``
        where no policy was asked.
    policy, mechanism
        Who has decided, as it would be written, and how it is carried out.
    valid_for_s
        For how long this stands if nothing happens, seconds: a round, a lease, until a delay timer
        ends; infinite for until a job comes or is done.
    """

    plan: RoundPlan
    waiting: tuple[Hashable, ...]
    racks: tuple[tuple[int, ...], ...]
    allocation: Allocation | None
    policy: str
    mechanism: str
    valid_for_s: float

    @property
    def running(self) -> dict[Hashable, tuple[str, tuple[int, ...]]]:
        """Accelerator and devices of each job that has some: ``running=`` of the next round."""
        return {gang.job: (gang.accelerator, gang.devices) for gang in self.plan.assignments}

    @property
    def objective(self) -> float:
        """The policy's objective; NaN where no policy was asked."""
        return float("nan") if self.allocation is None else self.allocation.objective

    @property
    def gap(self) -> float:
        """Certified relative distance of it from the optimum; NaN where no policy was asked."""
        return float("nan") if self.allocation is None else self.allocation.gap

    @property
    def status(self) -> str:
        """Of the policy's answer, as `Allocation.status`; empty where no policy was asked."""
        return "" if self.allocation is None else self.allocation.status

    @property
    def X(self) -> pd.DataFrame | None:
        """The allocation matrix, if a policy was asked."""
        return None if self.allocation is None else self.allocation.X

    def table(self) -> pd.DataFrame:
        """Return one row per job, indexed by job, those that have devices first.

        Columns: ``accelerator``, ``racks``, ``machines`` and ``devices`` (tuples of numbers),
        and ``status`` (started, extended, moved, preempted or waiting).
        """
        named = ("started", "moved", "extended", "preempted")
        status = {job: name for name in named for job in getattr(self.plan, name)}
        rows: dict[Hashable, tuple[Any, ...]] = {}
        for gang, racks in zip(self.plan.assignments, self.racks, strict=True):
            where = gang.accelerator, racks, gang.machines, gang.devices
            rows[gang.job] = (*where, status[gang.job])
        for job in (*self.plan.preempted, *self.waiting):
            rows[job] = ("", (), (), (), status.get(job, "waiting"))
        index = pd.Index(list(rows), name="job", tupleize_cols=False)
        return pd.DataFrame(list(rows.values()), index=index, columns=list(_COLUMNS))

    def __repr__(self) -> str:
        head = f"{self.policy} by {self.mechanism}: {len(self.plan.jobs)} jobs have devices"
        if self.plan.preempted:
            head += f", {len(self.plan.preempted)} lose theirs"
        if self.waiting:
            head += f", {len(self.waiting)} wait"
        lines = [head, _printed(self.table())]
        if self.allocation is not None:
            lines.append(
                f"{self.status}, objective {self.objective:.6g}"
                f"{f' {self.allocation.unit}' if self.allocation.unit else ''}, gap {self.gap:.1e}"
            )
            if self.allocation.message:
                lines.append(self.allocation.message)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<p>{repr(self).splitlines()[0]}</p>{_shown(self.table()).to_html(max_rows=40)}"


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table for readers: lists of numbers as texts, without columns that say nothing."""
    shown = table.map(lambda value: ", ".join(map(str, value)) if type(value) is tuple else value)
    return shown.loc[:, [name == "status" or shown[name].ne("").any() for name in shown.columns]]


def _printed(table: pd.DataFrame) -> str:
    return "no jobs" if table.empty else _shown(table).to_string(max_rows=40)


def decision_of(
    gangs: Gangs | None, state: RoundState, about: AboutRun | None, **how: Any
) -> RoundDecision:
    """Return who has which devices, with labels, and what has changed.

    Parameters
    ----------
    gangs
        Who has devices from now on; ``None`` for those that had them before.
    state, about
        What there was before, and the numbers of jobs and types; ``None`` where nobody can run.
    how
        What else is to be told.
    """
    before, available, cluster = state.running, state.available, state.cluster
    now = {} if about is None else dict(before)
    if gangs is not None and about is not None and available is not None:
        ids, kinds = about.workload.jobs.index.tolist(), about.present.accelerators
        lines = zip(gangs.job.tolist(), gangs.devices, strict=True)
        now = {
            ids[job]: (kinds[kind], available.outside(kinds[kind], devices))
            for job, (kind, devices) in lines
        }
    assignments, racks = [], []
    for job, (kind, own) in now.items():
        size = cluster.machine_size(kind)
        machines = tuple(sorted({device // size for device in own}))
        assignments.append(Assignment(job, kind, machines, tuple(sorted(own))))
        of_rack = cluster.machines_per_rack or max(machines, default=0) + 1
        racks.append(tuple(sorted({machine // of_rack for machine in machines})))
    had = {job: (kind, {*own}) for job, (kind, own) in before.items()}
    has = {job: (kind, {*own}) for job, (kind, own) in now.items()}
    plan = RoundPlan(
        assignments=tuple(assignments),
        started=tuple(job for job in has if job not in had),
        moved=tuple(job for job in has if had.get(job, has[job]) != has[job]),
        preempted=tuple(job for job in had if job not in has),
    )
    waiting = tuple(job for job in state.ids if job not in has and job not in had)
    return RoundDecision(plan, waiting, tuple(racks), **how)


def allocation_of(answer: Answer, decider: Any, state: RoundState, about: AboutRun) -> Allocation:
    """Put labels on what a policy has answered; jobs that it was not asked about have zeros."""
    solution, every = answer.solution, state.ids
    ids = about.workload.jobs.index.tolist()
    rows = [ids[job] for job in answer.jobs.tolist()]
    X = pd.DataFrame(
        np.asarray(solution.X, dtype=float),
        index=pd.Index(rows, tupleize_cols=False),
        columns=_options(answer, about),
    )
    shown = X.reindex(pd.Index(list(every), tupleize_cols=False), fill_value=0.0)
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
