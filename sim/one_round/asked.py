"""`solve_round`: who gets which devices now, by any policy or scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from apportion.annotations import checked
from apportion.errors import InputError, written
from apportion.mechanism.scheduler import NOBODY, Event
from apportion.mechanisms.past import TakesOver
from apportion.sim.about import AboutRun
from apportion.sim.deciders import get_decider, manner_of
from apportion.sim.one_round.decision import RoundDecision, allocation_of, decision_of
from apportion.sim.one_round.given import RoundState
from apportion.sim.own_mechanism import watched
from apportion.sim.settings import settings_for
from apportion.sim.solves.standing import Solves
from apportion.sim.workload import Workload
from apportion.tensor import ThroughputTensor
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.own import Decides
    from apportion.mechanism.scheduler import Decision
    from apportion.mechanisms import Mechanism
    from apportion.mechanisms.past import Past
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.problem_inputs import Jobs, Workers
    from apportion.sim.about import Parts
    from apportion.sim.deciders import AnyDecider
    from apportion.tensor import Throughputs

    Table = pd.DataFrame | Mapping[Any, Mapping[Any, float]]


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
        Steps/s of each job on each accelerator type, as for `solve`.
    cluster
        The devices by type, in machines and racks: a `Cluster`, a mapping or text; by default the
        workers of the tensor.
    jobs
        What else is known of the jobs, as for `solve`. Schedulers go by ``steps_remaining`` and
        ``total_steps``; ``arrival_s`` or ``elapsed_s`` say who came first. ``waited_s`` is by
        default the time since a job arrived, ``running_on`` where it runs, ``isolated_elapsed_s``
        the time that it is there. ``pinned``: its lease is not over.
    running
        Who has devices: accelerator and numbers of devices by job, as `RoundDecision.running`
        has them.
    free
        Devices that may be given beside those of who runs, numbers by accelerator; by default all
        that nobody has. Policies reckon with these alone. Devices of a type are numbered from 0,
        machine by machine.
    received
        Seconds that each job has run on each type so far: attained service, and with the steps done
        the network priority, follow of it. None by default.
    owed
        Seconds by which each job is behind its shares on each option that shares are of, less than
        0 where it is ahead; none by default.
    mechanism
        How decisions are carried out, as of `apportion.simulate`: by default in rounds, for a
        policy of shares, and as the scheduler works otherwise.
    seed
        Of placements at random, which are drawn as in the first round of a run.
    **settings
        Of the mechanism, by name. Without ``network`` gangs are as fast wherever they lie, under
        leases too.

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
    are always found anew. Elastic jobs and jobs that share GPUs are for `simulate`.
    """
    tensor = _tensor(throughput_tensor, cluster, jobs)
    decider = get_decider(policy, elastic=False)
    chosen, told = _mechanism_of(decider, mechanism, {**settings, "seed": seed})
    given = {"running": running, "free": free, "received": received, "owed": owed}
    state = RoundState.of(tensor, decider, chosen.name == "iterations", given)
    _check_pinned(state, chosen)
    how: dict[str, Any] = {
        "allocation": None,
        "policy": repr(decider) if hasattr(decider, "objective") else decider.label,
        "mechanism": chosen.name,
    }
    if state.available is None or not state.takes_part.any():
        return decision_of(None, state, None, **how, valid_for_s=float("inf"))
    workload = ToldJobs.of(state.table(), state.speeds[state.takes_part])
    about = AboutRun.of(workload, state.available.cluster, chosen, told)
    parts = watched(chosen, decider, about)
    about.check_heeded(decider.label)
    decision, valid_for_s = _decided(parts, state.begin(about))
    asked = parts.asked
    if isinstance(asked, Solves) and asked.last is not None:
        how["allocation"] = allocation_of(asked.last, decider, state, about)
    gangs = None if decision is None else decision.gangs
    return decision_of(gangs, state, about, **how, valid_for_s=valid_for_s)


def _tensor(
    throughputs: Throughputs, cluster: Workers | None, jobs: Jobs | None
) -> ThroughputTensor:
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
            "Rows of combinations are for solve, and for simulate with pairs of job types; a round "
            "takes rows of single jobs."
        )
    if tensor.has_tiers or tensor.gpus_of_option is not None:
        raise InputError(
            "A round takes throughputs by accelerator type alone. For tiers give network=; elastic "
            "jobs are for simulate, and their options for solve."
        )
    return tensor


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
            f"the middle; see apportion.mechanisms.past."
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


@dataclass(frozen=True, eq=False, repr=False)
class ToldJobs(Workload):
    """A workload whose jobs are as fast as a table of jobs by types says, whatever they train.

    Parameters
    ----------
    speeds
        Steps/s of each job on each accelerator type.
    """

    speeds: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(cls, jobs: pd.DataFrame, speeds: pd.DataFrame) -> ToldJobs:
        """Make one of a jobs table and the speeds of these jobs."""
        keys = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
        first = ~keys.duplicated()
        by_type = speeds[first].set_axis(keys[first], axis=0)
        return cls("one round", jobs, by_type, speeds=speeds)

    def _speeds(self) -> pd.DataFrame:
        return self.speeds.loc[self.jobs.index]


def _mechanism_of(
    decider: Any, mechanism: Mechanism | str | None, given: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the mechanism of a round, and its settings by name.

    Raises
    ------
    InputError
        As `apportion.sim.settings.settings_for`; for settings that are for simulations only, and
        what is for elastic jobs.
    """
    for name in ("speeds", "references", "optimism", "rows"):
        if given.get(name) is not None:
            raise InputError(
                f"{name}={written(given[name])} is for simulations; a round believes the "
                f"throughputs as they are given."
            )
    if manner_of(decider).works_by[:1] == ("configurations",):
        raise InputError(f"{decider.label!r} is for elastic jobs, which are for simulate.")
    chosen, told = settings_for([decider], mechanism, given)
    if chosen.elastic:
        raise InputError(f"mechanism={chosen.name!r} is for elastic jobs, which are for simulate.")
    if chosen.name == "exact":
        raise InputError(
            "mechanism='exact' gives nobody devices: solve(policy, throughputs) returns the shares."
        )
    if chosen.name == "leases" and isinstance(mechanism, str | None) and not given.get("network"):
        chosen = replace(chosen, network="none")
    return chosen, told


def _check_pinned(state: RoundState, chosen: Any) -> None:
    """Refuse jobs that must keep devices which they do not have, or where nobody must.

    Raises
    ------
    InputError
        It names the job, or the mechanism.
    """
    jobs = state.jobs
    if "pinned" not in jobs.columns or not jobs["pinned"].any():
        return
    if chosen.name in ("rounds", "queue"):
        raise InputError(
            f"The column 'pinned' is for leases; by {chosen.name!r} whoever runs may be stopped. "
            f"Leave the job and its devices out."
        )
    for job in jobs.index[jobs["pinned"].astype(bool)].tolist():
        if job not in state.running:
            raise InputError(f"Job {written(job)} is pinned and has no devices in running=.")
