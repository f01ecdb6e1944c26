"""Rounds as a scheduler: whoever is owed most runs for the next so many seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.core import RoundCore
from apportion.mechanism.core_rows import CoreRows
from apportion.mechanism.scheduler import NOBODY, Decision
from apportion.mechanism.tiered.core import TieredCore

if TYPE_CHECKING:
    from apportion.mechanism.core_rows import GangRound
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Event, GangProgress
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
        Whether a job has the types of its shares one after the other, see `RoundCore`.
    leases
        Whether a gang that goes on keeps its devices and loses no time.
    tiered
        Whether shares are of tiers, see `TieredCore`.
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
        tiered: bool = False,
    ) -> None:
        self.name = name
        self._jobs, self._sharing = jobs, sharing
        self._lost_s = lost_s if lost_s is not None and lost_s.any() else None
        self._leases = leases
        self._core = (TieredCore if tiered else RoundCore)(
            jobs.capacity,
            devices,
            round_seconds,
            carry_over=carry_over,
            work_conserving=work_conserving,
            in_turn=in_turn,
        )
        self._core_rows = CoreRows(self._core)
        if devices.placings:
            self._core.models = self._models
        self._rows = self._columns = NOBODY  # of the gangs of the round under way
        self._steady_s = -np.inf
        self._same_s = np.inf

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle, with shares that are to be found anew."""
        jobs, sharing = self._jobs, self._sharing
        speed, scale = sharing.speed(jobs.active), jobs.scale[jobs.active]
        self._core_rows.arrive(jobs.active, speed, scale)
        self._core_rows.take_over(past, jobs.held_s, jobs.job_type)
        sharing.take_over(past)
        return NOBODY

    def decide(self, event: Event) -> Decision | None:
        """Choose the gangs of the next round; ``None`` if it is as the last one."""
        jobs, core_rows, sharing = self._jobs, self._core_rows, self._sharing
        if event.ran is not None:
            self._told(event.ran, event.arrived)
        if event.arrived.size:
            core_rows.arrive(event.arrived, sharing.speed(event.arrived), jobs.scale[event.arrived])
            sharing.changed = True
        if event.now_s < self._steady_s and not sharing.changed and self._same_order():
            return None
        resolved = event.now_s >= sharing.due_s
        if resolved:
            core_rows.aim(jobs.active, sharing.solve(event.now_s), jobs.scale)
        self._hold(event.now_s)
        chosen = self._core.ask() if self._leases else self._ask_anew()
        self._rows, self._steady_s = chosen.rows, self._steady_until(chosen)
        self._columns = chosen.types if chosen.columns is None else chosen.columns
        gangs, starts = core_rows.lines(chosen)
        return Decision(
            gangs,
            starts,
            core_rows.stopped(chosen),
            lost_s=0.0 if self._lost_s is None else jobs.lost_s(gangs.job, self._lost_s),
            resolved=resolved,
        )

    def valid_for_s(self, now_s: float) -> float:
        """Return the length of a round, seconds."""
        return self._core.round_seconds

    def unchanged_until_s(self, now_s: float) -> float:
        """Return the time of the next solve where priorities decide nothing, as all fit."""
        return max(self._steady_s, now_s)

    def _models(self, rows: Ints) -> list[str]:
        """Return what gangs train; of two jobs that share devices, the first."""
        return [self._jobs.job_type[job] for job in self._core_rows.first[rows].tolist()]

    def _told(self, ran: GangProgress, arrived: Ints) -> None:
        """Book a round that is over, drop jobs that are done, and learn from what ran.

        Jobs that have arrived meanwhile are told what is learnt when they are let in.
        """
        rows, sharing = self._rows, self._sharing
        # A line for each gang comes first, and behind them the second jobs of pairs.
        self._core.tell(rows, self._columns, ran.held_s[: rows.size], times=ran.times)
        if ran.done.size:
            self._core_rows.complete(ran.done)
            sharing.changed = True
        moved = sharing.observe(ran)
        if moved.size:
            here = np.isin(moved, self._jobs.active) & ~np.isin(moved, arrived)
            still = moved[here]
            self._core_rows.tell(still, sharing.speed(still))
            sharing.changed = True

    def _hold(self, now_s: float) -> None:
        """Look up what gangs of the next round may hold at once."""
        self._same_s, self._core.resources = np.inf, None
        if self._sharing.bounds:
            length_s = self._core.round_seconds
            held = self._sharing.resources(now_s, length_s, self._core_rows.pairs)
            self._core_rows.hold(held)
            # Rounds that begin before this are over before anything else holds.
            self._same_s = held.until_s - length_s

    def _same_order(self) -> bool:
        """Tell whether gangs that all go on would be named in the order of the last round."""
        rows = self._core.wanted()[0]
        return rows.size == self._rows.size and not (rows != self._rows).nonzero()[0].size

    def _ask_anew(self) -> GangRound:
        """Choose the gangs of a round that all have to start again, those that go on included."""
        running = np.flatnonzero(self._core.last_type >= 0)
        self._core.evict(running)
        return self._core.ask()._replace(stopped=np.unique(self._core.slots[running]))

    def _steady_until(self, chosen: GangRound) -> float:
        """Return until when every round will be as this one if nobody comes or goes."""
        if self._sharing.changed:
            return -np.inf
        same = self._leases and self._core.settled
        if not same:
            # What is declined while nobody has anything is declined for good.
            refused = chosen.declined or not self._core.candidates.rows.size
            same = refused and not chosen.rows.size
        return min(self._sharing.due_s, self._same_s) if same else -np.inf
