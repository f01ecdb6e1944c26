"""Jobs over network tiers, of which only the fastest of a type is of use."""

import numpy as np
import pytest
from tests.policies.sessions.test_demanded import assert_same
from tests.seeds import each_seed

from apportion.cluster import Cluster
from apportion.policies import Instance
from apportion.policies.registry import get_policy
from apportion.policies.sessions.fastest_options import FastestOptions
from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.sim.tiers.tier_problem import tier_problem


def drawn(rng: np.random.Generator) -> Instance:
    """Draw gangs of few sizes at the tiers of one or two types, some as fast at two of them."""
    types, jobs = int(rng.integers(1, 3)), int(rng.integers(3, 12))
    racks = {"v100": 2, "k80": 2} if types == 2 else {"v100": 2}
    cluster = Cluster.of_racks(racks, machines_per_rack=2, gpus_per_machine=4)
    scale = rng.choice([1, 2, 4, 8, 16] if rng.random() < 0.9 else [1, 3, 8], jobs)
    speed = rng.lognormal(0.0, 1.0, (jobs, types, 3))
    if rng.random() < 0.3:
        speed = np.round(2 * speed) / 2 + 0.5
    runs = rng.random((jobs, types, 3)) < 0.8
    runs &= scale[:, None, None] <= np.array([4, 8, 16])
    runs[:, 0, 2] |= ~runs.any(axis=(1, 2))
    weight = rng.integers(1, 4, jobs).astype(float)
    return tier_problem((speed * runs).reshape(jobs, -1), scale, cluster, {"weight": weight})


@pytest.mark.parametrize("seed", each_seed(6, 1500))
def test_shares_of_tiers_are_those_of_a_program(seed: int) -> None:
    told, policy = drawn(np.random.default_rng(seed)), get_policy("max_min_fairness")
    warm = WarmClasses.of(policy, told)
    assert warm is not None
    found = warm.solve(np.ones(told.jobs))
    if found.stats["solver"] == "demands":
        assert_same(found, policy, told)


def test_of_one_type_no_program_is_needed() -> None:
    speed = np.array([[4.0, 2.0, 1.0], [0.0, 3.0, 1.0], [2.0, 0.0, 0.5]])
    cluster = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    told = tier_problem(speed, np.array([4, 8, 2]), cluster, {})
    warm = WarmClasses.of(get_policy("max_min_fairness"), told)
    assert warm is not None
    found = warm.solve(np.ones(3))
    assert found.stats["solver"] == "demands"
    # Each has 2 GPUs' time, which the last cannot exceed; the 2 left are worth most to the first.
    expected = np.array([[1.0, 0.0, 0.0], [0.0, 0.25, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(found.X, expected)


@pytest.mark.parametrize("odd", ["as fast", "limits", "alike"])
def test_what_may_be_of_use_is_not_left_out(odd: str) -> None:
    speed = np.array([[4.0, 4.0 if odd == "as fast" else 2.0, 1.0], [3.0, 1.0, 0.5]])
    gangs = np.array([3, 3]) if odd == "limits" else np.array([2, 4])  # one of 3 in each machine
    cluster = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    told = tier_problem(speed, gangs, cluster, {})
    assert FastestOptions.of(told.blind_to_types() if odd == "alike" else told) is None
