"""Runs in which policies are kept warm are the same, to the last byte, as when solved anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.policies import solve_instance

if TYPE_CHECKING:
    from apportion.policies.core.program import Program

POLICIES = (
    *(
        "fifo",
        "shortest_job_first",
        "least_mean_completion",
        "makespan",
        "max_total_throughput",
        "network_sensitive",
    ),
    *("fifo_agnostic", "shortest_job_first_agnostic", "makespan_agnostic", "max_min_fairness"),
    *("finish_time_fairness", "finish_time_fairness_agnostic"),
)


def drawn(seed: int) -> tuple[str, ap.Workload, dict[str, int], dict[str, Any]]:
    """Draw a policy, jobs of one or several types and sizes, a cluster, and how rounds go."""
    rng = np.random.default_rng(seed)
    types = ["v100", "p100", "k80"][: int(rng.integers(1, 4))]
    cluster = {name: int(rng.integers(8, 17)) for name in types}
    load = ap.generate_workload(
        jobs=int(rng.integers(5, 25)),
        seed=seed,
        jobs_per_hour=float(rng.uniform(3, 20)),
        scale_factors="gavel" if rng.random() < 0.7 else "single",
    )
    rounds: dict[str, Any] = {
        "round_seconds": float(rng.choice([120.0, 360.0])),
        "resolve_seconds": float(rng.choice([0.0, 0.0, 1920.0])),
        "preemption_overhead_seconds": float(rng.choice([0.0, 30.0])),
    }
    return POLICIES[int(rng.integers(len(POLICIES)))], load, cluster, rounds


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 80))
def test_runs_are_the_same_warm_and_anew(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, solve = list[str](), solve_instance

    def noted(*asked: Any, start: Program, **options: Any) -> Any:
        found = solve(*asked, start=start, **options)
        paths.append(start.path)
        return found

    def anew(*asked: Any, start: Program, **options: Any) -> Any:
        return solve(*asked, **options)

    for seed in seeds:
        policy, load, cluster, rounds = drawn(seed)
        monkeypatch.setattr("apportion.sim.resolve.solve_instance", noted)
        warm = ap.simulate(policy, load, cluster, **rounds)
        monkeypatch.setattr("apportion.sim.resolve.solve_instance", anew)
        cold = ap.simulate(policy, load, cluster, **rounds)
        assert warm.jobs.to_csv() == cold.jobs.to_csv(), (seed, policy)
        assert warm.solves == cold.solves
    assert "warm start" in paths
