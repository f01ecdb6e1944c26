"""Elastic jobs: the parts of a simulation, put together and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.configurations import (
    BesideRequests,
    ByLinks,
    Checkpoints,
    GangOptions,
    InConfigurations,
    JobRestarts,
)
from apportion.mechanism.devices import Devices
from apportion.mechanism.elastic_deciders import ElasticRule
from apportion.mechanism.placement import Placer
from apportion.policies import Policy
from apportion.policies.whole.sia import Sia
from apportion.sim.elastic.as_progress import as_progress
from apportion.sim.elastic.beside_requests import FluidBesideRequests, Speedups
from apportion.sim.elastic.choices import choice_of
from apportion.sim.elastic.on_links import types_on_links
from apportion.sim.elastic.record import PauseRecord
from apportion.sim.elastic.rigid import WithRigid, options_for, rigid_jobs
from apportion.sim.elastic.speeds import ElasticSpeeds, elastic_speeds
from apportion.sim.elastic.true_progress import TrueProgress
from apportion.sim.elastic.with_requests import serving_side, serving_tables
from apportion.sim.engine import Fluid, Truth
from apportion.sim.engine import run as run_jobs
from apportion.sim.given_order import by_arrival_and_id, of_types_given, present_types
from apportion.sim.inference.serving import Serving
from apportion.sim.log import RoundLog
from apportion.sim.metrics import jobs_table
from apportion.sim.network import get_network, on_topology
from apportion.sim.network.pace import pace_of
from apportion.sim.phases.tables import link_tables
from apportion.sim.run import Run
from apportion.sim.schedule import ScheduleLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.sim.deciders import Decider
    from apportion.sim.elastic.on_links import ElasticTypes
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.engine.snapshot import Snapshots
    from apportion.sim.network import MemoizedNetwork
    from apportion.sim.progress import Progress
    from apportion.sim.workload import Workload

__all__ = ["RESCALE_S", "RESTART_S", "run_configurations"]

RESTART_S, RESCALE_S = 30.0, 3.0
"""Seconds of a restart, and for workers to form another ring, where nobody says otherwise."""


def run_configurations(
    decider: Decider,
    workload: ElasticWorkload,
    cluster: Cluster,
    settings: dict[str, Any],
    snapshots: Snapshots | None,
    reporter: Progress,
) -> Run:
    """Run elastic jobs under a policy that decides in whole numbers.

    Parameters
    ----------
    decider
        Chooses a type and a number of GPUs for every job.
    workload, cluster
        Jobs, and where they run.
    settings
        Those of ``"configurations"`` as `apportion.sim.settings.settings_for` returns them.
    snapshots
        Where the run leaves its state.
    reporter
        Is told of how far the run is.

    Raises
    ------
    InputError
        For a policy that shares out time, a job that no option holds, which is named, and more
        GPUs that serve requests than there are.
    """
    policy = _whole(decider)
    settings["serving"] = None if settings["serving"] is None else Serving.of(settings["serving"])
    serving: Serving | None = settings["serving"]
    if settings["gang_sizes"] is None:  # requests leave few machines whole
        whole = isinstance(decider, Sia) and serving is None
        settings["gang_sizes"] = "whole_nodes" if whole else "every"
    present = present_types(cluster)
    ordered = by_arrival_and_id(as_progress(workload, present))
    truth, devices = Truth(ordered, present), Devices.of(present)
    jobs = _elastic(policy, settings, workload, ordered, truth, devices)
    _check_options(ordered, jobs.trainers)
    choice = choice_of(policy, truth.told, jobs.options, jobs.trainers)
    how = _how(decider, settings)
    placed = _placed(settings, jobs, present, devices)
    placer, how["by_links"] = placed.placer, placed.by_links
    about = (truth.told, devices, jobs.options, choice, jobs.restarts)
    scheduler: InConfigurations = InConfigurations(*about, **how)
    side = None
    if serving is not None:
        worth = Speedups(jobs.trainers, choice, jobs.relative)
        every_s = settings["checkpoint_interval_s"]
        saves = None if every_s is None else Checkpoints(len(ordered), every_s)
        side = serving_side(serving, devices, worth, settings["seed"], saves)
        scheduler = BesideRequests(*about, serving=side, **how)
    alone = ElasticSpeeds(
        *(truth.told, devices, jobs.trainers, jobs.profiles, jobs.relative),
        scheduler=scheduler,
    )
    speeds = elastic_speeds(alone, placed.network, devices, placed.types)
    log, schedule = RoundLog(present.accelerators), ScheduleLog(present, len(ordered))
    record = PauseRecord(truth, log, reporter, schedule, placer, scheduler)
    fluid = Fluid(truth, speeds)
    runtime = fluid if side is None else FluidBesideRequests(fluid, side.feed)
    run_jobs(truth, scheduler, runtime, record, snapshots)
    reporter.finish(truth)
    index = ordered.jobs.index
    tables = {"schedule": schedule.table(index)}
    tables |= link_tables(speeds, placer, index, workload.jobs.index)
    if serving is not None and side is not None and isinstance(scheduler, BesideRequests):
        tables |= serving_tables(
            *(serving, side, scheduler, tables["schedule"]),
            *(present.accelerators, index),
        )
    table = jobs_table(truth, ordered, present).assign(
        restarts=scheduler.restarts,
        paused_s=record.paused_s,
        paused_gpu_seconds=record.paused_gpu_s,
    )
    return Run(
        policy=decider.label,
        workload=workload.name,
        cluster=cluster,
        jobs=of_types_given(table.loc[workload.jobs.index], "_s", cluster, behind=3),
        rounds=of_types_given(log.table(), "_busy", cluster),
        settings=settings,
        policy_seconds=choice.policy_seconds,
        wall_seconds=0.0,
        solves=choice.solves,
        tables=tables,
    )


class _Elastic(NamedTuple):
    """What is known of elastic jobs: to themselves, to the scheduler, and as it is."""

    trainers: WithRigid
    options: GangOptions
    restarts: JobRestarts
    profiles: TrueProgress
    relative: NDArray[np.float64]


def _elastic(
    decider: Policy | ElasticRule,
    settings: Mapping[str, Any],
    workload: ElasticWorkload,
    ordered: Workload,
    truth: Truth,
    devices: Devices,
) -> _Elastic:
    rigid = rigid_jobs(decider, workload, ordered.jobs.index)
    options, shared = options_for(devices.pools, settings["gang_sizes"], rigid)
    relative = np.array([workload.relative_speed.get(n, 1.0) for n in devices.accelerators])
    names = workload.jobs["application"].loc[ordered.jobs.index].tolist()
    applications, profiles = [workload.applications[name] for name in names], TrueProgress()
    trainers = WithRigid(
        *(truth.told, applications, profiles, options, relative[options.kind]),
        fitted=settings["goodputs"] == "fitted",
        rigid=rigid,
        shared=shared,
    )
    return _Elastic(trainers, options, _restarts(settings, workload, names), profiles, relative)


class _Placed(NamedTuple):
    """Where gangs lie: on which network, what they send, and who compares links."""

    placer: Placer
    network: MemoizedNetwork | None
    types: ElasticTypes | None
    by_links: ByLinks | None


def _placed(
    settings: dict[str, Any], jobs: _Elastic, cluster: Cluster, devices: Devices
) -> _Placed:
    """Return where gangs lie, and write down the name of the network."""
    given = on_topology(settings["network"], settings["topology"])
    placement = settings["placement"]
    network = None if given is None else get_network(given, cluster=cluster)
    network, types = types_on_links(
        *(network, placement, jobs.trainers, jobs.profiles, jobs.relative, devices),
        beside_requests=settings["serving"] is not None,
    )
    settings["network"] = None if network is None else network.name
    if placement == "packed" or network is None or types is None:
        return _Placed(Placer(devices), network, types, None)
    placer = Placer(devices, placement, settings["seed"], pace=pace_of(network))
    return _Placed(placer, network, types, ByLinks(placer, types.foreseen))


def _how(decider: Decider, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the scheduler."""
    return {
        "name": f"Policy {decider.label!r}",
        "interval_seconds": settings["interval_seconds"],
        "growth": settings["growth"],
        "keep_paused": settings["keep_paused"],
        "whole_nodes": settings["gang_sizes"] == "whole_nodes",
    }


