from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.policies import NetworkSensitive
from apportion.sim import Workload, simulate
from apportion.sim.engine.true_state import TrueState
from apportion.sim.solves.standing import Answer, Solves

pytestmark = pytest.mark.usefixtures("free_starts")


def workload_of(speeds: dict[str, list[float]], **columns: Any) -> Workload:
    """Jobs of one type each; speeds by accelerator, steps/s."""
    jobs = pd.DataFrame({"job_type": list("abc"), "scale_factor": 1, **columns})
    index = pd.MultiIndex.from_tuples([(name, 1) for name in "abc"])
    return Workload("by hand", jobs, pd.DataFrame(speeds, index=index))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """The network priorities of the active jobs at each solve."""
    seen: list[list[float]] = []

    noted = Solves.noted

    def noting(solves: Solves, answer: Answer) -> None:
        seen.append(answer.instance.columns["network_priority"].tolist())
        noted(solves, answer)

    monkeypatch.setattr(Solves, "noted", noting)
    return seen


def test_the_ledger_divides_the_least_time_for_the_steps_done_by_the_time_held() -> None:
    speeds = {"v100": [2.0, 4.0, 1.0], "k80": [1.0, 1.0, 1.0]}
    steps = {"total_steps": 1000.0, "steps_remaining": [1000.0, 600.0, 1000.0]}
    ledger = TrueState(workload_of(speeds, **steps), Cluster({"v100": 1, "k80": 1}))
    ledger.admit(0.0)
    first, both = np.array([0]), np.array([0, 1])
    ledger.work(both, np.array([200.0, 100.0]))
    ledger.hold(both, np.array([0, 1]), np.array([100.0, 100.0]), np.array([100.0, 100.0]))
    ledger.work(first, np.array([300.0]))
    ledger.hold(first, np.array([1]), np.array([300.0]), np.array([300.0]))
    # 500 steps at 2 steps/s in 400 s; 100 steps at 4 steps/s in 100 s; nothing.
    priority = ledger.told.columns(400.0)["network_priority"]
    assert priority.tolist() == pytest.approx([0.625, 0.25, 0.0])
    assert "network_priority" not in ledger.told.columns(400.0, ["order"])


def test_rounds_serve_the_job_that_never_ran_first(told: list[list[float]]) -> None:
    # On the slow type the first job would make a tenth, the second a half of its fastest speed.
    speeds = {"v100": [10.0, 2.0, 1.0], "k80": [1.0, 1.0, 0.1]}
    workload = workload_of(speeds, total_steps=[1e5, 1e5, 900.0], arrival_s=[0.0, 0.0, 720.0])
    run = simulate("network_sensitive", workload, "v100=1,k80=1")
    assert told[0] == [0.0, 0.0]
    assert told[1] == pytest.approx([1.0, 0.5, 0.0])
    assert run.jobs["start_s"].tolist() == [0.0, 0.0, 720.0]
    assert run.jobs["v100_s"].iloc[2] == pytest.approx(900.0)


def test_time_lost_at_the_start_counts_as_delay_in_rounds(told: list[list[float]]) -> None:
    arrival_s = [0.0, 360.0, 720.0]
    workload = workload_of({"v100": [1.0, 1.0, 1.0]}, total_steps=900.0, arrival_s=arrival_s)
    simulate("network_sensitive", workload, "v100=1", preemption_overhead_seconds=36.0)
    # Each begins as soon as it comes, and loses a tenth of its round.
    assert told[:3] == [[0.0], pytest.approx([0.9, 0.0]), pytest.approx([0.9, 0.9, 0.0])]


def test_leases_tell_what_communication_has_cost(told: list[list[float]]) -> None:
    jobs = pd.DataFrame(
        {"job_type": "ResNet18", "scale_factor": [8, 8, 8], "total_steps": 36_000.0}
    ).assign(arrival_s=[0.0, 1800.0, 5400.0])
    throughputs = pd.DataFrame({"gpu": [1.0]}, index=pd.MultiIndex.from_tuples([("ResNet18", 8)]))
    cluster = Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=8)
    run = simulate(
        NetworkSensitive(), Workload("by hand", jobs, throughputs), cluster, mechanism="leases"
    )
    # Table I has 7 % of exposed communication for ResNet18 in one machine.
    assert told[0] == [0.0]
    assert told[1] == pytest.approx([1 / 1.07, 0.0])
    assert told[2] == pytest.approx([1 / 1.07, 1 / 1.07, 0.0])
    assert run.jobs["start_s"].tolist() == pytest.approx([0.0, 3608.0, 7216.0])
