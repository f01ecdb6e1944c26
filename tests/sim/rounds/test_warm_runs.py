"""Runs in which policies are kept warm are the same, to the last byte, as when solved anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.policies.sessions import warm_classes
from apportion.policies.sessions.counted_solver import declare
from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.policies.sessions.warm_jobs import WarmJobs

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
    kept, certified = [], WarmJobs.certified

    def noted(*asked: Any, **options: Any) -> Any:
        kept.append(certified(*asked, **options))
        return kept[-1]

    for seed in seeds:
        policy, load, cluster, rounds = drawn(seed)
        monkeypatch.setattr(WarmJobs, "certified", noted)
        warm = ap.simulate(policy, load, cluster, **rounds)
        monkeypatch.setattr(WarmJobs, "certified", lambda *_, **__: None)
        anew = ap.simulate(policy, load, cluster, **rounds)
        assert warm.jobs.to_csv() == anew.jobs.to_csv(), (seed, policy)
        assert warm.solves == anew.solves
    assert sum(each is not None for each in kept) > 0.9 * len(kept) > 0


@pytest.mark.parametrize("policy", ["max_min_fairness", "max_total_throughput"])
def test_a_program_for_all_classes_is_compiled_once_several_solves_have_needed_one(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ap.generate_workload(jobs=16, seed=0, jobs_per_hour=30, scale_factors="gavel")
    cluster, compiled = "v100=8,p100=8,k80=8", list[int]()
    alone = ap.simulate(policy, load, cluster)

    def noted(*stated: Any, **options: Any) -> Any:
        compiled.append(left)
        return declare(*stated, **options)

    monkeypatch.setattr(WarmClasses, "alone", lambda *_: None)
    monkeypatch.setattr(warm_classes, "declare", noted)
    for left in (0, 3, 10_000):
        monkeypatch.setattr("apportion.sim.solves.standing._ANEW", left)
        run = ap.simulate(policy, load, cluster)
        assert run.jobs.to_csv() == alone.jobs.to_csv()
        assert run.solves == alone.solves > 3
    assert compiled == [0, 3]