def _restarts(
    settings: Mapping[str, Any], workload: ElasticWorkload, names: list[str]
) -> JobRestarts:
    """Return what restarts cost: by the settings, else by the workload, else as everywhere."""
    seconds = np.array([workload.restart_s.get(name, (RESTART_S, RESCALE_S)) for name in names])
    for place, name in enumerate(("restart_seconds", "rescale_seconds")):
        if settings[name] is not None:
            seconds[:, place] = settings[name]
    believed_s = seconds[:, 0]
    if settings["reallocation_seconds"] is not None:
        believed_s = np.full(len(names), settings["reallocation_seconds"])
    return JobRestarts(settings["gang_restart"], seconds[:, 0], seconds[:, 1], believed_s)


def _whole(decider: Decider) -> Policy | ElasticRule:
    """Return a policy or a rule for one, and refuse policies that share out time."""
    if isinstance(decider, ElasticRule) or (isinstance(decider, Policy) and decider.integral):
        return decider
    raise InputError(
        f"{decider.label!r} shares out time; elastic jobs need a policy that decides in whole "
        f"numbers, such as 'sia', 'pollux', 'deepboot' or 'optimus', or a rule of them."
    )


def _check_options(workload: Workload, trainers: WithRigid) -> None:
    """Refuse jobs that can run with no number of GPUs."""
    for place, job in enumerate(workload.jobs.index):
        if not trainers.goodputs([place]).any():
            raise InputError(
                f"Job {written(job)} can train with none of the gangs of the cluster: its least "
                f"batch per GPU is too large for all of them."
            )
