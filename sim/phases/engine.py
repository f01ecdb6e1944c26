"""Jobs that go through the phases of their profiles, and send at max-min fair rates.

A phase is a burst: a transfer of so many gigabits at up to so many Gb/s, in the engine of
iterations, on a GPU of one's own.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.checks import mapping, number, seed, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.gates import START
from apportion.mechanism.time_shifts.link_compatibility import capacity_of
from apportion.mechanism.time_shifts.profile import ROUNDING as EDGE
from apportion.sim.contention.engine import LinkEngine
from apportion.sim.contention.iteration import Phase, in_phases
from apportion.sim.network.link_sharing import FairSharing, max_min_rates
from apportion.sim.phases.job import PhaseJob

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from apportion.mechanism.gates import Flow, LinksView
    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.sim.contention.engine import Job, Transfer
    from apportion.sim.contention.iteration import Iteration
    from apportion.types import Floats


ROUNDING = 1e-12
"""Part of an iteration: what ends so little later ends now."""

MOST_SEGMENTS = 10_000_000

REMEMBERED = 20_000
"""Meetings of transfers whose rates are known by heart."""

FOR_EVER = 10**12
"""Iterations that no job comes to the end of."""

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
    engine = PhaseEngine(known, capacities, iterations, readjust)
    if jitter:
        engine.varies(jitter, [np.random.default_rng(draw) for draw in draws])
    end_s, _ = engine.run(0.0, math.inf, to_completion=True)
    return PhaseRun(
        end_s=end_s,
        starts_s={name: np.array(each) for name, each in zip(known, engine.starts_s, strict=True)},
        excess_gigabits=engine.excess,
        marks_gigabits=dict(zip(known, engine.marks, strict=True)),
        marks_at_starts={
            name: np.array(each) for name, each in zip(known, engine.marks_at, strict=True)
        },
        readjusted={name: engine.readjusted[place] for place, name in enumerate(known)},
    )


def iteration_of(profile: CommunicationProfile) -> tuple[Iteration, list[float]]:
    """Return an iteration that sends by a profile, and when each burst begins if it is alone.

    A burst of a phase that goes over the end of the period is sent in two: its end at the start of
    the iteration, its start at the end. Sizes are gigabits, rates Gb/s.
    """
    period_s, bursts = profile.period_s, []
    for start_s, lasts_s, gbps in profile.phases:
        bursts.append((start_s, min(start_s + lasts_s, period_s), gbps))
        if start_s + lasts_s - period_s > EDGE * period_s:
            bursts.append((0.0, start_s + lasts_s - period_s, gbps))
    phases, begins_s, now_s = [], [], 0.0
    for start_s, end_s, gbps in [*sorted(bursts), (period_s, period_s, 0.0)]:
        if start_s - now_s > EDGE * period_s:
            phases.append(Phase(gpu_s=start_s - now_s))
        if end_s > start_s:
            phases.append(Phase(size=(end_s - start_s) * gbps, most=gbps))
            begins_s.append(start_s)
        now_s = end_s
    return in_phases(phases), begins_s


class Meeting(NamedTuple):
    """What jobs send that want so much, and by what links are wanted above their capacity.

    Attributes
    ----------
    rates
        Gb/s of each job.
    above
        Gb/s that links lack, by link.
    marks
        Gb/s wanted above the capacities of links, by the job that wants them.
    """

    rates: list[float]
    above: dict[Hashable, float]
    marks: dict[int, float]


class PhaseEngine(LinkEngine):
    """Jobs that have a GPU each, go through phases, and share links max-min fairly.

    It is the gate of its bursts as well: one that is off its job's schedule waits.
    """

    name = "schedule"
    opens_at_starts = False
    least_instant_s = ROUNDING

    def __init__(
        self,
        jobs: Mapping[Any, PhaseJob],
        capacities: Mapping[Any, float],
        iterations: int,
        readjust: float | None,
    ) -> None:
        self._given, self._gbps = list(jobs.values()), capacities
        self._iterations, self._behind = iterations, len(jobs)
        self._readjust, self._known = readjust, dict[tuple[float, ...], Meeting]()
        self._meeting, self._met_s = Meeting([], {}, {}), 0.0
        self._draws: list[np.random.Generator] = []
        links = list(dict.fromkeys(link for job in self._given for link in job.links))
        law = FairSharing((1.0,) * (len(links) + len(jobs)))  # not asked: see `_rates`
        super().__init__(len(jobs), len(links) + len(jobs), law, self, None, list(jobs))
        self._leaps = False
        self._priorities = [job.priority for job in self._given]
        self._may_starve = len(set(self._priorities)) > 1
        self.starts_s: list[list[float]] = [[] for _ in jobs]
        self.marks_at: list[list[float]] = [[] for _ in jobs]
        self.marks, self.excess = [0.0] * len(jobs), dict.fromkeys(links, 0.0)
        self.readjusted: Counter[int] = Counter()
        self._until: dict[int, float] = {}
        self._starved_s = [0.0] * len(jobs)
        self._begins_s = []
        works = {job.profile: iteration_of(job.profile) for job in self._given}
        for place, job in enumerate(self._given):
            work, begins_s = works[job.profile]
            self._begins_s.append(begins_s)
            on = [links.index(link) for link in job.links] or [len(links) + place]
            self.add(place, work, FOR_EVER, [place], on, (0, 0), job.start_s)

    def varies(self, jitter: float, draws: list[np.random.Generator]) -> None:
        """Let computations take 1 - jitter to 1 + jitter of their time."""
        self._jitter, self._draws = jitter, draws

    def _task_s(self, job: Job, task: int) -> float:
        factor = 1.0
        if self._draws:
            factor += self._draws[job.number].uniform(-self._jitter, self._jitter)
        return job.iteration.gpu_s[task] * factor

    def _begin_iteration(self, job: Job, now_s: float) -> None:
        self._add_up(now_s)
        self.starts_s[job.number].append(now_s)
        self.marks_at[job.number].append(self.marks[job.number])
        self._behind -= len(self.starts_s[job.number]) == self._iterations + 1
        if not self._behind:
            self._finished.append((job.number, now_s))
        super()._begin_iteration(job, now_s)

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Let a burst begin near its time; else it waits for the next one."""
        number = flow.job
        if number in self._until:
            until_s = self._until[number]
            if until_s > now_s + self._instant_s(now_s):
                return until_s
            del self._until[number]
            return START
        job = self._given[number]
        planned_s = job.start_s + self._begins_s[number][self._jobs[number].sent]
        late = (now_s - planned_s) % job.paced_s
        early = job.paced_s - late
        if job.held and early < late:  # it waits only for being paced
            if early <= ROUNDING * job.paced_s:
                return START
        elif (
            self._readjust is None
            or min(late, early) <= (self._readjust + ROUNDING) * job.profile.period_s
        ):
            return START
        else:
            self.readjusted[number] += 1
        self._until[number] = now_s + early
        return now_s + early

    def _share(self, now_s: float) -> None:
        self._add_up(now_s)
        super()._share(now_s)

    def _rates(self, flows: list[Transfer]) -> list[float]:
        wanted = [0.0] * len(self._given)
        for flow in flows:
            wanted[flow.job] = flow.most
        known = self._known.get(tuple(wanted))
        if known is None:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            known = self._known[tuple(wanted)] = self._meet(wanted)
        self._meeting = known
        return [known.rates[flow.job] for flow in flows]

    def _meet(self, wanted: list[float]) -> Meeting:
        """Share links among the jobs that want something of them."""
        every: Counter[Hashable] = Counter()
        links_of = [job.links for job in self._given]
        for gbps, links in zip(wanted, links_of, strict=True):
            every.update(dict.fromkeys(links, gbps))
        above = {on: gbps - self._gbps[on] for on, gbps in every.items() if gbps > self._gbps[on]}
        marks = {
            place: sum(above[on] / every[on] for on in links if on in above) * wanted[place]
            for place, links in enumerate(links_of)
            if wanted[place]
        }
        rates = max_min_rates(wanted, links_of, self._gbps, self._priorities)
        return Meeting(rates, above, marks)

    def _add_up(self, now_s: float) -> None:
        """Take down what has been wanted above the capacities of links since the last time."""
        lasts_s, self._met_s = now_s - self._met_s, now_s
        for link, gbps in self._meeting.above.items():
            self.excess[link] += gbps * lasts_s
        for place, gbps in self._meeting.marks.items():
            self.marks[place] += gbps * lasts_s
            if self._may_starve:
                self._check_starving(place, lasts_s)

    def _check_starving(self, place: int, lasts_s: float) -> None:
        starved_s = 0.0 if self._meeting.rates[place] else self._starved_s[place] + lasts_s
        self._starved_s[place] = starved_s
        if starved_s > STARVED * self._given[place].paced_s:
            raise InputError(
                f"The job {written(self._names[place])} starves: those of a higher priority have "
                f"left it nothing of its links for the time of {STARVED} iterations. Give it a "
                "higher one."
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
