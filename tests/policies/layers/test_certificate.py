from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed, ranges_of_seeds

import apportion as ap
from apportion.policies import (
    BUILT_IN,
    Instance,
    Makespan,
    MaxMinFairness,
    MinCost,
    Policy,
    solve_instance,
)
from apportion.policies.solving import driver
from apportion.policies.solving.certificate import make_feasible, relative_gap

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

SEEDS = each_seed(2, 4)
TIGHT = [
    policy
    for policy in BUILT_IN
    if "has_one_optimum" not in policy.traits
    and not issubclass(policy, MinCost)
    and "entity" not in policy.columns
    and not policy.integral  # whole gangs may leave what no gang fits into
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", TIGHT)
def test_types_with_a_price_are_used_up(
    policy: type[Policy], seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=6, types=3)
    solution = solve_instance(policy(), problem.instance)
    free = problem.capacity - problem.gpus @ solution.X
    dear = solution.prices * problem.capacity > 1e-6 * abs(solution.objective)
    np.testing.assert_allclose(free[dear], 0.0, atol=1e-6)
    assert (solution.prices >= 0).all()


def test_price_of_a_gpu_by_hand(bench: type[Bench]) -> None:
    # Two equal jobs on c GPUs take 200 / c seconds.
    problem = bench(
        speed=np.ones((2, 1)),
        gpus=np.ones(2),
        capacity=np.ones(1),
        prices=np.ones(1),
        columns={"steps_remaining": np.array([100.0, 100.0])},
    )
    solution = solve_instance(Makespan(), problem.instance)
    assert solution.objective == pytest.approx(200.0)
    assert solution.prices[0] == pytest.approx(200.0)


def test_make_feasible_scales_what_is_over(bench: type[Bench]) -> None:
    problem = bench(np.ones((3, 1)), np.array([1.0, 2.0, 1.0]), np.array([2.0]), np.ones(1))
    X = make_feasible(np.array([[1.1], [0.5], [-1e-12]]), problem.instance)
    assert X.min() >= 0
    assert X[0, 0] <= 1
    assert problem.gpus @ X <= 2 + 1e-12


def test_make_feasible_leaves_a_feasible_allocation_alone(bench: type[Bench]) -> None:
    problem = bench.random(5, jobs=4, types=2)
    X = problem.most(problem.speed)
    np.testing.assert_allclose(make_feasible(X, problem.instance), X, atol=1e-12)


def test_make_feasible_keeps_the_share_of_a_job_that_is_nearly_done(bench: type[Bench]) -> None:
    problem = bench(np.ones((2, 1)), np.ones(2), np.ones(1), np.ones(1))
    X = np.array([[1 - 1e-10], [1e-10]])
    np.testing.assert_array_equal(make_feasible(X, problem.instance) > 0, [[True], [True]])


def test_relative_gap() -> None:
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(-1.0, -1.0) == 0.0
    assert relative_gap(0.0, 0.0) == 0.0


def test_the_other_solver_has_a_try_where_the_first_was_inaccurate(
    bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = driver.DeclaredProblem.solve
    asked: list[str] = []

    def first_is_poor(self: Any, solver: Any, **options: Any) -> Any:
        asked.append(solver)
        attempt = real(self, solver, **options)
        return attempt._replace(gap=1e-3) if len(asked) == 1 else attempt

    monkeypatch.setattr(driver.DeclaredProblem, "solve", first_is_poor)
    solution = solve_instance(MaxMinFairness(), bench.random(0).instance)
    assert asked == ["auto", "clarabel"]
    assert solution.status == "optimal"
    assert solution.stats["solver"] == "clarabel"


@dataclass(frozen=True)
class Own(Policy):
    """A policy of one's own, with a curved term and a constraint."""

    name = "own"
    traits = frozenset({"tells_identical_jobs_apart"})

    def objective(self, p: ap.Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum(p.throughput) + cp.min(p.throughput) - cp.sum_squares(p.X[0]))

    def constraints(self, p: ap.Problem) -> list[Any]:
        return [cp.sum(p.X, axis=1) <= 0.9]


def stated_anew(
    name: str, speed: Any, gpus: Any, capacity: Any, within: float
) -> tuple[cp.Variable, list[cp.Constraint]]:
    """State in cvxpy what is within a distance of the optimum of a policy, from its definition."""
    X = cp.Variable(speed.shape, nonneg=True)
    made = cp.sum(cp.multiply(speed, X), axis=1)
    limits = [cp.sum(X, axis=1) <= (0.9 if name == "own" else 1.0), gpus @ X <= capacity]
    fair = speed @ capacity / capacity.sum()
    goals = {
        "max_min_fairness": cp.min(cp.multiply(gpus / fair, made)),
        "max_total_throughput": cp.sum(made),
        "own": cp.sum(made) + cp.min(made) - cp.sum_squares(X[0]),
        "nash_welfare": cp.sum(cp.log(cp.multiply(1 / fair, made))),
    }
    goal = goals[name]
    best: Any = cp.Problem(cp.Maximize(goal), limits).solve(cp.CLARABEL)
    slack = within if name == "nash_welfare" else within * abs(best)
    return X, [*limits, goal >= best - slack]


@pytest.mark.thorough
@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 10))
def test_condition_is_that_of_plain_cvxpy(seeds: range, cells: bool) -> None:
    """Drawn problems; where speeds are alike there are many optima."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        jobs, types = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        speed = rng.uniform(1, 5, (jobs, types))
        if seed % 2:
            speed = np.ones((jobs, types)) * rng.integers(1, 4, jobs)[:, None]
        gpus, capacity = rng.integers(1, 3, jobs), rng.integers(2, 5, types)
        within = float(rng.choice([1e-4, 1e-2]))
        for name in ("max_min_fairness", "max_total_throughput", "own", "nash_welfare"):
            policy: Any = Own() if name == "own" else name
            found = ap.condition(
                policy,
                pd.DataFrame(speed, columns=list("abc"[:types])),
                workers=dict(zip("abc", capacity.tolist(), strict=False)),
                jobs={"scale_factor": gpus.tolist()},
                within=within,
                of="cells" if cells else "jobs",
            )
            X, near = stated_anew(name, speed, gpus, capacity, within)
            shares: Any = (
                [X[cell] for cell in np.ndindex(speed.shape)] if cells else cp.sum(X, axis=1)
            )
            for place, share in enumerate(shares):
                line, off = found.table.iloc[place], 3e-5 if name == "nash_welfare" else 3e-6
                for end, goal in (("least", cp.Minimize), ("largest", cp.Maximize)):
                    theirs = cp.Problem(goal(share), near)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UserWarning)  # the reference's own trouble
                        value = theirs.solve(cp.CLARABEL)
                    if theirs.status == cp.OPTIMAL:
                        assert line[end] == pytest.approx(value, abs=off), (seed, name)


def test_condition_is_none_where_the_optimum_is_unique_and_all_where_nothing_is_decided() -> None:
    one = {"a": {"x": 1.0}, "b": {"x": 3.0}}
    unique = ap.condition("max_min_fairness", one, workers="x=1")
    np.testing.assert_allclose(unique.table["share"], 0.5, atol=1e-9)
    assert unique.largest == pytest.approx(1e-6, rel=1e-2)
    either = ap.condition("max_total_throughput", {"a": {"x": 1.0}, "b": {"x": 1.0}}, workers="x=1")
    assert either.largest == pytest.approx(1.0, abs=1e-5)
    levels = ap.condition(ap.MaxMinFairness(lexicographic=True), one, workers="x=1")
    assert levels.largest == pytest.approx(1e-6, rel=1e-2)
    with pytest.raises(ap.InputError, match="whole numbers"):
        ap.condition("dally_round", one, workers="x=1")


@pytest.mark.parametrize(
    "name", [name for name in ap.policy_table()["name"] if not ap.get_policy(name).integral]
)
def test_what_is_chosen_lies_within_its_condition(name: str) -> None:
    """Every registered policy."""
    speed = pd.DataFrame({"v": [2.0, 2.0, 3.0], "k": [1.0, 1.0, 1.0]}, index=list("abc"))
    every = {"steps_remaining": 1e3, "deadline_s": 1e5, "elapsed_s": 0.0, "arrival_s": [1, 2, 3]}
    jobs = {key: each for key, each in every.items() if key in ap.get_policy(name).columns}
    cluster = ap.Cluster({"v": 1, "k": 1}, prices_per_gpu_hour={"v": 2.0, "k": 1.0})
    table = ap.condition(name, speed, workers=cluster, jobs=jobs | {"entity": list("xxy")}).table
    assert (table["share"] >= table["least"] - 1e-7).all()
    assert (table["share"] <= table["largest"] + 1e-7).all()


@pytest.mark.parametrize("seed", range(20))
def test_rows_known_to_hold_gpus_alone_are_as_rows_whose_usage_is_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(1, 20)), int(rng.integers(1, 5))
    speed = rng.lognormal(size=(jobs, types)) * (rng.random((jobs, types)) < 0.9)
    capacity = rng.integers(1, 6, types).astype(float)
    columns = {"count": rng.integers(1, 4, jobs).astype(float)}
    known = Instance.of_jobs(speed, rng.integers(1, 4, jobs), capacity, columns=columns)
    read = replace(known, own_usage=known.usage)
    X = rng.random((jobs, types))
    found = make_feasible(X, known)
    np.testing.assert_array_equal(found, make_feasible(X, read))
    np.testing.assert_array_equal(known.equal_share_throughput, read.equal_share_throughput)
    assert (known.row_count @ (known.gpus * found) <= capacity * (1 + 1e-14)).all()
