"""The oracle by hand, and lexicographic policies against it: units and decades are mixed."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from tests.oracles.water_filling import fill
from tests.seeds import ranges_of_seeds

from apportion.policies import (
    FinishTimeFairness,
    HierarchicalFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    Policy,
    solve_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def test_by_hand() -> None:
    """Few jobs, whose levels are plain to see."""
    assert fill([[1.0]], [1], [4], lambda _: [1]) == [1]
    assert fill([[1.0], [1.0]], [1, 1], [1], lambda _: [1, 2]) == [Fraction(1, 3), Fraction(2, 3)]
    alone = fill([[1.0, 0.0], [1.0, 1.0]], [1, 1], [1, 1], lambda active: [1.0 * a for a in active])
    assert alone == [1, 1]
    slow = fill([[0.25], [1.0], [1.0]], [1, 1, 1], [1], lambda active: [1.0 * a for a in active])
    assert slow == [Fraction(1, 6)] * 3
    tired = fill([[0.25], [1.0]], [1, 1], [1.5], lambda active: [1.0 * a for a in active])
    assert tired == [Fraction(1, 4), Fraction(1, 2)]


class Drawn(NamedTuple):
    """Up to 12 jobs on up to four types."""

    speed: Floats
    gpus: Floats
    capacity: Floats
    columns: dict[str, Floats]


def drawn(seed: int) -> Drawn:
    """Draw speeds, weights and steps over up to six decades, in units of up to 1e12."""
    rng = np.random.default_rng([8, seed])
    jobs, types, decades = (
        int(rng.integers(2, 13)),
        int(rng.integers(1, 5)),
        rng.choice([0, 1, 3, 6]),
    )

    def numbers(*shape: int) -> Floats:
        powers = rng.integers(-decades / 2, decades / 2 + 1, shape)
        return np.asarray(rng.integers(1, 100, shape) * 10.0**powers)

    speed = numbers(jobs, types)
    if rng.random() < 0.3:
        speed = np.outer(numbers(jobs), rng.integers(1, 10, types)).astype(float)
    if rng.random() < 0.3:
        speed = speed[rng.integers(0, max(1, jobs // 2), jobs)]
    if rng.random() < 0.3:
        speed = np.where(rng.random((jobs, types)) < 0.25, 0.0, speed)
        speed[np.arange(jobs), rng.integers(0, types, jobs)] += 1.0
    speed = speed * 10.0 ** rng.choice([0, 0, -12, 12, 3])
    gpus = rng.choice([1.0, 1.0, 2.0, 4.0], jobs)
    capacity = rng.integers(4, [5, 9, 40][seed % 3], types).astype(float)
    plain = rng.random() < 0.6
    columns = {
        "weight": rng.choice([1.0, 2.0, 5.0], jobs) if plain else numbers(jobs),
        "steps_remaining": numbers(jobs),
        "elapsed_s": np.zeros(jobs),
        "isolated_elapsed_s": np.zeros(jobs),
    }
    return Drawn(speed, gpus, capacity, columns)


def fractions(numbers: Floats) -> list[Fraction]:
    return [Fraction(number) for number in numbers.tolist()]


def steady(rates: list[Fraction]) -> Callable[[list[bool]], list[Fraction]]:
    return lambda active: [rate * one for rate, one in zip(rates, active, strict=True)]


def passed_on(instance: Instance, gpus: list[Fraction]) -> Callable[[list[bool]], list[Fraction]]:
    """Split 1 over the entities that can still rise, and each part over their jobs by weight."""
    weight = fractions(instance.columns["weight"])
    equal = fractions(instance.equal_share_throughput)
    entity = instance.columns["entity"].astype(int).tolist()

    def rates(active: list[bool]) -> list[Fraction]:
        total: dict[int, Fraction] = {}
        for job, one in enumerate(active):
            if one:
                total[entity[job]] = total.get(entity[job], Fraction(0)) + weight[job]
        return [
            weight[job] / total[entity[job]] / len(total) / gpus[job] * equal[job]
            if one
            else Fraction(0)
            for job, one in enumerate(active)
        ]

    return rates


def lexicographic(
    seed: int,
) -> tuple[Policy, Instance, Drawn, Callable[[list[bool]], list[Fraction]]]:
    """Return one of the policies, and the rates at which its definition lets steps/s rise."""
    case = drawn(seed)
    instance = Instance.of_jobs(case.speed, case.gpus, case.capacity, columns=case.columns)
    gpus, weight = fractions(case.gpus), fractions(case.columns["weight"])
    if seed % 4 == 0:
        equal = fractions(instance.equal_share_throughput)
        fair = [w * e / g for w, e, g in zip(weight, equal, gpus, strict=True)]
        return MaxMinFairness(lexicographic=True), instance, case, steady(fair)
    if seed % 4 == 1:
        steps = fractions(case.columns["steps_remaining"])
        return Makespan(lexicographic=True), instance, case, steady(steps)
    if seed % 4 == 2:  # nobody has waited: finish times are in proportion to steps over speeds
        alone = fractions(instance.isolated_throughput)
        return FinishTimeFairness(lexicographic=True), instance, case, steady(alone)
    _, entity = np.unique(
        np.random.default_rng(seed).integers(0, 3, len(gpus)), return_inverse=True
    )
    columns = {"weight": case.columns["weight"], "entity": entity.astype(float)}
    names = tuple("abc"[: int(entity.max()) + 1])
    instance = Instance.of_jobs(
        case.speed, case.gpus, case.capacity, columns=columns, entities=names
    )
    return HierarchicalFairness(), instance, case, passed_on(instance, gpus)


@pytest.mark.parametrize("seeds", ranges_of_seeds(16, 3000))
def test_lexicographic_optima_are_those_in_fractions(seeds: range) -> None:
    for seed in seeds:
        policy, instance, case, rates = lexicographic(seed)
        solution = solve_instance(policy, instance)
        each = (case.speed.tolist(), case.gpus.tolist(), case.capacity.tolist())
        exact = np.array([float(steps) for steps in fill(*each, rates)])
        np.testing.assert_allclose(solution.throughput, exact, rtol=1e-6, err_msg=str(seed))
