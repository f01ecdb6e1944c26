"""Order x placement x gate on iterations that share GPUs and links: put together and run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.errors import InputError, written
from apportion.mechanism.devices import Devices
from apportion.mechanism.gates import get_gate
from apportion.mechanism.placement import Placer
from apportion.mechanism.stay import InPlace, StayNeeds
from apportion.sim.contention.fast import FastEngine, why_not_fast
from apportion.sim.contention.iteration import Iteration, all_reduced, overlapped
from apportion.sim.contention.links import SharedCost, checked_law
from apportion.sim.contention.models import trained
from apportion.sim.contention.plain import PlainEngine
from apportion.sim.contention.record import Timeline
from apportion.sim.contention.runtime import Iterating, LinkMap
from apportion.sim.engine import RunRecord, Truth
from apportion.sim.engine import run as run_jobs
from apportion.sim.given_order import by_arrival_and_id, of_types_given, present_types
from apportion.sim.log import RoundLog
from apportion.sim.metrics import jobs_table
from apportion.sim.run import Run
from apportion.sim.schedule import ScheduleLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.gates import Gate
    from apportion.mechanism.stay import GatedScheduler
    from apportion.sim.contention.engine import Engine
    from apportion.sim.contention.links import LinkSharing
    from apportion.sim.contention.models import TrainedModel
    from apportion.sim.engine.snapshot import Snapshots
    from apportion.sim.progress import Progress
    from apportion.sim.workload import Workload

__all__ = ["engine_for", "iterations_of", "run_iterated", "sharing_of"]

_ENGINES = {PlainEngine.__name__: "plain", FastEngine.__name__: "fast"}


def sharing_of(settings: Mapping[str, Any]) -> LinkSharing:
    """Return how links are shared by the settings."""
    given = settings["sharing"]
    if given is not None:
        return checked_law(given)
    return SharedCost(
        settings["s_per_byte"],
        settings["penalty_s_per_byte"],
        settings["startup_s"],
        settings["counted_over"],
    )


def engine_for(
    name: str,
    links: LinkMap,
    sharing: LinkSharing,
    gate: Gate,
    timeline: Timeline | None,
    jobs: Sequence[object] = (),
) -> Engine:
    """Return the engine of a name: plain, fast, or the fastest that can do it.

    `jobs` is what users call them, by number.

    Raises
    ------
    InputError
        If the fast one is asked for and cannot do it; it says why.
    """
    why_not = why_not_fast(sharing, gate)
    if timeline is not None:
        why_not = "only the plain engine takes down a timeline"
    if name == "fast" and why_not:
        raise InputError(f"engine='fast': {why_not}; leave it out, or use engine='plain'.")
    if name == "plain" or why_not:
        return PlainEngine(links.gpus, links.links, sharing, gate, timeline, jobs)
    return FastEngine(links.gpus, links.links, sharing, gate, jobs)


def iterations_of(
    truth: Truth, models: list[TrainedModel], *, startup_s: float, overlap: bool
) -> dict[tuple[int, int], Iteration]:
    """Return what every job does in an iteration on every type that it runs on.

    Its compute takes as long as a step by the job's throughput, shared out as in the profile.
    """
    found: dict[tuple[int, int], Iteration] = {}
    known: dict[tuple[str, float], Iteration] = {}
    for job, option in np.argwhere(truth.speed > 0).tolist():
        profile, compute_s = models[job].profile, float(1 / truth.speed[job, option])
        key = (profile.name, compute_s)
        if key not in known:
            scaled = profile.scaled(compute_s / profile.compute_s)
            if overlap:
                known[key] = overlapped(scaled, startup_s=startup_s)
            else:
                forward_s = math.fsum(layer.forward_s for layer in scaled.layers)
                size = scaled.all_reduce_bytes
                known[key] = all_reduced(
                    forward_s, scaled.compute_s - forward_s, size, startup_s=startup_s
                )
        found[job, option] = known[key]
    return found


def run_iterated(
    decider: GatedScheduler,
    workload: Workload,
    cluster: Cluster,
    settings: dict[str, Any],
    snapshots: Snapshots | None,
    reporter: Progress,
) -> Run:
    """Run jobs iteration by iteration until all are complete.

    Parameters
    ----------
    decider
        Order, placement and gate, unless the settings have others.
    workload, cluster
        Jobs, and where they run.
    settings
        Those of ``"iterations"`` as `apportion.sim.settings.settings_for` returns them.
    snapshots
        Where the run leaves its state.
    reporter
        Is told of how far the run is.
    """
    names = ("order", "placement", "gate", "exclusive")
    decider = replace(decider, **{k: settings[k] for k in names if settings[k] is not None})
    settings |= {name: getattr(decider, name) for name in names}
    ordered, present = by_arrival_and_id(workload), present_types(cluster)
    truth, sharing = Truth(ordered, present), sharing_of(settings)
    models = [trained(each) for each in ordered.jobs["job_type"].tolist()]
    _check_memory(ordered, models, settings["gpu_memory_gb"])
    memory_gb = dict.fromkeys(present.accelerators, float(settings["gpu_memory_gb"]))
    devices = Devices.of(present, memory_gb=memory_gb, shared=not decider.exclusive)
    placer = Placer(devices, decider.placement, settings["seed"])
    iterations = iterations_of(
        truth, models, startup_s=getattr(sharing, "startup_s", 0.0), overlap=settings["overlap"]
    )
    scheduler = InPlace(decider, truth.told, placer, _needs(truth, models, sharing, settings))
    timeline = Timeline() if settings["timeline"] else None
    links = LinkMap(devices.layout, racks=settings["rack_links"])
    named = ordered.jobs.index.tolist()

    def engine_named(name: str) -> Engine:
        return engine_for(name, links, sharing, get_gate(decider.gate), timeline, named)

    runtime = Iterating(
        *(truth, engine_named(settings["engine"]), links),
        lambda job, option: iterations[job, option],
        scheduler.turn,
        other_engine=lambda kind: _engine_of_state(kind, engine_named),
        time_sliced=not decider.exclusive,
    )
    log, schedule = RoundLog(present.accelerators), ScheduleLog(present, len(ordered))
    record = RunRecord(truth, log, reporter, schedule)
    run_jobs(truth, scheduler, runtime, record, snapshots)
    reporter.finish(truth)
    jobs = jobs_table(truth, ordered, present).assign(
        computed_gpu_s=runtime.computed_s, sent_bytes=runtime.sent
    )
    tables = {"schedule": schedule.table(ordered.jobs.index)}
    tables |= _tables(runtime.engine, timeline, named)
    return Run(
        policy=decider.label,
        workload=workload.name,
        cluster=cluster,
        jobs=of_types_given(jobs.loc[workload.jobs.index], "_s", cluster, behind=2),
        rounds=of_types_given(log.table(), "_busy", cluster),
        settings=settings | {"gate": get_gate(decider.gate).name},
        policy_seconds=0.0,
        wall_seconds=0.0,
        solves=0,
        tables=tables,
    )


def _engine_of_state(kind: str, engine_named: Callable[[str], Engine]) -> Engine:
    """Return the engine that has left a state; an error tells what to do where it cannot run."""
    try:
        return engine_named(_ENGINES[kind])
    except InputError as error:
        error.add_note(
            "The state of the run is that of the compiled engine; delete it to begin anew."
        )
        raise


def _tables(
    engine: Engine, timeline: Timeline | None, named: Sequence[object]
) -> dict[str, pd.DataFrame]:
    """Return what the engine has done, and the timeline if there is one, with users' job ids."""
    counted = {"engine": [type(engine).__name__], "events": [engine.events]}
    tables = {"engine": pd.DataFrame(counted)}
    if timeline is not None:
        for name, table in (("tasks", timeline.tasks()), ("transfers", timeline.transfers())):
            tables[name] = table.assign(job=[named[job] for job in table["job"].tolist()])
    return tables


