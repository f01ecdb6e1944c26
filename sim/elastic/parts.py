"""Elastic jobs by policies that decide in whole numbers: the parts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import unknown_name
from apportion.mechanism.configurations import (
    BesideRequests,
    ByLinks,
    GangOptions,
    InConfigurations,
    JobRestarts,
    OnVirtualNodes,
    VirtualNodes,
)
from apportion.mechanism.devices import Devices
from apportion.mechanism.placement import Placer
from apportion.mechanisms.settings import OTHERS, seconds_by_type
from apportion.mechanisms.start_costs import UNMEASURED_S, stages_by_type
from apportion.sim.about import Parts
from apportion.sim.elastic.choices import choice_of
from apportion.sim.elastic.columns import PauseColumns
from apportion.sim.elastic.on_links import types_on_links
from apportion.sim.elastic.profiles import Profiles
from apportion.sim.elastic.rigid import WithRigid, check_options, options_for, rigid_jobs
from apportion.sim.elastic.speeds import ElasticSpeeds, ElasticSteps, TrueProgress, elastic_speeds
from apportion.sim.elastic.with_requests import (
    FluidBesideRequests,
    ServingTables,
    Speedups,
    check_some_train,
    serving_side,
)
from apportion.sim.engine import Fluid
from apportion.sim.inference.serving import Serving
from apportion.sim.network.model import pace_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.decider import About, Decider
    from apportion.mechanisms import Configurations
    from apportion.policies import Policy
    from apportion.sim.about import AboutRun
    from apportion.sim.elastic_workload import ElasticWorkload

RESTART_S, RESCALE_S = UNMEASURED_S, 3.0
"""Seconds of a restart, and for workers to form another ring, where nobody says otherwise."""


def configurations(mechanism: Configurations, decider: Policy | Decider, about: AboutRun) -> Parts:
    """Give elastic jobs types and numbers of GPUs in every interval, or ask who decides itself.

    Raises
    ------
    InputError
        For a job that no option holds, which is named, and more GPUs that serve requests than
        there are.
    """
    serving = None if mechanism.serving is None else Serving.of(mechanism.serving)
    whole_nodes = mechanism.gang_sizes == "whole_nodes"
    if mechanism.gang_sizes is None:  # requests leave few machines whole
        whole_nodes = getattr(decider, "whole_nodes", False) and serving is None
    sizes = "whole_nodes" if whole_nodes else "every"
    about.settings |= {"serving": serving, "gang_sizes": sizes}
    truth, devices = about.truth, Devices.of(about.present)
    hidden = mechanism.goodputs == "virtual_nodes"
    nodes = VirtualNodes(devices, about.seed) if hidden else None
    jobs = elastic_parts(decider, mechanism, about, devices, sizes, nodes)
    told, by_links = _placed(mechanism, about, jobs, devices)
    if callable(getattr(decider, "make", None)):
        return _decided(decider, about, told, jobs)
    choice = choice_of(decider, truth.told, jobs.options, jobs.trainers, truth.ids)
    what: list[Any] = [truth.told, devices, jobs.options, choice, jobs.restarts]
    how: dict[str, Any] = {
        "name": f"Policy {decider.label!r}",
        "interval_seconds": mechanism.interval_seconds,
        "growth": mechanism.growth,
        "keep_paused": mechanism.keep_paused,
        "whole_nodes": whole_nodes,
        "by_links": by_links,
    }
    alone = ElasticSpeeds(
        *(truth.told, devices.layout, jobs.trainers, jobs.truth),
        decisions=lambda: scheduler.intervals,
    )
    pauses = PauseColumns(truth, lambda: scheduler.restarts, _stages(mechanism, about))
    runtime = Fluid(truth, elastic_speeds(alone, about.network, told))
    scheduler: InConfigurations
    if nodes is not None:
        del what[1]
        scheduler = OnVirtualNodes(*what, nodes=nodes, speed=jobs.trainers.goodput, **how)
        return Parts(scheduler, runtime, choice.asked, [pauses])
    if serving is None:
        scheduler = InConfigurations(*what, **how)
        return Parts(scheduler, runtime, choice.asked, [pauses])
    worth = Speedups(jobs.trainers, choice)
    side = serving_side(serving, devices, worth, about.seed)
    check_some_train(side, devices, jobs, truth.ids)
    scheduler = BesideRequests(*what, serving=side, **how)
    requests = ServingTables(serving, side, scheduler, about.present.accelerators, truth.ids)
    beside = FluidBesideRequests(runtime, side.feed)
    return Parts(scheduler, beside, choice.asked, [pauses, requests])


def _decided(decider: Any, about: AboutRun, told: About, jobs: ElasticParts) -> Parts:
    """Return the parts of a run in which somebody decides itself who has how many GPUs.

    Whoever starts anywhere pauses for a restart.
    """
    truth = about.truth
    alone = ElasticSpeeds(truth.told, told.layout, jobs.trainers, jobs.truth)
    runtime = Fluid(truth, elastic_speeds(alone, about.network, told))
    pauses = PauseColumns(truth, lambda: truth.preemptions)
    return Parts(decider.make(told), runtime, columns=[pauses])


class ElasticParts(NamedTuple):
    """What is known of elastic jobs: to themselves, to the scheduler, and as it is."""

    trainers: WithRigid
    options: GangOptions
    restarts: JobRestarts
    truth: TrueProgress


def elastic_parts(
    decider: Policy | Decider,
    mechanism: Configurations,
    about: AboutRun,
    devices: Devices,
    sizes: str,
    nodes: VirtualNodes | None = None,
) -> ElasticParts:
    """Return what is known of the jobs of a workload.

    Parameters
    ----------
    decider
        Some rules know rigid jobs only.
    mechanism, about
        Settings, and the run.
    devices
        Those of the cluster.
    sizes
        Which gangs there may be.
    nodes
        Machines of which the types are hidden.

    Raises
    ------
    InputError
        For a job that no option holds; it is named.
    """
    workload: ElasticWorkload = about.given  # type: ignore[assignment]
    ordered = about.workload
    rigid = rigid_jobs(decider, workload, ordered.jobs.index)
    pools = devices.pools if nodes is None else nodes.devices.pools[:1]
    options, shared = options_for(pools, sizes, rigid)
    names = workload.jobs["application"].loc[ordered.jobs.index].tolist()
    applications, progress = [workload.applications[name] for name in names], TrueProgress()
    profiles = Profiles(applications, devices.accelerators, workload.speed_on)
    trainers = WithRigid(
        *(about.jobs, profiles, progress, options),
        fitted=mechanism.goodputs == "fitted",
        one_type=mechanism.goodputs in ("one_type", "virtual_nodes"),
        rigid=rigid,
        shared=shared,
    )
    check_options(ordered, trainers, options, devices.accelerators)
    return ElasticParts(trainers, options, _restarts(mechanism, workload, names), progress)


def _restarts(
    mechanism: Configurations, workload: ElasticWorkload, names: Sequence[str]
) -> JobRestarts:
    """Return what restarts cost: by the settings, else by the workload, else as everywhere."""
    seconds = np.array([workload.restart_s.get(name, (RESTART_S, RESCALE_S)) for name in names])
    for place, name in enumerate(("restart_seconds", "rescale_seconds")):
        if (given := getattr(mechanism, name)) is not None:
            seconds[:, place] = seconds_by_type(name, given, names)
    if mechanism.restart_stages is not None:
        seconds[:, 0] = stages_of(mechanism, names).sum(axis=1)
    believed_s, given, name = seconds[:, 0], mechanism.reallocation_seconds, "reallocation_seconds"
    if given is not None:
        believed_s = np.array(seconds_by_type(name, given, names))
    return JobRestarts(mechanism.restart, seconds[:, 0], seconds[:, 1], believed_s)


def stages_of(mechanism: Configurations, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the seconds of each stage of a restart of some applications, shape (names, stages).

    Raises
    ------
    InputError
        For an application that is not named, if there are no others.
    """
    stages = stages_by_type(mechanism.restart_stages)
    found = []
    for name in names:
        if name not in stages and OTHERS not in stages:
            raise unknown_name("application in restart_stages", name, [*stages, OTHERS])
        found.append(list(stages.get(name, stages.get(OTHERS, {})).values()))
    return np.array(found, dtype=float)


