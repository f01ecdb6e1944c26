"""Exact shares by a simulator that goes from event to event with dictionaries."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap

if TYPE_CHECKING:
    from apportion.sim import Run

TYPES = ("a100", "k80", "v100")
POLICIES = (
    *("max_min_fairness", "max_min_fairness_agnostic", "fifo", "makespan", "isolated"),
    *("max_total_throughput", "proportional", "finish_time_fairness"),
)


@dataclass
class Job:
    """A job with its books."""

    name: int
    gpus: int
    arrival_s: float
    total: float
    speed: dict[str, float]
    left: float = 0.0
    share: dict[str, float] = field(default_factory=dict)
    held_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TYPES, 0.0))
    isolated_s: float = 0.0
    start_s: float = math.nan
    completion_s: float = math.nan

    @property
    def rate(self) -> float:
        return sum(self.share.get(kind, 0.0) * self.speed[kind] for kind in TYPES)


@dataclass
class Textbook:
    """Everyone has shares all the time; they are found anew when jobs come or go.

    Not before `resolve_s` have passed since the last time: until then new jobs have nothing, and
    what was that of completed jobs lies idle.
    """

    policy: str
    jobs: list[Job]
    gpus: dict[str, int]
    resolve_s: float
    solves: int = 0

    def run(self) -> None:
        coming, active, now, last = list(self.jobs), list[Job](), 0.0, -math.inf
        changed = False
        while coming or active:
            if not active:
                now = max(now, coming[0].arrival_s)
            while coming and coming[0].arrival_s <= now:
                active.append(coming.pop(0))
                changed = True
            if changed and now >= last + self.resolve_s:
                self.ask(active, now)
                changed, last = False, now
            ends = [now + job.left / job.rate for job in active if job.rate > 0]
            if coming:
                ends.append(coming[0].arrival_s)
            if changed:
                ends.append(last + self.resolve_s)
            until = min(ends)
            for job in active:
                self.work(job, len(active), now, until)
            now = until
            for job in [job for job in active if job.left <= 1e-9 * job.total]:
                job.completion_s = now
                active.remove(job)
                changed = True

    def work(self, job: Job, active: int, since: float, until: float) -> None:
        """Let a job have its shares for a while; what it makes is measured in its own time."""
        if job.rate > 0 and math.isnan(job.start_s):
            job.start_s = since
        steps = job.rate * (until - since)
        job.left -= steps
        for kind in TYPES:
            job.held_s[kind] += job.share.get(kind, 0.0) * (until - since)
        total = sum(self.gpus.values())
        time = min(1.0, total / active / job.gpus)
        alone = sum(time * n / total * job.speed[kind] for kind, n in self.gpus.items())
        job.isolated_s += steps / alone

    def ask(self, active: list[Job], now: float) -> None:
        names = [job.name for job in active]
        known = {
            "scale_factor": [job.gpus for job in active],
            "arrival_s": [job.arrival_s for job in active],
            "steps_remaining": [job.left for job in active],
            "total_steps": [job.total for job in active],
            "elapsed_s": [now - job.arrival_s for job in active],
            "isolated_elapsed_s": [job.isolated_s for job in active],
        }
        speeds = pd.DataFrame([job.speed for job in active], index=names)
        told = pd.DataFrame(known, index=names)
        X = ap.solve(self.policy, speeds, workers=self.gpus, jobs=told).X
        for job in active:
            job.share = {kind: float(np.clip(X[kind][job.name], 0, 1)) for kind in TYPES}
        self.solves += 1


def drawn(rng: np.random.Generator) -> tuple[list[Job], dict[str, int]]:
    gpus = {kind: int(rng.integers(2, 5)) for kind in TYPES}
    count = int(rng.integers(1, 9))
    arrival_s = np.sort(rng.uniform(0, 3000, count)) * (rng.random() < 0.7)
    jobs = []
    for k, at in enumerate(arrival_s.tolist()):
        speed: dict[str, float] = dict(zip(TYPES, rng.uniform(0.2, 5, 3).tolist(), strict=True))
        total = float(rng.uniform(200, 4000) * max(speed.values()))
        jobs.append(Job(k, int(rng.choice([1, 1, 2])), at, total, speed, total))
    return jobs, gpus


def simulated(policy: str, jobs: list[Job], gpus: dict[str, int], resolve_s: float) -> Run:
    table = pd.DataFrame(
        {
            "job_type": [f"m{job.name}" for job in jobs],
            "scale_factor": [job.gpus for job in jobs],
            "total_steps": [job.total for job in jobs],
            "arrival_s": [job.arrival_s for job in jobs],
        }
    )
    index = pd.MultiIndex.from_frame(table[["job_type", "scale_factor"]])
    speeds = pd.DataFrame([job.speed for job in jobs], index)
    load = ap.Workload("drawn", table, speeds)
    terms = ap.Exact(resolve_seconds=resolve_s, resolve_every=np.inf)
    return ap.simulate(policy, load, gpus, mechanism=terms)


@pytest.mark.parametrize("resolve_s", [0.0, 500.0])
@pytest.mark.parametrize("policy", sampled(POLICIES, 2))
def test_exact_shares_are_those_of_the_textbook(policy: str, resolve_s: float) -> None:
    jobs, gpus = drawn(np.random.default_rng([int(resolve_s), *policy.encode()]))
    run = simulated(policy, jobs, gpus, resolve_s)
    by_hand = Textbook(policy, jobs, gpus, resolve_s)
    by_hand.run()
    assert run.solves == by_hand.solves
    for name in ("start_s", "completion_s"):
        expected = [getattr(job, name) for job in jobs]
        np.testing.assert_allclose(run.jobs[name], expected, rtol=1e-6, err_msg=name)
    for kind in TYPES:
        held = [job.held_s[kind] for job in jobs]
        np.testing.assert_allclose(run.jobs[f"{kind}_s"], held, rtol=1e-5, atol=1e-2)
    fair = [(job.completion_s - job.arrival_s) / job.isolated_s for job in jobs]
    np.testing.assert_allclose(run.jobs["ftf"], fair, rtol=1e-6)
