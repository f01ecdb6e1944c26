"""Lyra in two phases, AFS-L, Tiresias and rigid jobs in the scheduler of elastic gangs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds, sampled

import apportion as ap
from apportion.mechanism.elastic import ElasticJobs, Tiresias
from apportion.mechanism.elastic.greedy import base_workers, shortest_first
from apportion.mechanism.elastic.searches import OptimusGreedy

if TYPE_CHECKING:
    from pathlib import Path


RULES = ["lyra", *ap.scheduler_table("configurations")["name"]]


def workload(jobs: int = 5, seed: int = 0, gpus: int = 2, **columns: Any) -> ap.ElasticWorkload:
    drawn = ap.generate_elastic_workload(jobs, hours=0.2, seed=seed)
    told = {"application": "small_vision", "batch": 128, "gpus": gpus, **columns}
    table = drawn.jobs.assign(**told)
    return replace(drawn, jobs=table)


def chosen_gpus(run: ap.Run) -> pd.Series:
    return run.schedule["devices"].map(len)


def test_base_workers_on_one_type_are_shortest_first() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        seconds, base = rng.integers(1, 9, 6), rng.integers(1, 5, 6)
        gpus = int(rng.integers(0, 20))
        got = base_workers(seconds[:, None], base[:, None], [gpus], np.zeros(6, dtype=bool))
        assert got.tolist() == shortest_first(seconds, base, gpus).tolist()
    # On its own type only; then on what is left; who runs comes first.
    times = [[1.0, np.inf], [2.0, 1.5], [3.0, 3.0]]
    two = [[1, 1], [2, 2], [1, 1]]
    assert base_workers(times, two, [1, 2], [False] * 3).tolist() == [True, True, False]
    assert base_workers(times, two, [1, 2], [False, False, True]).tolist() == [False, True, True]
    assert base_workers(np.zeros((0, 2)), np.zeros((0, 2)), [1, 2], []).tolist() == []


def test_queues_of_gpu_time() -> None:
    jobs = ElasticJobs(
        speed=np.array([[0.0, 4.0, 0.0], [0.0, 0.0, 6.0], [2.0, 0.0, 0.0], [2.0, 0.0, 0.0]]),
        kind=np.zeros(3, dtype=np.intp),
        gpus=np.array([1, 2, 3]),
        capacity=np.array([4]),
        current=np.array([1, -1, -1, -1]),
        steps_remaining=np.ones(4),
        arrival_s=np.array([0.0, 5.0, 7.0, 6.0]),
        attained_gpu_s=np.array([57_600.0, 57_599.0, 0.0, 60_000.0]),
        rigid=np.ones(4, dtype=bool),
        weight=np.ones(4),
        fair_speed=np.ones(4),
        reallocation_factor=np.ones(4),
        deadline_s=np.full(4, np.nan),
        elapsed_s=np.zeros(4),
    )
    # The first has had its GPU-time: three and one GPUs go to those who have not.
    assert Tiresias().choose(jobs).tolist() == [-1, 2, 0, -1]
    # In one queue it comes first, the one of three GPUs is passed over.
    assert Tiresias((1e6,)).choose(jobs).tolist() == [1, -1, 0, 0]
    with pytest.raises(ap.InputError, match="queue_limits"):
        Tiresias((2.0, 1.0))


def test_a_job_of_the_second_queue_makes_room() -> None:
    two = workload(2, gpus=4)
    two = replace(two, jobs=two.jobs.assign(arrival_s=[0.0, 300.0]))
    by_queue = ap.simulate(Tiresias((240.0,)), two, "t4=4", restart_seconds=0.0)
    in_turn = ap.simulate(Tiresias((1e9,)), two, "t4=4", restart_seconds=0.0)
    assert by_queue.jobs["preemptions"].tolist()[0] == 1
    assert in_turn.jobs["preemptions"].tolist() == [0, 0]
    assert in_turn.jobs["start_s"].iloc[1] >= in_turn.jobs["completion_s"].iloc[0]


@pytest.mark.parametrize("policy", sampled(["deepboot", "sia", "lyra", "afs"], 2))
def test_rigid_jobs_keep_what_their_users_set(policy: str) -> None:
    mixed = workload(4, gpus=3, rigid=[True, False, True, False])
    run = ap.simulate(policy, mixed, "t4=8")
    gpus = chosen_gpus(run).groupby(run.schedule["job"]).agg(set)
    assert gpus.loc[0] == gpus.loc[2] == {3}
    assert gpus.loc[1] != {3}
    # Alone it takes its steps at the speed of the rigid workload, after one start; what they are
    # worth is asked once an interval.
    alone = workload(1, gpus=3, rigid=True)
    alone = replace(alone, jobs=alone.jobs.assign(arrival_s=0.0))
    run = ap.simulate(policy, alone, "t4=8", restart_seconds=30.0)
    rigid = alone.rigid("t4")
    seconds = rigid.jobs["total_steps"].iloc[0] / rigid.throughputs["t4"].iloc[0]
    assert run.jobs["jct_s"].iloc[0] == pytest.approx(30 + seconds, rel=1e-3)


@pytest.mark.parametrize("gpus", [1, 3, 4])
def test_who_keeps_the_batch_runs_as_who_is_rigid_on_as_many_gpus(gpus: int) -> None:
    one = workload(1, batch=320)
    one = replace(one, jobs=one.jobs.assign(arrival_s=0.0))
    how: dict[str, Any] = {"growth": np.inf, "restart_seconds": 30.0}
    runs = {}
    for name, columns in (
        ("keeps", {"gpus": 2, "keeps_batch": True}),
        ("rigid", {"gpus": gpus, "rigid": True}),
        ("free", {}),
    ):
        load = replace(one, jobs=one.jobs.assign(**columns))
        runs[name] = ap.simulate("deepboot", load, {"t4": gpus}, **how)
    assert set(chosen_gpus(runs["keeps"])) == {gpus}  # all that there are
    jct = {name: run.jobs["jct_s"].iloc[0] for name, run in runs.items()}
    assert jct["keeps"] == pytest.approx(jct["rigid"], rel=1e-9)
    assert jct["free"] < jct["keeps"] - 1.0


def test_a_kept_batch_limits_the_gpus(tmp_path: Path) -> None:
    small = replace(workload(3), jobs=workload(3, keeps_batch=True).jobs.assign(batch=128))
    limits = small.applications["small_vision"].limits
    most = 128 // limits.local_least
    run = ap.simulate("deepboot", small, {"t4": 64}, growth=np.inf)
    assert chosen_gpus(run).max() <= most
    small.save(tmp_path / "jobs.csv")
    again = ap.read_elastic_workload(tmp_path / "jobs.csv")
    assert again.jobs["keeps_batch"].tolist() == [True] * 3
    with pytest.raises(ap.InputError, match="'keeps_batch' of the elastic jobs must be"):
        replace(small, jobs=small.jobs.assign(keeps_batch="often"))


@pytest.mark.parametrize("policy", ["deepboot", "tiresias"])
def test_a_rigid_job_of_which_a_gpu_is_called_back_stops(policy: str) -> None:
    rigid = workload(1, gpus=2, rigid=True)
    rigid = replace(rigid, jobs=rigid.jobs.assign(arrival_s=0.0))
    asked = pd.DataFrame({"arrival_s": [100.0], "service": ["a"], "duration_s": [10.0]})
    run = ap.simulate(policy, rigid, "t4=2", serving=asked)
    assert set(chosen_gpus(run)) == {2}
    assert run.schedule["end_s"].iloc[0] == 100.0
    summary = run.summary()
    assert (summary["restarts"], summary["paused_s"]) == (1.0, run.jobs["paused_s"].mean())


def test_what_is_refused() -> None:
    with pytest.raises(ap.InputError, match="one type"):
        ap.simulate("afs", workload(1), "t4=4,a100=4")
    with pytest.raises(ap.InputError, match="gang_sizes"):
        ap.simulate("afs", workload(1), "t4=8", gang_sizes="whole_nodes")
    large = workload(1, gpus=9, rigid=True)
    large = replace(large, jobs=large.jobs.assign(batch=512))
    with pytest.raises(ap.InputError, match="holds 9 GPUs"):
        ap.simulate("deepboot", large, "t4=8")
    with pytest.raises(ap.InputError, match="rule of elastic jobs"):
        ap.simulate("afs", ap.generate_workload(jobs=2), "v100=8")
    with pytest.raises(ap.InputError, match="Job 0"):
        ap.simulate("tiresias", replace(workload(1), jobs=workload(1).jobs.assign(batch=1)), "t4=8")
    with pytest.raises(ap.InputError, match="'rigid'"):
        workload(1, rigid="no")
    assert {"afs", "tiresias", "optimus_greedy"} <= set(RULES)


@pytest.mark.slow
def test_whatever_order_jobs_are_given_in_rules_choose_the_same() -> None:
    jobs = workload(5, gpus=2, rigid=[True, False, False, True, False])
    turned = replace(jobs, jobs=jobs.jobs.iloc[::-1])
    for policy in RULES:
        one, other = (ap.simulate(policy, each, "t4=4") for each in (jobs, turned))
        pd.testing.assert_frame_equal(one.jobs, other.jobs.loc[one.jobs.index], check_exact=True)


def drawn_round(seed: int, *, types: int = 1) -> ElasticJobs:
    """A round of a few jobs on a few GPUs, some of them running."""
    rng = np.random.default_rng(seed)
    count, most = int(rng.integers(1, 5)), 4
    gpus, kind = np.tile(np.arange(1, most + 1), types), np.repeat(np.arange(types), most)
    speed = np.sort(rng.uniform(0.1, 2.0, (count, types, most)), axis=2).reshape(count, -1)
    speed[rng.random(speed.shape) < 0.1] = 0.0
    return ElasticJobs(
        speed=speed,
        kind=kind,
        gpus=gpus,
        capacity=rng.integers(1, 7, types),
        current=np.full(count, -1, dtype=np.intp),
        steps_remaining=rng.uniform(1.0, 100.0, count),
        arrival_s=rng.permutation(count).astype(float),
        attained_gpu_s=np.zeros(count),
        rigid=np.zeros(count, dtype=bool),
        weight=rng.choice([1.0, 3.0], count),
        fair_speed=rng.uniform(0.3, 1.0, count),
        reallocation_factor=rng.uniform(0.3, 1.0, count),
        deadline_s=np.full(count, np.nan),
        elapsed_s=np.zeros(count),
    )


def held(jobs: ElasticJobs, chosen: Any) -> np.ndarray:
    has = chosen >= 0
    return np.bincount(jobs.kind[chosen[has]], jobs.gpus[chosen[has]], jobs.capacity.size)


def gained(jobs: ElasticJobs, seconds: np.ndarray, own: list[int], job: int) -> tuple[float, int]:
    """What one more step of a job saves per GPU, by the definition alone."""
    same = [
        option
        for option in range(jobs.gpus.size)
        if own[job] >= 0
        and jobs.kind[option] == jobs.kind[own[job]]
        and jobs.gpus[option] > jobs.gpus[own[job]]
        and np.isfinite(seconds[job, option])
    ]
    if not same:
        return 0.0, -1
    after = min(same, key=lambda option: jobs.gpus[option])
    more = int(jobs.gpus[after] - jobs.gpus[own[job]])
    if held(jobs, np.array(own))[jobs.kind[after]] + more > jobs.capacity[jobs.kind[after]]:
        return 0.0, -1
    return (seconds[job, own[job]] - seconds[job, after]) / more, after


@pytest.mark.parametrize("seeds", ranges_of_seeds(15, 2000))
def test_optimus_as_published_is_greedy(seeds: range) -> None:
    """No step is left that gains, and nobody waits for whom a GPU is left; first come, first."""
    for seed in seeds:
        jobs = drawn_round(seed, types=1 + seed % 2)
        with np.errstate(divide="ignore"):
            seconds = jobs.steps_remaining[:, None] / jobs.speed
        chosen = OptimusGreedy().choose(jobs)
        assert (held(jobs, chosen) <= jobs.capacity).all()
        assert (jobs.speed[chosen >= 0, chosen[chosen >= 0]] > 0).all()
        own = chosen.tolist()
        assert max(gained(jobs, seconds, own, job)[0] for job in range(len(own))) <= 0
        firsts = [-1] * len(own)
        for job in np.argsort(jobs.arrival_s).tolist():
            free = jobs.capacity - held(jobs, np.array(firsts))
            can = [
                option
                for option in range(jobs.gpus.size)
                if np.isfinite(seconds[job, option])
                and jobs.gpus[option] <= free[jobs.kind[option]]
            ]
            if can:
                firsts[job] = min(can, key=lambda o: (jobs.gpus[o], seconds[job, o], o))
        while True:
            steps = [gained(jobs, seconds, firsts, job) for job in range(len(own))]
            best = max(range(len(own)), key=lambda job: (steps[job][0], -job))
            if steps[best][0] <= 0:
                break
            firsts[best] = steps[best][1]
        assert own == firsts
