"""Goal P12: rounds per second of the simulator, with placement, the policy included."""

from __future__ import annotations

import time
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

import apportion as ap
from apportion.sim.resolve import Resolver
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.speed.harness import Row, calls_of
from benchmarks.speed.problems import TYPES

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.mechanism.shares import Shares
    from benchmarks.speed.settings import Settings

__all__ = ["beside_gavel", "simulator"]

GAVEL_RESOLVES_S = 1920.0
"""Gavel's simulator solves at most that often; ours at every event unless told otherwise."""
POLICIES = ("max_min_fairness", "makespan", "finish_time_fairness", "fifo")


def simulator(settings: Settings) -> list[Row]:
    """Simulate several policies on 108 GPUs, max-min fairness on growing clusters."""
    if settings.quick:
        return beside_gavel(settings, "max_min_fairness", 27, 30, 2.0, 20)
    rows = []
    for policy in POLICIES:
        goal = 20 if policy == "max_min_fairness" else None
        rows += beside_gavel(settings, policy, 108, 300, 8.0, goal)
    rows += beside_gavel(settings, "max_min_fairness", 1080, 2000, 80.0, 50)
    run, seconds, _ = _ours(settings.data, "max_min_fairness", 10_800, 20_000, 800.0)
    whole = Row(
        *("P12", "max_min_fairness, 20,000 jobs on 10,800 GPUs, whole trace", "<= 10 s"),
        called_s=seconds,
        seconds_goal=10.0,
        note=f"{len(run.rounds) / seconds:,.0f} rounds/s, {run.solves} solves",
    )
    return [*rows, whole]


def beside_gavel(
    settings: Settings,
    policy: str,
    gpus: int,
    jobs: int,
    per_hour: float,
    goal: float | None,
    *,
    name: str = "P12",
    every_event_only: bool = False,
) -> list[Row]:
    """Seconds per round, solved at every event and as often as Gavel; rows of a goal's name.

    Our seconds are the median of as many runs before Gavel's as after it.
    """
    workload = _workload(settings.data, jobs, per_hour)
    often = {"at every event": 0.0, "at most every 1920 s": GAVEL_RESOLVES_S}
    if every_event_only:
        del often["at most every 1920 s"]
    repeats = range(3 if every_event_only and not settings.quick else 1)

    def ours() -> list[dict[str, tuple[ap.Run, float, float]]]:
        what = settings.data, policy, gpus, jobs, per_hour
        return [{when: _ours(*what, each) for when, each in often.items()} for _ in repeats]

    timed = ours()
    found = settings.gavel.simulate(policy, workload, _cluster(gpus), GAVEL_RESOLVES_S)
    peer: dict[str, Any] = {"peer": "Gavel's simulator"}
    said = ""
    if found:
        peer = {
            "peer": f"Gavel's simulator ({found['solver']})",
            "peer_s": found["seconds"] / found["rounds"],
        }
        said = (
            f"; Gavel {found['rounds'] / found['seconds']:,.0f}, mean JCT "
            f"{found['mean_jct_s'] / 3600:.2f} h"
        )
    timed += ours()
    rows = []
    for when, resolve_s in often.items():
        run = timed[0][when][0]
        seconds, in_policy_s = np.median([each[when][1:] for each in timed], axis=0)
        again = partial(ap.simulate, policy, workload, _cluster(gpus), resolve_seconds=resolve_s)
        target = f">= {goal:g} x Gavel" if goal is not None else ""
        row = Row(
            *(name, f"{policy}, {jobs} jobs on {gpus} GPUs, a round, solved {when}", target),
            **peer,
            called_s=seconds / len(run.rounds),
            calls=calls_of(again, c=True),
            ratio_goal=goal,
            floor=_without_policy(run, seconds - in_policy_s, found),
            note=f"{len(run.rounds) / seconds:,.0f} rounds/s, mean JCT "
            f"{run.summary()['mean_jct_s'] / 3600:.2f} h{said}",
        )
        rows.append(row)
    return rows


def _without_policy(run: ap.Run, seconds: float, found: dict[str, Any]) -> str:
    """Say how fast a run would be if its policy took no time at all."""
    said = f"without the policy {len(run.rounds) / seconds:,.0f} rounds/s"
    if not found:
        return said
    times = found["seconds"] / found["rounds"] * len(run.rounds) / seconds
    return f"{said}, {times:.1f} x"


@cache
def _workload(data: Path | None, jobs: int, per_hour: float) -> ap.Workload:
    return draw_jobs(data, jobs=jobs, seed=0, jobs_per_hour=per_hour, scale_factors="gavel")


def _cluster(gpus: int) -> dict[str, int]:
    return {name: gpus // len(TYPES) for name in TYPES}


def _ours(
    data: Path | None,
    policy: str,
    gpus: int,
    jobs: int,
    per_hour: float,
    resolve_seconds: float = 0.0,
) -> tuple[ap.Run, float, float]:
    """Simulate; give the CPU seconds that it took, and those of them in the policy."""
    workload, spent = _workload(data, jobs, per_hour), list[float]()
    plain = Resolver.solve

    def timed(resolver: Resolver, now_s: float) -> Shares:
        began = time.process_time()
        found = plain(resolver, now_s)
        spent.append(time.process_time() - began)
        return found

    few = _workload(data, 10, per_hour)
    ap.simulate(
        policy,
        few,
        _cluster(gpus),
        resolve_seconds=resolve_seconds,
        preemption_overhead_seconds=0.0,
    )  # loads what it needs
    with patch.object(Resolver, "solve", timed):
        started = time.process_time()
        run = ap.simulate(
            policy,
            workload,
            _cluster(gpus),
            resolve_seconds=resolve_seconds,
            preemption_overhead_seconds=0.0,
        )
        seconds = time.process_time() - started
    return run, seconds, sum(spent)
