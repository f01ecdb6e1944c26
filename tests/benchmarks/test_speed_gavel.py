"""Gavel's code beside ours: the way there and back, with a stand-in for its modules."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import numpy as np
import pytest

import apportion as ap
from benchmarks.speed.gavel import Gavel
from benchmarks.speed.goals import ASKED, goals
from benchmarks.speed.harness import Row
from benchmarks.speed.markdown import markdown
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
    row = Row("P1", "a problem", ">= 80 x Gavel", peer="Gavel", first_s=0.01, ratio_goal=80)
    assert row.verdict(0.01) == "not measured"
    assert "not measured" in markdown([row])


def test_a_verdict_for_each_column_that_was_timed() -> None:
    row = Row("P1", "a problem", peer="Gavel", peer_s=1.0, ratio_goal=80, seconds_goal=0.012)
    row.first_s, row.both_s = 0.01, 0.0124
    assert row.record()["verdict"] == "met / missed"
    row.seconds_goal = None
    assert row.record()["verdict"] == "met / met"
    assert row.record()["x both"] == pytest.approx(80.6, abs=0.1)


def test_a_goal_is_met_where_each_of_its_rows_is_and_else_says_by_how_much_not() -> None:
    rows = [
        Row("S6", "near", "<= 1 s", called_s=0.5, seconds_goal=1),
        Row("S6", "far", "<= 1 s", both_s=1.0, called_s=3.0, seconds_goal=1, floor="2.5 s alone"),
        Row("S7", "beside", ">= 8 x", peer="other", called_s=1.0, ratio_goal=8),
        Row("S12", "first", "jobs^1.1", called_s=1.0, exponent_goal=1.1),
        Row("S12", "twice as many", "jobs^1.1", called_s=4.0, exponent=2.0, exponent_goal=1.1),
        Row("S8", "both", "", both_s=0.1, seconds_goal=1, exponent=1.0, exponent_goal=1.05),
        Row("P1", "another kind", "<= 1 s", called_s=3.0, seconds_goal=1),
    ]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in goals(rows).splitlines()]
    said = {line[0]: line[2:] for line in lines[2:]}
    assert list(said) == list(ASKED)
    assert said["S6"] == ["1 of 2", "far: <= 1 s", "3.00", "2.5 s alone"]
    assert said["S7"] == ["not measured", "", "", ""]
    assert said["S12"][:3] == ["0 of 1", "twice as many: jobs^1.1", "1.82"]
    assert said["S8"][0] == "1 of 1"
    assert said["S1"][0] == "not measured"
    assert rows[4].record()["verdict"] == "missed"  # of the one column that was timed
    assert rows[5].record()["verdict"] == "met"
