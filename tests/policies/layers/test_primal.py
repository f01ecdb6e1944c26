"""Cold solves by the primal simplex end where the dual one, with presolve, does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies import get_policy, solve_instance
from apportion.policies.solving import highs

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

POLICIES = [
    *("max_min_fairness", "max_min_fairness_agnostic", "makespan", "finish_time_fairness"),
    *("fifo", "shortest_job_first", "max_total_throughput", "isolated", "proportional"),
]


@pytest.mark.parametrize("seed", each_seed(2, 40))
@pytest.mark.parametrize("name", POLICIES)
def test_shares_are_those_of_the_dual_method(
    name: str, seed: int, bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = bench.random(seed, jobs=int(3 + 9 * (seed % 4)), types=int(1 + seed % 4)).instance
    found = solve_instance(get_policy(name), instance)
    monkeypatch.setattr(highs, "PRIMAL", highs.SIMPLEX)
    other = solve_instance(get_policy(name), instance)
    np.testing.assert_allclose(found.X, other.X, atol=1e-9)
    np.testing.assert_allclose(found.prices, other.prices, rtol=1e-9, atol=1e-12)
