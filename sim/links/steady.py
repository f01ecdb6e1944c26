"""How long iterations take in the long run of jobs that meet on links."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.time_shifts import law_is_exact, score_of
from apportion.mechanism.time_shifts.circle import EQUAL
from apportion.sim.links.phases import PhaseJob, run_phases

if TYPE_CHECKING:
    from apportion.sim.links.meeting import Meeting
    from apportion.sim.links.phases import PhaseRun
    from apportion.sim.network.contention import PhaseNetwork
    from apportion.types import Floats


FEWEST, MOST = 24, 192
"""Iterations of the job with the longest: so many, and twice as many until they are steady."""

VARYING = 768
"""The same where computations vary: how late a job is then is a random walk, which is slow."""

STEADY = 0.005
"""Part by which mean iterations of one half of a run may differ from those of the other."""

CLEARLY = 0.01
"""Part of an iteration by which shifts must gain on random starts, of which there are few."""

REMEMBERED = 20_000
"""Meetings that are known by heart."""


class SteadyMeeting(NamedTuple):
    """Iterations of jobs that meet, in the order of the meeting.

    Attributes
    ----------
    slowdown
        Mean time of an iteration over that of one that has the links for itself, shape (jobs,).
    marks_gbps
        Gb/s that are wanted above the capacities of links, by the job that wants them.
    """

    slowdown: Floats
    marks_gbps: Floats


class SteadyIterations:
    """Runs meetings in the engine of phases, each once.

    Parameters
    ----------
    network
        Says how much computations vary, when jobs wait, and over how many starts to take a mean.
    """

    def __init__(self, network: PhaseNetwork) -> None:
        self._network = network
        self._known: dict[Meeting, SteadyMeeting] = {}

    def of(self, meeting: Meeting) -> SteadyMeeting:
        """Return how long iterations take once the start is over."""
        known = self._known.get(meeting)
        if known is None:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            known = self._known[meeting] = self.measured(meeting)
        return known

    def gains(self, meeting: Meeting) -> bool:
        """Whether shifts are worth it: jobs fit, or are clearly quicker than at random starts.

        Two jobs of one period that send at the full rate are, by the law of the score; elsewhere
        what does not fit, or varies, is let run both ways.
        """
        if all(start is None for start in meeting.starts_s):
            return False
        if not self._network.jitter and (
            self._carried(meeting)
            or all(
                law_is_exact([meeting.profiles[job] for job in users], gbps)
                for gbps, users in meeting.links
            )
        ):
            return True
        random = meeting._replace(starts_s=(None,) * len(meeting.starts_s), paces_s=())
        gained = self.of(random).slowdown.mean() - self.of(meeting).slowdown.mean()
        return bool(gained > CLEARLY)

    def measured(self, meeting: Meeting) -> SteadyMeeting:
        """Do what `of` says, without looking whether it is known."""
        starts = self._starts(meeting)
        runs = [self._run(meeting, each, number) for number, each in enumerate(starts)]
        iteration_s, marks = np.mean(runs, axis=0)
        alone_s = np.array([profile.period_s for profile in meeting.profiles])
        return SteadyMeeting(iteration_s / alone_s, marks / iteration_s)

    def _starts(self, meeting: Meeting) -> Floats:
        """Return when jobs begin, shape (runs, jobs); each random start is evenly spread.

        Where computations vary, given starts are run several times, too. Without random starts who
        has none begins at once.
        """
        given = [np.nan if start is None else start for start in meeting.starts_s]
        count = self._network.starts
        if not (np.isnan(given).any() and count):
            given = np.nan_to_num(given).tolist()
            return np.tile(given, (count or 4 if self._network.jitter else 1, 1))
        rng = _drawn_for(meeting)
        order = rng.permuted(np.tile(np.arange(count), (len(given), 1)), axis=1).T
        drawn = (order + rng.random(order.shape)) / count
        periods = np.array([profile.period_s for profile in meeting.profiles])
        return np.where(np.isnan(given), drawn * periods, given)

    def _run(self, meeting: Meeting, starts_s: Floats, seed: int) -> Floats:
        """Return mean seconds of an iteration and what it wants in excess, shape (2, jobs)."""
        network = self._network
        times = VARYING if network.jitter else FEWEST
        kept = network.readjust if self._carried(meeting) and not meeting.paces_s else None
        jobs = {
            place: PhaseJob(
                profile,
                tuple(link for link, (_, users) in enumerate(meeting.links) if place in users),
                float(starts_s[place]),
                schedule_s=meeting.profile(place).period_s,
                held=bool(meeting.paces_s) and meeting.paces_s[place] is not None,
            )
            for place, profile in enumerate(meeting.profiles)
        }
        capacities = {link: gbps for link, (gbps, _) in enumerate(meeting.links)}
        while True:
            run = run_phases(
                *(jobs, capacities),
                iterations=times,
                jitter=network.jitter,
                readjust=kept,
                random_seed=seed,
            )
            late, before = _means(run, 0.5, 1.0), _means(run, 0.25, 0.5)
            off = np.abs(late[0] - before[0]) > STEADY * before[0]
            if not off.any() or times >= MOST:
                return late
            times *= 2

    def _carried(self, meeting: Meeting) -> bool:
        """Whether jobs are shifted so that links carry everything at its time.

        Only then is there time to wait for: elsewhere iterations take longer than the period, and
        who keeps to the schedule of periods waits for most of the next one.
        """
        if self._network.readjust is None or None in meeting.starts_s:
            return False
        return all(
            score_of(
                [meeting.profile(job) for job in users],
                gbps,
                [meeting.starts_s[job] or 0.0 for job in users],
            )
            >= 1 - EQUAL
            for gbps, users in meeting.links
        )


def _means(run: PhaseRun, begin: float, end: float) -> Floats:
    """Return means over a part of the iterations of each job, shape (2, jobs)."""
    found = []
    for job, starts_s in run.starts_s.items():
        first, last = (round(part * (starts_s.size - 1)) for part in (begin, end))
        both = np.array([starts_s, run.marks_at_starts[job]])
        found.append((both[:, last] - both[:, first]) / (last - first))
    return np.array(found).T


def _drawn_for(meeting: Meeting) -> np.random.Generator:
    """Return random numbers that are always the same for a meeting."""
    digest = hashlib.sha256(repr(meeting).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