def _stages(mechanism: Configurations, about: AboutRun) -> Mapping[str, NDArray[np.float64]] | None:
    """Return the part of a restart that each stage is of each job, by stage."""
    if mechanism.restart_stages is None:
        return None
    names = about.given.jobs["application"].loc[about.workload.jobs.index].tolist()
    each_s = stages_of(mechanism, names)
    total_s = each_s.sum(axis=1, keepdims=True)
    parts = np.divide(each_s, total_s, out=np.zeros_like(each_s), where=total_s > 0)
    first = next(iter(stages_by_type(mechanism.restart_stages).values()))
    return dict(zip(first, parts.T, strict=True))


def _placed(
    mechanism: Configurations, about: AboutRun, jobs: ElasticParts, devices: Devices
) -> tuple[About, ByLinks | None]:
    """Return where gangs lie, on which network, and who compares links; write down its name."""
    network, types = types_on_links(
        *(about.network, mechanism.placement, jobs.trainers, jobs.truth),
        beside_requests=mechanism.serving is not None,
    )
    about.network = network
    about.settings["network"] = None if network is None else network.name
    placer, by_links = Placer(devices), None
    if mechanism.placement != "packed" and network is not None and types is not None:
        placer = Placer(devices, mechanism.placement, about.seed, pace=pace_of(network))
        by_links = ByLinks(placer, types.foreseen)
    steps = lambda free, network: ElasticSteps(free, network.law)  # noqa: E731
    return about.placed(placer, models=types, steps=steps, lost_s=jobs.restarts.first_s), by_links
