"""Types without GPUs, data over many decades, and problems that no solver here can take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed, ranges_of_seeds, sampled

import apportion as ap
from apportion.policies import (
    FinishTimeFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    Policy,
    Problem,
    StrategyProof,
    solve_instance,
)
from benchmarks.trust.run import record

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.mark.parametrize("second", [0, 1])
def test_a_type_without_gpus_does_not_decide_who_is_even(second: int) -> None:
    T = pd.DataFrame({"v": [5.0] * 4, "k": [2.0] * 4})
    a = ap.solve("max_total_throughput", T, workers={"v": 2, "k": second}, group=False)
    np.testing.assert_allclose(a.X["v"], 0.5, atol=1e-7)


@pytest.mark.parametrize("seed", each_seed(2, 6))
def test_water_filling_over_binding_capacities_of_many_types(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed, weight = rng.uniform(1, 10, (40, 8)), rng.choice([0.2, 1.0, 5.0], 40)
    speed[rng.random((40, 8)) < 0.4] = 0.0
    speed[np.arange(40), rng.integers(0, 8, 40)] += 1.0
    capacity = rng.integers(1, 5, 8).astype(float)
    instance = Instance.of_jobs(speed, np.ones(40), capacity, columns={"weight": weight})
    both = [
        solve_instance(MaxMinFairness(lexicographic=lexicographic), instance)
        for lexicographic in (True, False)
    ]
    assert both[0].status == "optimal"
    assert both[0].objective == pytest.approx(both[1].objective, rel=1e-7)


@pytest.mark.parametrize("seed", each_seed(3, 8))
def test_finish_times_of_steps_over_eight_decades(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed = np.exp(rng.normal(0, 1, (112, 1))) * 10.0 ** rng.uniform(-1, 1, (112, 1))
    elapsed = rng.integers(0, 2, 112) * 10.0 ** rng.uniform(0, 5, 112)
    columns = {
        "steps_remaining": 10.0 ** rng.uniform(0, 8 * (seed % 2), 112),
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed,
    }
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0], 112)
    instance = Instance.of_jobs(speed, gpus, [40.0], columns=columns)
    for lexicographic in (False, True):
        solution = solve_instance(FinishTimeFairness(lexicographic=lexicographic), instance)
        assert solution.status == "optimal"
        late = columns["elapsed_s"] + columns["steps_remaining"] / solution.throughput
        alone = elapsed + columns["steps_remaining"] / instance.isolated_throughput
        assert (late / alone).max() == pytest.approx(solution.objective, rel=1e-9)


def nash_on_one_type(weight: NDArray[np.float64], gpus: float) -> NDArray[np.float64]:
    """Shares of single-GPU jobs by water filling: in proportion to the weights, at most 1."""
    order = np.argsort(-weight)
    left = gpus - np.arange(weight.size)  # the heaviest have a GPU each
    rest = np.cumsum(weight[order][::-1])[::-1]
    full = int(np.argmin(weight[order] * left >= rest)) if weight.size > gpus else weight.size
    shares = np.ones(weight.size)
    shares[order[full:]] = weight[order[full:]] * left[full:][:1] / rest[full:][:1]
    return shares


def taken_away(weight: NDArray[np.float64], gpus: float) -> NDArray[np.float64]:
    """Shares that jobs keep on one type, by the definition, without a solver."""
    both, kept = nash_on_one_type(weight, gpus), np.empty(weight.size)
    for job in range(weight.size):
        others = np.arange(weight.size) != job
        alone = nash_on_one_type(weight[others], gpus)
        power = weight[others] / weight[job]
        kept[job] = both[job] * np.exp(power @ np.log(both[others] / alone))
    return kept


@pytest.mark.parametrize("seeds", ranges_of_seeds(3, 200))
def test_the_gap_of_shares_that_are_taken_away_is_true(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, decades = int(rng.integers(2, 8)), [0.0, 1.0, 5.0][seed % 3]
        weight = 10.0 ** rng.uniform(0, decades, n)
        speed, gpus = rng.uniform(1, 10, (n, 1)), float(rng.integers(1, n + 1))
        instance = Instance.of_jobs(speed, np.ones(n), [gpus], columns={"weight": weight})
        solution = solve_instance(StrategyProof(), instance)
        X, exact = solution.X[:, 0], taken_away(weight, gpus)
        seen = exact > 1e-9  # what an allocation may leave out
        size = np.maximum(X, exact)
        assert (np.abs(X - exact)[seen] <= (solution.gap + 1e-12) * size[seen]).all(), seed
        if decades <= 1:
            assert solution.gap <= 1e-7


class _OnlyWhole(Policy):
    name, problem, source = "only_whole", "max total, all or nothing", "a test"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(cp.multiply(cp.Variable(p.count.size, boolean=True), 1.0)))


class _Convex(Policy):
    name, problem, source = "convex", "max sum of squares", "a test"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum_squares(p.throughput))


@pytest.mark.parametrize(("policy", "word"), [(_OnlyWhole, "integer"), (_Convex, "not convex")])
def test_a_problem_that_cannot_be_solved_names_its_policy(policy: Any, word: str) -> None:
    T = pd.DataFrame({"v": [1.0, 2.0]})
    with pytest.raises(ap.InputError, match=rf"{policy.__name__}\(\).*{word}"):
        ap.solve(policy(), T, workers="v=1")
    with ap.session(policy(), "v=1") as session:
        session.add(T)
        with pytest.raises(ap.InputError, match=word):
            session.solve()


def test_a_job_that_needs_a_millionth_of_a_gpu_is_no_exception() -> None:
    line = record("makespan", 3515, 200)
    assert line["certified"], line


@pytest.mark.parametrize("seed", [5, 83, 104, 134, *sampled(range(0, 60, 4), 3)])
def test_jobs_alike_but_for_their_size_are_done_together_or_the_gap_says_no(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed = np.exp(rng.normal(0, 1, (6, 3)))
    steps = np.concatenate([10 ** rng.uniform(0, 1, 3), 10 ** rng.uniform(-11, -6, 3)])
    speed[4], steps[4] = speed[3], 2 * steps[3]
    columns = {"steps_remaining": steps}
    instance = Instance.of_jobs(speed, np.ones(6), [1.0, 1.0, 1.0], columns=columns)
    solution = solve_instance(Makespan(lexicographic=True), instance)
    one, other = solution.throughput[3:5] / steps[3:5]
    assert solution.gap > 1e-6 or abs(one - other) <= 1e-6 * other
