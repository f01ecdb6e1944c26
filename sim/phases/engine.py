"""From event to event: jobs compute, and send at max-min fair rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.checks import mapping, number, seed, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.time_shifts.link_compatibility import capacity_of
from apportion.sim.network.link_sharing import max_min_rates
from apportion.sim.phases.segments import PhaseJob, segments_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from apportion.types import Floats


ROUNDING = 1e-12
"""Part of an iteration: what ends so little later ends now."""

MOST_SEGMENTS = 10_000_000

REMEMBERED = 20_000
"""Meetings of transfers whose rates are known by heart."""

STARVED = 200
"""Iterations in whose time a job sends nothing when it starves: priorities may leave it nothing."""


@dataclass(frozen=True)
class PhaseRun:
    """Iterations of jobs on links.

    Attributes
    ----------
    end_s
        When the last job had made its iterations, seconds.
    starts_s
        When each iteration began, by job; the last of them is not complete.
    excess_gigabits
        Gigabits wanted above the capacity of a link, by link: the integral of max(0, demand -
        capacity) over the jobs that send. Where switches mark what they cannot pass on at once
        (ECN), marks grow with it.
    marks_gigabits
        The same by job: that of its links, by its part of what they were wanted for.
    marks_at_starts
        What they were when each iteration began, by job.
    readjusted
        How often each job waited to be on schedule again.
    """

    end_s: float
    starts_s: Mapping[Any, Floats]
    excess_gigabits: Mapping[Any, float]
    marks_gigabits: Mapping[Any, float]
    marks_at_starts: Mapping[Any, Floats]
    readjusted: Mapping[Any, int]

    def iterations_s(self, job: Any, *, after: int = 0) -> Floats:
        """Return the seconds of the iterations of a job, without so many of the first."""
        found: Floats = np.diff(self.starts_s[job])[after:]
        return found

    def mean_s(self, job: Any, *, after: int = 0) -> float:
        """Return the mean iteration of a job, seconds, without so many of the first."""
        return float(self.iterations_s(job, after=after).mean())


def run_phases(
    jobs: Mapping[Any, PhaseJob],
    capacities: Mapping[Any, float],
    *,
    iterations: int = 20,
    readjust: float | None = None,
    jitter: float = 0.0,
    random_seed: int = 0,
) -> PhaseRun:
    """Run jobs over the links that they share until each has made so many iterations.

    A job computes for the seconds between the phases of its profile, and sends the gigabits of a
    phase at up to its Gb/s; links are shared by `max_min_rates`. All goes on until the last job
    is done. Rates are constant between events, so that times are exact but for rounding.

    Parameters
    ----------
    jobs
        By name.
    capacities
        Gb/s of each link.
    iterations
        That every job makes at least.
    readjust
        Part of an iteration by which a phase may begin off schedule, early or late; beyond it the
        job waits for its next time on the schedule. CASSINI's is 0.05; ``None`` never waits.
    jitter
        Every computation takes 1 - jitter to 1 + jitter of its time, evenly drawn.
    random_seed
        Of the draws; every job has its own, in the order of the jobs.

    Raises
    ------
    InputError
        If there is no job, a link of a job or its capacity is missing, the periods differ so
        much that there would be more than ten million phases, or a job starves, as jobs of a higher
        priority leave it nothing of its links.
    """
    whole("iterations", iterations, 1)
    if readjust is not None:
        number("readjust", readjust, strict=True, most=0.5)
    number("jitter", jitter, most=0.9)
    known = _checked(jobs, capacities, iterations)
    draws = np.random.SeedSequence(seed(random_seed, "random_seed")).spawn(len(known))
    running = [
        _Running(job, np.random.default_rng(draw), jitter, readjust)
        for job, draw in zip(known.values(), draws, strict=True)
    ]
    excess = {link: 0.0 for job in known.values() for link in job.links}
    links_of = [job.links for job in known.values()]
    priorities = [job.priority for job in known.values()]
    may_starve = len(set(priorities)) > 1
    meetings: dict[tuple[float, ...], _Sent] = {}  # by what each job wants
    now_s = 0.0
    while any(len(job.starts_s) <= iterations for job in running):
        wanted = tuple([job.wants for job in running])
        sent = meetings.get(wanted)
        if sent is None:
            if len(meetings) > REMEMBERED:
                meetings.clear()
            sent = meetings[wanted] = _sent(wanted, links_of, capacities, priorities)
        for job, rate in zip(running, sent.rates, strict=True):
            if job.wants:
                job.rate = rate
        left = [job.left_s for job in running]
        step_s = min(left)
        for link, gbps in sent.above.items():
            excess[link] += gbps * step_s
        for place, links in sent.marked:
            own = running[place]
            own.marks += sum(gbps * step_s * own.wants / every for gbps, every in links)
        now_s += step_s
        if may_starve:
            _check_starving(known, running)
        for job, left_s in zip(running, left, strict=True):
            job.advance(step_s)
            if left_s - step_s <= ROUNDING * job.job.profile.period_s:
                job.next(now_s)
    by_name = dict(zip(known, running, strict=True))
    return PhaseRun(
        end_s=now_s,
        starts_s={name: np.array(job.starts_s) for name, job in by_name.items()},
        excess_gigabits=excess,
        marks_gigabits={name: job.marks for name, job in by_name.items()},
        marks_at_starts={name: np.array(job.marks_at_starts) for name, job in by_name.items()},
        readjusted={name: job.readjusted for name, job in by_name.items()},
    )


class _Running:
    """Where a job is in its iteration."""

    def __init__(
        self, job: PhaseJob, rng: np.random.Generator, jitter: float, readjust: float | None
    ) -> None:
        self.job, self.segments = job, segments_of(job.profile)
        self.starts_s: list[float] = []
        self.marks_at_starts: list[float] = []
        self.readjusted, self.marks = 0, 0.0
        self._rng, self._jitter, self._readjust = rng, jitter, readjust
        self.wants, self.rate, self.waits_s = 0.0, 1.0, 0.0
        self._place, self._left, self._waited = -1, job.start_s, False
        self._early = False  # whether it waits only for being paced

    @property
    def left_s(self) -> float:
        """Seconds until the segment ends at its present rate; infinite while nothing is sent."""
        return max(0.0, self._left / self.rate) if self.rate else math.inf

    def advance(self, step_s: float) -> None:
        """Let time pass."""
        self._left -= step_s * self.rate
        self.waits_s = 0.0 if self.rate else self.waits_s + step_s

    def next(self, now_s: float) -> None:
        """Begin what comes after a segment that has ended: a wait, or the next segment."""
        if not self._waited:
            self._place = (self._place + 1) % len(self.segments)
            if self._place == 0:
                self.starts_s.append(now_s)
                self.marks_at_starts.append(self.marks)
        segment = self.segments[self._place]
        wait_s = 0.0 if self._waited or not segment.gbps else self._off_schedule(now_s)
        self._waited = wait_s > 0
        if self._waited:
            self.readjusted += not self._early
            self._left, self.wants, self.rate = wait_s, 0.0, 1.0
            return
        self._left, self.wants = segment.amount, segment.gbps
        if not segment.gbps:
            self.rate = 1.0
            if self._jitter:
                self._left *= 1 + self._rng.uniform(-self._jitter, self._jitter)

    def _off_schedule(self, now_s: float) -> float:
        """Return how long to wait: 0 if near the schedule, else until its next time."""
        self._early = False
        if self._readjust is None and not self.job.held:
            return 0.0
        planned = self.job.start_s + self.segments[self._place].start_s
        late = float(np.mod(now_s - planned, self.job.paced_s))
        early = self.job.paced_s - late
        if self.job.held and early < late:
            self._early = early > ROUNDING * self.job.paced_s
            return early if self._early else 0.0
        if self._readjust is None:
            return 0.0
        allowed = (self._readjust + ROUNDING) * self.job.profile.period_s
        return early if min(late, early) > allowed else 0.0


class _Sent(NamedTuple):
    """What jobs send that want so much, and by what links are wanted above their capacity.

    `rates` has the Gb/s of each job, `above` those that a link lacks, and `marked` for each job on
    such links what they lack and what is wanted of them.
    """

    rates: list[float]
    above: dict[Hashable, float]
    marked: list[tuple[int, list[tuple[float, float]]]]


def _sent(
    wanted: tuple[float, ...],
    links_of: Sequence[tuple[Hashable, ...]],
    capacities: Mapping[Any, float],
    priorities: Sequence[float],
) -> _Sent:
    """Share links among the jobs that want something of them."""
    every: dict[Hashable, float] = {}
    for gbps, links in zip(wanted, links_of, strict=True):
        if gbps:
            for link in links:
                every[link] = every.get(link, 0.0) + gbps
    above = {
        link: gbps - capacities[link] for link, gbps in every.items() if gbps > capacities[link]
    }
    lacking = [
        (job, [(above[link], every[link]) for link in links if link in above])
        for job, links in enumerate(links_of)
        if wanted[job]
    ]
    rates = max_min_rates(wanted, links_of, capacities, priorities)
    return _Sent(rates, above, [each for each in lacking if each[1]])


def _check_starving(known: Mapping[Any, PhaseJob], running: list[_Running]) -> None:
    for name, job in zip(known, running, strict=True):
        if job.waits_s > STARVED * job.job.paced_s:
            raise InputError(
                f"The job {written(name)} starves: those of a higher priority have left it nothing "
                f"of its links for the time of {STARVED} iterations. Give it a higher one."
            )


def _checked(jobs: Any, capacities: Any, iterations: int) -> dict[Any, PhaseJob]:
    """Check that jobs and links belong together."""
    known: dict[Any, PhaseJob] = mapping("jobs", jobs, "a mapping from names to PhaseJob")
    gbps = mapping("capacities", capacities, "a mapping from links to Gb/s")
    if not known:
        raise InputError("jobs is empty; links need at least one job to run.")
    for name, job in known.items():
        if not isinstance(job, PhaseJob):
            raise InputError(f"The job {written(name)} is {written(job)}; it must be a PhaseJob.")
        for link in job.links:
            if link not in gbps:
                raise unknown_name(f"link of the job {written(name)}", link, gbps)
            capacity_of(gbps[link])
    longest = max(job.paced_s * iterations + job.start_s for job in known.values())
    segments = sum(
        longest / job.profile.period_s * (1 + 2 * len(job.profile.phases)) for job in known.values()
    )
    if segments > MOST_SEGMENTS:
        raise InputError(
            f"{iterations} iterations of the longest period are {segments:.3g} phases of all jobs, "
            f"above {MOST_SEGMENTS}: make fewer iterations, or of periods that differ less."
        )
    return known
