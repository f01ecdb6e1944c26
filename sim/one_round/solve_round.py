"""`solve_round`: who gets which devices now, by any policy or scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from apportion.annotations import checked
from apportion.errors import InputError, written
from apportion.mechanism.past import TakesOver
from apportion.mechanism.scheduler import NOBODY, Event
from apportion.mechanisms import Leases, Rounds
from apportion.policies import Policy
from apportion.sim.about import AboutRun, watched
from apportion.sim.deciders import get_decider, manner_of
from apportion.sim.elastic.told_goodputs import ToldGoodputs
from apportion.sim.one_round.answers import allocation_of, plan_of, racks_of
from apportion.sim.one_round.decision import RoundDecision
from apportion.sim.one_round.state import RoundState
from apportion.sim.one_round.told_jobs import ToldJobs, ToldTiers
from apportion.sim.resolve import Solves
from apportion.sim.settings import settings_for
from apportion.tensor import ThroughputTensor
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.mechanism.own import Decides
    from apportion.mechanism.past import Past
    from apportion.mechanism.scheduler import Decision
    from apportion.mechanisms import Mechanism
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.pairs import PairThroughputs
    from apportion.problem_inputs import Jobs, Workers
    from apportion.sim.about import Parts
    from apportion.sim.deciders import AnyDecider
    from apportion.tensor import Throughputs

    Table = pd.DataFrame | Mapping[Any, Mapping[Any, float]]

__all__ = ["solve_round"]


@one_thread
@checked
def solve_round(
    policy: str | AnyDecider | Decides,
    throughput_tensor: Throughputs,
    cluster: Workers | None = None,
    *,
    jobs: Jobs | None = None,
    running: Mapping[Any, tuple[str, Sequence[int]]] | None = None,
    free: Mapping[str, Sequence[int]] | None = None,
    received: Table | None = None,
    owed: Table | None = None,
    pairs: PairThroughputs | None = None,
    mechanism: Mechanism | str | None = None,
    seed: int = 0,
    **settings: Unpack[SimulationSettings],
) -> RoundDecision:
    """Decide who gets which devices now, as the next round of a simulation would.

    What decides is the scheduler that `simulate` runs, of the same mechanism. It begins in the
    state that is told here and is asked once: at a leases' end, or the start of a round or an
    interval, where who runs may go on, be moved, or be stopped.

    Parameters
    ----------
    policy
        A policy, a scheduler, or the name of one (`apportion.policy_table`,
        `apportion.scheduler_table`); or anything that decides as a scheduler of the loop does.
    throughput_tensor
        Steps/s of each job on each accelerator type, as for `solve`; by (accelerator, tier), which
        stands for the network; or by (accelerator, gpus), of elastic jobs.
    cluster
        The devices by type, in machines and racks: a `Cluster`, a mapping or text; by default the
        workers of the tensor.
    jobs
        What else is known of the jobs, as for `solve`. Schedulers go by ``steps_remaining`` and
        ``total_steps``; ``arrival_s`` or ``elapsed_s`` say who came first. ``waited_s`` is by
        default the time since a job arrived, ``running_on`` where it runs, ``isolated_elapsed_s``
        the time that it is there. ``pinned``: its lease is not over, or an elastic job keeps its
        GPUs. ``restarts`` counts those of elastic jobs.
    running
        Who has devices: accelerator and numbers of devices by job, as `RoundDecision.running`
        has them. Two jobs that share devices, where a policy lets them, have the same ones.
    free
        Devices that may be given beside those of who runs, numbers by accelerator; by default all
        that nobody has. Policies reckon with these alone. Devices of a type are numbered from 0,
        machine by machine.
    received
        Seconds that each job has had devices of each type so far: attained service, and with the
        steps done the network priority, follow of it. Of elastic jobs by (accelerator, gpus). Rows
        of pairs are time together, and rows of jobs then that alone. None by default.
    owed
        Seconds by which each job (or pair) is behind its shares on each option that shares are
        of, less than 0 where it is ahead; none by default.
    pairs
        Steps/s of job types that share GPUs, for a policy with space sharing.
    mechanism
        How decisions are carried out, as of `apportion.simulate`: by default in rounds, for a
        policy of shares, and as the scheduler works otherwise.
    seed
        Of placements at random, which are drawn as in the first round of a run.
    **settings
        Of the mechanism, by name. Without ``network`` gangs are as fast wherever they lie, under
        leases too, unless throughputs are by tier.

    Returns
    -------
    RoundDecision
        Who has which devices, who starts, goes on, moves and is stopped, and the answer of the
        policy with its certificate.

    Raises
    ------
    InputError
        If labels do not match, a value is out of range, a job could run nowhere even if all
        devices were free, or a setting is wrong.
    SolveError
        If the policy fails.

    Notes
    -----
    What else a run remembers is as at its start: auto-tuned delay timers know of no wait (give
    ``timers=``), a job that waits was on no type before, no placement has drawn at random, and jobs
    are numbered among those that are here, by which types of one speed are taken in turns. Shares
    are always found anew.
    """
    tensor = _tensor(throughput_tensor, cluster, jobs)
    elastic = tensor.gpus_of_option is not None
    decider = get_decider(policy, elastic=elastic)
    chosen, told = _mechanism(decider, mechanism, {**settings, "seed": seed}, elastic=elastic)
    given = {"running": running, "free": free, "received": received, "owed": owed}
    state = RoundState.of(tensor, decider, _shares(decider, chosen), given)
    _check_pinned(state, chosen)
    if state.available is None or not state.takes_part.any():
        return _labelled(decider, chosen.name, state, None, None, float("inf"))
    workload, chosen = _workload(state, chosen, pairs)
    about = AboutRun.of(workload, state.available.cluster, chosen, told)
    parts = watched(chosen.name, chosen.parts(decider, about), about)
    about.check_heeded(decider.label)
    decision, valid_for_s = _decided(parts, state.begin(about))
    gangs = None if decision is None else decision.gangs
    found = _labelled(decider, chosen.name, state, about, gangs, valid_for_s)
    asked = parts.asked
    if isinstance(asked, Solves) and asked.last is not None:
        found = replace(found, allocation=allocation_of(asked.last, decider, state, about))
    return found


def _tensor(
    throughputs: Throughputs, cluster: Workers | None, jobs: Jobs | None
) -> ThroughputTensor:
    """Return the throughputs with cluster and jobs."""
    tensor = ThroughputTensor.of(throughputs, workers=cluster, jobs=jobs)
    if tensor.workers is None:
        raise InputError(
            "It is not known which devices there are. Give them, solve_round(policy, throughputs, "
            "cluster={'v100': 8}), or with the throughputs, ThroughputTensor.of(..., workers=...)."
        )
    for name in tensor.accelerator_of_option:
        if name not in tensor.workers.gpus:
            raise InputError(
                f"The throughputs are of {name!r}, of which the cluster {tensor.workers} has none; "
                f"leave it out, or say {name}=0."
            )
    if not tensor.solo:
        raise InputError(
            "Rows of combinations are for solve; a round takes rows of single jobs, and pairs= for "
            "policies that let jobs share GPUs."
        )
    if tensor.has_tiers and tensor.gpus_of_option is not None:
        raise InputError("A round takes throughputs by tier or by number of GPUs, not by both.")
    return tensor


def _mechanism(
    decider: Any, mechanism: Mechanism | str | None, given: dict[str, Any], *, elastic: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the mechanism of a round, and its settings by name."""
    for name in ("speeds", "references", "optimism"):
        if given.get(name) is not None:
            raise InputError(
                f"{name}={written(given[name])} is for simulations; a round believes the "
                f"throughputs as they are given."
            )
    by_gpus = "give throughputs with columns (accelerator, gpus)"
    if not elastic and manner_of(decider).works_by[:1] == ("configurations",):
        raise InputError(f"{decider.label!r} is for elastic jobs: {by_gpus}.")
    chosen, told = settings_for([decider], mechanism, given, elastic=elastic or None)
    if chosen.elastic and not elastic:
        raise InputError(f"mechanism={chosen.name!r} is for elastic jobs: {by_gpus}.")
    if chosen.name == "exact":
        raise InputError(
            "mechanism='exact' gives nobody devices: solve(policy, throughputs) returns the shares."
        )
    if (
        isinstance(chosen, Leases)
        and isinstance(mechanism, str | None)
        and not given.get("network")
    ):
        chosen = replace(chosen, network="none")
    for name in ("serving", "network") if elastic else ():
        if getattr(chosen, name, None) is not None:
            raise InputError(
                f"{name}= is for simulations of elastic jobs; leave it out of a round."
            )
    return chosen, told


