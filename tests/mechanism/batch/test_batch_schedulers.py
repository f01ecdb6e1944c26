"""Batch schedulers against their definitions, second by second, and against examples by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap

pytestmark = pytest.mark.usefixtures("free_starts")

GPUS = 8


def workload(
    arrival_s: list[int], gpus: list[int], seconds: list[int], limit_s: list[int] | None = None
) -> ap.Workload:
    table = pd.DataFrame(
        {
            "arrival_s": np.array(arrival_s, dtype=float),
            "job_type": "any",
            "scale_factor": gpus,
            "total_steps": np.array(seconds, dtype=float),
        },
        index=[f"job {each:02}" for each in range(len(gpus))],
    )
    if limit_s is not None:
        table["time_limit_s"] = np.array(limit_s, dtype=float)
    sizes = sorted(set(gpus))
    index = pd.MultiIndex.from_product([["any"], sizes], names=["job_type", "scale_factor"])
    return ap.Workload("drawn", table, pd.DataFrame({"a100": 1.0}, index=index))


def drawn(seed: int, jobs: int = 14) -> tuple[list[int], list[int], list[int]]:
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 60, jobs)).tolist()
    return arrival, rng.integers(1, GPUS + 1, jobs).tolist(), rng.integers(1, 30, jobs).tolist()


def starts(policy: str, load: ap.Workload) -> list[float]:
    run = ap.simulate(policy, load, {"a100": GPUS})
    assert run.summary()["preemptions"] == 0
    return run.jobs["start_s"].round(6).tolist()


def second_by_second(
    arrival: list[int], gpus: list[int], seconds: list[int], limit: list[int], *, easy: bool
) -> list[float]:
    """Serve jobs each second as the text says: in order, and past the head by EASY's two rules."""
    start: dict[int, int] = {}
    for now in range(2000):
        runs = [job for job, at in start.items() if at + seconds[job] > now]
        free = GPUS - sum(gpus[job] for job in runs)
        waiting = [j for j in range(len(gpus)) if arrival[j] <= now and j not in start]
        while waiting and gpus[waiting[0]] <= free:
            job = waiting.pop(0)
            start[job] = now
            runs.append(job)
            free -= gpus[job]
        if not waiting or not easy:
            continue
        # The shadow time: when the head could start if jobs took as long as their users say.
        head, left, shadow = waiting[0], free, now
        for shadow in sorted({max(start[job] + limit[job], now) for job in runs}):
            left = free + sum(gpus[j] for j in runs if max(start[j] + limit[j], now) <= shadow)
            if left >= gpus[head]:
                break
        spare = left - gpus[head]
        for job in waiting[1:]:
            ends = now + limit[job] <= shadow
            if gpus[job] <= free and (ends or gpus[job] <= spare):
                start[job] = now
                free -= gpus[job]
                spare -= 0 if ends else gpus[job]
    return [float(start[job]) for job in range(len(gpus))]


def reserved(arrival: list[int], gpus: list[int], seconds: list[int]) -> list[float]:
    """Reserve for each job, when it comes, the earliest time that is left in a calendar."""
    free = np.full(3000, GPUS)
    found = []
    for at, count, length in zip(arrival, gpus, seconds, strict=True):
        while (free[at : at + length] < count).any():
            at += 1
        free[at : at + length] -= count
        found.append(float(at))
    return found


@pytest.mark.parametrize("seed", each_seed(6, 25))
def test_first_come_first_served(seed: int) -> None:
    arrival, gpus, seconds = drawn(seed)
    expected = second_by_second(arrival, gpus, seconds, seconds, easy=False)
    assert starts("fcfs", workload(arrival, gpus, seconds)) == expected


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", each_seed(8, 25))
def test_easy_backfilling(seed: int, *, exact: bool) -> None:
    arrival, gpus, seconds = drawn(seed)
    more = np.random.default_rng(seed).integers(1, 5, len(gpus))
    limit = seconds if exact else (np.array(seconds) * more).tolist()
    load = workload(arrival, gpus, seconds, None if exact else limit)
    assert starts("easy", load) == second_by_second(arrival, gpus, seconds, limit, easy=True)


@pytest.mark.parametrize("seed", each_seed(8, 25))
def test_conservative_backfilling(seed: int) -> None:
    arrival, gpus, seconds = drawn(seed)
    assert starts("conservative", workload(arrival, gpus, seconds)) == reserved(
        arrival, gpus, seconds
    )


def test_who_passes_whom_by_hand() -> None:
    # 8 GPUs: job 0 holds 6 until 10. Job 1 wants 4 and waits until then. Job 2 (2 GPUs, 10 s) ends
    # in time; so would job 3, but for its 20 s, which hold 2 GPUs that job 1 leaves; job 4 wants
    # 3 for 20 s, and at 10 s only 2 are left beside job 1.
    load = workload([0, 1, 1, 1, 1], [6, 4, 2, 2, 3], [10, 10, 9, 20, 20])
    assert starts("fcfs", load) == [0.0, 10.0, 10.0, 10.0, 20.0]
    assert starts("easy", load) == [0.0, 10.0, 1.0, 10.0, 20.0]
    assert starts("conservative", load) == [0.0, 10.0, 1.0, 10.0, 20.0]


def test_a_job_starts_on_the_fastest_type_that_is_free_and_stays() -> None:
    load = workload([0, 0, 0], [1, 1, 1], [100, 100, 100])
    both = pd.DataFrame({"a100": 2.0, "t4": 1.0}, index=load.throughputs.index)
    load = ap.Workload("two types", load.jobs, both)
    run = ap.simulate("fcfs", load, {"a100": 1, "t4": 1})
    assert run.jobs["start_s"].tolist() == [0.0, 0.0, 50.0]
    assert run.jobs["completion_s"].tolist() == [50.0, 100.0, 100.0]


def test_work_in_another_order_of_the_table_is_the_same() -> None:
    arrival, gpus, seconds = drawn(3)
    load = workload(arrival, gpus, seconds)
    turned = ap.Workload("drawn", load.jobs.iloc[::-1], load.throughputs)
    for policy in ("fcfs", "easy", "conservative"):
        first, second = (ap.simulate(policy, each, {"a100": GPUS}).jobs for each in (load, turned))
        pd.testing.assert_frame_equal(first, second.loc[first.index])
