from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.cluster import Cluster
from apportion.errors import InputError, SolveError
from apportion.mechanism.queue import QueueScheduler
from apportion.policies import MaxMinFairness, Problem
from apportion.sim import Run, Workload, simulate

pytestmark = pytest.mark.usefixtures("free_starts")


def workload(
    work_s: list[float],
    arrival_s: list[float] | None = None,
    scale_factor: list[int] | None = None,
    speed: dict[str, float] | None = None,
) -> Workload:
    """Jobs of one type whose steps take a second each on a type of speed 1."""
    gpus = scale_factor or [1] * len(work_s)
    jobs = pd.DataFrame(
        {
            "job_type": "model",
            "scale_factor": gpus,
            "total_steps": work_s,
            "arrival_s": arrival_s or [0.0] * len(work_s),
        },
        index=[f"job {k}" for k in range(len(work_s))],
    )
    index = pd.MultiIndex.from_product([["model"], sorted(set(gpus))])
    throughputs = pd.DataFrame(speed or {"v100": 1.0}, index=index)
    return Workload("small", jobs, throughputs)


def las(load: Workload, cluster: dict[str, int] | Cluster, **options: object) -> Run:
    return simulate("max_min_fairness", load, cluster, **options)  # type: ignore[arg-type]


def test_one_job_takes_the_time_of_its_steps() -> None:
    run = las(workload([500.0], [40.0]), {"v100": 1})
    job = run.jobs.to_dict("index")["job 0"]
    assert (job["start_s"], job["completion_s"], job["jct_s"]) == (40.0, 540.0, 500.0)
    assert (job["queueing_s"], job["gpu_seconds"], job["preemptions"]) == (0.0, 500.0, 0)
    assert job["cost"] == pytest.approx(500 / 3600 * 2.48)
    assert job["isolated_s"] == pytest.approx(500.0)
    assert job["ftf"] == pytest.approx(1.0)
    assert run.rounds[["start_s", "end_s"]].to_numpy().tolist() == [[40, 400], [400, 540]]
    assert run.rounds.resolved.tolist() == [True, False]
    assert run.rounds.v100_busy.tolist() == [360, 140]


def test_two_jobs_on_one_gpu_alternate() -> None:
    run = las(workload([720.0, 720.0]), {"v100": 1})
    assert run.jobs.completion_s.tolist() == [1080.0, 1440.0]
    assert run.jobs.start_s.tolist() == [0.0, 360.0]
    assert run.jobs.preemptions.tolist() == [1, 1]
    assert run.jobs.queueing_s.tolist() == [360.0, 720.0]


def test_gpus_are_given_away_at_the_end_of_the_round_and_it_ends_early_if_all_are_done() -> None:
    run = las(workload([500.0, 100.0], [0.0, 400.0]), {"v100": 1})
    assert run.jobs.completion_s.tolist() == [500.0, 600.0]
    run = las(workload([360.0, 500.0, 100.0], [0.0, 0.0, 370.0]), {"v100": 2})
    # The second job runs from 360 to 500, the first one's GPU is free at 360, the last job
    # arrives after that and waits for the end of the round.
    assert run.jobs.start_s.tolist() == [0.0, 0.0, 500.0]


def test_a_gang_waits_until_all_of_its_gpus_are_free_at_once() -> None:
    run = las(workload([360.0, 360.0], scale_factor=[1, 4]), {"v100": 4})
    ends = sorted(run.jobs.completion_s)
    assert ends == [360.0, 720.0]
    assert run.rounds.running_jobs.tolist() == [1, 1]
    assert run.rounds.v100_busy.max() == 4 * 360


def test_an_arrival_on_an_idle_cluster_runs_in_the_next_round_whatever_the_resolve_time() -> None:
    # Gavel keeps it waiting until 4320 s with 11 of 12 GPUs idle.
    load = workload([9000.0, 600.0], [0.0, 2500.0])
    run = las(load, {"v100": 12}, resolve_seconds=1920.0)
    assert run.jobs.start_s["job 1"] == 2520.0
    late = las(workload([100.0, 600.0], [0.0, 2500.0]), {"v100": 12}, resolve_seconds=1e6)
    assert late.jobs.start_s["job 1"] == 2500.0


def test_a_job_that_fits_nowhere_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="'job 1'"):
        las(workload([100.0, 100.0], scale_factor=[1, 8]), {"v100": 4})
    with pytest.raises(InputError, match="newer"):
        las(workload([100.0]), {"newer": 4})


