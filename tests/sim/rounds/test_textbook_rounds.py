"""Rounds by a simulator that is written as the paper tells it: loops, dictionaries, no arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap

TYPES = ("a100", "k80", "v100")


@dataclass
class Job:
    """A job with the books that rounds keep on it."""

    name: int
    gpus: int
    arrival_s: float
    remaining: float
    speed: dict[str, float]
    share: dict[str, float] = field(default_factory=dict)
    received: dict[str, float] = field(default_factory=dict)
    owed: dict[str, float] = field(default_factory=dict)
    served_s: float = 0.0
    last: str | None = None
    held_s: float = 0.0
    start_s: float = np.nan
    completion_s: float = np.nan
    preemptions: int = 0


@dataclass
class Terms:
    """Lengths in seconds; whether what is owed is carried over, and devices are kept."""

    round_s: float = 360.0
    lost_s: float = 0.0
    resolve_s: float = 0.0
    carry: bool = True
    leases: bool = True


def textbook(policy: str, jobs: list[Job], gpus: dict[str, int], terms: Terms) -> dict[int, Job]:
    """Run jobs in rounds (Narayanan et al., OSDI 2020, section 5); return them by name."""
    waiting, now, elapsed, changed = list(jobs), 0.0, 0.0, False
    length, last = terms.round_s, -np.inf
    active: list[Job] = []
    while waiting or active:
        if not active:
            now = max(now, waiting[0].arrival_s)
        while waiting and waiting[0].arrival_s <= now:
            new = waiting.pop(0)
            new.share, new.owed = dict.fromkeys(TYPES, 0.0), dict.fromkeys(TYPES, 0.0)
            new.received = dict.fromkeys(TYPES, length / 2)
            active.append(new)
            changed = True
        if changed and now >= last + terms.resolve_s:
            aim(policy, active, gpus, length, elapsed, terms.carry)
            elapsed, changed, last = 0.0, False, now
        chosen = choose(active, dict(gpus))
        needed, here = {}, {job.name: kind for job, kind in chosen}
        for job in active:
            stays = terms.leases and job.last == here.get(job.name)
            job.preemptions += job.last is not None and not stays
        for job, kind in chosen:
            lost = terms.lost_s if not terms.leases or job.last != kind else 0.0
            needed[job.name] = lost + job.remaining / job.speed[kind]
            job.start_s = now if np.isnan(job.start_s) else job.start_s
            ran = min(needed[job.name], length)
            job.remaining -= job.speed[kind] * max(ran - lost, 0.0)
            job.received[kind] += ran
            job.served_s += ran
            job.held_s += ran
        passed = max((min(each, length) for each in needed.values()), default=length)
        runs = {job.name: kind for job, kind in chosen}
        for job in list(active):
            job.last = runs.get(job.name)
            if needed.get(job.name, np.inf) <= length * (1 + 1e-9):
                job.completion_s = now + needed[job.name]
                active.remove(job)
                changed = True
        now, elapsed = now + passed, elapsed + passed
    return {job.name: job for job in jobs}


def aim(
    policy: str, active: list[Job], gpus: dict[str, int], length: float, elapsed: float, carry: bool
) -> None:
    """Ask the policy for shares, and begin to count anew, what is owed carried over or not."""
    speeds = pd.DataFrame([job.speed for job in active], index=[job.name for job in active])
    told = pd.DataFrame({"scale_factor": [job.gpus for job in active]}, index=speeds.index)
    X = ap.solve(policy, speeds, workers=gpus, jobs=told).X
    for job in active:
        for kind in TYPES:
            due = job.share[kind] * elapsed - (job.received[kind] - length / 2)
            job.owed[kind] = due if carry else job.owed[kind] + due
            kept = min(max(job.owed[kind], -length / 2), 0.9 * length / 2) if carry else 0.0
            job.received[kind] = length / 2 - kept
            job.share[kind] = float(np.clip(X[kind][job.name], 0.0, 1.0))


def choose(active: list[Job], free: dict[str, int]) -> list[tuple[Job, str]]:
    """Serve shares by priority, then lend what is idle to the least served."""
    wishes = [
        (job, kind) for job in active for kind in TYPES if job.share[kind] >= 1e-6 < job.speed[kind]
    ]

    def urgency(wish: tuple[Job, str]) -> tuple[Any, ...]:
        job, kind = wish
        priority = float(f"{job.share[kind] / job.received[kind]:.9g}")
        owed, share = round(job.owed[kind], 3), round(job.share[kind], 7)
        return (-priority, -owed, -share, active.index(job), -job.speed[kind])

    chosen: list[tuple[Job, str]] = []
    lent = [
        (job, kind)
        for job in sorted(active, key=lambda job: (round(job.served_s, 3), active.index(job)))
        for kind in sorted(TYPES, key=lambda kind: -job.speed[kind])
        if job.speed[kind] > 0
    ]
    for job, kind in [*sorted(wishes, key=urgency), *lent]:
        if job.gpus <= free[kind] and all(job is not other for other, _ in chosen):
            free[kind] -= job.gpus
            chosen.append((job, kind))
    return chosen


@pytest.mark.parametrize("seed", each_seed(8, 16))
def test_rounds_are_those_of_the_textbook(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gpus = {kind: int(rng.integers(2, 5)) for kind in TYPES}
    lost_s = float(rng.choice([0.0, 25.0]))
    count = int(rng.integers(1, 12))
    arrival_s = np.sort(rng.uniform(0, 4000, count)) * (rng.random(count) < 0.7)
    scale, speed = rng.choice([1, 1, 2], count), rng.uniform(0.2, 5, (count, 3))
    steps = rng.uniform(200, 9000, count) * speed.max(axis=1)
    index = pd.MultiIndex.from_arrays([[f"m{k}" for k in range(count)], scale])
    table = {"job_type": [f"m{k}" for k in range(count)], "scale_factor": scale}
    table |= {"total_steps": steps, "arrival_s": np.sort(arrival_s)}
    workload = ap.Workload("drawn", pd.DataFrame(table), pd.DataFrame(speed, index, list(TYPES)))
    jobs = [
        Job(k, int(scale[k]), at, steps[k], dict(zip(TYPES, speed[k].tolist(), strict=True)))
        for k, at in enumerate(np.sort(arrival_s).tolist())
    ]
    terms = Terms(360.0, lost_s, carry=bool(rng.random() < 0.5))
    terms.resolve_s, terms.leases = float(rng.choice([0, 0, 1000])), bool(rng.random() < 0.7)
    settings: dict[str, Any] = {
        "preemption_overhead_seconds": lost_s,
        "carry_over": terms.carry,
        "resolve_seconds": terms.resolve_s,
        "leases": terms.leases,
    }
    policy = str(rng.choice(["max_min_fairness", "isolated", "proportional"]))
    run = ap.simulate(policy, workload, gpus, **settings)
    by_hand = textbook(policy, jobs, gpus, terms)
    for name in ("start_s", "completion_s", "preemptions"):
        expected = [getattr(by_hand[k], name) for k in workload.jobs.index]
        np.testing.assert_allclose(run.jobs[name], expected, rtol=1e-9, err_msg=name)
    held = [by_hand[k].held_s for k in workload.jobs.index]
    np.testing.assert_allclose(run.received.sum(axis=1), held, rtol=1e-9)
