"""Gavel's own simulator (artefact of OSDI 2020, 4 GPUs per machine, seed 0) as the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.seeds import sampled

from apportion.sim import Run, Workload, read_workload, simulate

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "gavel"
pytestmark = [
    pytest.mark.usefixtures("free_starts"),
    pytest.mark.skipif(
        not DATA.is_dir(), reason="needs Gavel's traces in ../shared/data/gavel beside the project"
    ),
]
STATIC, DYNAMIC = "minimize_makespan", "max_min_fairness"
CLUSTERS = {STATIC: {"v100": 12, "p100": 12, "k80": 12}, DYNAMIC: {"v100": 8, "p100": 8, "k80": 8}}


def load(trace: str) -> Workload:
    return read_workload(
        DATA / "traces" / "physical_cluster" / f"{trace}.trace",
        throughputs=DATA / "simulation_throughputs.json.gz",
    )


def run(policy: str, trace: str, **options: object) -> Run:
    return simulate(policy, load(trace), CLUSTERS[trace], **options)  # type: ignore[arg-type]


# Mean job completion time and makespan in hours, and the number of rounds.
GAVEL = [
    (STATIC, "max_min_fairness_agnostic", 11.4725, 24.852, 249),
    (STATIC, "max_min_fairness", 10.7412, 20.916, 210),
    (STATIC, "makespan_agnostic", 22.3505, 23.358, 234),
    (STATIC, "makespan", 19.8805, 20.090, 203),
    (DYNAMIC, "max_min_fairness_agnostic", 7.7244, 27.386, 274),
    (DYNAMIC, "max_min_fairness", 8.4460, 23.431, 235),
    (DYNAMIC, "finish_time_fairness", 8.373, 23.504, 236),
]


@pytest.mark.parametrize(("trace", "policy", "mean_h", "makespan_h", "rounds"), sampled(GAVEL, 3))
def test_gavels_results_with_its_accounting(
    trace: str, policy: str, mean_h: float, makespan_h: float, rounds: int
) -> None:
    terms: dict[str, object] = {
        "resolve_seconds": 1920.0,
        "resolve_every": np.inf,
        "carry_over": False,
    }
    ours = run(policy, trace, **terms).summary()
    assert ours["mean_jct_s"] / 3600 == pytest.approx(mean_h, rel=0.03)
    assert ours["makespan_s"] / 3600 == pytest.approx(makespan_h, rel=0.015)
    assert ours["rounds"] == pytest.approx(rounds, rel=0.015)


@pytest.mark.thorough
def test_the_isolated_share_comes_near_gavel_too() -> None:
    ours = run("isolated", DYNAMIC, resolve_seconds=1920.0, carry_over=False).summary()
    assert ours["mean_jct_s"] / 3600 == pytest.approx(7.699, rel=0.03)
    assert ours["makespan_s"] / 3600 == pytest.approx(27.02, rel=0.02)


def test_the_makespan_policy_comes_near_its_bound() -> None:
    work = load(STATIC)
    cluster = CLUSTERS[STATIC]
    speed = work.throughput_of(cluster).to_numpy()
    gpus = work.jobs.scale_factor.to_numpy()
    steps = work.jobs.total_steps.to_numpy()
    jobs, types = speed.shape
    # Seconds on each type, and the makespan: the least that the whole work takes.
    progress = np.hstack(
        [-np.kron(np.eye(jobs), np.ones(types)) * speed.ravel(), np.zeros((jobs, 1))]
    )
    time = np.hstack([np.kron(np.eye(jobs), np.ones(types)), -np.ones((jobs, 1))])
    room = np.hstack([np.kron(gpus, np.eye(types)), -np.array([list(cluster.values())]).T])
    solution = linprog(
        np.eye(jobs * types + 1)[-1],
        A_ub=np.vstack([progress / steps[:, None], time, room]),
        b_ub=np.concatenate([-np.ones(jobs), np.zeros(jobs + types)]),
    )
    bound_s = float(solution.fun or np.nan)
    assert bound_s / 3600 == pytest.approx(19.889, abs=0.001)
    makespan_s = run("makespan", STATIC).summary()["makespan_s"]
    assert bound_s <= makespan_s <= 1.015 * bound_s


@pytest.mark.thorough
@pytest.mark.parametrize(("policy", "trace"), [("max_min_fairness", DYNAMIC), ("isolated", STATIC)])
def test_rounds_give_every_job_its_share(policy: str, trace: str) -> None:
    ideal = run(policy, trace, mechanism="exact")
    rounds = run(policy, trace)
    off = (rounds.jobs.jct_s - ideal.jobs.jct_s).abs() / ideal.jobs.jct_s
    assert off.mean() < 0.06
    assert rounds.summary()["makespan_s"] == pytest.approx(ideal.summary()["makespan_s"], rel=0.05)
