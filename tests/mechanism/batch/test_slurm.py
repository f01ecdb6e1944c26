"""Slurm's priorities and its backfilling against plain Python, from the definitions alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import floor, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pytestmark = pytest.mark.usefixtures("free_starts")

GPUS: tuple[int, ...] = (6, 4)
SPEEDS = (2, 1)
HALF_LIFE_S, MAX_AGE_S = 40.0, 50.0
SHARES = {"ana": 2.0, "ben": 1.0, "gone": 1.0}
PARTITIONS = {"short": 10.0, "long": 4.0}
SETTINGS: dict[str, Any] = {
    "half_life_s": HALF_LIFE_S,
    "max_age_s": MAX_AGE_S,
    "qos_weight": 300.0,
    "dampening": 2.0,
    "shares": SHARES,
    "partitions": PARTITIONS,
}


@dataclass
class Job:
    """A job of a plain schedule; steps are seconds on a type of speed 1."""

    arrival: int
    gpus: int
    steps: int
    limit: int | None
    user: str
    partition: str
    qos: float
    start: int = -1
    kind: int = -1

    def takes(self, kind: int) -> int:
        return self.steps // SPEEDS[kind]

    def planned(self, kind: int) -> int:
        return self.takes(kind) if self.limit is None else self.limit

    @property
    def end(self) -> int:
        return self.start + self.takes(self.kind)


@dataclass
class Schedule:
    """Every second at which a job comes or ends, all that wait are planned anew, in an order."""

    jobs: list[Job]
    order: Callable[[int, list[Job]], Iterable[Job]]
    depth: int = 10**9
    ends_first: bool = False
    starts: list[int] = field(default_factory=list)

    def played(self) -> list[tuple[int, int]]:
        now = min(job.arrival for job in self.jobs)
        while True:
            self.decide(now)
            later = {job.arrival for job in self.jobs} | {j.end for j in self.jobs if j.start >= 0}
            if not any(time > now for time in later):
                return [(job.start, job.kind) for job in self.jobs]
            now = min(time for time in later if time > now)

    def decide(self, now: int) -> None:
        runs = [job for job in self.jobs if 0 <= job.start <= now < job.end]
        waits = [job for job in self.jobs if job.start < 0 and job.arrival <= now]
        calendar = np.tile(np.array(GPUS)[:, None], (1, 4000))
        free = list(GPUS)
        for job in runs:
            free[job.kind] -= job.gpus
            calendar[job.kind, : max(job.start + job.planned(job.kind) - now, 1)] -= job.gpus
        for job in list(self.order(now, waits))[: self.depth]:
            wishes = []
            for kind in range(len(GPUS)):
                if job.gpus <= GPUS[kind]:
                    at = 0
                    while (calendar[kind, at : at + job.planned(kind)] < job.gpus).any():
                        at += 1
                    wishes.append((at, kind))
            if self.ends_first:
                at, kind = min(wishes, key=lambda wish: (wish[0] + job.planned(wish[1]), wish[1]))
            else:
                at, kind = min(wishes)
            calendar[kind, at : at + job.planned(kind)] -= job.gpus
            if at == 0 and job.gpus <= free[kind]:
                job.start, job.kind = now, kind
                free[kind] -= job.gpus


def as_submitted(now: int, waits: list[Job]) -> list[Job]:
    return waits


def priorities(jobs: list[Job], now: int) -> dict[int, int]:
    """Work out the priorities of all jobs by the formula, with what users have had until now."""
    rate = log(2) / HALF_LIFE_S
    used = dict.fromkeys({job.user for job in jobs}, 0.0)
    for job in jobs:
        if job.start >= 0:
            end = min(job.end, now)
            held = (
                2 ** (-(now - end) / HALF_LIFE_S) - 2 ** (-(now - job.start) / HALF_LIFE_S)
            ) / rate
            used[job.user] += job.gpus * held
    every = sum(used.values())
    shares = {**dict.fromkeys(used, 1.0), **SHARES}
    found = {}
    for number, job in enumerate(jobs):
        normal = shares[job.user] / sum(shares.values())
        fair = 2 ** -((used[job.user] / every / normal if every else 0.0) / 2.0)
        sum_of_all = (
            1000 * min((now - job.arrival) / MAX_AGE_S, 1.0)
            + 10_000 * fair
            + 1000 * job.gpus / sum(GPUS)
            + 1000 * PARTITIONS.get(job.partition, 1.0) / 10.0
            + 300 * job.qos / max(each.qos for each in jobs)
        )
        found[number] = floor(sum_of_all + 1e-6)
    return found


def by_priority(jobs: list[Job]) -> Callable[[int, list[Job]], list[Job]]:
    def order(now: int, waits: list[Job]) -> list[Job]:
        found = priorities(jobs, now)
        numbers = [number for number, job in enumerate(jobs) if job in waits]
        return [jobs[n] for n in sorted(numbers, key=lambda n: (-found[n], n))]

    return order


def drawn(seed: int, *, limits: bool) -> list[Job]:
    rng = np.random.default_rng(seed)
    jobs = []
    for arrival in np.sort(rng.choice(60, 12, replace=False)).tolist():
        gpus, steps = int(rng.integers(1, 7)), 2 * int(rng.integers(1, 20))
        # Some jobs outlive their limits on the slower type.
        limit = int(rng.integers(max(steps // 2, 1), 2 * steps)) if limits else None
        user = str(rng.choice(["ana", "ben", "carla"]))
        partition = str(rng.choice(["short", "long", "other"]))
        jobs.append(Job(arrival, gpus, steps, limit, user, partition, float(rng.integers(1, 4))))
    return jobs


def workload(jobs: list[Job]) -> ap.Workload:
    table = pd.DataFrame(
        {
            "arrival_s": [float(job.arrival) for job in jobs],
            "job_type": "any",
            "scale_factor": [job.gpus for job in jobs],
            "total_steps": [float(job.steps) for job in jobs],
            "entity": [job.user for job in jobs],
            "partition": [job.partition for job in jobs],
            "qos": [job.qos for job in jobs],
        },
        index=[f"job {number:02}" for number in range(len(jobs))],
    )
    if jobs[0].limit is not None:
        table["time_limit_s"] = [float(job.limit or 0) for job in jobs]
    rows = [("any", gpus) for gpus in sorted({job.gpus for job in jobs})]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({"fast": float(SPEEDS[0]), "slow": float(SPEEDS[1])}, index=index)
    return ap.Workload("drawn", table, speeds)


CLUSTER: dict[str, int] = dict(zip(("fast", "slow"), GPUS, strict=True))


def told(scheduler: Any, load: ap.Workload) -> list[tuple[int, int]]:
    run = ap.simulate(scheduler, load, CLUSTER)
    assert run.summary()["preemptions"] == 0
    table = run.jobs.loc[[*load.jobs.sort_values("arrival_s").index]]
    steps = load.jobs.loc[table.index, "total_steps"]
    took_s = table["completion_s"] - table["start_s"]
    kind = np.where(np.isclose(took_s * SPEEDS[0], steps), 0, 1)
    assert np.isclose(took_s * np.array(SPEEDS)[kind], steps).all()
    return list(zip(table["start_s"].round(6).astype(int).tolist(), kind.tolist(), strict=True))


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("seeds", ranges_of_seeds(8, 300, 25))
def test_conservative_backfilling_plans_anew_at_every_event(
    seeds: Iterable[int], *, limits: bool
) -> None:
    for seed in seeds:
        jobs = drawn(seed, limits=limits)
        again = [replace(job) for job in jobs]
        found = told(ap.get_scheduler("conservative", keeps=False), workload(jobs))
        assert found == Schedule(jobs, as_submitted).played(), seed
        found = told("minimum_completion_time", workload(jobs))
        assert found == Schedule(again, as_submitted, ends_first=True).played(), seed


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("seeds", ranges_of_seeds(8, 300, 25))
def test_slurm_plans_by_priority(seeds: Iterable[int], *, limits: bool) -> None:
    for seed in seeds:
        jobs = drawn(seed, limits=limits)
        load = workload(jobs)
        found = told(ap.get_scheduler("slurm", **SETTINGS), load)
        assert found == Schedule(jobs, by_priority(jobs)).played(), seed
        few = [replace(job, start=-1, kind=-1) for job in jobs]
        found = told(ap.get_scheduler("slurm", **SETTINGS, depth=2), load)
        assert found == Schedule(few, by_priority(few), depth=2).played(), seed


def test_priorities_by_hand() -> None:
    """Two users, a GPU each for an hour; the first has used three quarters of all."""
    use = {"entity_used_s": [5400.0, 1800.0, 5400.0]}
    facts = {"entity": ["ana", "ben", "ana"], "arrival_s": [0.0, 0.0, 302_400.0], **use}
    table = {"scale_factor": [1, 1, 4], "elapsed_s": [302_400.0, 302_400.0, 0.0]}
    jobs = pd.DataFrame({**facts, **table, "steps_remaining": 10.0}, index=["a", "b", "c"])
    # Half of a week: 500 for the age; used 3/4 and 1/4 of all, of two equal shares: 2^-1.5, 2^-0.5.
    expected = {
        "a": 500 + 10_000 * 2**-1.5 + 1000 / 4,
        "b": 500 + 10_000 * 2**-0.5 + 1000 / 4,
        "c": 10_000 * 2**-1.5 + 1000,
    }
    assert sorted(expected, key=lambda job: -expected[job]) == ["b", "c", "a"]
    steps = pd.DataFrame({"v100": 1.0}, index=jobs.index)
    assert first_by_turns(jobs, steps) == ["b", "c", "a"]
    assert first_by_turns(jobs, steps, job_size_weight=0.0) == ["b", "a", "c"]
    assert first_by_turns(jobs, steps, favor_small=True) == ["b", "a", "c"]
    assert first_by_turns(jobs, steps, fair_share_weight=0.0) == ["c", "a", "b"]
    assert first_by_turns(jobs, steps, shares={"ben": 0.0}) == ["c", "a", "b"]
    alone = {"fair_share_weight": 0.0, "job_size_weight": 0.0}
    assert first_by_turns(jobs, steps, **alone) == ["a", "b", "c"]
    texts = jobs.assign(qos=["low", "high", "other"])
    qos = {"qos": {"high": 2.0, "low": 1.0}, "qos_weight": 1e6}
    assert first_by_turns(texts, steps, **qos) == ["b", "a", "c"]


def first_by_turns(jobs: pd.DataFrame, steps: pd.DataFrame, **options: Any) -> list[str]:
    """Return who starts first, who of the others does, and so on; one is planned at a time."""
    scheduler, found = ap.get_scheduler("slurm", **options, depth=1), []
    left = jobs
    while len(left):
        now = ap.solve_round(scheduler, steps.loc[left.index], "v100=4", jobs=left)
        found += [str(job) for job in now.running]
        left = left.drop(index=found[-1])
    return found


def test_work_in_another_order_of_the_table_is_the_same() -> None:
    load = workload(drawn(3, limits=True))
    turned = ap.Workload("drawn", load.jobs.iloc[::-1], load.throughputs)
    scheduler = ap.get_scheduler("slurm", **SETTINGS)
    assert told(scheduler, load) == told(scheduler, turned)


@pytest.mark.thorough
def test_it_keeps_the_contract() -> None:
    ap.check_scheduler(ap.get_scheduler("slurm", half_life_s=600.0), n_jobs=1)


def test_who_outlives_a_limit_is_not_run_over() -> None:
    jobs = [Job(0, 6, 40, 5, "ana", "long", 1.0), Job(1, 6, 4, 5, "ben", "long", 1.0)]
    for name in ("easy", "conservative", "slurm"):
        assert told(name, workload(jobs)) == [(0, 0), (20, 0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"age_weight": -1.0}, "age_weight is -1.0; it must be a number >= 0"),
        ({"half_life_s": 0.0}, "half_life_s is 0.0; it must be a number of seconds > 0"),
        ({"dampening": 0.0}, "dampening is 0.0; it must be a number > 0"),
        ({"shares": {"ana": -1.0}}, "shares of 'ana' is -1.0"),
        ({"partitions": 3}, "partitions is 3; it must be a mapping"),
        ({"favor_small": "no"}, "favor_small is 'no'; it must be True or False"),
        ({"depth": 0}, "depth is 0; it must be a whole number >= 1"),
        ({"ages_weight": 3.0}, "'ages_weight'. Did you mean 'age_weight'"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        ap.get_scheduler("slurm", **options)