def _check_memory(workload: Workload, models: Sequence[TrainedModel], gpu_memory_gb: float) -> None:
    """Refuse a job that fits no GPU; it would wait for ever."""
    for job, model in zip(workload.jobs.index, models, strict=True):
        if model.memory_gb > gpu_memory_gb:
            raise InputError(
                f"Job {written(job)} ({model.profile.name!r}) takes {model.memory_gb:.4g} GB of "
                f"each GPU; none has more than gpu_memory_gb={gpu_memory_gb:g}."
            )


def _needs(
    truth: Truth, models: list[TrainedModel], sharing: LinkSharing, settings: Mapping[str, Any]
) -> StayNeeds:
    """Return what placements are told of the jobs."""
    size = np.array([model.profile.all_reduce_bytes for model in models])
    with np.errstate(divide="ignore"):
        iteration_s = 1 / truth.speed
    startup_s, each_s = getattr(sharing, "startup_s", 0.0), settings["loads_s_per_byte"]
    return StayNeeds(
        iteration_s,
        startup_s + size * (sharing.s_per_byte if each_s is None else each_s),
        np.array([model.memory_gb for model in models]),
        np.where(size > 0, startup_s + size * sharing.s_per_byte, 0.0),
        counts_transfers=settings["loads_count_transfers"],
        times_gpus=settings["loads_times_gpus"],
        turns_count_transfers=settings["turns_count_transfers"],
    )
