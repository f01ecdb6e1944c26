"""`simulate_leases`: one lease-based scheduler, one workload, one cluster of racks."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from apportion.cluster import TIERS, Cluster
from apportion.errors import InputError, written
from apportion.mechanism.about import About
from apportion.mechanism.offers import LeaseMechanism, get_scheduler
from apportion.mechanism.offers.exact import TICK_S
from apportion.mechanism.offers.leasing import LeaseScheduler
from apportion.mechanism.offers.racks import machines_of
from apportion.sim.engine.fluid import Fluid
from apportion.sim.engine.loop import run
from apportion.sim.engine.speeds import TableSpeeds
from apportion.sim.engine.truth import Truth
from apportion.sim.given_order import by_arrival_and_id, of_types_given, present_types
from apportion.sim.leasing.log import IntervalLog, TimerLog
from apportion.sim.leasing.record import LeaseRecord
from apportion.sim.network import get_network
from apportion.sim.network.job_types import model_of
from apportion.sim.network.own_speeds import speeds_on
from apportion.sim.network.pace import check_models, least_slowdowns, network_beside, pace_of
from apportion.sim.phases.tables import link_tables
from apportion.sim.progress import Progress
from apportion.sim.run import Run
from apportion.sim.schedule import ScheduleLog
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

    from apportion.mechanism.offers import OfferScheduler, Takers
    from apportion.mechanism.scheduler import Ran
    from apportion.sim.engine.snapshot import Snapshots
    from apportion.sim.network import MemoizedNetwork, NetworkModel
    from apportion.sim.workload import Workload

__all__ = ["Deciding", "simulate_leases"]


class Deciding(NamedTuple):
    """Who decides who takes what, and who is told of all that ran.

    With `every_lease` each lease is an event: what is decided may change though nothing happens.
    """

    takers: Takers
    learns: Callable[[Ran], None] | None = None
    every_lease: bool = False


def simulate_leases(
    scheduler: OfferScheduler | str,
    workload: Workload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    network: str | NetworkModel = "table1",
    seed: int = 0,
    progress: Callable[[float, int], None] | None = None,
) -> Run:
    """Run a workload under a lease-based scheduler until every job is complete.

    A job makes progress at its throughput divided by 1 + overhead, the overhead being what the
    network model says of its model and of the shape of its gang. Leases end one by one.

    Parameters
    ----------
    scheduler
        A scheduler or its name, see `apportion.mechanism.offers.get_scheduler`.
    workload
        The jobs, and their throughputs without exposed communication.
    cluster
        Whole racks, each of one accelerator type, as `Cluster.of_racks` makes them.
    network
        How much communication is exposed: ``"table1"``, ``"alpha_beta"``, ``"none"`` or a model of
        your own, see `apportion.sim.network.get_network`.
    seed
        Seed of placements at random.
    progress
        Called with (fraction done, jobs done) a few times per second at most.

    Returns
    -------
    Run
        Its jobs table has the further columns ``compute_s`` (on whatever types the job had) and
        ``communication_s`` (exposed), and
        ``machine_s``, ``rack_s`` and ``network_s``, the time that the job held GPUs in each tier;
        its rounds table ``machine_gpus``, ``rack_gpus`` and ``network_gpus`` (GPU-seconds). A row
        of the latter may hold several events, up to one lease; numbers of jobs are means over it.
        An auto-tuned scheduler leaves ``tables["timers"]``: the delay timers over time.

    Raises
    ------
    InputError
        If a name is wrong, the cluster has racks that are not whole,
        a job does not fit the cluster, or the scheduler or the network does not know its model.
    """
    return run_leases(scheduler, workload, cluster, network=network, seed=seed, progress=progress)


@one_thread
def run_leases(
    scheduler: OfferScheduler | str,
    workload: Workload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    network: str | NetworkModel,
    seed: int,
    progress: Callable[[float, int], None] | None,
    every_lease: bool = False,
    takers: Callable[[Truth, Workload, NetworkModel], Deciding] | None = None,
    snapshots: Snapshots | None = None,
) -> Run:
    """Do what `simulate_leases` says.

    With `every_lease` each lease is an event. `takers` makes what decides who takes what, instead
    of the scheduler's order and rule, of the truth, the workload in order, and the network. The
    run goes on from `snapshots`, and leaves some.
    """
    started = time.perf_counter()
    scheduler, as_given = get_scheduler(scheduler), Cluster.of(cluster)
    cluster = present_types(as_given)
    given, workload = workload.jobs.index, by_arrival_and_id(workload)
    model = _network(network, scheduler, workload, cluster)
    truth, reporter = Truth(workload, cluster, tick_s=TICK_S), Progress(progress)
    decides = takers(truth, workload, model) if takers else Deciding(scheduler.candidates())
    mechanism = LeaseMechanism(
        scheduler,
        cluster,
        seed=seed,
        pace=pace_of(model),
        candidates=decides.takers,
        told=truth.told,
    )
    job_types = workload.jobs["job_type"].tolist()
    truth.alone_slowdown[:] = least_slowdowns(workload, mechanism.placer.placings)
    log = IntervalLog(cluster.accelerators, scheduler.lease_s)
    schedule = ScheduleLog(cluster, truth.jobs)
    timer_log = TimerLog(mechanism.timers) if scheduler.timers.tuned else None
    about = About(
        *(truth.told, workload.jobs.index.tolist(), cluster, mechanism.placer, model, seed)
    )
    leases = LeaseScheduler(
        *(mechanism, truth.told, _judged(scheduler, job_types)),
        noted=None if timer_log is None else timer_log.note,
        learns=decides.learns,
        every_lease=every_lease or decides.every_lease,
    )
    record = LeaseRecord(truth, about.layout, log, reporter, schedule, timer_log)
    speeds = speeds_on(model, TableSpeeds(truth), about)
    log.start(truth.next_arrival_s)
    run(truth, leases, Fluid(truth, speeds, tick_s=TICK_S), record, snapshots)
    log.close()
    leases.wake(float(truth.completion_s.max()))
    reporter.finish(truth)
    jobs = record.table(workload, cluster).loc[given]
    return Run(
        policy=scheduler.label,
        workload=workload.name,
        cluster=as_given,
        jobs=of_types_given(jobs, "_s", as_given, behind=len(TIERS) + 2),
        rounds=of_types_given(log.table(), "_busy", as_given, behind=len(TIERS)),
        settings={"scheduler": repr(scheduler), "network": model.name, "seed": seed},
        policy_seconds=leases.seconds,
        wall_seconds=time.perf_counter() - started,
        solves=leases.offers,
        tables=_tables(schedule, timer_log, workload)
        | link_tables(speeds, mechanism.placer, workload.jobs.index, given),
    )


def _network(
    network: str | NetworkModel, scheduler: OfferScheduler, workload: Workload, cluster: Cluster
) -> MemoizedNetwork:
    """Return the network on a cluster, once all is known to go together."""
    machines_of(cluster)  # or these are no whole racks
    model = get_network(network, cluster=cluster)
    model = network_beside(scheduler.placement, model) or model
    _check_restores(scheduler, workload)
    check_models(model, workload, cluster)
    return model


def _tables(
    log: ScheduleLog, timers: TimerLog | None, workload: Workload
) -> dict[str, pd.DataFrame]:
    """Return the schedule, and the timers over time if there are any that change."""
    schedule = {"schedule": log.table(workload.jobs.index)}
    return schedule if timers is None else {**schedule, "timers": timers.table()}


def _judged(scheduler: OfferScheduler, job_types: list[str]) -> list[str]:
    """Return job types as the scheduler's rule spells them, each checked."""
    known = scheduler.rule.job_types
    spelled = {job_type: job_type for job_type in job_types}
    for job_type in spelled:
        if known and job_type not in known:
            with suppress(InputError):
                spelled[job_type] = model_of(job_type, known)
        scheduler.rule.check(spelled[job_type])
    return [spelled[job_type] for job_type in job_types]


def _check_restores(scheduler: OfferScheduler, workload: Workload) -> None:
    """Refuse a restore that takes all of a lease: the job might never get anywhere."""
    scale_factor = workload.jobs["scale_factor"]
    if scale_factor.max() * scheduler.restore_s_per_gpu >= scheduler.lease_s:
        job = scale_factor.idxmax()
        raise InputError(
            f"restore_s_per_gpu is {scheduler.restore_s_per_gpu!r}: with {scale_factor.max()} GPUs "
            f"job {written(job)} would lose a whole lease of {scheduler.lease_s:g} s; valid: less "
            f"than {scheduler.lease_s / scale_factor.max():g}."
        )
