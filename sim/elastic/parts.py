"""What a run of elastic jobs is made of, put together from the settings of `Configurations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.configurations import ByLinks, GangOptions, JobRestarts
from apportion.mechanism.placement import Placer
from apportion.sim.elastic.on_links import types_on_links
from apportion.sim.elastic.rigid import WithRigid, options_for, rigid_jobs
from apportion.sim.elastic.true_progress import TrueProgress
from apportion.sim.network import get_network, on_topology
from apportion.sim.network.pace import pace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.devices import Devices
    from apportion.mechanism.elastic_deciders import ElasticRule
    from apportion.policies import Policy
    from apportion.sim.elastic.on_links import ElasticTypes
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.engine import Truth
    from apportion.sim.network import MemoizedNetwork
    from apportion.sim.workload import Workload

__all__ = ["RESCALE_S", "RESTART_S", "ElasticParts", "Placed", "elastic_parts", "placed"]

RESTART_S, RESCALE_S = 30.0, 3.0
"""Seconds of a restart, and for workers to form another ring, where nobody says otherwise."""


class ElasticParts(NamedTuple):
    """What is known of elastic jobs: to themselves, to the scheduler, and as it is."""

    trainers: WithRigid
    options: GangOptions
    restarts: JobRestarts
    profiles: TrueProgress
    relative: NDArray[np.float64]


def elastic_parts(
    decider: Policy | ElasticRule,
    settings: Mapping[str, Any],
    workload: ElasticWorkload,
    ordered: Workload,
    truth: Truth,
    devices: Devices,
) -> ElasticParts:
    """Return what is known of the jobs of a workload.

    Parameters
    ----------
    decider
        Some rules know rigid jobs only.
    settings
        Those of `Configurations`.
    workload, ordered
        Jobs as they are given, and by arrival.
    truth, devices
        Progress of the jobs, and the devices of the cluster.

    Raises
    ------
    InputError
        For a job that no option holds; it is named.
    """
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
    _check_options(ordered, trainers)
    return ElasticParts(trainers, options, _restarts(settings, workload, names), profiles, relative)


def _check_options(workload: Workload, trainers: WithRigid) -> None:
    """Refuse jobs that can run with no number of GPUs."""
    for place, job in enumerate(workload.jobs.index):
        if not trainers.goodputs([place]).any():
            raise InputError(
                f"Job {written(job)} can train with none of the gangs of the cluster: its least "
                f"batch per GPU is too large for all of them."
            )


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


class Placed(NamedTuple):
    """Where gangs lie: on which network, what they send, and who compares links."""

    placer: Placer
    network: MemoizedNetwork | None
    types: ElasticTypes | None
    by_links: ByLinks | None


def placed(
    settings: dict[str, Any], jobs: ElasticParts, cluster: Cluster, devices: Devices
) -> Placed:
    """Return where gangs lie, and write down the name of the network."""
    given = on_topology(settings["network"], settings["topology"])
    placement = settings["placement"]
    network = None if given is None else get_network(given, cluster=cluster)
    network, types = types_on_links(
        *(network, placement, jobs.trainers, jobs.profiles, jobs.relative),
        beside_requests=settings["serving"] is not None,
    )
    settings["network"] = None if network is None else network.name
    if placement == "packed" or network is None or types is None:
        return Placed(Placer(devices), network, types, None)
    placer = Placer(devices, placement, settings["seed"], pace=pace_of(network))
    return Placed(placer, network, types, ByLinks(placer, types.foreseen))