def test_overhead_is_lost_at_each_start_and_resume_and_by_nobody_else() -> None:
    run = las(workload([720.0, 720.0]), {"v100": 1}, preemption_overhead_seconds=60.0)
    # 300 steps a round; the fifth round ends after 60 + 120 s, and so does the sixth.
    assert run.jobs.completion_s.tolist() == [4 * 360 + 180, 4 * 360 + 360]
    assert run.jobs.preemptions.tolist() == [2, 2]
    assert run.jobs.gpu_seconds.sum() == 1800
    alone = las(workload([1000.0]), {"v100": 1}, preemption_overhead_seconds=60.0)
    assert alone.jobs.completion_s.tolist() == [1060.0]


class Failing(MaxMinFairness):
    name = "failing"

    def objective(self, p: Problem) -> NoReturn:
        raise ZeroDivisionError("no objective")


def test_an_error_of_the_policy_says_which_policy_and_when() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        simulate(Failing(), workload([10.0], [77.0]), {"v100": 1})
    (when,) = caught.value.__notes__
    assert when == "while solving 'failing' at 77 s of the simulation for 1 jobs"


def test_shares_of_nothing_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        status = "optimal"
        X = np.zeros((1, 1))
        pairs = np.empty((0, 2), dtype=np.intp)
        prices = np.zeros(1)

    monkeypatch.setattr("apportion.sim.resolve.solve_instance", lambda *_, **__: Nothing())
    with pytest.raises(SolveError, match="'max_min_fairness' gives none of the 1 active jobs"):
        las(workload([10.0]), {"v100": 1}, mechanism="exact")
    monkeypatch.setattr(MaxMinFairness, "traits", frozenset({"leaves_gpus_idle"}))
    with pytest.raises(SolveError, match="'max_min_fairness' gives none of the 1 active jobs"):
        las(workload([10.0]), {"v100": 1})


@pytest.mark.parametrize("wrong", [np.zeros((2, 1)), np.full((1, 1), np.nan)])
def test_broken_shares_are_refused(
    wrong: np.ndarray[tuple[int, int], np.dtype[np.float64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        status = "optimal"
        X = wrong
        pairs = np.empty((0, 2), dtype=np.intp)
        prices = np.zeros(1)

    monkeypatch.setattr("apportion.sim.resolve.solve_instance", lambda *_, **__: Broken())
    with pytest.raises(SolveError, match="shares"):
        las(workload([10.0]), {"v100": 1})


class ShortestLeft(QueueScheduler):
    """Whoever has least left is served first."""

    name = "shortest_left"

    def queue(self, jobs: Any, now_s: float) -> Any:
        for job in jobs.active[np.argsort(jobs.remaining[jobs.active].round(6), kind="stable")]:
            yield job, np.argsort(-jobs.speed[job], kind="stable")


@pytest.mark.thorough
@pytest.mark.parametrize("decider", ["max_min_fairness", ShortestLeft()], ids=["rounds", "queue"])
@pytest.mark.parametrize("seed", sampled(range(2), 2))
def test_starts_may_cost_by_job_type(decider: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"m{k}" for k in range(4)]
    index = pd.MultiIndex.from_arrays([names, [1] * 4], names=["job_type", "scale_factor"])
    rate = pd.DataFrame(rng.uniform(1, 4, (4, 2)), index, ["v100", "k80"])
    columns = {
        "job_type": rng.choice(names, 9),
        "scale_factor": 1,
        "arrival_s": rng.uniform(0, 4000, 9),
        "total_steps": rng.uniform(500, 9000, 9),
    }
    load = Workload("drawn", pd.DataFrame(columns), rate)
    each = dict(zip(names, rng.uniform(0, 200, 4).tolist(), strict=True))
    by_type = simulate(decider, load, "v100=1,k80=2", preemption_overhead_seconds=each)
    ap.check_schedule(by_type, load, Cluster({"v100": 1, "k80": 2}))
    alike = dict.fromkeys(names, 50.0)
    plain, same = (
        simulate(decider, load, "v100=1,k80=2", preemption_overhead_seconds=told)
        for told in (50.0, alike)
    )
    pd.testing.assert_frame_equal(plain.jobs, same.jobs, check_exact=True)
    of_one = {"m0": 20.0}
    with pytest.raises(
        InputError, match="preemption_overhead_seconds has no seconds for the job type"
    ):
        simulate(decider, load, "v100=1,k80=2", preemption_overhead_seconds=of_one)
