"""Greedy rules of elastic training: GPUs one after the other, or jobs shortest first.

They optimise nothing as a whole, so that they are no policies: AFS-L, Lyra's base workers, Optimus
as published, and Tiresias of rigid jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from apportion.checks import choice, whole
from apportion.errors import InputError
from apportion.mechanism.elastic.rule import ElasticJobs, ElasticRule, seconds_left
from apportion.mechanism.orders import DiscretizedLeastAttainedService
from apportion.table_checks import array_of
from apportion.ties import EXACT

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from apportion.types import Floats, Ints

Over = Literal["after", "before"]


def elastic_share(
    speed: ArrayLike, steps_remaining: ArrayLike, gpus: int, *, over: Over = "after"
) -> Ints:
    """Share out GPUs by AFS-L: each next GPU goes to the job on top of a scan of pairs.

    Of two jobs without GPUs the shorter leads. Else let b be the one with more GPUs (of equal
    counts the longer job), a the other, p their speeds now and p' with one GPU more: b leads if ::

        (p_b' - p_b) / p_b' > (p_a' - p_a) / p_a'

    else a. Jobs that another GPU makes no faster take no part. It compares pairs, and no sum is
    largest; so it is a rule and no program.

    Parameters
    ----------
    speed
        Steps/s of each job with 1, 2, ... GPUs, shape (jobs, most GPUs of a job).
    steps_remaining
        Of each job, shape (jobs,); with its speed now, or on one GPU, it says which is shorter.
    gpus
        GPUs that there are.
    over
        What a's gain is relative to: its speed after it (DeepBoot's code), or before it.

    Returns
    -------
    counts
        GPUs of each job, shape (jobs,). Of equals the first leads.

    Raises
    ------
    InputError
        For speeds that are negative or not finite, and shapes that do not go together.

    Source: Hwang et al., Elastic Resource Sharing for Distributed Deep Learning, NSDI 2021.
    """
    table, left = _checked(speed, steps_remaining)
    choice("over", over, ("after", "before"))
    whole("gpus", gpus, 0)
    table = np.hstack([np.zeros((table.shape[0], 1)), table])
    counts = np.zeros(left.size, dtype=np.intp)
    for _ in range(gpus):
        every = (_contender(table, left, counts, job, over) for job in range(left.size))
        contenders = [each for each in every if each is not None]
        if not contenders:
            break
        counts[reduce(_leader, contenders).job] += 1
    return counts


def base_workers(
    seconds: ArrayLike, base: ArrayLike, gpus: ArrayLike, first: ArrayLike
) -> NDArray[np.bool_]:
    """Serve jobs with their base workers on several types, shortest first.

    Each takes the type on which it is done soonest of those that have its base workers free; who
    finds none is passed over.

    Parameters
    ----------
    seconds
        What each job takes with its base workers on each type, infinite where it cannot run, shape
        (jobs, types).
    base
        Base workers of each job on each type, shape (jobs, types).
    gpus
        GPUs of each type, shape (types,).
    first
        Whether a job is served before those of which this is not said, shape (jobs,).

    Returns
    -------
    served
        Whether a job has its base workers, shape (jobs,). Equals are served in their order.
    """
    takes, workers = array_of("seconds", seconds, 2), array_of("base", base, 2)
    left, ahead = array_of("gpus", gpus, 1), np.asarray(first, dtype=bool)
    if not (takes.shape == workers.shape == (ahead.size, left.size) and ahead.ndim == 1):
        raise InputError(
            f"Seconds {takes.shape} and base workers {workers.shape} are by job and type, for "
            f"{ahead.size} jobs and {left.size} types."
        )
    served = np.zeros(len(takes), dtype=bool)
    shortest = takes.min(axis=1, initial=np.inf)
    for job in np.lexsort([shortest, ~ahead]).tolist():
        fits = np.where(workers[job] <= left, takes[job], np.inf)
        kind = int(fits.argmin())
        if np.isfinite(fits[kind]):
            served[job] = True
            left[kind] -= workers[job, kind]
    return served


class _Contender(NamedTuple):
    """A job that another GPU makes faster."""

    job: int
    gpus: int
    seconds: float
    gain: float
    gain_as_less: float


def _contender(
    table: Floats, left: Floats, counts: Ints, job: int, over: Over
) -> _Contender | None:
    """Return what is compared of a job, or None if another GPU makes it no faster."""
    gpus = int(counts[job])
    if gpus + 1 >= table.shape[1] or not table[job, gpus + 1] > table[job, gpus]:
        return None
    now, after = float(table[job, gpus]), float(table[job, gpus + 1])
    below = after if over == "after" else now
    as_less = (after - now) / below if below > 0 else np.inf
    at = max(float(table[job, max(gpus, 1)]), np.finfo(float).tiny)
    return _Contender(job, gpus, float(left[job]) / at, (after - now) / after, as_less)


def _leader(first: _Contender, second: _Contender) -> _Contender:
    """Return the one of two jobs that gets the GPU."""
    if first.gpus == second.gpus == 0:
        return min(first, second, key=lambda each: (each.seconds, each.job))
    less, more = sorted((first, second), key=lambda each: (each.gpus, each.seconds, each.job))
    return more if more.gain > less.gain_as_less else less


def _checked(speed: ArrayLike, steps_remaining: ArrayLike) -> tuple[Floats, Floats]:
    table, left = np.asarray(speed, dtype=float), np.asarray(steps_remaining, dtype=float)
    if table.ndim != 2 or left.shape != table.shape[:1]:
        raise InputError(
            f"speed has the shape {table.shape} and steps_remaining {left.shape}; they must be "
            f"(jobs, most GPUs of a job) and (jobs,)."
        )
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise InputError("speed must be finite numbers of steps/s >= 0.")
    return table, left


@dataclass(frozen=True, repr=False)
class AFS(ElasticRule):
    """AFS-L: each next GPU to the job on top of a scan of pairs, see `elastic_share`.

    Rigid jobs, which it does not know, are served before, the shortest first. GPUs are of one type,
    and every number of them is an option.

    Parameters
    ----------
    over
        What the gain of the job with fewer GPUs is relative to, see `elastic_share`.
    """

    name: ClassVar[str] = "afs"
    source: ClassVar[str] = "AFS (NSDI 2021), AFS-L"
    rule: ClassVar[str] = "each next GPU to the larger relative gain; the shorter of two without"

    over: Over = "after"

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it goes by how long jobs will run: it does."""
        return True

    def choose(self, jobs: ElasticJobs) -> Ints:
        """Share out the GPUs one by one.

        Raises
        ------
        InputError
            For several types, or options that are not every number of GPUs.
        """
        order = np.argsort(jobs.gpus)
        if jobs.capacity.size > 1 or (jobs.gpus[order] != np.arange(1, order.size + 1)).any():
            raise InputError(
                "'afs' shares out GPUs of one type, one by one: give a cluster of one type, and "
                "gang_sizes='every'."
            )
        chosen = np.full(len(jobs.speed), -1, dtype=np.intp)
        left = int(jobs.capacity[0])
        rigid = np.flatnonzero(jobs.rigid)
        if rigid.size:
            own = jobs.speed[rigid].argmax(axis=1)
            seconds = seconds_left(jobs)[rigid, own]
            columns = seconds[:, None], jobs.gpus[own][:, None]
            served = base_workers(*columns, [left], np.zeros(rigid.size, dtype=bool))
            chosen[rigid[served]] = own[served]
            left -= int(jobs.gpus[own[served]].sum())
        others = np.flatnonzero(~jobs.rigid)
        table = jobs.speed[np.ix_(others, order)]
        counts = elastic_share(table, jobs.steps_remaining[others], left, over=self.over)
        has = counts > 0
        chosen[others[has]] = order[counts[has] - 1]
        return chosen


@dataclass(frozen=True, repr=False)
class Tiresias(ElasticRule):
    """Queues of GPU-time held, two-dimensional; every job with the GPUs and batch of its user.

    In each queue the earliest arrival comes first. Who does not fit is passed over, and who comes
    later loses its GPUs. A job stays on its type if it can, else it takes the fastest that is free.

    Parameters
    ----------
    queue_limits
        GPU-seconds at which a job falls into the next queue, ascending.

    Raises
    ------
    InputError
        If the limits do not ascend from above 0.
    """

    name: ClassVar[str] = "tiresias"
    source: ClassVar[str] = "Tiresias (Gu et al., NSDI 2019), section 3; limit as Pollux sets it"
    rule: ClassVar[str] = DiscretizedLeastAttainedService.rule
    all_rigid: ClassVar[bool] = True

    queue_limits: tuple[float, ...] = (57_600.0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._order()

    def choose(self, jobs: ElasticJobs) -> Ints:
        """Serve the queues."""
        queue = self._order().queue_of(jobs.attained_gpu_s)
        # Within a queue first come, first served; of one time in the order of submission.
        turn = np.lexsort([np.arange(queue.size), jobs.arrival_s, queue])
        chosen = np.full(queue.size, -1, dtype=np.intp)
        left = jobs.capacity.copy()
        for job in turn.tolist():
            speed = jobs.speed[job] * (jobs.gpus <= left[jobs.kind])
            if jobs.current[job] >= 0 and speed[jobs.current[job]] > 0:
                chosen[job] = jobs.current[job]
            elif speed.any():
                chosen[job] = int(np.argmax(speed >= speed.max() * (1 - EXACT)))
            if chosen[job] >= 0:
                left[jobs.kind[chosen[job]]] -= jobs.gpus[chosen[job]]
        return chosen

    def _order(self) -> DiscretizedLeastAttainedService:
        return DiscretizedLeastAttainedService(self.queue_limits)


@dataclass(frozen=True, repr=False)
class OptimusGreedy(ElasticRule):
    """Optimus as published: one worker for each job in turn, then the largest marginal gain.

    Jobs come by arrival; each gets its option of fewest GPUs, on the fastest type that has them.
    Then a job goes on to its next larger option on its type, again and again, the one whose
    remaining time falls most per GPU::

        gain = (remaining seconds now - then) / more GPUs

    until no gain is above 0 or no GPU is left. Where one more GPU gains nothing and two would, it
    stops. The program of the same aim is the policy ``optimus``.
    """

    name: ClassVar[str] = "optimus_greedy"
    source: ClassVar[str] = "Optimus (Peng et al., EuroSys 2018), section 4.1"
    rule: ClassVar[str] = "one worker each, then each next one where it cuts remaining time most"

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it goes by how long jobs will run: it does."""
        return True

    def choose(self, jobs: ElasticJobs) -> Ints:
        """Share out the GPUs, largest gain first; of equals the first job leads."""
        seconds, left = seconds_left(jobs), jobs.capacity.copy()
        chosen = np.full(len(seconds), -1, dtype=np.intp)
        # Jobs of one time stay in the order of submission.
        for job in np.argsort(jobs.arrival_s, kind="stable").tolist():
            fits = np.isfinite(seconds[job]) & (jobs.gpus <= left[jobs.kind])
            if fits.any():
                least = fits & (jobs.gpus == jobs.gpus[fits].min())
                chosen[job] = int(np.where(least, seconds[job], np.inf).argmin())
                left[jobs.kind[chosen[job]]] -= jobs.gpus[chosen[job]]
        while True:
            steps = [
                _next_step(jobs, seconds, job, int(chosen[job]), left) for job in range(len(chosen))
            ]
            gains = np.array([gain for gain, _ in steps])
            if not gains.size or not gains.max() > 0:
                return chosen
            job = int(gains.argmax())
            option = steps[job][1]
            left[jobs.kind[option]] -= jobs.gpus[option] - jobs.gpus[chosen[job]]
            chosen[job] = option


def _next_step(
    jobs: ElasticJobs, seconds: Floats, job: int, own: int, left: Ints
) -> tuple[float, int]:
    """Return what the next larger option of a job saves per GPU, and that option."""
    if own < 0:
        return 0.0, -1
    more = jobs.gpus - jobs.gpus[own]
    larger = (jobs.kind == jobs.kind[own]) & (more > 0) & np.isfinite(seconds[job])
    if not larger.any():
        return 0.0, -1
    option = int(np.where(larger, more, np.iinfo(np.intp).max).argmin())
    if more[option] > left[jobs.kind[own]]:
        return 0.0, -1
    return float((seconds[job, own] - seconds[job, option]) / more[option]), option
