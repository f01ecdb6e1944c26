"""Complaints about allocations against linear programs of their own, and theorems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TYPES = ["fast", "slow"]


def drawn(
    seed: int, *, gangs: bool = True, weights: bool = True
) -> tuple[pd.DataFrame, dict[str, int], pd.DataFrame]:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    names = [f"job {number}" for number in range(count)]
    speed = pd.DataFrame(rng.uniform(1, 10, (count, 2)), index=names, columns=TYPES)
    jobs = pd.DataFrame(
        {
            "scale_factor": rng.choice([1, 2], count) if gangs else 1,
            "weight": rng.choice([1.0, 2.0], count) if weights else 1.0,
            "steps_remaining": rng.uniform(1e3, 1e6, count),
        },
        index=names,
    )
    return speed, {"fast": int(rng.integers(2, 4)), "slow": int(rng.integers(2, 4))}, jobs


def most_of(speed: Floats, bundle: Floats, gang: float) -> float:
    """The largest throughput that a bundle of GPUs gives, by a solver."""
    x = cp.Variable(2, nonneg=True)
    limits: Any = [gang * x <= bundle, cp.sum(x) <= 1]
    problem = cp.Problem(cp.Maximize(speed @ x), limits)
    problem.solve(solver=cp.HIGHS)
    value: Any = problem.value
    return float(value)


@pytest.mark.parametrize("policy", ["max_min_fairness", "shortest_job_first", "isolated"])
@pytest.mark.parametrize("seed", each_seed(1, 3))
def test_witnesses_are_those_of_linear_programs(policy: str, seed: int) -> None:
    speed, workers, jobs = drawn(seed)
    found: Any = ap.audit(policy, speed, workers=workers, jobs=jobs)
    X, gpus = found.allocation.X[TYPES].to_numpy(), np.array(list(workers.values()), dtype=float)
    T, gang, weight = speed.to_numpy(), jobs["scale_factor"].to_numpy(), jobs["weight"].to_numpy()
    made = (T * X).sum(axis=1)
    envious = {}
    for i, name in enumerate(speed.index):
        alone = most_of(T[i], gpus * weight[i] / weight.sum(), gang[i])
        assert found.sharing.loc[name, "ratio"] == pytest.approx(made[i] / alone, rel=1e-7)
        for j, other in enumerate(speed.index):
            ratio = most_of(T[i], gang[j] * X[j] * weight[i] / weight[j], gang[i])
            ratio = ratio / made[i] if made[i] else (np.inf if ratio else 1.0)
            if i != j and ratio > 1 + 1e-6:
                envious[name, other] = ratio
    told = {(row.job, row.other): row.ratio for row in found.envy.itertuples()}
    assert told == pytest.approx(envious, rel=1e-6)
    assert found.envy["ratio"].is_monotonic_decreasing
    x = cp.Variable(X.shape, nonneg=True)
    rate = T / T.max(axis=1, keepdims=True)
    reached = cp.sum(cp.multiply(rate, x), axis=1)
    limits = [reached >= (rate * X).sum(axis=1), cp.sum(x, axis=1) <= 1, gang @ x <= gpus]
    most = cp.Problem(cp.Maximize(cp.sum(reached)), limits)
    most.solve(solver=cp.HIGHS)
    value: Any = most.value
    gain = float(value) - (rate * X).sum()
    assert found.pareto_gain == pytest.approx(gain, abs=1e-5)
    if found.better is not None:
        better = found.better.to_numpy()
        assert (gang @ better <= gpus + 1e-9).all()
        assert (better.sum(axis=1) <= 1 + 1e-9).all()
        assert ((T * better).sum(axis=1) >= made * (1 - 1e-9)).all()
        assert (rate * better).sum() - (rate * X).sum() == pytest.approx(found.pareto_gain)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", each_seed(1, 20))
def test_theorems_hold(seed: int) -> None:
    """Nash welfare of equal jobs is an equilibrium of equal incomes."""
    speed, _, jobs = drawn(seed, gangs=False, weights=False)
    workers = {"fast": 1, "slow": 1}
    nash: Any = ap.audit("nash_welfare", speed, workers=workers, jobs=jobs)
    if nash.allocation.X.sum(axis=1).max() < 1 - 1e-6:  # or time, and not GPUs, is scarce for some
        assert (nash.sharing["ratio"] >= 1 - 1e-5).all()
        assert nash.envy["ratio"].max() <= 1 + 1e-4 or nash.envy.empty
    assert nash.better is None
    isolated = ap.audit("isolated", speed, workers=workers, jobs=jobs)
    assert isolated.envy.empty


def test_complaints_are_told_in_words() -> None:
    speed, workers, jobs = drawn(1)
    said = repr(ap.audit("shortest_job_first", speed, workers=workers, jobs=jobs))
    assert "would rather have their part of the cluster" in said
    assert "nobody envies another" in said
    assert "Pareto efficient" in said


def test_what_cannot_be_audited_is_refused() -> None:
    speed, workers, jobs = drawn(0)
    with pytest.raises(ap.InputError, match="leave out the column 'count'"):
        ap.audit("isolated", speed, workers=workers, jobs=jobs.assign(count=2))
    tiers = speed.set_axis(pd.MultiIndex.from_product([["fast", "slow"], ["machine"]]), axis=1)
    with pytest.raises(ap.InputError, match="single jobs"):
        ap.audit("max_min_fairness", tiers, workers=workers, jobs=jobs)
