"""States of simulations just before a scheduler decides, as `solve_round` is told them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import apportion as ap
from apportion.cluster import TIERS
from apportion.mechanism.configurations import InConfigurations
from apportion.mechanism.offers.leasing import LeaseScheduler
from apportion.mechanism.rounds import InRounds
from apportion.mechanism.run_to_completion import RunToCompletion
from apportion.sim.tiers.tier_shares import TierShares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Decision, Event

Running = dict[str, tuple[str, tuple[int, ...]]]


@dataclass
class Seen:
    """What `solve_round` is told of an instant, and who had what after it."""

    now_s: float
    ids: list[str]
    numbers: np.ndarray
    told: dict[str, Any]
    after: Running = field(default_factory=dict)
    resolved: bool = True
    exact: bool = True

    def given(self, cluster: ap.Cluster, table: pd.DataFrame, **more: Any) -> dict[str, Any]:
        """Return the arguments beside policy and throughputs."""
        jobs = table.assign(**self.told["columns"])
        return {"cluster": cluster, "jobs": jobs, **self.told["given"], **more}


class Watch:
    """Takes down instants in which a scheduler of some class decides.

    Parameters
    ----------
    workload, cluster
        Of the run.
    """

    def __init__(self, workload: Any, cluster: ap.Cluster) -> None:
        self.cluster, self.seen = cluster, list[Seen]()
        self.held_s: dict[tuple[int, str, int], float] = {}
        names = sorted(name for name, count in cluster.gpus.items() if count)
        self.names = names
        arrival_s = workload.jobs["arrival_s"]
        order = arrival_s.sort_values(kind="stable").index
        self.ids = [str(job) for job in order]
        self.workload = workload

    @contextmanager
    def on(self, kind: type[Any]) -> Iterator[Watch]:
        """Watch the decisions of schedulers of a class."""
        decide, watch = kind.decide, self

        def watched(scheduler: Any, event: Event) -> Decision | None:
            again = watch.seen and watch.seen[-1].now_s == event.now_s
            if not again:
                watch.seen.append(watch.before(scheduler, event))
            decision = decide(scheduler, event)
            watch.after(scheduler, watch.seen[-1], decision)
            return decision

        with patch.object(kind, "decide", watched):
            yield self

    def before(self, scheduler: Any, event: Event) -> Seen:
        """Take down what there is before a decision."""
        jobs = _jobs_of(scheduler)
        active, done = jobs.active, [] if event.ran is None else event.ran.done.tolist()
        ids = [self.ids[job] for job in active.tolist()]
        seen = Seen(event.now_s, ids, active.copy(), {"columns": {}, "given": {}})
        running = {self.ids[job]: self._where(held) for job, held in _held(scheduler, done).items()}
        seen.told["given"] = {"running": running}
        table = {
            "arrival_s": jobs.arrival_s[active],
            "elapsed_s": event.now_s - jobs.arrival_s[active],
            "total_steps": jobs.total[active],
            "steps_remaining": jobs.remaining[active].copy(),
            "isolated_elapsed_s": jobs.isolated_s[active].copy(),
        }
        frame = pd.DataFrame(jobs.held_s[active].copy(), index=ids, columns=self.names)
        seen.told["columns"] = {name: pd.Series(each, index=ids) for name, each in table.items()}
        seen.told["given"]["received"] = frame
        BEFORE.get(type(scheduler), lambda *_: None)(self, scheduler, seen, event)
        return seen

    def after(self, scheduler: Any, seen: Seen, decision: Decision | None) -> None:
        """Take down what there is after it."""
        if decision is not None:
            gangs = decision.gangs
            lines = zip(gangs.job.tolist(), gangs.devices, strict=True)
            seen.after = {self.ids[job]: self._where(held) for job, held in lines}
            seen.resolved &= decision.resolved
        else:
            seen.after = seen.after or dict(seen.told["given"]["running"])
        AFTER.get(type(scheduler), lambda *_: None)(self, scheduler, seen)

    def _where(self, held: tuple[int, list[int]]) -> tuple[str, tuple[int, ...]]:
        return self.names[held[0]], tuple(sorted(held[1]))

    def column(self, seen: Seen, name: str, values: Any) -> None:
        """Tell a column of the jobs table."""
        seen.told["columns"][name] = pd.Series(values, index=seen.ids)


def _jobs_of(scheduler: Any) -> JobTable:
    """Return the job table of a scheduler."""
    if isinstance(scheduler, LeaseScheduler):
        return scheduler._told
    return getattr(scheduler, "_jobs", None) or scheduler.jobs  # type: ignore[no-any-return]


def _held(scheduler: Any, done: list[int]) -> dict[int, tuple[int, list[int]]]:
    """Return type and devices by job."""
    if isinstance(scheduler, InRounds):
        rows, core = scheduler._core_rows, scheduler._core
        found = {}
        for row in np.flatnonzero(core.last_type >= 0).tolist():
            held = core.placer.held[int(core.ids[row])]
            for job in {int(rows.first[row]), int(rows.second[row])} - {-1}:
                found[job] = held
    elif isinstance(scheduler, LeaseScheduler):
        found = dict(scheduler._mechanism.placer.held)
    elif isinstance(scheduler, RunToCompletion):
        found = dict(scheduler.devices.held)
    else:
        found = dict(scheduler._devices.held)
    return {job: held for job, held in found.items() if job not in done}


def _rounds(watch: Watch, scheduler: Any, seen: Seen, event: Event) -> None:
    running_on = scheduler._sharing._running_on[seen.numbers].astype(int)
    if scheduler._core.kind.size > len(watch.names):
        running_on = np.where(running_on < 0, -1, running_on // len(TIERS))
    watch.column(seen, "running_on", [watch.names[k] if k >= 0 else "" for k in running_on])


def _after_rounds(watch: Watch, scheduler: Any, seen: Seen) -> None:
    """Tell what is owed: it is reckoned when shares are found anew."""
    core, rows = scheduler._core, scheduler._core_rows
    pairs = rows.second >= 0
    labels = [
        watch.ids[a] if b < 0 else (watch.ids[a], watch.ids[b])
        for a, b in zip(rows.first.tolist(), rows.second.tolist(), strict=True)
    ]
    columns: Any = watch.names
    if core.kind.size > len(watch.names):
        columns = pd.MultiIndex.from_product([watch.names, TIERS], names=["accelerator", "tier"])
    index = pd.Index(labels, tupleize_cols=False)
    here = [set(one if isinstance(one, tuple) else (one,)) <= set(seen.ids) for one in labels]
    owed = pd.DataFrame(core.owed.copy(), index=index, columns=columns)
    seen.told["given"]["owed"] = owed[here]
    if pairs.any() or scheduler._sharing.policy.space_sharing:
        served = pd.DataFrame(0.0, index=index, columns=watch.names)
        served[watch.names[0]] = core.served
        seen.told["given"]["received"] = served[here]


def _leases(watch: Watch, scheduler: Any, seen: Seen, event: Event) -> None:
    """Tell who waits for how long, whose lease is not over, and how long all have run."""
    records, held = scheduler._mechanism.jobs, seen.told["given"]["running"]
    ends_s = {job: time_s for time_s, kind, job in scheduler._ends.state()}
    here = [job in held for job in seen.ids]
    waited_s, pinned = np.zeros(len(here)), np.zeros(len(here), dtype=bool)
    for row, job in enumerate(seen.numbers.tolist()):
        if here[row]:
            pinned[row] = ends_s[job] > event.now_s
        elif job not in event.arrived:
            waited_s[row] = event.now_s - records.released_s[job]
    watch.column(seen, "waited_s", waited_s)
    watch.column(seen, "pinned", pinned)
    ran_s = records.run_s[seen.numbers].copy()
    if event.ran is not None:  # which is booked when it decides
        of = {job: row for row, job in enumerate(seen.numbers.tolist())}
        option = records.option(event.ran.gangs.job)
        for job, place, worked_s in zip(
            event.ran.gangs.job, option, event.ran.worked_s, strict=True
        ):
            if int(job) in of:
                ran_s[of[int(job)], place] += worked_s
    by_type = ran_s.reshape(len(here), -1, len(TIERS)).sum(axis=2)
    seen.told["given"]["received"] = pd.DataFrame(by_type, index=seen.ids, columns=watch.names)
    seen.exact = not scheduler.timers.state() or not scheduler._terms.timers.tuned


def _after_leases(watch: Watch, scheduler: Any, seen: Seen) -> None:
    """Tell what is owed, where shares were found anew."""
    takers = scheduler._mechanism._takers
    seen.resolved = True
    if isinstance(takers, TierShares):
        seen.resolved = takers._solved_s == seen.now_s
        columns = pd.MultiIndex.from_product([watch.names, TIERS], names=["accelerator", "tier"])
        owed = takers._owed[seen.numbers].copy()
        seen.told["given"]["owed"] = pd.DataFrame(owed, index=seen.ids, columns=columns)


def _configurations(watch: Watch, scheduler: Any, seen: Seen, event: Event) -> None:
    """Tell goodputs by option, how long jobs have held which, restarts, and who must stay."""
    options, ran = scheduler._options, event.ran
    if ran is not None:
        lines = zip(ran.gangs.job, ran.gangs.option, ran.gangs.gpus, ran.held_s, strict=True)
        for job, kind, gpus, held_s in lines:
            key = int(job), watch.names[kind], int(gpus)
            watch.held_s[key] = watch.held_s.get(key, 0.0) + float(held_s) * ran.times
    pairs = zip(options.kind.tolist(), options.gpus.tolist(), strict=True)
    columns = pd.MultiIndex.from_tuples(
        [(watch.names[kind], gpus) for kind, gpus in pairs], names=["accelerator", "gpus"]
    )
    goodput = scheduler._choice._trainers.goodputs(seen.numbers.tolist())
    seen.told["tensor"] = pd.DataFrame(goodput, index=seen.ids, columns=columns)
    rows = [
        [watch.held_s.get((job, *option), 0.0) for option in columns]
        for job in seen.numbers.tolist()
    ]
    seen.told["given"]["received"] = pd.DataFrame(rows, index=seen.ids, columns=columns)
    here = np.array([job in seen.told["given"]["running"] for job in seen.ids])
    late = scheduler.ready_s[seen.numbers] > event.now_s
    watch.column(seen, "pinned", here & late & scheduler._keep_paused)
    watch.column(seen, "restarts", scheduler.restarts[seen.numbers].copy())
    watch.column(seen, "scale_factor", scheduler._jobs.scale[seen.numbers])


BEFORE: dict[type[Any], Callable[..., None]] = {
    InConfigurations: _configurations,
    InRounds: _rounds,
    LeaseScheduler: _leases,
}
AFTER: dict[type[Any], Callable[..., None]] = {
    InRounds: _after_rounds,
    LeaseScheduler: _after_leases,
}


def drawn_workload(
    seed: int, cluster: ap.Cluster, jobs: int = 8, *, most_gpus: int = 4, hours: float = 1.0
) -> ap.Workload:
    """Draw jobs of models that networks know, of about as many rounds as are to be seen."""
    rng = np.random.default_rng(seed)
    names = sorted(cluster.gpus)
    models = rng.choice(["VGG11", "ResNet50", "BERT-large", "AlexNet"], jobs)
    gangs = rng.choice([1, 1, 2, 3, 4, 6, 8][: 2 + most_gpus // 2 + (most_gpus > 2)], jobs)
    gangs = np.minimum(gangs, most_gpus)
    index = pd.MultiIndex.from_arrays([models, gangs], names=["job_type", "scale_factor"])
    index = index.unique()
    speed = rng.integers(2, 40, (len(index), len(names))) / 4
    for row in range(len(index)):
        if len(names) > 1 and rng.random() < 0.2:
            speed[row, rng.integers(len(names))] = 0.0
    throughputs = pd.DataFrame(speed, index=index, columns=names)
    best = throughputs.max(axis=1).loc[list(zip(models, gangs, strict=True))].to_numpy()
    table = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.uniform(0, 1800 * hours, jobs)),
            "job_type": models,
            "scale_factor": gangs,
            "total_steps": best * rng.uniform(400, 3600 * hours, jobs),
            "weight": rng.choice([1.0, 2.0], jobs),
        },
        index=[f"job {number}" for number in rng.permutation(jobs)],
    )
    return ap.Workload(f"drawn {seed}", table, throughputs)


def drawn_pairs(workload: ap.Workload, seed: int) -> ap.PairThroughputs:
    """Draw what the job types of a workload make beside each other: mostly more than half."""
    rng = np.random.default_rng(seed)
    alone = workload.throughputs.to_numpy()
    part = rng.uniform(0.4, 0.95, (len(alone), *alone.shape))
    gangs = workload.throughputs.index.get_level_values(1).to_numpy()
    both = (alone[:, None] > 0) & (alone[None, :] > 0)
    both &= (gangs[:, None] == gangs[None, :])[:, :, None]
    own = part * alone[:, None, :] * both
    return ap.PairThroughputs(
        own, alone, workload.throughputs.index, tuple(workload.throughputs.columns)
    )
