"""Gavel's code beside ours: the way there and back, with a stand-in for its modules."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import numpy as np
import pytest

import apportion as ap
from benchmarks.speed.gavel import Gavel
from benchmarks.speed.measure import Pair, Row, markdown
from benchmarks.speed.peers import gavel_value
from benchmarks.speed.problems import draw

if TYPE_CHECKING:
    from pathlib import Path

STAND_IN = {
    "utils.py": """
        class Policy:
            def __init__(self, name): self.name = name
            def get_allocation(self, speeds, scales, *facts_and_cluster):
                cluster = facts_and_cluster[-1]
                assert self.name == "max_min_fairness_perf" and len(facts_and_cluster) == 2
                wanted = sum(scales.values())
                return {job: {kind: cluster[kind] / wanted for kind in speed}
                        for job, speed in speeds.items()}
        def get_policy(name, solver, seed): return Policy(name)
    """,
    "job_id_pair.py": """
        class JobIdPair:
            def __init__(self, first, second): self.key = (first, second)
            def __hash__(self): return hash(self.key)
            def __eq__(self, other): return self.key == other.key
    """,
    "job.py": """
        class Job:
            def __init__(self, job_id, job_type, command, folder, argument, steps, duration,
                         scale_factor): self.steps, self.scale_factor = steps, scale_factor
    """,
    "scheduler.py": """
        class Scheduler:
            def __init__(self, policy, **settings): self.settings = settings
            def _schedule_jobs_on_workers(self): return {}
            def simulate(self, cluster, arrival_times, jobs):
                assert cluster == {"v100": 4, "p100": 4, "k80": 4}
                assert sorted(arrival_times) == arrival_times
                for _ in jobs: self._schedule_jobs_on_workers()
            def get_current_timestamp(self): return 3600.0
            def get_average_jct(self): return 1800.0
    """,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "scheduler"
    folder.mkdir()
    for name, text in STAND_IN.items():
        (folder / name).write_text(dedent(text))
    return tmp_path


@pytest.mark.thorough
def test_shares_come_back_in_the_order_of_jobs_and_types(checkout: Path) -> None:
    case = draw(20, 3)
    found = Gavel(checkout).solve("max_min_fairness", case, repeats=2)
    equal = np.tile(case.gpus / case.scale.sum(), (20, 1))
    np.testing.assert_allclose(found["X"], equal)
    assert found["seconds"] >= 0
    assert found["optimal"]
    # At shares in proportion to the GPUs a job has scale * (GPUs / wanted) of its equal share.
    least = float((case.scale * case.gpus.sum() / case.scale.sum()).min())
    assert gavel_value("max_min_fairness", case, found["X"]) == pytest.approx(least)


@pytest.mark.thorough
def test_rounds_of_a_simulation_are_counted(checkout: Path) -> None:
    workload = ap.generate_workload(jobs=7, seed=0, jobs_per_hour=2)
    gpus = {"v100": 4, "p100": 4, "k80": 4}
    found = Gavel(checkout).simulate("max_min_fairness", workload, gpus, 1920)
    assert found["rounds"] == 7
    assert found["mean_jct_s"] == 1800.0


def test_without_a_checkout_nothing_is_measured_and_no_verdict_given() -> None:
    assert Gavel().solve("max_min_fairness", draw(8, 3)) == {}
    row = Row("guard", "a problem", (Pair(0.01, peer="Gavel"),), times_goal=60)
    assert row.verdict == "not measured"
    assert "| not measured |" in markdown([row])


def test_the_worst_instance_decides() -> None:
    pairs = Pair(0.010, 1.0, "Gavel"), Pair(0.012, 0.9, "Gavel"), Pair(0.011, 0.99, "Gavel")
    row = Row("D1", "a problem", pairs, times_goal=75, seconds_goal=0.012)
    assert row.verdict == "met"
    assert row.record()["worst times"] == pytest.approx(75)
    assert row.record()["ours ms"] == pytest.approx(11)
    assert Row("D1", "a problem", pairs, times_goal=76).verdict == "missed"
    assert Row("D1", "a problem", pairs, seconds_goal=0.0119).verdict == "missed"
    assert Row("D1", "a problem", pairs).verdict == ""
