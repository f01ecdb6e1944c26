"""Elastic jobs: the parts of a simulation, put together and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.errors import InputError
from apportion.mechanism.about import About
from apportion.mechanism.configurations import BesideRequests, Checkpoints, InConfigurations
from apportion.mechanism.devices import Devices
from apportion.mechanism.elastic_deciders import ElasticRule
from apportion.policies import Policy
from apportion.policies.whole.sia import Sia
from apportion.sim.elastic.as_progress import as_progress
from apportion.sim.elastic.beside_requests import FluidBesideRequests, Speedups
from apportion.sim.elastic.choices import choice_of
from apportion.sim.elastic.parts import elastic_parts, placed
from apportion.sim.elastic.record import PauseRecord
from apportion.sim.elastic.speeds import ElasticSpeeds, ElasticSteps, elastic_speeds
from apportion.sim.elastic.with_requests import check_some_train, serving_side, serving_tables
from apportion.sim.engine import Fluid, Truth
from apportion.sim.engine import run as run_jobs
from apportion.sim.given_order import by_arrival_and_id, of_types_given, present_types
from apportion.sim.inference.serving import Serving
from apportion.sim.log import RoundLog
from apportion.sim.metrics import jobs_table
from apportion.sim.phases.tables import link_tables
from apportion.sim.run import Run
from apportion.sim.schedule import ScheduleLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.configurations import GangOptions, JobRestarts, ServingSide
    from apportion.mechanism.job_table import JobTable
    from apportion.sim.deciders import Decider
    from apportion.sim.elastic.choice import PolicyChoice
    from apportion.sim.elastic.parts import ElasticParts, Placed
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.engine.snapshot import Snapshots
    from apportion.sim.progress import Progress
    from apportion.sim.workload import Workload

    Ints = NDArray[np.intp]

__all__ = ["run_configurations"]


def run_configurations(
    decider: Decider,
    workload: ElasticWorkload,
    cluster: Cluster,
    settings: dict[str, Any],
    snapshots: Snapshots | None,
    reporter: Progress,
) -> Run:
    """Run elastic jobs under a policy that decides in whole numbers, or a rule of elastic jobs.

    `settings` are those of ``"configurations"`` as `apportion.sim.settings.settings_for` returns
    them. The run leaves its state in `snapshots`, and tells `reporter` how far it is.

    Raises
    ------
    InputError
        For a policy that shares out time, a job that no option holds, which is named, and more
        GPUs that serve requests than there are.
    """
    policy = _whole(decider)
    _settle(settings, policy)
    present = present_types(cluster)
    ordered = by_arrival_and_id(as_progress(workload, present))
    truth, devices = Truth(ordered, present), Devices.of(present)
    jobs = elastic_parts(policy, settings, workload, ordered, truth, devices)
    choice = choice_of(policy, truth.told, jobs.options, jobs.trainers)
    where = placed(settings, jobs, present, devices)
    side = _serving(settings, truth, devices, jobs, choice)
    about = (truth.told, devices, jobs.options, choice, jobs.restarts)
    scheduler = _scheduler(decider, settings, about, where, side)
    alone = ElasticSpeeds(
        *(truth.told, devices.layout, jobs.trainers, jobs.profiles, jobs.relative),
        decisions=lambda: scheduler.intervals,
    )
    index, given = ordered.jobs.index, workload.jobs.index
    run_about = About(
        *(truth.told, index.tolist(), present, where.placer, where.network, settings["seed"]),
        models=where.types,
        steps=lambda free, network: ElasticSteps(free, network.law),
    )
    speeds = elastic_speeds(alone, where.network, run_about)
    log, schedule = RoundLog(present.accelerators), ScheduleLog(present, len(ordered))
    record = PauseRecord(truth, log, reporter, schedule)
    fluid = Fluid(truth, speeds)
    runtime = fluid if side is None else FluidBesideRequests(fluid, side.feed)
    run_jobs(truth, scheduler, runtime, record, snapshots)
    reporter.finish(truth)
    tables = {"schedule": schedule.table(index)}
    if side is not None and isinstance(scheduler, BesideRequests):
        tables |= serving_tables(
            settings["serving"], side, scheduler, tables["schedule"], present.accelerators, index
        )
    return Run(
        policy=decider.label,
        workload=workload.name,
        cluster=cluster,
        jobs=of_types_given(
            _jobs(truth, ordered, record, present, scheduler.restarts).loc[given],
            *("_s", cluster),
            behind=3,
        ),
        rounds=of_types_given(log.table(), "_busy", cluster),
        settings=settings,
        wall_seconds=0.0,
        **choice.asked.figures(),
        tables=tables | link_tables(speeds, where.placer, index, given),
    )


def _settle(settings: dict[str, Any], policy: Policy | ElasticRule) -> None:
    """Make one value of what is said of requests, and choose the sizes of gangs if nobody does."""
    if settings["serving"] is not None:
        settings["serving"] = Serving.of(settings["serving"])
    if settings["gang_sizes"] is None:  # requests leave few machines whole
        whole = isinstance(policy, Sia) and settings["serving"] is None
        settings["gang_sizes"] = "whole_nodes" if whole else "every"


def _serving(
    settings: Mapping[str, Any],
    truth: Truth,
    devices: Devices,
    jobs: ElasticParts,
    choice: PolicyChoice,
) -> ServingSide | None:
    """Return what serves requests beside the jobs, if there are any."""
    if settings["serving"] is None:
        return None
    every_s = settings["checkpoint_interval_s"]
    saves = None if every_s is None else Checkpoints(truth.jobs, every_s)
    worth = Speedups(jobs.trainers, choice, jobs.relative)
    side = serving_side(settings["serving"], devices, worth, settings["seed"], saves)
    check_some_train(side, devices, jobs, truth.ids)
    return side


def _scheduler(
    decider: Decider,
    settings: Mapping[str, Any],
    about: tuple[JobTable, Devices, GangOptions, PolicyChoice, JobRestarts],
    where: Placed,
    side: ServingSide | None,
) -> InConfigurations:
    """Return the scheduler of jobs alone, or that of jobs beside requests."""
    how = {
        "name": f"Policy {decider.label!r}",
        "interval_seconds": settings["interval_seconds"],
        "growth": settings["growth"],
        "keep_paused": settings["keep_paused"],
        "whole_nodes": settings["gang_sizes"] == "whole_nodes",
        "by_links": where.by_links,
    }
    if side is None:
        return InConfigurations(*about, **how)
    return BesideRequests(*about, serving=side, **how)


def _jobs(
    truth: Truth, ordered: Workload, record: PauseRecord, cluster: Cluster, restarts: Ints
) -> pd.DataFrame:
    """Return the jobs table, with what changes have cost."""
    return jobs_table(truth, ordered, cluster).assign(
        restarts=restarts,
        paused_s=record.paused_s,
        paused_gpu_seconds=record.paused_gpu_s,
    )


def _whole(decider: Decider) -> Policy | ElasticRule:
    """Return a policy or a rule for one, and refuse policies that share out time."""
    if isinstance(decider, ElasticRule) or (isinstance(decider, Policy) and decider.integral):
        return decider
    raise InputError(
        f"{decider.label!r} shares out time; elastic jobs need a policy that decides in whole "
        f"numbers, such as 'sia', 'pollux', 'deepboot' or 'optimus', or a rule of them."
    )
