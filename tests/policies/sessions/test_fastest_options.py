"""Jobs over network tiers, of which only the fastest of a type is of use."""

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.cluster import Cluster
from apportion.policies import Instance, solve_instance
from apportion.policies.registry import get_policy
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
        expected = solve_instance(policy, told)
        np.testing.assert_allclose(found.X, expected.X, atol=1e-9)
        assert found.objective == pytest.approx(expected.objective, rel=1e-9)
        assert found.gap <= 1e-9
