"""Ratios shared by a rule are those that their programs give, shares and prices included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap

if TYPE_CHECKING:
    from apportion.policies import Problem


class _ValuePerDollar(ap.Policy):
    name = "value_per_dollar"
    columns = ("value",)

    def objective(self, p: Problem) -> cp.Maximize:
        worth = p.total(cp.multiply(p.column("value"), p.throughput))
        return cp.Maximize(worth / p.cost_per_hour)


class _DollarsPerValue(ap.Policy):
    name = "dollars_per_value"
    columns = ("value",)

    def objective(self, p: Problem) -> cp.Minimize:
        worth = p.total(cp.multiply(p.column("value"), p.throughput))
        return cp.Minimize(p.cost_per_hour / worth)


class _ProfitPerDollar(ap.Policy):
    name = "profit_per_dollar"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize((p.total(p.throughput) - 2 * p.cost_per_hour) / p.cost_per_hour)


def _drawn(seed: int) -> tuple[pd.DataFrame, ap.Cluster, pd.DataFrame]:
    """Draw jobs, some of them alike, speeds that tie in a third of the draws, prices in half."""
    rng = np.random.default_rng(seed)
    n, types = int(rng.integers(1, 14)), [f"type-{k}" for k in range(rng.integers(1, 5))]
    speed = rng.lognormal(0, 1, (n, len(types)))
    if seed % 3 == 0:
        speed = rng.integers(1, 4, speed.shape).astype(float)
    facts = np.column_stack([2.0 ** rng.integers(0, 3, n), rng.integers(1, 4, n)])
    if seed % 4 == 0:
        alike = rng.integers(0, max(1, n // 2), n)
        speed, facts = speed[alike], facts[alike]
    jobs = [f"job-{place}" for place in range(n)]
    gpus = dict(zip(types, rng.integers(4, 9, len(types)).tolist(), strict=True))
    usd = rng.integers(1, 4, len(types)) if seed % 2 else rng.uniform(0.5, 5, len(types))
    cluster = ap.Cluster(gpus, prices_per_gpu_hour=dict(zip(types, usd.tolist(), strict=True)))
    table = pd.DataFrame(facts, jobs, ["scale_factor", "value"])
    return pd.DataFrame(speed, jobs, types), cluster, table


@pytest.mark.parametrize("seed", each_seed(10, 200))
@pytest.mark.parametrize(
    "policy", ["min_cost", _ValuePerDollar(), _DollarsPerValue(), _ProfitPerDollar()], ids=str
)
def test_the_rule_and_the_program_agree(
    policy: str | ap.Policy, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed, cluster, table = _drawn(seed)
    ruled = ap.solve(policy, speed, workers=cluster, jobs=table)
    monkeypatch.setattr("apportion.policies.solver._plain_form", lambda *_: None)
    programmed = ap.solve(policy, speed, workers=cluster, jobs=table)
    assert ruled.objective == pytest.approx(programmed.objective, rel=1e-9)
    np.testing.assert_allclose(ruled.X, programmed.X, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ruled.prices, programmed.prices, rtol=0, atol=1e-9)


def test_the_rule_decides_nearly_all() -> None:
    told = [_drawn(seed) for seed in range(20)]
    found = [
        ap.solve("min_cost", speed, workers=cluster, jobs=table).stats["solver"]
        for speed, cluster, table in told
    ]
    assert found.count("bargains") >= 16


def test_own_constraints_leave_it_to_the_program() -> None:
    class Bounded(_ValuePerDollar):
        name = "value_per_dollar_bounded"

        def constraints(self, p: Problem) -> list[cp.Constraint]:
            return [p.throughput >= 0.1 * p.fastest_throughput]

    speed = pd.DataFrame({"fast": [4.0, 3.0], "slow": [1.0, 2.5]}, ["a", "b"])
    cluster = ap.Cluster({"fast": 1, "slow": 1}, prices_per_gpu_hour={"fast": 2.0, "slow": 1.5})
    table = pd.DataFrame({"value": [1.0, 1.0]}, ["a", "b"])
    found = ap.solve(Bounded(), speed, workers=cluster, jobs=table)
    assert found.stats["solver"] != "bargains"
    assert (found.throughput >= 0.1 * speed.max(axis=1) - 1e-9).all()
