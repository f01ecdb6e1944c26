"""`simulate`: one policy or scheduler, one workload, one cluster."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.checks import seconds
from apportion.cluster import Cluster
from apportion.errors import InputError, written
from apportion.kinds import checked
from apportion.mechanism.exactly import Exactly
from apportion.mechanism.offers import OfferScheduler
from apportion.mechanism.placement import Placer
from apportion.mechanism.rounds import InRounds
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.deciders import get_decider
from apportion.sim.engine import Fluid, RunRecord, TableSpeeds, Truth
from apportion.sim.engine import run as run_jobs
from apportion.sim.engine.snapshot import Snapshots, call_of
from apportion.sim.estimated_beliefs import Estimated
from apportion.sim.given_order import by_arrival_and_id, of_types_given, present_types
from apportion.sim.leased import run_leased
from apportion.sim.log import RoundLog
from apportion.sim.metrics import jobs_table
from apportion.sim.network import get_network
from apportion.sim.network.pace import check_models, least_slowdowns, pace_of
from apportion.sim.network.speeds import NetworkSpeeds
from apportion.sim.progress import Progress
from apportion.sim.resolve import Resolver
from apportion.sim.run import Run
from apportion.sim.schedule import ScheduleLog
from apportion.sim.settings import settings_for
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.scheduler import Scheduler
    from apportion.mechanisms import Mechanism, MechanismName
    from apportion.pairs import PairThroughputs
    from apportion.policies import Policy
    from apportion.sim.beliefs import Beliefs
    from apportion.sim.deciders import Decider
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.workload import Workload

__all__ = ["simulate"]


@one_thread
@checked
def simulate(
    policy: str | Decider,
    workload: Workload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    mechanism: Mechanism | MechanismName | None = None,
    pair_estimates: PairThroughputs | None = None,
    learn_pairs: bool | None = None,
    seed: int = 0,
    beliefs: Beliefs | None = None,
    snapshot: str | Path | None = None,
    snapshot_seconds: float = 30.0,
    progress: Callable[[float, int], None] | None = None,
    **settings: Any,
) -> Run:
    """Run a workload under a policy or a scheduler until every job is complete.

    Parameters
    ----------
    policy
        A policy (`apportion.policy_table`), a scheduler (`apportion.scheduler_table`), or the name
        of one.
    workload
        The jobs and their throughputs.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``.
    mechanism
        How decisions are carried out: `apportion.Rounds`, the default for policies,
        `apportion.Leases`, the only one for schedulers, or `apportion.Exact`. Their names
        ``"rounds"``, ``"leases"`` and ``"ideal"`` stand for them with the `settings`.
    pair_estimates
        What a policy with space sharing is told of pairs (see `apportion.estimators`), while the
        workload's own pair throughputs decide how fast they run.
    learn_pairs
        Whether it is told the truth of a pair once the pair has run on a type; no by default.
    seed
        Seed of placements at random.
    beliefs
        What policies, and the priorities of the mechanism, are told of speeds: ``Told()``, the
        truth, which is the default; ``Agnostic()``, that every type is alike; ``Estimated()``, what
        was learnt from references and from what has run; see `apportion.sim.beliefs` and
        `apportion.sim.estimated_beliefs`. How fast jobs really are it does not change. In place of
        a value ``speeds="told"``, ``"agnostic"`` or ``"estimated"``, the latter with
        ``references=12`` and ``optimism=1.0``, may stand among the settings.
    snapshot
        A file to which the state of the run is written from time to time. The same call goes on
        from there if it was stopped, and ends with the same results. The file is deleted in the
        end.
    snapshot_seconds
        Least time between two writings, seconds of the wall clock.
    progress
        Called with (fraction done, jobs done) a few times per second at most.
    **settings
        Settings of the mechanism by name, in place of a value: ``round_seconds=60`` is
        ``Rounds(seconds=60)``, ``lease_seconds=60`` is ``Leases(seconds=60)``; the others are
        called as in the value. None says that one is not given. A setting that the mechanism would
        not heed is an error, whatever its value.

    Raises
    ------
    InputError
        If a setting or a name is wrong, or a job cannot run on the cluster.
    SolveError
        If the policy fails; a note tells which and when.
    """
    started = time.perf_counter()
    cluster, decider = Cluster.of(cluster), get_decider(policy)
    given = {**settings, "pair_estimates": pair_estimates, "learn_pairs": learn_pairs, "seed": seed}
    settings = settings_for([decider], mechanism, given)
    snapshots = None
    if snapshot is not None:
        least_s = seconds("snapshot_seconds", snapshot_seconds)
        call = call_of(decider, workload, cluster, {**settings, "beliefs": beliefs})
        snapshots = Snapshots(snapshot, call, least_s)
    if isinstance(decider, OfferScheduler) or settings["mechanism"] == "leases":
        _refuse_under_leases(beliefs)
        run = run_leased(decider, workload, cluster, settings, progress, snapshots)
    else:
        reporter = Progress(progress)
        run = _run_policy(decider, workload, cluster, settings, beliefs, snapshots, reporter)
    return replace(run, wall_seconds=time.perf_counter() - started)


def _refuse_under_leases(beliefs: Beliefs | None) -> None:
    if beliefs is not None:
        raise InputError(
            f"beliefs={written(beliefs)} is for the mechanisms 'rounds' and 'ideal'; leave it out."
        )


def _beliefs(given: Beliefs | None, settings: dict[str, Any]) -> Beliefs:
    """Return what is told of speeds, out of the settings unless it is given by itself."""
    estimates = settings.pop("pair_estimates", None)
    learns = settings.pop("learn_pairs", False)
    of_pairs, speeds = estimates is not None or learns, settings["speeds"]
    if given is None and speeds == "told":
        return Told(estimates, learns)
    if given is None and not of_pairs:
        return Agnostic() if speeds == "agnostic" else _estimated(settings)
    if given is None or of_pairs or speeds != "told":
        raise InputError(
            "pair_estimates and learn_pairs go with speeds='told' only, and none of the three with "
            "beliefs=, which says all of it. Write beliefs=Told(pair_estimates, learn_pairs) or "
            "leave the others out."
        )
    del settings["speeds"]
    settings["beliefs"] = repr(given)
    return given


def _estimated(settings: Mapping[str, Any]) -> Estimated:
    return Estimated(settings["references"], settings["optimism"], seed=settings["seed"])


def _run_policy(
    policy: Policy,
    workload: Workload,
    cluster: Cluster,
    settings: dict[str, Any],
    beliefs: Beliefs | None,
    snapshots: Snapshots | None,
    reporter: Progress,
) -> Run:
    """Run a policy whose shares are carried out in rounds, or exactly.

    It decides over jobs and types in one order, whatever the order in which they are given.
    """
    if policy.space_sharing and workload.pairs is None:
        raise InputError(
            f"Policy {policy.label!r} lets jobs share GPUs, but the workload {workload.name!r} has "
            f"no pair throughputs; read it with a Gavel oracle as throughputs, or set "
            f"Workload.pairs."
        )
    ordered, present = by_arrival_and_id(workload), present_types(cluster)
    truth = Truth(ordered, present, placement_sensitive=settings.get("placement_sensitive", False))
    believed = _beliefs(beliefs, settings).start(truth, ordered, present)
    truth.told.speed = believed.speed
    resolver = Resolver(policy, settings["resolve_seconds"], truth.told, believed)
    log, name = RoundLog(present.accelerators), f"Policy {policy.label!r}"
    scheduler: Scheduler
    if settings["mechanism"] == "ideal":
        devices, schedule = None, None
        scheduler = Exactly(truth.told, resolver, name)
    else:
        pace = None
        if settings["network"] is not None:
            pace = pace_of(get_network(settings["network"], cluster=present))
        devices = Placer(present, settings["placement"], settings["seed"], pace=pace)
        schedule = ScheduleLog(present, len(ordered))
        scheduler = _in_rounds(settings, truth, devices, resolver, name)
    record = RunRecord(truth, log, reporter, schedule, devices)
    speeds: Speeds = TableSpeeds(truth, devices)
    if devices is not None and settings["network"] is not None:
        speeds = _on_network(settings, speeds, truth, ordered, present, devices.devices)
    run_jobs(truth, scheduler, Fluid(truth, speeds), record, snapshots)
    reporter.finish(truth)
    jobs = jobs_table(truth, ordered, present).loc[workload.jobs.index]
    return Run(
        policy=resolver.policy.label,
        workload=workload.name,
        cluster=cluster,
        jobs=of_types_given(jobs, "_s", cluster),
        rounds=of_types_given(log.table(), "_busy", cluster),
        settings=settings,
        policy_seconds=resolver.policy_seconds,
        wall_seconds=0.0,
        solves=resolver.solves,
        tables={} if schedule is None else {"schedule": schedule.table(ordered.jobs.index)},
    )


def _on_network(
    settings: dict[str, Any],
    free: Speeds,
    truth: Truth,
    workload: Workload,
    cluster: Cluster,
    devices: Devices,
) -> NetworkSpeeds:
    """Return speeds that depend on the shapes of gangs; those alone are on their best one."""
    network = get_network(settings["network"], cluster=cluster)
    settings["network"] = network.name
    check_models(network, workload, cluster)
    truth.alone_slowdown[:] = least_slowdowns(workload, cluster, network)
    job_types = workload.jobs["job_type"].tolist()
    return NetworkSpeeds(free, job_types, network, devices.held, devices.placement)


def _in_rounds(
    settings: dict[str, Any], truth: Truth, devices: Placer, resolver: Resolver, name: str
) -> InRounds:
    """Return the scheduler of rounds."""
    return InRounds(
        *(truth.told, devices, resolver, name),
        round_seconds=settings["round_seconds"],
        overhead_seconds=settings["preemption_overhead_seconds"],
        carry_over=settings["carry_over"],
        work_conserving="leaves_gpus_idle" not in resolver.policy.traits,
        leases=settings["leases"],
    )
