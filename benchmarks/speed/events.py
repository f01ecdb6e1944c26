"""Goals P2 and P13: one arrival or departure among many jobs, and the distance to the floor."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

import apportion as ap
from apportion.policies import get_policy
from apportion.policies.classes import group_identical
from apportion.policies.compiled import Compiled
from apportion.policies.highs import PersistentHighs
from apportion.policies.problem import Problem
from benchmarks.speed.decisions import GAVEL_S
from benchmarks.speed.harness import Row, cpu_seconds
from benchmarks.speed.problems import Case, draw

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.policies.session_allocation import SessionAllocation

__all__ = ["events"]

POLICY = "max_min_fairness"
TYPES: tuple[str, ...] = ("v100", "p100", "k80")


def events(quick: bool) -> list[Row]:
    """Time arrivals and departures by both ways, and the solver alone when nothing changes."""
    jobs, count = (256, 20) if quick else (16384, 200)
    case = draw(jobs, len(TYPES))
    rows = [
        _row(case, count, "parametrised", False, "<= 2 ms", 0.002),
        _row(case, count, "direct deltas", False, "<= 0.4 ms", 0.0004),
        _row(case, count, "direct deltas", True, "-", None),
    ]
    floor = _floor(case)
    for row, most in zip(rows[:2], (10, 3), strict=True):
        at_floor = Row(
            *("P13", f"{row.what}, over an unchanged run", f"<= {most} x HiGHS alone"),
            theirs="HiGHS, nothing changed",
            theirs_s=floor,
            ours_s=row.ours_s,
        )
        at_floor.met = row.ours_s <= most * floor
        rows.append(at_floor)
    return rows


def _row(
    case: Case,
    count: int,
    route: Literal["parametrised", "direct deltas"],
    second_stage: bool,
    target: str,
    limit_s: float | None,
) -> Row:
    """Median CPU seconds of an event by one route."""
    seconds, last = _events(case, count, route, second_stage)
    jobs, extra = case.scale.size, ", with the second stage" if second_stage else ""
    median = statistics.median(seconds)
    row = Row(
        *("P2", f"max-min, {jobs} x 3, an event by {route}{extra}", target),
        theirs="Gavel's code, solved anew (cited)",
        theirs_s=GAVEL_S.get((POLICY, jobs), np.nan),
        ours_s=median,
        classes=last.stats["classes"],
        gap=last.gap,
        note=f"95 % of events within {1000 * float(np.quantile(seconds, 0.95)):.2f} ms",
    )
    row.met = None if limit_s is None else median <= limit_s
    return row


def _events(
    case: Case, count: int, route: Literal["parametrised", "direct deltas"], second_stage: bool
) -> tuple[list[float], SessionAllocation | Allocation]:
    """CPU seconds of each of many events, every other one a departure, and the last result."""
    rng = np.random.default_rng(1)
    speed = pd.DataFrame(case.speed, columns=list(TYPES))
    scale = case.scale.astype(int).tolist()
    facts = pd.DataFrame({"scale_factor": scale})
    gpus = dict(zip(TYPES, case.gpus.astype(int).tolist(), strict=True))
    seconds = []
    with ap.session(POLICY, gpus, second_stage=second_stage, route=route) as session:
        session.add(speed, facts)
        allocation = session.solve()
        there = list(range(len(speed)))
        for number in range(count):
            like = int(rng.integers(len(speed)))
            steps_per_s = {f"new-{number}": speed.loc[like].to_dict()}
            known = {f"new-{number}": {"scale_factor": scale[like]}}
            leaving = there.pop(int(rng.integers(len(there))))
            for arrives in (True, False):
                started = time.process_time()
                if arrives:
                    session.add(steps_per_s, known)
                else:
                    session.remove([leaving])
                allocation = session.solve()
                seconds.append(time.process_time() - started)
    return seconds, allocation


def _floor(case: Case) -> float:
    """CPU seconds of HiGHS on the problem of the classes when nothing has changed."""
    policy = get_policy(POLICY)
    classes, _ = group_identical(case.instance, ("weight", "scale_factor"))
    p = Problem(classes)
    highs = PersistentHighs(Compiled.of(p, policy.objective(p)).program, presolve=False)
    return cpu_seconds(highs.solve, 200)[0]
