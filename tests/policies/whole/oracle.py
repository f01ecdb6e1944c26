"""Whole decisions by enumeration, and random problems small enough for it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy
from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from apportion.policies.problem import Problem


class Knapsack(Policy):
    """Maximise a value for each option: the steps/s."""

    name = "knapsack"
    source = "a test"
    integral = True

    def objective(self, p: Problem) -> cp.Maximize:
        """Sum the values."""
        return cp.Maximize(p.total(cp.sum(cp.multiply(p.speed, p.X), axis=1)))


class Rotations(Policy):
    """Minimise what is held of soft resources above 1.5 of each; every job has an option."""

    name = "rotations_in_spirit"
    source = "a test"
    integral = True

    def objective(self, p: Problem) -> cp.Minimize:
        """Sum what is too much."""
        return cp.Minimize(cp.sum(cp.pos(p.held[p.soft] - 1.5)))

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        """Choose one for each job."""
        return [(p.time == 1).set_label("an option for each job")]


class LeastLoaded(Policy):
    """Give every job an option, those of most GPUs and of the first types before others."""

    name = "least_loaded_in_spirit"
    source = "a test"
    integral = True

    def objective(self, p: Problem) -> cp.Minimize:
        """Sum ranks, which are the same for many decisions."""
        return cp.Minimize(p.total(cp.sum(cp.multiply(np.round(p.gpus), p.X), axis=1)))

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        """Choose one for each job."""
        return [(p.time == 1).set_label("an option for each job")]


def random_instance(rng: np.random.Generator, *, types: int = 2, jobs: int = 4) -> Instance:
    """Draw jobs with options of 1, 2 and 4 GPUs of each type, some of them impossible."""
    gpus = np.tile([1, 2, 4], types)
    accelerator = np.repeat(np.arange(types), 3)
    speed = rng.uniform(1, 3, (jobs, types)).repeat(3, axis=1) * gpus ** rng.uniform(0.3, 1.0)
    speed[rng.random(speed.shape) < 0.2] = 0.0
    speed[:, 0] = 1.0
    capacity = rng.integers(2, 6, types)
    return Instance.of_options(speed, gpus, capacity, option_accelerator=accelerator)


def best_value(instance: Instance, values: np.ndarray, *, kept: np.ndarray | None = None) -> float:
    """Go through every decision about rows of single jobs; the best sum of values."""
    jobs, options = values.shape
    resources = instance.capacity.size
    usage = instance.usage.toarray().reshape(jobs, options, resources)
    best = -np.inf
    choices = [[-1, *np.flatnonzero(instance.throughput[job] > 0)] for job in range(jobs)]
    if kept is not None:
        choices = [[kept[j]] if kept[j] >= 0 else choices[j] for j in range(jobs)]
    for choice in product(*choices):
        taken = [(job, option) for job, option in enumerate(choice) if option >= 0]
        held = sum((usage[cell] for cell in taken), np.zeros(resources))
        if (held <= instance.capacity).all():
            best = max(best, sum(float(values[cell]) for cell in taken))
    return best
