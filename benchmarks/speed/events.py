"""Goals P2 and P13: one arrival or departure among many jobs, and the distance to the floor."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import apportion as ap
from apportion.policies import get_policy
from apportion.policies.problem import Problem
from apportion.policies.solving.compiled import Compiled
from apportion.policies.core.classes import group_identical
from apportion.policies.solving.solvers.highs import PersistentHighs
from benchmarks.speed.harness import Row, cpu_seconds
from benchmarks.speed.problems import TYPES, draw
from benchmarks.speed.timing import ours

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from benchmarks.speed.problems import Case
    from benchmarks.speed.settings import Settings

__all__ = ["events"]

POLICY = "max_min_fairness"
MOST_S, MOST_MULTIPLES = 0.0004, 3
"""The most seconds of an event, and the most multiples of HiGHS alone."""


def events(settings: Settings) -> list[Row]:
    """Time arrivals and departures and the solver alone when nothing changes."""
    jobs, count = (256, 20) if settings.quick else (16384, 200)
    case = draw(jobs, len(TYPES), settings.data)
    ours(POLICY, case, repeats=1, called=False)  # asserts that capacities bind
    found = settings.gavel.solve(POLICY, case)
    floor = _floor(case)
    (first, last), (both, _) = (_events(case, count, stage) for stage in (False, True))
    row = Row(
        *("P2", f"{POLICY}, {jobs} x 3, an event", f"<= {1000 * MOST_S:g} ms"),
        peer=f"Gavel, anew ({found['solver']})" if found else "Gavel, anew",
        peer_s=found.get("seconds", np.nan),
        first_s=statistics.median(first),
        both_s=statistics.median(both),
        seconds_goal=MOST_S,
        classes=last.stats["classes"],
        gap=last.gap,
        note=f"95 % of first stages within {1000 * float(np.quantile(first, 0.95)):.2f} ms",
    )
    beside = Row(
        *("P13", f"{row.what}, beside HiGHS unchanged", f"<= {MOST_MULTIPLES} x HiGHS"),
        peer="HiGHS, nothing changed",
        peer_s=floor,
        first_s=row.first_s,
        both_s=row.both_s,
        ratio_goal=1 / MOST_MULTIPLES,
    )
    return [row, beside]


def _events(case: Case, count: int, second_stage: bool) -> tuple[list[float], Allocation]:
    """CPU seconds of each of many events, every other one a departure, and the last result."""
    rng = np.random.default_rng(1)
    speed = pd.DataFrame(case.speed, columns=list(TYPES))
    scale = case.scale.astype(int).tolist()
    facts = pd.DataFrame({"scale_factor": scale})
    gpus = dict(zip(TYPES, case.gpus.astype(int).tolist(), strict=True))
    seconds = []
    with ap.session(POLICY, gpus, second_stage=second_stage) as session:
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
