"""Policies in rounds or exactly, and queues: the parts of a simulation, put together and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.about import About
from apportion.mechanism.exactly import Exactly
from apportion.mechanism.placement import Placer
from apportion.mechanism.rounds import InRounds
from apportion.mechanism_settings import overheads_of
from apportion.policies import Policy
from apportion.sim.chosen_beliefs import chosen_beliefs
from apportion.sim.engine import Fluid, RunRecord, TableSpeeds, Truth
from apportion.sim.engine import run as run_jobs
from apportion.sim.given_order import by_arrival_and_id, of_types_given, present_types
from apportion.sim.log import RoundLog
from apportion.sim.metrics import jobs_table
from apportion.sim.network import get_network, on_topology
from apportion.sim.network.own_speeds import speeds_on
from apportion.sim.network.pace import (
    check_models,
    least_slowdowns,
    network_beside,
    pace_of,
    placings_of,
)
from apportion.sim.phases.tables import link_tables
from apportion.sim.resolve import Resolver, Solves
from apportion.sim.run import Run
from apportion.sim.schedule import ScheduleLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.own import OwnScheduler
    from apportion.mechanism.queue import QueueScheduler
    from apportion.mechanism.scheduler import Scheduler
    from apportion.sim.beliefs import Beliefs
    from apportion.sim.engine.snapshot import Snapshots
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network import MemoizedNetwork
    from apportion.sim.progress import Progress
    from apportion.sim.workload import Workload

__all__ = ["run_on_devices"]


def run_on_devices(
    decider: Policy | QueueScheduler | OwnScheduler,
    workload: Workload,
    cluster: Cluster,
    settings: dict[str, Any],
    beliefs: Beliefs | None,
    snapshots: Snapshots | None,
    reporter: Progress,
) -> Run:
    """Run a policy in rounds or exactly, or a queue.

    It decides over jobs and types in one order, whatever the order in which they are given.

    Parameters
    ----------
    decider
        Who decides.
    workload, cluster
        Jobs, and where they run.
    settings
        As `apportion.sim.settings.settings_for` returns them.
    beliefs
        What is told of speeds, if it is not among the settings.
    snapshots
        Where the run leaves its state.
    reporter
        Is told of how far the run is.
    """
    ordered, present = by_arrival_and_id(workload), present_types(cluster)
    truth = Truth(ordered, present, placement_sensitive=settings.get("placement_sensitive", False))
    log = RoundLog(present.accelerators)
    schedule: ScheduleLog | None = None
    about: About | None = None
    speeds: Speeds = TableSpeeds(truth)
    if settings["mechanism"] != "exact":
        network = _network(settings, present)
        pace = None if network is None else pace_of(network)
        devices = Placer(present, settings["placement"], settings["seed"], pace=pace)
        schedule = ScheduleLog(present, len(ordered))
        about = About(
            *(truth.told, ordered.jobs.index.tolist(), present, devices, network, settings["seed"])
        )
        speeds = TableSpeeds(truth, about.layout)
        if network is not None:
            check_models(network, ordered, present)
            truth.alone_slowdown[:] = least_slowdowns(ordered, placings_of(present, network))
            speeds = speeds_on(network, speeds, about)
            settings["network"] = network.name
    resolver = None
    if isinstance(decider, Policy):
        _check_pairs(decider, workload)
        believed = chosen_beliefs(beliefs, settings).start(truth, ordered, present)
        truth.told.speed = believed.speed
        times = settings["resolve_seconds"], settings["resolve_every"]
        late_s = _late_s(settings, truth.told.job_type)
        resolver = Resolver(decider, *times, truth.told, believed, late_s=late_s)
    scheduler = _scheduler(decider, settings, truth, about, resolver)
    record = RunRecord(truth, log, reporter, schedule)
    run_jobs(truth, scheduler, Fluid(truth, speeds), record, snapshots)
    reporter.finish(truth)
    jobs = jobs_table(truth, ordered, present).loc[workload.jobs.index]
    return Run(
        policy=decider.label,
        workload=workload.name,
        cluster=cluster,
        jobs=of_types_given(jobs, "_s", cluster),
        rounds=of_types_given(log.table(), "_busy", cluster),
        settings=settings,
        wall_seconds=0.0,
        **(Solves(decider.label) if resolver is None else resolver.asked).figures(),
        tables=_tables(schedule, speeds, about, ordered, workload),
    )


def _tables(
    schedule: ScheduleLog | None,
    speeds: Speeds,
    about: About | None,
    ordered: Workload,
    given: Workload,
) -> dict[str, pd.DataFrame]:
    """Return the schedule, and what is to be told of links."""
    if schedule is None or about is None:
        return {}
    index = ordered.jobs.index
    of_links = link_tables(speeds, about.devices, index, given.jobs.index)
    return {"schedule": schedule.table(index), **of_links}


def _lost_s(settings: Mapping[str, Any], job_types: Sequence[str]) -> NDArray[np.float64]:
    """Return what each job loses at a start, seconds, shape (jobs,)."""
    return np.array(overheads_of(settings["preemption_overhead_seconds"], job_types), dtype=float)


def _late_s(settings: Mapping[str, Any], job_types: Sequence[str]) -> float:
    """Return what a job may lose beside its shares in rounds: the rest of one, and two starts."""
    if settings["mechanism"] == "exact":
        return 0.0
    return float(settings["round_seconds"] + 2 * _lost_s(settings, job_types).max(initial=0.0))


def _check_pairs(policy: Policy, workload: Workload) -> None:
    """Refuse space sharing of jobs of which nobody knows how fast they are in pairs."""
    if policy.space_sharing and workload.pairs is None:
        raise InputError(
            f"Policy {policy.label!r} lets jobs share GPUs, but the workload {workload.name!r} has "
            f"no pair throughputs; read it with a Gavel oracle as throughputs, or set "
            f"Workload.pairs."
        )


def _network(settings: Mapping[str, Any], cluster: Cluster) -> MemoizedNetwork | None:
    """Return the network that slows gangs down, if one counts."""
    network = on_topology(settings["network"], settings["topology"])
    known = None if network is None else get_network(network, cluster=cluster)
    return network_beside(settings["placement"], known)


def _scheduler(
    decider: Policy | QueueScheduler | OwnScheduler,
    settings: Mapping[str, Any],
    truth: Truth,
    about: About | None,
    resolver: Resolver | None,
) -> Scheduler:
    """Return who decides by the mechanism of the settings."""
    if not isinstance(decider, Policy) and about is not None:
        return decider.make(about, _lost_s(settings, truth.told.job_type))
    if resolver is None:
        raise InputError(f"{written(decider)} is neither a policy nor a scheduler.")
    name = f"Policy {decider.label!r}"
    if about is None:
        return Exactly(truth.told, resolver, name)
    return _in_rounds(settings, about, resolver, name)


def _in_rounds(
    settings: Mapping[str, Any], about: About, resolver: Resolver, name: str
) -> InRounds:
    """Return the scheduler of rounds."""
    return InRounds(
        *(about.jobs, about.devices, resolver, name),
        round_seconds=settings["round_seconds"],
        lost_s=_lost_s(settings, about.jobs.job_type),
        carry_over=settings["carry_over"],
        work_conserving="leaves_gpus_idle" not in resolver.policy.traits,
        in_turn="meets_deadlines" in resolver.policy.traits,
        leases=settings["leases"],
    )
