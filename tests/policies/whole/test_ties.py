"""Of equal decisions the one without changes, whatever the last bits of the numbers are."""

from __future__ import annotations

from itertools import product

import cvxpy as cp
import numpy as np
import pytest

from apportion.policies.base import Policy
from apportion.policies.instance import Instance
from apportion.policies.problem import Problem  # noqa: TC001 - pytest reads no annotations
from apportion.policies.solver import solve_instance


class ByColumns(Policy):
    """Maximise small whole numbers, of which many sums are equal, as good as whole."""

    name = "by_columns"
    source = "a test"
    integral = True

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise

    def objective(self, p: Problem) -> cp.Maximize:
        """Sum the values."""
        rng = np.random.default_rng(1)
        values = np.rint(p.speed) * (1 + self.noise * rng.uniform(-1, 1, p.speed.shape)) / 3
        return cp.Maximize(p.total(cp.sum(cp.multiply(values, p.X), axis=1)))


def draw(rng: np.random.Generator, types: int) -> Instance:
    gpus = np.tile([1, 2], types)
    jobs = 6 if types == 1 else 4
    speed = rng.integers(1, 4, (jobs, gpus.size)).astype(float)
    now = rng.integers(-1, gpus.size, jobs).astype(float)
    capacity = rng.integers(2, 5, types)
    types_of_options = np.repeat(np.arange(types), 2)
    columns = {"current_option": now}
    return Instance.of_options(
        speed, gpus, capacity, option_accelerator=types_of_options, columns=columns
    )


def best_and_most_that_stay(instance: Instance) -> tuple[float, int]:
    jobs, options = instance.throughput.shape
    now = instance.columns["current_option"].astype(int)
    best = (-1.0, -1)
    for choice in product(range(-1, options), repeat=jobs):
        held = np.zeros(instance.capacity.size)
        value, stay = 0.0, 0
        for job, option in enumerate(choice):
            if option >= 0:
                held[instance.option_accelerator[option]] += instance.gpus[job, option]
                value += instance.throughput[job, option]
                stay += option == now[job]
        if (held <= instance.capacity).all():
            best = max(best, (value, stay))
    return best


@pytest.mark.parametrize("types", [1, 2])
def test_as_many_jobs_as_can_be_stay(types: int) -> None:
    rng = np.random.default_rng(types)
    for _ in range(12):
        instance = draw(rng, types)
        value, stay = best_and_most_that_stay(instance)
        found = solve_instance(ByColumns(), instance)
        assert found.objective == pytest.approx(value / 3, rel=1e-9)
        assert (found.X * instance.current).sum() == stay
        assert found.gap <= 1e-9
        noisy = solve_instance(ByColumns(noise=1e-15), instance)
        np.testing.assert_array_equal(noisy.X, found.X)
