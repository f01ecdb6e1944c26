"""The oracle by hand, and lexicographic policies against it: units and decades are mixed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from tests.oracles.water_filling import NOTHING, fill, fill_late
from tests.seeds import ranges_of_seeds, sampled

from apportion.policies import (
    FinishTimeFairness,
    HierarchicalFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    Policy,
    Problem,
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


def passed_on(
    instance: Instance,
    gpus: list[Fraction],
    part: list[Fraction] | None = None,
    inner: str = "fairness",
) -> Callable[[list[bool]], list[Fraction]]:
    """Split 1 over the entities that can still rise, and what each gets over their jobs.

    By the weights of the jobs, or all to the first of them. Entities weigh 1, or `part`.
    """
    weight = fractions(instance.columns["weight"])
    equal = fractions(instance.equal_share_throughput)
    entity = instance.columns["entity"].astype(int).tolist()
    share = part or [Fraction(1)] * (max(entity) + 1)

    def rates(active: list[bool]) -> list[Fraction]:
        wanted = [each if one else NOTHING for each, one in zip(weight, active, strict=True)]
        if inner == "fifo":
            order = instance.columns["order"].tolist()
            for own in set(entity):
                line = [job for job, one in enumerate(active) if one and entity[job] == own]
                for job in sorted(line, key=order.__getitem__)[1:]:
                    wanted[job] = NOTHING
        total: dict[int, Fraction] = {}
        for own, each in zip(entity, wanted, strict=True):
            total[own] = total.get(own, NOTHING) + each
        of_all = sum(share[own] for own, each in total.items() if each)
        return [
            each / total[own] * share[own] / of_all / held * e if each else NOTHING
            for each, own, held, e in zip(wanted, entity, gpus, equal, strict=True)
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
        case.speed, case.gpus, case.capacity, columns=columns, texts={"entity": names}
    )
    return HierarchicalFairness(), instance, case, passed_on(instance, gpus)


@dataclass(frozen=True)
class Capped(MaxMinFairness):
    """A policy of one's own: nobody may run for more than a part of the time."""

    name = "capped"
    columns = (*MaxMinFairness.columns, "longest")  # type: ignore[assignment]
    lexicographic: bool = True

    def constraints(self, p: Problem) -> list[Any]:
        return [cp.sum(p.X, axis=1) <= p.column("longest")]


def further(seed: int) -> tuple[Policy, Instance, list[Fraction]]:
    """Return what `lexicographic` leaves out, and the steps/s at the optimum."""
    rng = np.random.default_rng([9, seed])
    case = drawn(seed + 10**6)
    each = (case.speed.tolist(), case.gpus.tolist(), case.capacity.tolist())
    jobs = len(case.gpus)
    longest = rng.choice([0.1, 0.5, 1.0], jobs) * rng.choice([1.0, 1e-3, 1e-6])
    columns = case.columns | {"longest": longest}
    gpus = fractions(case.gpus)
    if seed % 4 == 0:
        instance = Instance.of_jobs(case.speed, case.gpus, case.capacity, columns=columns)
        equal = fractions(instance.equal_share_throughput)
        weight = fractions(columns["weight"])
        fair = [w * e / g for w, e, g in zip(weight, equal, gpus, strict=True)]
        return Capped(), instance, fill(*each, steady(fair), longest.tolist())
    if seed % 4 == 1:
        _, entity = np.unique(rng.integers(0, 3, jobs), return_inverse=True)
        names = tuple("abc"[: int(entity.max()) + 1])
        weights = dict(zip(names, rng.choice([1.0, 3.0, 1e3], 3).tolist(), strict=False))
        columns |= {"entity": entity.astype(float), "order": rng.permutation(jobs).astype(float)}
        inner = "fifo" if rng.random() < 0.5 else "fairness"
        instance = Instance.of_jobs(
            case.speed, case.gpus, case.capacity, columns=columns, texts={"entity": names}
        )
        rates = passed_on(instance, gpus, [Fraction(weights[name]) for name in names], inner)
        policy = HierarchicalFairness(weights=weights, inner=inner)
        return policy, instance, fill(*each, rates)
    # Jobs that have waited, some of them for nearly all of the time that they should take.
    alone_s = columns["steps_remaining"] / Instance.of_jobs(*each).isolated_throughput
    columns["isolated_elapsed_s"] = alone_s * rng.choice([0.0, 0.1, 1.0, 10.0], jobs)
    columns["elapsed_s"] = columns["isolated_elapsed_s"] * rng.choice([0.5, 1.0, 2.0], jobs)
    instance = Instance.of_jobs(case.speed, case.gpus, case.capacity, columns=columns)
    steps, alone = fractions(columns["steps_remaining"]), fractions(instance.isolated_throughput)
    there = fractions(columns["isolated_elapsed_s"])
    ideal = [e + s / u for e, s, u in zip(there, steps, alone, strict=True)]
    factor = [s / i for s, i in zip(steps, ideal, strict=True)]
    offset = [e / i for e, i in zip(fractions(columns["elapsed_s"]), ideal, strict=True)]
    return FinishTimeFairness(lexicographic=True), instance, fill_late(*each, factor, offset)


def assert_right(policy: Policy, instance: Instance, exact: list[Fraction], seed: int) -> None:
    """All is right; what hangs on the rounding errors of the data may be a part of a GPU."""
    solution = solve_instance(policy, instance)
    has = np.array([float(steps) for steps in exact])
    off = np.abs(solution.throughput - has)
    # Who should have nothing may have as much of its time as levels are said to be off by.
    stray = max(1e-14, solution.gap if solution.gap <= 1e-10 else 0.0)
    assert (off <= 1e-6 * has + stray * instance.fastest_throughput).all(), (seed, solution.gap)


@pytest.mark.parametrize("seeds", ranges_of_seeds(6, 3000))
def test_lexicographic_optima_are_those_in_fractions(seeds: range) -> None:
    for seed in seeds:
        policy, instance, case, rates = lexicographic(seed)
        each = (case.speed.tolist(), case.gpus.tolist(), case.capacity.tolist())
        assert_right(policy, instance, fill(*each, rates), seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(4, 3000))
def test_elapsed_times_weights_orders_and_limits_do_not_matter(seeds: range) -> None:
    for seed in seeds:
        assert_right(*further(seed), seed)


@pytest.mark.parametrize("seed", sampled([151, 153, 861, 1051, 2961], 3))
def test_levels_that_rounding_errors_may_have_moved_say_so(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In floats only, these were up to twice what they are."""
    monkeypatch.setattr("apportion.policies.core.water_filling._FEW", 0)
    policy, instance, case, rates = lexicographic(seed)
    solution = solve_instance(policy, instance)
    each = (case.speed.tolist(), case.gpus.tolist(), case.capacity.tolist())
    has = np.array([float(steps) for steps in fill(*each, rates)])
    off = float(np.abs(solution.throughput / has - 1).max())
    assert off <= 1e-6 or (solution.status == "optimal_inaccurate" and solution.gap > 1e-6)
    assert solution.gap > 1e-12
