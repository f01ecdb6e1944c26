from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

from apportion.mechanism.repetition import add_repeatedly, running_sums
from apportion.mechanism.round_planner import RoundPlanner
from apportion.mechanism.rounds import InRounds
from apportion.sim import Run, Workload, simulate
from apportion.sim.engine import duty_cycle

if TYPE_CHECKING:
    from apportion.mechanism.scheduler import Decision, Event

pytestmark = pytest.mark.usefixtures("free_starts")

DAY_S = 86_400.0


def workload(days: list[float], arrival_s: list[float], gpus: list[int]) -> Workload:
    """Jobs of odd speeds, so that sums of steps are rounded in every round."""
    jobs = pd.DataFrame(
        {
            "job_type": [f"model {k % 3}" for k in range(len(days))],
            "scale_factor": gpus,
            "total_steps": [DAY_S * length / 7 for length in days],
            "arrival_s": arrival_s,
        }
    )
    index = pd.MultiIndex.from_product([[f"model {k}" for k in range(3)], [1, 2, 4]])
    speeds = {"v100": np.linspace(0.11, 0.37, 9), "k80": np.linspace(0.05, 0.31, 9)}
    return Workload("long", jobs, pd.DataFrame(speeds, index=index))


CASES: dict[str, dict[str, Any]] = {
    "one type": {"cluster": "v100=12"},
    "two types": {"cluster": "v100=9,k80=9"},
    "overhead": {"cluster": "v100=12", "preemption_overhead_seconds": 33.3},
    "odd rounds": {"cluster": "v100=12", "round_seconds": 77.7},
    "solved at intervals": {"cluster": "v100=12", "resolve_seconds": 5000.0},
    "too few GPUs": {"cluster": "v100=5"},
    "without leases": {"cluster": "v100=12", "leases": False},
    "weights of time": {"cluster": "v100=12", "policy": "min_cost"},
}
JOBS = workload([2, 3, 1.5, 2.25, 0.5], [0.0, 10.0, 0.0, 86_401.0, 90_000.0], [1, 2, 4, 1, 4])


def run(case: str) -> Run:
    options: dict[str, Any] = {"policy": "max_min_fairness", "workload": JOBS} | CASES[case]
    return simulate(**options)


@pytest.mark.parametrize("case", sampled(CASES, 2))
def test_rounds_booked_together_equal_rounds_one_by_one(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = run(case)
    monkeypatch.setattr(duty_cycle, "_AT_ONCE", 0)
    one_by_one = run(case)
    pd.testing.assert_frame_equal(together.jobs, one_by_one.jobs, check_exact=True)
    # With rounds of 77.7 s the order of a sum over gangs may show in the last digit.
    exact = case != "odd rounds"
    pd.testing.assert_frame_equal(together.rounds, one_by_one.rounds, check_exact=exact)


@pytest.mark.parametrize(("gpus", "fewer"), [(12, True), (5, False)])
def test_the_mechanism_is_asked_again_only_where_priorities_decide(
    gpus: int, fewer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Decision] = []
    plan = RoundPlanner.plan

    def counted(planner: RoundPlanner, **how: bool) -> Decision:
        asked.append(plan(planner, **how))
        return asked[-1]

    monkeypatch.setattr(RoundPlanner, "plan", counted)
    table = simulate("max_min_fairness", JOBS, {"v100": gpus}).rounds
    assert (len(asked) < len(table) / 20) is fewer
    assert len(asked) <= len(table)


def test_many_rounds_of_one_job_by_hand() -> None:
    load = Workload(
        "one",
        pd.DataFrame(
            {"job_type": ["m"], "scale_factor": [2], "total_steps": [1e6], "arrival_s": [50.0]}
        ),
        pd.DataFrame({"v100": [1.0]}, index=pd.MultiIndex.from_tuples([("m", 2)])),
    )
    ran = simulate("max_min_fairness", load, "v100=4")
    assert ran.jobs["completion_s"].tolist() == [1_000_050.0]
    assert ran.jobs["gpu_seconds"].tolist() == [2e6]
    assert len(ran.rounds) == 2778  # 2777 whole rounds of 360 s and 280 s
    assert ran.rounds["start_s"].tolist() == [50.0 + 360.0 * k for k in range(2778)]
    assert ran.rounds["v100_busy"].tolist() == [720.0] * 2777 + [560.0]
    assert ran.rounds["resolved"].tolist() == [True] + [False] * 2777


def test_repeated_sums_are_rounded_as_in_a_loop() -> None:
    start, step = np.array([0.1, 1e9]), np.array([0.7, -1 / 3])
    looped = [start]
    for _ in range(1000):
        looped.append(looped[-1] + step)
    assert running_sums(start, step, 1000).tolist() == [sums.tolist() for sums in looped[1:]]
    assert add_repeatedly(start, step, 1000).tolist() == looped[-1].tolist()
    assert add_repeatedly(start, step, 1).tolist() == looped[1].tolist()


@pytest.mark.parametrize("seed", sampled(range(6), 2))
def test_rounds_that_are_not_decided_anew_equal_rounds_that_are(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    count = 12
    load = workload(
        rng.uniform(0.05, 0.6, count).tolist(),
        rng.uniform(0, DAY_S, count).round().tolist(),
        rng.choice([1, 2, 4], count).tolist(),
    )
    options: dict[str, Any] = {
        "cluster": {"v100": int(rng.integers(4, 9)), "k80": int(rng.integers(4, 9))},
        "preemption_overhead_seconds": float(rng.choice([0.0, 33.3])),
        "resolve_seconds": float(rng.choice([0.0, 5000.0])),
    }
    policy = str(rng.choice(["max_min_fairness", "fifo", "makespan"]))
    decided: list[Decision | None] = []
    decide = InRounds.decide

    def watched(rounds: InRounds, event: Event) -> Decision | None:
        decided.append(decide(rounds, event))
        return decided[-1]

    monkeypatch.setattr(InRounds, "decide", watched)
    seldom = simulate(policy, load, **options)
    assert None in decided or len(decided) < len(seldom.rounds)
    monkeypatch.setattr(InRounds, "_steady_until", lambda *_: -np.inf)
    decided.clear()
    always = simulate(policy, load, **options)
    assert None not in decided
    assert len(decided) == len(always.rounds)
    for told, then in zip(_tables(seldom), _tables(always), strict=True):
        pd.testing.assert_frame_equal(told, then, check_exact=True)


def _tables(ran: Run) -> list[pd.DataFrame]:
    return [ran.jobs, ran.rounds, *ran.tables.values()]