def _shares(decider: Any, chosen: Any) -> str:
    """Return in which way jobs may have the same devices."""
    if chosen.name == "iterations":
        return "memory"
    return "pairs" if getattr(decider, "space_sharing", False) else "nothing"


def _check_pinned(state: RoundState, chosen: Any) -> None:
    """Refuse jobs that must keep devices which they do not have, or where nobody must."""
    jobs = state.jobs
    if "pinned" not in jobs.columns or not jobs["pinned"].any():
        return
    if chosen.name in ("rounds", "queue"):
        raise InputError(
            f"The column 'pinned' is for leases and elastic jobs; by {chosen.name!r} whoever runs "
            f"may be stopped. Leave the job and its devices out."
        )
    there = {job for gang in state.running for job in gang.jobs}
    for job in jobs.index[jobs["pinned"].astype(bool)].tolist():
        if job not in there:
            raise InputError(f"Job {written(job)} is pinned and has no devices in running=.")


def _workload(state: RoundState, chosen: Any, pairs: PairThroughputs | None) -> tuple[Any, Any]:
    """Return the jobs that take part as a workload, and the mechanism on their network."""
    tensor, table, speeds = state.tensor, state.table(), state.speeds()
    if tensor.gpus_of_option is not None:
        gpus = tensor.gpus_of_option.astype(int).tolist()
        options = list(zip(tensor.accelerator_of_option, gpus, strict=True))
        most = max(state.available.cluster.gpus.values()) if state.available else 1
        table = table.assign(scale_factor=table["scale_factor"].clip(upper=most))
        goodputs = tensor.values.set_axis(tensor.jobs, axis=0).loc[table.index]
        return ToldGoodputs(ToldJobs.of(table, speeds), goodputs, options), chosen
    if tensor.has_tiers:
        if not isinstance(chosen, (Rounds, Leases)):
            raise InputError(
                f"Throughputs by tier are for rounds and leases, not for {chosen.name!r}; give "
                f"them by accelerator."
            )
        if chosen.network not in (None, "none", type(chosen).network):
            raise InputError(
                f"network={written(chosen.network)} stands beside throughputs by tier, which say "
                f"what it would; leave one of them out."
            )
        tiers: Any = ToldTiers.of(table, state.by_tier(), state.cluster)
        chosen = replace(chosen, network=tiers)
    return ToldJobs.of(table, speeds, pairs), chosen


