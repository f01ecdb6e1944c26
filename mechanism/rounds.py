"""Rounds as a scheduler: whoever is owed most runs for the next so many seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.round_planner import RoundPlanner
from apportion.mechanism.scheduler import NOBODY
from apportion.mechanisms.past import told_otherwise

if TYPE_CHECKING:
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Decision, Event, GangProgress
    from apportion.mechanism.shares import Sharing
    from apportion.mechanisms.past import Past
    from apportion.types import Floats, Ints


class InRounds:
    """Turns shares of time into rounds; what happens within one waits for the next.

    Arrivals and completions wait for the next round. GPUs of a job that completes are given away
    then; a round comes to its end early if every gang is done. Implements
    `apportion.mechanism.scheduler.Scheduler`; source: Narayanan et al., OSDI 2020, section 5.

    Parameters
    ----------
    jobs, devices
        What it is told of the jobs, and the devices to give away.
    sharing
        Finds the shares.
    name
        What messages call it.
    round_seconds
        Length of a round, seconds.
    lost_s
        Seconds at the start of a round that each job loses if it did not run on these devices in
        the round before, be it that another did, shape (jobs,).
    carry_over
        Whether new shares begin with what jobs are owed from those before.
    work_conserving
        Whether GPUs that the shares leave idle are lent to whoever can run there.
    in_turn
        Whether a job has the types of its shares one after the other, see `GangTable`.
    leases
        Whether a gang that goes on keeps its devices and loses no time.
    tiers
        Options of each type: its tiers, or 1 for shares of types.
    """

    event_driven = False

    def __init__(
        self,
        jobs: JobTable,
        devices: Placer,
        sharing: Sharing,
        name: str,
        *,
        round_seconds: float = 360.0,
        lost_s: Floats | None = None,
        carry_over: bool = True,
        work_conserving: bool = True,
        in_turn: bool = False,
        leases: bool = True,
        tiers: int = 1,
    ) -> None:
        self.name, self._jobs, self._sharing = name, jobs, sharing
        self._round_s, self._leases = round_seconds, leases
        self._lost_s = lost_s if lost_s is not None and lost_s.any() else None
        self._planner = RoundPlanner(
            devices,
            round_seconds,
            tiers=tiers,
            carry_over=carry_over,
            work_conserving=work_conserving,
            in_turn=in_turn,
            models=jobs.job_type if devices.placings else None,
        )
        self._steady_s = -np.inf  # until when each round is as the last one
        self._same_s = np.inf  # until when the resources are

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle, with shares that are to be found anew.

        Raises
        ------
        InputError
            If what is owed is told by other options than shares are of.
        """
        planner, jobs = self._planner, self._jobs
        table, active = planner.table, jobs.active
        table.add(active, active, jobs.scale[active], self._sharing.speed(active))
        table.served_s += jobs.held_s[active].sum(axis=1)
        if past.owed_s.any():
            if past.owed_s.shape[1] != table.kind.size:
                raise told_otherwise("owed", table.tiers > 1)
            table.received_s -= past.owed_s[active]  # what the first shares begin with
        for job, held in past.held.items():
            planner.hold(job, held, jobs.job_type[job])
        self._sharing.take_over(past)
        return NOBODY

    def decide(self, event: Event) -> Decision | None:
        """Choose the gangs of the next round; ``None`` if it is as the last one."""
        jobs, sharing, table = self._jobs, self._sharing, self._planner.table
        arrived = event.arrived
        if event.ran is not None:
            self._told(event.ran, arrived)
        if arrived.size:
            table.add(arrived, arrived, jobs.scale[arrived], sharing.speed(arrived))
            sharing.changed = True
        if event.now_s < self._steady_s and not sharing.changed:
            return None
        resolved = event.now_s >= sharing.due_s
        if resolved:
            table.aim(jobs.active, sharing.solve(event.now_s))
        self._hold(event.now_s)
        decision = self._planner.plan(leases=self._leases)
        self._steady_s = self._steady_until()
        lost_s = 0.0 if self._lost_s is None else jobs.lost_s(decision.gangs.job, self._lost_s)
        return decision._replace(lost_s=lost_s, resolved=resolved)

    def valid_for_s(self, now_s: float) -> float:
        """Return the length of a round, seconds."""
        return self._round_s

    def unchanged_until_s(self, now_s: float) -> float:
        """Return the time of the next solve where priorities decide nothing, as all fit."""
        return max(self._steady_s, now_s)

    def _told(self, ran: GangProgress, arrived: Ints) -> None:
        """Book a round that is over, drop jobs that are done, and learn from what ran.

        Jobs that have arrived meanwhile are told what is learnt when they are let in.
        """
        planner, sharing = self._planner, self._sharing
        # A line for each gang comes first, and behind them the second jobs of pairs.
        held_s = ran.held_s[: planner.rows.size]
        planner.table.book(planner.rows, planner.options, held_s, ran.times)
        if ran.done.size:
            planner.complete(ran.done)
            sharing.changed = True
        moved = sharing.observe(ran)
        if moved.size:
            still = moved[np.isin(moved, self._jobs.active) & ~np.isin(moved, arrived)]
            planner.table.correct(still, sharing.speed(still))
            sharing.changed = True

    def _hold(self, now_s: float) -> None:
        """Look up what gangs of the next round may hold at once; pairs without a share nothing."""
        planner, table = self._planner, self._planner.table
        self._same_s, planner.resources = np.inf, None
        if not self._sharing.bounds:
            return
        shared = ~table.single & (table.target > 0).any(axis=1)
        pairs = np.column_stack([table.first[shared], table.second[shared]])
        held = self._sharing.resources(now_s, self._round_s, pairs)
        usage = np.full((table.first.size, *held.usage.shape[1:]), np.inf)
        told = np.vstack([np.column_stack([held.jobs, held.jobs]), held.pairs])
        usage[table.rows_of(*told.T)] = held.usage
        planner.resources = usage, held.left()
        # Rounds that begin before this are over before anything else holds.
        self._same_s = held.until_s - self._round_s

    def _steady_until(self) -> float:
        """Return until when every round will be as this one if nobody comes or goes."""
        planner = self._planner
        # What is declined while nobody has anything is declined for good.
        nobody = not planner.rows.size and (planner.declined or not planner.table.wanted[0].size)
        same = nobody or (self._leases and planner.settled)
        if self._sharing.changed or not same:
            return -np.inf
        return min(self._sharing.due_s, self._same_s)
