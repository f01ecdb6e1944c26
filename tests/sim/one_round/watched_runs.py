"""States of simulations just before a scheduler decides, as `solve_round` is told them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.mechanism.leases.scheduler import LeaseScheduler
from apportion.mechanism.rounds import InRounds
from apportion.sim.tiers.tier_shares import TierShares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apportion as ap
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Decision, Event

Running = dict[str, tuple[str, tuple[int, ...]]]


@dataclass
class Seen:
    """What `solve_round` is told of an instant, and who had what after it.

    `numbers` are those of the jobs in the run; `comparable` tells whether all that the scheduler
    went by is among what is told.
    """

    now_s: float
    ids: list[str]
    numbers: Any
    columns: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    after: Running = field(default_factory=dict)
    comparable: bool = True

    def column(self, name: str, values: Any) -> None:
        """Tell a column of the jobs table."""
        self.columns[name] = pd.Series(values, index=self.ids)


class Watch:
    """Takes down the instants of a run in which its scheduler decides."""

    def __init__(self, workload: Any, cluster: ap.Cluster) -> None:
        self.seen: list[Seen] = []
        self.names = sorted(name for name, count in cluster.gpus.items() if count)
        order = workload.jobs["arrival_s"].sort_values(kind="stable").index
        self.ids = [str(job) for job in order]

    @contextmanager
    def on(self, kind: type[Any]) -> Iterator[Watch]:
        """Watch the decisions of schedulers of a class."""
        decide, watch = kind.decide, self

        def watched(scheduler: Any, event: Event) -> Decision | None:
            if not watch.seen or watch.seen[-1].now_s != event.now_s:
                watch.seen.append(watch.before(scheduler, event))
            decision: Decision | None = decide(scheduler, event)
            watch.after(scheduler, watch.seen[-1], decision)
            return decision

        with patch.object(kind, "decide", watched):
            yield self

    def before(self, scheduler: Any, event: Event) -> Seen:
        """Take down what there is before a decision."""
        jobs = _jobs_of(scheduler)
        active, done = jobs.active, [] if event.ran is None else event.ran.done.tolist()
        seen = Seen(event.now_s, [self.ids[job] for job in active.tolist()], active.copy())
        held = {job: held for job, held in _held(scheduler).items() if job not in done}
        seen.given["running"] = {self.ids[job]: self.where(each) for job, each in held.items()}
        seen.column("arrival_s", jobs.arrival_s[active])
        seen.column("elapsed_s", event.now_s - jobs.arrival_s[active])
        seen.column("total_steps", jobs.total[active])
        seen.column("steps_remaining", jobs.remaining[active].copy())
        seen.column("isolated_elapsed_s", jobs.isolated_s[active].copy())
        received = pd.DataFrame(jobs.held_s[active].copy(), index=seen.ids, columns=self.names)
        seen.given["received"] = received
        if jobs.entity_use is not None:
            seen.column("entity_used_s", jobs.entity_use.now(event.now_s))
        if type(scheduler) in _BEFORE:
            _BEFORE[type(scheduler)](self, scheduler, seen, event)
        return seen

    def after(self, scheduler: Any, seen: Seen, decision: Decision | None) -> None:
        """Take down what there is after it."""
        if decision is None:
            seen.after = seen.after or dict(seen.given["running"])
        else:
            lines = zip(decision.gangs.job.tolist(), decision.gangs.devices, strict=True)
            seen.after = {self.ids[job]: self.where(held) for job, held in lines}
        if type(scheduler) in _AFTER:
            _AFTER[type(scheduler)](self, scheduler, seen, decision)

    def where(self, held: tuple[int, list[int]]) -> tuple[str, tuple[int, ...]]:
        """Return the accelerator and the devices of a gang."""
        return self.names[held[0]], tuple(sorted(held[1]))


def _jobs_of(scheduler: Any) -> JobTable:
    """Return the job table of a scheduler."""
    table: JobTable
    if isinstance(scheduler, LeaseScheduler):
        table = scheduler._jobs.table
    else:
        table = getattr(scheduler, "_jobs", None) or scheduler.jobs
    return table


def _held(scheduler: Any) -> dict[int, tuple[int, list[int]]]:
    """Return type and devices by job."""
    if isinstance(scheduler, InRounds):
        return dict(scheduler._planner.where)
    if isinstance(scheduler, LeaseScheduler):
        return dict(scheduler._leases.held)
    devices: Any = getattr(scheduler, "_devices", None) or scheduler.devices
    return dict(devices.held)


def _rounds(watch: Watch, scheduler: Any, seen: Seen, event: Event) -> None:
    place = scheduler._sharing._running_on[seen.numbers].astype(int)
    if scheduler._planner.table.tiers > 1:
        place = np.where(place < 0, -1, place // len(TIERS))
    seen.column("running_on", [watch.names[kind] if kind >= 0 else "" for kind in place])


def _after_rounds(watch: Watch, scheduler: Any, seen: Seen, decision: Decision | None) -> None:
    """Tell what is owed, which is reckoned when shares are found anew, and time alone."""
    seen.comparable = decision is not None and decision.resolved
    table = scheduler._planner.table
    index = pd.Index([watch.ids[job] for job in table.first.tolist()])
    here = index.isin(seen.ids)
    columns: Any = watch.names
    if table.tiers > 1:
        columns = pd.MultiIndex.from_product([watch.names, TIERS], names=["accelerator", "tier"])
    seen.given["owed"] = pd.DataFrame(table.owed_s.copy(), index=index, columns=columns)[here]


def _leases(watch: Watch, scheduler: Any, seen: Seen, event: Event) -> None:
    """Tell who waits for how long, whose lease is not over, and for how long all have run."""
    records, running = scheduler._jobs, seen.given["running"]
    ends_s = {job: at_s for job, (at_s, _) in scheduler._leases._back.items()}
    waited_s, pinned = np.zeros(len(seen.ids)), np.zeros(len(seen.ids), dtype=bool)
    for row, job in enumerate(seen.numbers.tolist()):
        if seen.ids[row] in running:
            pinned[row] = ends_s[job] > event.now_s
        elif job not in event.arrived:
            waited_s[row] = event.now_s - records.released_s[job]
    seen.column("waited_s", waited_s)
    seen.column("pinned", pinned)
    ran_s = records.run_s[seen.numbers].copy()
    if event.ran is not None:  # it is booked when it decides
        row_of = {job: row for row, job in enumerate(seen.numbers.tolist())}
        jobs, option = event.ran.gangs.job.tolist(), records.option[event.ran.gangs.job]
        for job, place, worked_s in zip(jobs, option, event.ran.worked_s, strict=True):
            if job in row_of:
                ran_s[row_of[job], place] += worked_s
    by_type = ran_s.reshape(len(seen.ids), -1, len(TIERS)).sum(axis=2)
    seen.given["received"] = pd.DataFrame(by_type, index=seen.ids, columns=watch.names)


def _after_leases(watch: Watch, scheduler: Any, seen: Seen, decision: Decision | None) -> None:
    """Tell what is owed, where shares were found anew."""
    queue = scheduler._queue
    if isinstance(queue, TierShares):
        seen.comparable = queue._solved_s == seen.now_s
        columns = pd.MultiIndex.from_product([watch.names, TIERS], names=["accelerator", "tier"])
        owed = queue._owed[seen.numbers].copy()
        seen.given["owed"] = pd.DataFrame(owed, index=seen.ids, columns=columns)


_BEFORE: dict[type[Any], Callable[..., None]] = {
    InRounds: _rounds,
    LeaseScheduler: _leases,
}
_AFTER: dict[type[Any], Callable[..., None]] = {
    InRounds: _after_rounds,
    LeaseScheduler: _after_leases,
}
