"""Prices are derivatives of the objective: finite differences at fixed normalisers agree."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tests.seeds import ranges_of_seeds, sampled

import apportion as ap
from apportion.policies import BUILT_IN, Instance, Policy, Problem, solve_instance
from apportion.policies.core.classes import believed

Floats = NDArray[np.float64]
MINIMISED = ("makespan", "finish_time_fairness")


@dataclass(frozen=True, eq=False)
class Fixed(Instance):
    """An instance whose normalisers are those of another capacity."""

    usual: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, instance: Instance) -> Fixed:
        values = {each.name: getattr(instance, each.name) for each in fields(instance)}
        return cls(**values, usual=instance.capacity)

    def _as_usual(self) -> Instance:
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Instance)}
        values["capacity"] = self.usual
        return Instance(**values)

    @cached_property
    def type_share(self) -> Floats:
        return self._as_usual().type_share

    @cached_property
    def isolated_throughput(self) -> Floats:
        return self._as_usual().isolated_throughput

    def blind_to_types(self) -> Instance:
        blind = self._as_usual().blind_to_types()
        return replace(self, throughput=blind.throughput, alike=blind.alike)

    def with_units(self, resource: int, more: float) -> Fixed:
        capacity = self.capacity.copy()
        capacity[resource] += more
        return replace(self, capacity=capacity)


def drawn(seed: int) -> Fixed:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    speed = rng.uniform(0.5, 20, (n, k)) * 10.0 ** rng.integers(-2, 3, (n, 1))
    speed[rng.random((n, k)) < 0.25] = 0.0
    speed[np.arange(n), rng.integers(0, k, n)] += 1.0
    elapsed, steps = rng.uniform(0, 600, n), rng.uniform(1e3, 1e5, n)
    columns = {
        "weight": 10.0 ** rng.uniform(0, 3, n),
        "steps_remaining": steps,
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed,
        "order": rng.permutation(n).astype(float),
        "deadline_s": elapsed + steps / speed.max(axis=1) * rng.uniform(1.5, 20, n) * n,
        "network_priority": rng.choice([0.0, 0.2, 0.5, 1.0], n),
        "entity": (entity := rng.integers(0, 2, n).astype(float)),
        "entity_used_s": 9000.0 * entity,
    }
    capacity, prices = rng.integers(4, 9, k).astype(float), rng.uniform(0.5, 3, k)
    gpus = rng.choice([1.0, 2.0, 4.0], n)
    return Fixed.of(
        Instance.of_jobs(
            speed, gpus, capacity, columns=columns, prices=prices, texts={"entity": ("a", "b")}
        )
    )


def with_shares_as_they_are(policy: Policy, instance: Instance) -> Policy:
    """Return the policy at the shares it fixes now: they are its normaliser."""
    if "runs_jobs_alone" not in policy.traits:
        return policy
    (limit,) = policy.constraints(Problem(believed(policy, instance)))
    share = limit.args[1].value
    frozen: Any = type("Frozen", (type(policy),), {"constraints": lambda self, p: [share >= p.X]})
    made: Policy = frozen(heterogeneity_aware=policy.heterogeneity_aware)
    return made


def check_prices(policy: Policy, instance: Fixed) -> None:
    """Every price lies between the differences that a little less and a little more make."""
    sense = -1 if policy.name in MINIMISED else 1
    here = solve_instance(policy, instance)
    assert here.status == "optimal"
    for resource, units in enumerate(instance.capacity):
        little = 1e-4 * units
        less, more = (
            solve_instance(policy, instance.with_units(resource, change), second_stage=False)
            for change in (-little, little)
        )
        gain = sense * (more.objective - here.objective) / little
        loss = sense * (here.objective - less.objective) / little
        price = here.prices[resource]
        hair = 1e-3 * max(abs(gain), abs(loss), abs(price)) + 1e-6 * abs(here.objective) / units
        assert min(gain, loss) - hair <= price <= max(gain, loss) + hair, (resource, gain, loss)


@pytest.mark.parametrize("aware", sampled([True, False], 2), ids=["aware", "agnostic"])
@pytest.mark.parametrize("policy", sampled(BUILT_IN, 2), ids=lambda policy: policy.name)
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 4))
def test_prices_are_what_a_gpu_more_is_worth(policy: Any, aware: bool, seeds: range) -> None:
    for seed in seeds:
        instance = drawn(seed)
        check_prices(with_shares_as_they_are(policy(heterogeneity_aware=aware), instance), instance)


@pytest.mark.parametrize("name", ["max_min_fairness", "makespan", "finish_time_fairness"])
@pytest.mark.parametrize("seed", range(2))
def test_prices_of_merged_jobs_are_too(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = np.exp(rng.normal(1, 1.2, (8, 3)))[rng.integers(0, 8, 300)]
    columns = {
        "weight": 10.0 ** rng.uniform(0, 2, 300),
        "steps_remaining": 10.0 ** rng.uniform(3, 7, 300),
        "elapsed_s": rng.uniform(0, 1e4, 300),
        "isolated_elapsed_s": rng.uniform(0, 1e4, 300),
    }
    plain = Instance.of_jobs(kinds, np.full(300, 16.0), [800.0, 700.0, 300.0], columns=columns)
    check_prices(ap.get_policy(name), Fixed.of(plain))


def test_a_level_that_takes_all_gpus_has_prices() -> None:
    speed = pd.DataFrame({"v100": [40.0, 12.0, 100.0], "k80": [10.0, 1.0, 25.0]})
    jobs = pd.DataFrame({"steps_remaining": [1e5] * 3})
    a = ap.solve("finish_time_fairness", speed, workers="v100=1,k80=1", jobs=jobs)
    # All that there is gives 43 / 45 of the isolated time; the v100 is worth four k80s.
    assert a.objective == pytest.approx(43 / 45, rel=1e-6)
    np.testing.assert_allclose(a.prices, [4 * a.prices["k80"], a.prices["k80"]], rtol=1e-6)
    assert a.prices["k80"] == pytest.approx(43 / 225, rel=1e-6)


@pytest.mark.parametrize("name", ["max_min_fairness", "max_total_throughput"])
def test_sessions_have_the_prices_and_levels_of_a_cold_solve(name: str) -> None:
    rng = np.random.default_rng(3)
    types, cluster = ["a", "b", "c"], {"a": 5, "b": 3, "c": 7}
    speed = pd.DataFrame(rng.uniform(1, 20, (12, 3)), columns=types, index=list("abcdefghijkl"))
    jobs = pd.DataFrame({"weight": 10.0 ** rng.uniform(0, 4, 12)}, index=speed.index)
    with ap.session(name, cluster) as session:
        for last in range(1, 12):
            there = speed.index[:last]
            session.add(speed.loc[there[-1:]], jobs.loc[there[-1:]])
            warm = session.solve()
            cold = ap.solve(name, speed.loc[there], workers=cluster, jobs=jobs.loc[there])
            assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
            np.testing.assert_allclose(warm.prices, cold.prices, rtol=1e-6, atol=1e-12)
            np.testing.assert_allclose(warm.throughput, cold.throughput, rtol=1e-6)