def _decided(parts: Parts, past: Past) -> tuple[Decision | None, float]:
    """Ask a scheduler until its instant is over; return its last decision, and how long it stands.

    Raises
    ------
    InputError
        If it cannot begin in the middle, or its decisions stand for no time, again and again.
    """
    scheduler, now_s = parts.scheduler, past.now_s
    if not isinstance(scheduler, TakesOver):
        raise InputError(
            f"{type(scheduler).__name__} has no take_over(past), by which a scheduler begins in "
            f"the middle; see apportion.mechanism.past."
        )
    decision = scheduler.decide(Event(now_s, scheduler.take_over(past), None))
    for _ in range(_AT_ONCE):
        valid_for_s = scheduler.valid_for_s(now_s)
        if valid_for_s > 0:
            return decision, valid_for_s
        decision = scheduler.decide(Event(now_s, NOBODY, None)) or decision
    raise InputError(f"{scheduler.name} decides {_AT_ONCE} times for no time at all.")


_AT_ONCE = 100
"""So often a scheduler may decide in one instant."""


def _labelled(
    decider: Any,
    mechanism: str,
    state: RoundState,
    about: AboutRun | None,
    gangs: Any,
    valid_for_s: float,
) -> RoundDecision:
    """Return who has which devices, with labels; nobody asked, nobody has any."""
    plan = plan_of(gangs, state, about)
    there = {*plan.jobs, *plan.preempted}
    return RoundDecision(
        plan=plan,
        waiting=tuple(job for job in state.tensor.jobs if job not in there),
        racks=racks_of(plan, state.cluster),
        allocation=None,
        policy=repr(decider) if isinstance(decider, Policy) else decider.label,
        mechanism=mechanism,
        valid_for_s=valid_for_s,
    )
