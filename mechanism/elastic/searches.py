"""Elastic jobs as published code shares out GPUs among them: greedily, and by an evolution.

Neither is sure to find the best of what its authors state: the policies ``optimus`` and
``pollux`` are the programs, and these the ways in which they were solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from apportion.checks import number, whole
from apportion.checks import seed as check_seed
from apportion.mechanism.elastic.rule import ElasticJobs, ElasticRule, seconds_left

if TYPE_CHECKING:
    import pandas as pd

    from apportion.types import Bools, Floats, Ints


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


@dataclass(frozen=True, repr=False)
class PolluxSearch(ElasticRule):
    r"""Pollux as published: allocations evolve towards the largest FITNESS.

    A generation has `population` allocations, an option or none for every job. Children take each
    job from one of two parents, who each are the fitter of two drawn; a job of a child changes with
    a probability of one over the jobs: to what it has now (one time in ten), else to any of its
    options or none. What holds too many GPUs is repaired: jobs lose theirs in an order at random.
    The fittest of parents and children go on. FITNESS is that of the policy ``pollux``,

    .. math::

        \Big(\sum_i w_i \Big(\frac{s_i + \epsilon}{1 + \epsilon}\Big)^p
        / \sum_i w_i\Big)^{1/p},

    whose program finds its optimum. NSGA-II of the released code has one aim here, so that its
    fronts are an order; and its machines are the scheduler's, which packs what is chosen.

    Parameters
    ----------
    population, generations
        100 each in the released code.
    power, epsilon
        As in the policy.
    seed
        Of all draws of a decision: one that is asked the same again answers the same.

    Raises
    ------
    InputError
        For options out of range.
    """

    name: ClassVar[str] = "pollux_search"
    source: ClassVar[str] = "Pollux (Qiao et al., OSDI 2021), section 4.2.1"
    rule: ClassVar[str] = "allocations evolve towards the largest power mean of speed-ups"

    population: int = 100
    generations: int = 100
    power: float = -1.0
    epsilon: float = 4e-3
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("population", self.population, 2)
        whole("generations", self.generations, 1)
        number("epsilon", self.epsilon, strict=True)
        check_seed(self.seed)
        # Powers of 0 and above would reward unfairness; beyond 1,000 nothing is told apart.
        number("power", self.power, least=-1e3, most=-1e-3)

    def choose(self, jobs: ElasticJobs) -> Ints:
        """Let allocations evolve from what jobs have now and others; return the fittest."""
        count, none = len(jobs.speed), jobs.gpus.size
        if not count:
            return np.empty(0, dtype=np.intp)
        rng, term = np.random.default_rng(self.seed), self._terms(jobs)
        can = np.hstack([jobs.speed > 0, np.ones((count, 1), dtype=bool)])
        now = np.where(jobs.current >= 0, jobs.current, none)
        everybody = np.tile(now, (self.population, 1))
        everybody[1:] = _any_option(rng, can, self.population - 1)
        everybody = _repaired(rng, everybody, jobs)
        cost = _cost(term, everybody)
        for _ in range(self.generations):
            mother, father = (_fitter(rng, cost, self.population) for _ in range(2))
            from_mother = rng.random((self.population, count)) < 0.5
            child = np.where(from_mother, everybody[mother], everybody[father])
            changes = rng.random(child.shape) < 1 / count
            back = rng.random(child.shape) < 0.1
            other = np.where(back, now, _any_option(rng, can, self.population))
            child = _repaired(rng, np.where(changes, other, child), jobs)
            everybody = np.vstack([everybody, child])
            cost = np.concatenate([cost, _cost(term, child)])
            best = np.argsort(cost, kind="stable")[: self.population]
            everybody, cost = everybody[best], cost[best]
        fittest = everybody[int(cost.argmin())]
        return np.where(fittest < none, fittest, -1)

    def _terms(self, jobs: ElasticJobs) -> Floats:
        """Return what each option, and none, adds to the mean of powers, (jobs, options + 1)."""
        stays = np.arange(jobs.gpus.size) == jobs.current[:, None]
        fair = np.where(jobs.fair_speed > 0, jobs.fair_speed, 1.0)[:, None]
        s = jobs.speed / fair * np.where(stays, 1.0, jobs.reallocation_factor[:, None])
        level = (np.hstack([s, np.zeros((len(s), 1))]) + self.epsilon) / (1 + self.epsilon)
        return np.asarray(jobs.weight[:, None] * level**self.power, dtype=float)


def _any_option(rng: np.random.Generator, can: Bools, times: int) -> Ints:
    """Draw an option that each job can have, or none, evenly; shape (times, jobs)."""
    order = np.argsort(~can, axis=1, kind="stable")
    place = (rng.random((times, len(can))) * can.sum(axis=1)).astype(np.intp)
    return np.asarray(order[np.arange(len(can)), place], dtype=np.intp)


def _repaired(rng: np.random.Generator, everybody: Ints, jobs: ElasticJobs) -> Ints:
    """Let jobs have what fits, in an order at random for each allocation; the others have none."""
    none, (size, count) = jobs.gpus.size, everybody.shape
    gpus, kind = np.append(jobs.gpus, 0), np.append(jobs.kind, 0)
    left = np.tile(jobs.capacity, (size, 1))
    repaired, own = everybody.copy(), np.arange(size)
    order = rng.random((size, count)).argsort(axis=1)
    for turn in range(count):
        job = order[:, turn]
        option = everybody[own, job]
        fits = gpus[option] <= left[own, kind[option]]
        left[own, kind[option]] -= np.where(fits, gpus[option], 0)
        repaired[own, job] = np.where(fits, option, none)
    return repaired


def _cost(term: Floats, everybody: Ints) -> Floats:
    """Return the sum of powers of each allocation: the less, the fitter (powers are below 0)."""
    return np.asarray(term[np.arange(len(term)), everybody].sum(axis=1), dtype=float)


def _fitter(rng: np.random.Generator, cost: Floats, times: int) -> Ints:
    """Draw pairs, and return the fitter of each."""
    first, second = rng.integers(len(cost), size=(2, times))
    return np.asarray(np.where(cost[first] <= cost[second], first, second), dtype=np.intp)
