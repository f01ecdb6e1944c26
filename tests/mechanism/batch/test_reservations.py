"""Reservations of backfilling: never put off, never behind who outlives a limit, starts counted.

The other side is a schedule by the second, worked out from the definition in a plain calendar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Iterable

TYPES = ("fast", "slow")
SPEEDS = (2, 1)
SEEDS = ranges_of_seeds(30, 200)


@dataclass
class Job:
    """A job of whole seconds; steps are seconds on a type of speed 1."""

    arrival: int
    gpus: int
    steps: int
    limit: int | None
    promised: int | None = None
    start: int | None = None
    kind: int = 0

    def takes(self, kind: int, cost: int) -> int:
        return self.steps // SPEEDS[kind] + cost

    def planned(self, kind: int, cost: int) -> int:
        return self.takes(kind, cost) if self.limit is None else self.limit


@dataclass
class Case:
    """Jobs in the order of arrival, the GPUs of each type, and what a start costs."""

    jobs: list[Job]
    gpus: list[int]
    cost: int

    def run(self, scheduler: Any) -> pd.DataFrame:
        table = pd.DataFrame(
            {
                "arrival_s": [float(job.arrival) for job in self.jobs],
                "job_type": "any",
                "scale_factor": [job.gpus for job in self.jobs],
                "total_steps": [float(job.steps) for job in self.jobs],
                "time_limit_s": [np.nan if job.limit is None else job.limit for job in self.jobs],
            },
            index=[f"job {number:02}" for number in range(len(self.jobs))],
        )
        sizes = sorted({job.gpus for job in self.jobs})
        index = pd.MultiIndex.from_product([["any"], sizes], names=["job_type", "scale_factor"])
        columns = {kind: float(SPEEDS[place]) for place, kind in enumerate(self.kinds)}
        load = ap.Workload("drawn", table, pd.DataFrame(columns, index=index))
        cluster = dict(zip(self.kinds, self.gpus, strict=True))
        cost = float(self.cost)
        run = ap.simulate(scheduler, load, cluster, preemption_overhead_seconds=cost)
        kinds = run.schedule.groupby("job")["accelerator"].agg(lambda on: "".join(sorted({*on})))
        table = run.jobs.loc[table.index]
        return table.assign(kind=[self.kinds.index(kinds[job]) for job in table.index])

    @property
    def kinds(self) -> list[str]:
        return list(TYPES[: len(self.gpus)])

    def end(self, job: Job) -> int:
        assert job.start is not None
        return job.start + job.takes(job.kind, self.cost)

    def outlived_before(self, now: float) -> bool:
        """Tell whether any job went on after the limit that its user had said, until a time."""
        said = [(job, (job.start or 0) + job.planned(job.kind, self.cost)) for job in self.jobs]
        return any(limit < min(now, self.end(job)) for job, limit in said)

    def events(self) -> Iterable[int]:
        """Go through the times at which a job comes or ends, as they turn out."""
        now = -1
        while True:
            ends = [self.end(job) for job in self.jobs if job.start is not None]
            later = [time for time in [*(job.arrival for job in self.jobs), *ends] if time > now]
            if not later:
                return
            now = min(later)
            yield now


def calendar(case: Case, now: int) -> np.ndarray:
    """Return the GPUs of each type that are free in each second from now on."""
    free = np.tile(np.array(case.gpus)[:, None], (1, 6000))
    for job in case.jobs:
        if job.start is not None and now < case.end(job):
            left = job.start + job.planned(job.kind, case.cost) - now
            free[job.kind, : max(left, 1)] -= job.gpus  # after its limit: a second more
    return free


def earliest(case: Case, free: np.ndarray, job: Job, kind: int, after: int = 0) -> int:
    length = job.planned(kind, case.cost)
    while (free[kind, after : after + length] < job.gpus).any():
        after += 1
    return after


def conservative(case: Case, chooses: str = "first_start", depth: int = 100) -> None:
    """Play the rule: who has a reservation keeps it or moves up, in order; then the new ones."""
    reserved: dict[int, tuple[int, int]] = {}

    def rank(number: int, way: tuple[int, int]) -> tuple[int, int, int]:
        at, kind = way
        length = case.jobs[number].planned(kind, case.cost) if chooses == "first_end" else 0
        return at + length, kind, at

    for now in case.events():
        free = calendar(case, now)

        def book(number: int, sign: int, free: np.ndarray = free, now: int = now) -> None:
            at, kind = reserved[number]
            job = case.jobs[number]
            length = job.planned(kind, case.cost)
            free[kind, at - now : at - now + length] -= sign * job.gpus

        def best(number: int, free: np.ndarray = free, now: int = now) -> tuple[int, int]:
            job = case.jobs[number]
            kinds = [kind for kind, most in enumerate(case.gpus) if job.gpus <= most]
            ways = [(now + earliest(case, free, job, kind), kind) for kind in kinds]
            return min(ways, key=lambda way: rank(number, way))

        for number, (at, kind) in sorted(reserved.items()):
            after = max(at - now, 0)
            at = now + earliest(case, free, case.jobs[number], kind, after)
            reserved[number] = at, kind
            book(number, 1)
        before = None
        while before != reserved:
            before = dict(reserved)
            for number in sorted(reserved):
                book(number, -1)
                other = best(number)
                if rank(number, other) < rank(number, reserved[number]):
                    reserved[number] = other
                book(number, 1)
        for number, job in enumerate(case.jobs):
            waits = job.arrival <= now and job.start is None and number not in reserved
            if waits and len(reserved) < depth:
                reserved[number] = best(number)
                job.promised = rank(number, reserved[number])[0]
                book(number, 1)
        for number, (at, kind) in list(reserved.items()):
            if at == now:
                case.jobs[number].start, case.jobs[number].kind = at, kind
                del reserved[number]


def drawn(seed: int) -> Case:
    """Draw up to 16 jobs on one or two types, with no, kept or outlived limits, and start costs."""
    rng = np.random.default_rng([seed, 11])
    gpus = rng.integers(2, 9, 1 + seed % 2).tolist()
    limits = ("none", "kept", "some outlived")[seed // 2 % 3]
    cost = (0, 7)[seed // 6 % 2]
    jobs = []
    for arrival in np.sort(rng.integers(0, 80, int(rng.integers(4, 17)))).tolist():
        steps = 2 * int(rng.integers(1, 20))
        limit = None
        if limits == "kept":
            limit = int((steps + cost) * rng.choice([1, 1, 2, 4]))
        elif limits == "some outlived" and rng.uniform() < 0.8:
            limit = max(int(steps * rng.choice([0.3, 1, 2, 4])), 1)
        jobs.append(Job(arrival, int(rng.integers(1, max(gpus) + 1)), steps, limit))
    return Case(jobs, gpus, cost)


@pytest.mark.parametrize(
    ("chooses", "depth"), [("first_start", 100), ("first_end", 100), ("first_start", 3)]
)
@pytest.mark.parametrize("seeds", SEEDS)
def test_conservative_backfilling_keeps_its_promises(
    seeds: Iterable[int], chooses: str, depth: int
) -> None:
    for seed in seeds:
        case = drawn(seed)
        run = case.run(ap.get_scheduler("conservative", chooses=chooses, depth=depth))
        conservative(case, chooses, depth)
        assert run["start_s"].tolist() == pytest.approx([job.start for job in case.jobs]), seed
        assert run["kind"].tolist() == [job.kind for job in case.jobs], seed
        for start_s, job in zip(run["start_s"], case.jobs, strict=True):
            assert job.promised is not None
            length = job.planned(job.kind, case.cost) if chooses == "first_end" else 0
            # Only who went on after its limit may put anybody off.
            late = start_s + length > job.promised + 1e-6
            assert not late or case.outlived_before(start_s), (seed, job)


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative", "slurm"])
@pytest.mark.parametrize("seeds", SEEDS)
def test_who_comes_first_has_any_type_that_is_free(seeds: Iterable[int], name: str) -> None:
    """Nobody stands before it, so that no job past its limit is a reason to wait."""
    for seed in seeds:
        case = drawn(6 * seed + 5)  # two types, some limits outlived
        run = case.run(
            ap.get_scheduler("slurm", fair_share_weight=0.0, job_size_weight=0.0)
            if name == "slurm"
            else name
        )
        ends = run["completion_s"].to_numpy()
        for number, job in enumerate(case.jobs):
            start = run["start_s"].iloc[number]
            times = [t for t in [*run["arrival_s"], *ends] if job.arrival <= t < start - 1e-6]
            for now in times:
                if (run["start_s"].iloc[:number] > now + 1e-6).any():
                    continue  # some job that came before it waits, too
                for kind, most in enumerate(case.gpus):
                    on = (run["kind"] == kind) & (run["start_s"] < now + 1e-6) & (ends > now + 1e-6)
                    held = sum(
                        each.gpus for each, there in zip(case.jobs, on, strict=True) if there
                    )
                    assert job.gpus > most - held, (seed, number, now, kind)


def starts(scheduler: Any, *jobs: Job, gpus: list[int], cost: int = 0) -> list[float]:
    return Case([*jobs], gpus, cost).run(scheduler)["start_s"].round(6).tolist()


@pytest.mark.parametrize(
    "name", ["fcfs", "easy", "conservative", "slurm", "minimum_completion_time"]
)
def test_a_free_type_does_not_wait_for_who_outlives_a_limit(name: str) -> None:
    # x holds the only fast GPU to 1000, far past its limit of 10; a slow one is free when y comes.
    assert starts(name, Job(0, 1, 2000, 10), Job(50, 1, 100, 100), gpus=[1, 1]) == [0.0, 50.0]


def test_a_reservation_is_kept_when_another_moves_up() -> None:
    # 2 GPUs. x may run to 10 and ends at 4; w runs to 6. j needs both: at 10. k fits before it:
    # at 6, on w's. When x ends j could have both at 6, and k would be put off to 16. But k moves up
    # to 4, and then j to 8, when k ends.
    jobs = Job(0, 1, 4, 10), Job(0, 1, 6, 6), Job(1, 2, 10, 10), Job(2, 1, 4, 4)
    slow = [Job(job.arrival, job.gpus, 2 * job.steps, job.limit) for job in jobs]
    assert starts("conservative", *slow, gpus=[2]) == [0.0, 0.0, 8.0, 4.0]
    anew = ap.get_scheduler("conservative", keeps=False)
    assert starts(anew, *slow, gpus=[2]) == [0.0, 0.0, 6.0, 16.0]


@pytest.mark.parametrize("name", ["easy", "conservative", "slurm", "minimum_completion_time"])
def test_plans_count_what_starts_cost(name: str) -> None:
    # Each start costs 60 s. The first runs to 260, when the head, which needs both GPUs, is to
    # start. At 101 the third needs 60 + 150 s: it would be in the way.
    jobs = Job(0, 1, 400, None), Job(100, 2, 20, None), Job(101, 1, 300, None)
    assert starts(name, *jobs, gpus=[2], cost=60) == [0.0, 260.0, 330.0]
    # One that needs 60 + 98 s is not, and the head does not wait for it.
    jobs = Job(0, 1, 400, None), Job(100, 2, 20, None), Job(101, 1, 196, None)
    assert starts(name, *jobs, gpus=[2], cost=60) == [0.0, 260.0, 101.0]


def test_a_limit_holds_the_start_and_a_first_start_that_is_included_costs_nothing() -> None:
    # The third has said that it is done after 159 s, its start included: it is, at 260.
    jobs = Job(0, 1, 400, 260), Job(100, 2, 20, 100), Job(101, 1, 198, 159)
    assert starts("easy", *jobs, gpus=[2], cost=60) == [0.0, 260.0, 101.0]
    table = pd.DataFrame(
        {
            "arrival_s": [0.0, 100.0, 101.0],
            "job_type": "any",
            "scale_factor": [1, 2, 1],
            "total_steps": [260.0, 10.0, 159.0],
            "start_included": True,
        },
        index=["a", "head", "c"],
    )
    index = pd.MultiIndex.from_product([["any"], [1, 2]], names=["job_type", "scale_factor"])
    load = ap.Workload("log", table, pd.DataFrame({"a100": 1.0}, index=index))
    run = ap.simulate("easy", load, "a100=2", preemption_overhead_seconds=60.0)
    assert run.jobs["start_s"].to_dict() == {"a": 0.0, "c": 101.0, "head": 260.0}


@pytest.mark.thorough
def test_it_keeps_the_contract() -> None:
    ap.check_scheduler(ap.get_scheduler("conservative"), n_jobs=1)


def test_whole_machines_are_reserved_anew() -> None:
    with pytest.raises(ap.InputError, match="keeps=True keeps reservations of single GPUs"):
        ap.get_scheduler("conservative", gpus_per_reservation=8)
    ap.get_scheduler("conservative", gpus_per_reservation=8, keeps=False)
