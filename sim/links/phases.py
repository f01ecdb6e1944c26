"""Jobs that go through the phases of their profiles, and send at max-min fair rates.

A phase is a burst: a transfer of so many gigabits at up to so many Gb/s, in the engine of
iterations, on a GPU of one's own.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import hashable, mapping, number, seconds, seed, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.gates import START
from apportion.mechanism.time_shifts import CommunicationProfile
from apportion.mechanism.time_shifts.link_compatibility import capacity_of
from apportion.mechanism.time_shifts.profile import ROUNDING as EDGE
from apportion.sim.links.engine import LinkEngine
from apportion.sim.links.iteration import Phase, in_phases
from apportion.sim.network.link_sharing import FairSharing, max_min_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from apportion.mechanism.gates import Flow, LinksView
    from apportion.sim.links.engine import Job, Transfer
    from apportion.sim.links.iteration import Iteration
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
class PhaseJob:
    """A job that makes iterations over links.

    Attributes
    ----------
    profile
        What an iteration sends, and when if nobody is in its way.
    links
        Names of the links that it uses, each at the same rate; none within one server.
    start_s
        When its first iteration begins: its time shift, seconds.
    schedule_s
        Seconds from one iteration to the next by the schedule that drift is measured against;
        ``None`` for the period of the profile. On links that cannot carry everything iterations
        take longer, and their schedule must allow for it.
    priority
        Of its traffic: on every link those of a larger one send first, and others share what they
        leave, see `crux_priorities`. Jobs of one priority share links max-min fairly.
    held
        Whether it is paced by its schedule: a phase that would begin early waits for its time.
    """

    profile: CommunicationProfile
    links: tuple[Hashable, ...] = ()
    start_s: float = 0.0
    schedule_s: float | None = None
    priority: float = 0.0
    held: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.profile, CommunicationProfile):
            raise InputError(f"{written(self.profile)} is no CommunicationProfile.")
        where = f"of the job {self.profile.name!r}"
        object.__setattr__(self, "links", tuple(hashable(f"link {where}", self.links)))
        if len(set(self.links)) < len(self.links):
            raise InputError(f"The links {where} are {written(self.links)}; name each once.")
        seconds(f"The start {where}", self.start_s)
        if self.schedule_s is not None:
            seconds(f"The schedule {where}", self.schedule_s, strict=True)
        number(f"The priority {where}", self.priority, least=-math.inf)

    @property
    def paced_s(self) -> float:
        """Seconds from one iteration to the next by the schedule."""
        return self.profile.period_s if self.schedule_s is None else self.schedule_s


@dataclass(frozen=True)
class PhaseRun:
    """Iterations of jobs on links.

    Attributes
    ----------
    end_s
        When the last job had made its iterations, seconds.
    starts_s
        When each iteration began, by job; the last of them is not complete.
    marks_gigabits
        Gigabits wanted above the capacities of links, by job: the integral of max(0, demand -
        capacity) over its links, by its part of what they were wanted for. Where switches mark
        what they cannot pass on at once (ECN), marks grow with it.
    marks_at_starts
        What they were when each iteration began, by job.
    readjusted
        How often each job waited to be on schedule again.
    """

    end_s: float
    starts_s: Mapping[Any, Floats]
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
    random_seed = seed(random_seed, "random_seed")
    engine = PhaseEngine(known, capacities, iterations, readjust)
    if jitter:
        engine.vary(jitter, random_seed)
    end_s, _ = engine.run(0.0, math.inf, to_completion=True)

    def by_name(of_jobs: Sequence[Any]) -> dict[Any, Any]:
        return dict(zip(known, of_jobs, strict=True))

    return PhaseRun(
        end_s=end_s,
        starts_s=by_name([np.array(each) for each in engine.starts_s]),
        marks_gigabits=by_name(engine.marks),
        marks_at_starts=by_name([np.array(each) for each in engine.marks_at]),
        readjusted=by_name(engine.readjusted),
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


class PhaseEngine(LinkEngine):
    """Jobs that have a GPU each, go through phases, and share links max-min fairly.

    It is the gate of its bursts as well: one that is off its job's schedule waits.

    Parameters
    ----------
    jobs, capacities, iterations, readjust
        As of `run_phases`.

    Attributes
    ----------
    starts_s, marks_at
        When each iteration began, and its job's marks then, by job.
    marks, readjusted
        Gigabits wanted above capacities, and waits for the schedule, of each job.
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
        links = list(dict.fromkeys(link for job in jobs.values() for link in job.links))
        law = FairSharing((1.0,) * (len(links) + len(jobs)))  # is not asked: see `_rates`
        super().__init__(len(jobs), len(law.capacity), law, self, None, list(jobs))
        self._leaps = False
        self._given, self._gbps = list(jobs.values()), capacities
        self._iterations, self._behind = iterations, len(jobs)
        self._allowed = math.inf if readjust is None else readjust + ROUNDING
        self._until_s: dict[int, float] = {}  # when those that wait for the schedule begin
        self._draws: list[Callable[[], float]] = [lambda: 1.0] * len(jobs)
        self._meet = lru_cache(REMEMBERED)(self._met)
        self._now: tuple[list[float], dict[int, float]] = [], {}
        self._marked_s = 0.0
        self.marks, self._starved_s = [0.0] * len(jobs), [0.0] * len(jobs)
        self.readjusted = [0] * len(jobs)
        self.starts_s: list[list[float]] = [[] for _ in jobs]
        self.marks_at: list[list[float]] = [[] for _ in jobs]
        self._begins_s: list[list[float]] = []
        works = {job.profile: iteration_of(job.profile) for job in self._given}
        for place, job in enumerate(self._given):
            work, begins_s = works[job.profile]
            self._begins_s.append(begins_s)
            on = [links.index(link) for link in job.links] or [len(links) + place]
            self.add(place, work, FOR_EVER, [place], on, (0, 0), job.start_s)

    def vary(self, jitter: float, random_seed: int) -> None:
        """Let computations take 1 - jitter to 1 + jitter of their time, evenly drawn."""
        draws = np.random.SeedSequence(random_seed).spawn(len(self._given))
        uniform = [np.random.default_rng(draw).uniform for draw in draws]
        self._draws = [partial(each, 1 - jitter, 1 + jitter) for each in uniform]

    def _task_s(self, job: Job, task: int) -> float:
        return job.iteration.gpu_s[task] * self._draws[job.number]()

    def _begin_iteration(self, job: Job, now_s: float) -> None:
        self._mark(now_s)
        self.starts_s[job.number].append(now_s)
        self.marks_at[job.number].append(self.marks[job.number])
        self._behind -= len(self.starts_s[job.number]) == self._iterations + 1
        if not self._behind:
            self._finished.append((job.number, now_s))
        super()._begin_iteration(job, now_s)

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Let a burst begin near its time; else it waits for the next one."""
        number, job = flow.job, self._given[flow.job]
        until_s = self._until_s.pop(number, None)
        if until_s is None:
            planned_s = job.start_s + self._begins_s[number][self._jobs[number].sent]
            late = (now_s - planned_s) % job.paced_s
            early = job.paced_s - late
            if job.held and early < late:  # it waits only for being paced
                if early <= ROUNDING * job.paced_s:
                    return START
            elif min(late, early) <= self._allowed * job.profile.period_s:
                return START
            else:
                self.readjusted[number] += 1
            until_s = now_s + early
        if until_s <= now_s + self._instant_s(now_s):
            return START
        self._until_s[number] = until_s
        return until_s

    def _share(self, now_s: float) -> None:
        self._mark(now_s)
        super()._share(now_s)

    def _rates(self, flows: list[Transfer]) -> list[float]:
        wanted = [0.0] * len(self._given)
        for flow in flows:
            wanted[flow.job] = flow.most
        self._now = self._meet(tuple(wanted))
        return [self._now[0][flow.job] for flow in flows]

    def _met(self, wanted: tuple[float, ...]) -> tuple[list[float], dict[int, float]]:
        """Return the Gb/s of jobs that want so much, and those wanted above what links have."""
        every: Counter[Hashable] = Counter()
        links_of = [job.links for job in self._given]
        for gbps, links in zip(wanted, links_of, strict=True):
            every.update(dict.fromkeys(links, gbps))
        lack = {on: max(0.0, 1 - self._gbps[on] / gbps) for on, gbps in every.items() if gbps}
        marks = {
            place: wanted[place] * sum(lack[on] for on in links)
            for place, links in enumerate(links_of)
            if wanted[place]
        }
        priorities = [job.priority for job in self._given]
        return max_min_rates(wanted, links_of, self._gbps, priorities), marks

    def _mark(self, now_s: float) -> None:
        """Take down what has been wanted above the capacities of links since the last time."""
        lasts_s, self._marked_s = now_s - self._marked_s, now_s
        rates, marks = self._now
        for place, gbps in marks.items():
            self.marks[place] += gbps * lasts_s
            self._starved_s[place] = 0.0 if rates[place] else self._starved_s[place] + lasts_s
            if self._starved_s[place] > STARVED * self._given[place].paced_s:
                raise InputError(
                    f"The job {written(self._names[place])} starves: those of a higher priority "
                    f"have left it nothing of its links for the time of {STARVED} iterations. Give "
                    "it a higher one."
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
