"""The clock of the round-based mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import SolveError
from apportion.mechanism.core import RoundCore
from apportion.mechanism.repetition import running_sums
from apportion.sim.engine.truth import ROUNDING
from apportion.sim.roster import Roster

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.core import GangRound
    from apportion.mechanism.placement import Placer
    from apportion.sim.engine.truth import Truth
    from apportion.sim.log import RoundLog
    from apportion.sim.progress import Progress
    from apportion.sim.resolve import Resolver
    from apportion.sim.roster import Running
    from apportion.sim.schedule import ScheduleLog

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["run_rounds"]

# Rounds that nothing distinguishes are booked together, but not more at once than memory is for.
ROUNDS_AT_ONCE = 500


class _Outcome(NamedTuple):
    """What a round has brought: by job, its gang in the round, type, steps/s, and by type."""

    end_s: float
    job: Ints
    types: Ints
    rate: Floats
    busy: Floats
    done: Ints


def run_rounds(
    ledger: Truth,
    resolver: Resolver,
    placer: Placer,
    log: RoundLog,
    schedule: ScheduleLog,
    progress: Progress,
    *,
    round_seconds: float,
    overhead_seconds: float,
    carry_over: bool,
    leases: bool = True,
) -> None:
    """Run the workload round by round until every job is complete.

    Arrivals wait for the next round. A job that completes within a round does so to the second;
    its GPUs are given away at the end of the round, which comes early if every gang is done.
    With nothing to do the clock jumps to the next arrival.

    Parameters
    ----------
    ledger, resolver, placer, log, schedule, progress
        The parts of the simulation; `ledger`, `log` and `schedule` hold the result.
    round_seconds
        Length of a round, seconds.
    overhead_seconds
        Seconds at the start of a round that a job loses which did not run on these devices in the
        round before, be it that another did.
    carry_over
        Whether a new solution begins with what jobs are owed from the one before.
    leases
        Whether a gang that goes on keeps its devices and loses no time.

    Raises
    ------
    SolveError
        If the policy gives no job any time and nothing else can happen.
    """
    policy = resolver.policy
    core = RoundCore(
        ledger.capacity,
        placer,
        round_seconds,
        carry_over=carry_over,
        work_conserving=policy.work_conserving,
    )
    roster = Roster(core)
    now_s = ledger.next_arrival_s
    while ledger.done < ledger.jobs:
        arrived = ledger.admit(now_s)
        if arrived.size:
            speed = ledger.speed[arrived]
            # A policy that knows no types must not be helped by a mechanism that does.
            known = speed if policy.heterogeneity_aware else (speed > 0).astype(float)
            roster.arrive(arrived, known, ledger.scale[arrived])
            resolver.changed = True
        if not ledger.active.size:
            now_s = ledger.next_arrival_s
            continue
        resolved = resolver.due(now_s)
        if resolved:
            roster.aim(ledger.active, resolver.solve(ledger, now_s), ledger.scale)
        active = ledger.active.size
        gangs = core.ask() if leases else _ask_anew(core)
        if not (core.candidates.rows.size or gangs.rows.size or resolver.changed):
            _refuse_standstill(ledger, resolver, now_s)
        ran = _run_round(ledger, roster, schedule, gangs, now_s, overhead_seconds)
        log.add((now_s, ran.end_s), (active, ran.job.size, gangs.stopped.size), resolved, ran.busy)
        resolver.changed |= roster.misfits
        now_s = ran.end_s
        if ran.done.size:
            roster.complete(ran.done)
            resolver.changed = True
            progress.update(ledger)
        elif leases and not (resolver.changed or gangs.stopped.size) and core.settled:
            now_s = _repeat_round(ledger, core, gangs, ran, log)


def _ask_anew(core: RoundCore) -> GangRound:
    """Choose the gangs of a round that all have to start again, those that go on included."""
    running = np.flatnonzero(core.last_type >= 0)
    core.evict(running)
    return core.ask()._replace(stopped=np.unique(core.slots[running]))


def _repeat_round(
    ledger: Truth, core: RoundCore, gangs: GangRound, ran: _Outcome, log: RoundLog
) -> float:
    """Book the rounds that are as the last one; return when they end.

    None of them begins after an arrival, and no job completes in them. Sums are rounded as if
    the rounds were run one after the other.
    """
    length_s = core.round_seconds
    # One round less than fits, whatever the rounding of a long sum.
    complete = int(min((ledger.remaining[ran.job] / ran.rate).min() / length_s - 1, ROUNDS_AT_ONCE))
    if complete < 1:
        return ran.end_s
    start_s = np.append(ran.end_s, running_sums(ran.end_s, length_s, complete))
    times = int(np.searchsorted(start_s[:-1], ledger.next_arrival_s))
    if times < 1:
        return ran.end_s
    whole = np.full(ran.job.size, length_s)
    core.tell(gangs.rows, gangs.types, whole, times=times)
    ledger.work(ran.job, ran.rate * length_s, times=times)
    ledger.hold(ran.job, ran.types, whole, whole * ledger.scale[ran.job], times=times)
    log.repeat(start_s[1 : times + 1])
    return float(start_s[times])


def _run_round(
    ledger: Truth,
    roster: Roster,
    schedule: ScheduleLog,
    gangs: GangRound,
    now_s: float,
    overhead_seconds: float,
) -> _Outcome:
    """Run one round."""
    core = roster.core
    running = roster.runs(gangs, ledger)
    job, gang, rate, starts = running
    types = gangs.types[gang]
    if ledger.split_ratio is not None:
        split = roster.split(gangs)[gang]
        rate = rate * np.where(split, ledger.split_ratio[job, types], 1.0)
    _note_changes(ledger, roster, schedule, gangs, running, now_s)
    lost = overhead_seconds * starts
    with np.errstate(divide="ignore"):  # two jobs that were only believed to fit one GPU
        needed = lost + ledger.remaining[job] / rate
    ran = np.minimum(needed, core.round_seconds)
    of_gang, each = _by_gang(ran, gang, gangs.rows.size)
    seconds = core.tell(gangs.rows, gangs.types, of_gang)
    ledger.work(job, rate * np.maximum(ran - lost, 0.0))
    gpu_seconds = of_gang * core.scale[gangs.rows]
    ledger.hold(job, types, ran, (gpu_seconds * each)[gang])
    busy = np.bincount(gangs.types, weights=gpu_seconds, minlength=core.capacity.size)
    finished = (needed <= core.round_seconds * (1 + ROUNDING)).nonzero()[0]
    done = job[finished]
    if done.size:
        ledger.complete(done, now_s + needed[finished])
        schedule.end(done, ledger.completion_s[done])
    return _Outcome(now_s + seconds, job, types, rate, busy.astype(float), done)


def _note_changes(
    ledger: Truth,
    roster: Roster,
    schedule: ScheduleLog,
    gangs: GangRound,
    running: Running,
    now_s: float,
) -> None:
    """Write down who has lost devices, and who has got some."""
    stopped = roster.stopped(gangs)
    if stopped.size:
        ledger.preemptions[stopped] += 1
        schedule.end(stopped, now_s)
    new = running.job[running.starts]
    if new.size:
        ledger.start_s[new] = np.fmin(ledger.start_s[new], now_s)
        ids = roster.core.ids[gangs.rows[running.gang][running.starts]].tolist()
        schedule.begin(new, map(roster.core.placer.held.__getitem__, ids), now_s)


def _by_gang(ran: Floats, gang: Ints | slice, gangs: int) -> tuple[Floats, Floats | float]:
    """Return the seconds for which each gang holds its devices, and each job's part of them.

    Devices are held until the last of a pair is done, and the two account for half each.
    """
    if isinstance(gang, slice):
        return ran, 1.0
    longest = np.zeros(gangs)
    np.maximum.at(longest, gang, ran)
    return longest, 1 / np.bincount(gang)


def _refuse_standstill(ledger: Truth, resolver: Resolver, now_s: float) -> None:
    """Raise if no job has a share and none is to come."""
    if not np.isfinite(ledger.next_arrival_s):
        raise SolveError(
            f"Policy {resolver.policy.label!r} gives none of the {ledger.active.size} active jobs "
            f"any time at {now_s:.0f} s, and no job arrives later."
        )
