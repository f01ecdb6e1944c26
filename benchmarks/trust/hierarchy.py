"""Water filling over a tree of entities, by repeated linear programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.definitions.exact import exact_fill
from benchmarks.trust.definitions.programs import OracleFailure, best_level
from benchmarks.trust.steps import check_steps

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts
    from benchmarks.trust.verdict import Verdict

_HAIR = 1e-9
"""By what part levels give way where a solver finds that they cannot be met together."""


def rates(facts: Facts, active: np.ndarray) -> Floats:
    """Split a rate of 1 over the tree: only entities with a job that can still rise take part."""
    case = facts.case
    weights = case.options.get("weights", {})
    fifo = case.options.get("inner") == "fifo"
    rate = np.zeros(case.jobs)

    def spread(prefix: str, part: float) -> None:
        below = prefix + "/" if prefix else ""
        own = [i for i in range(case.jobs) if active[i] and case.entity[i] == prefix]
        if own:
            if fifo:
                rate[min(own, key=lambda i: case.columns["arrival_s"][i])] = part
            else:
                rate[own] = part * facts.weight[own] / facts.weight[own].sum()
            return
        inside = [case.entity[i] for i in range(case.jobs) if active[i]]
        names = {
            below + e[len(below) :].split("/")[0]
            for e in inside
            if e.startswith(below) and e != prefix
        }
        total = sum(weights.get(name, 1.0) for name in names)
        for name in names:
            spread(name, part * weights.get(name, 1.0) / total)

    spread("", 1.0)
    return rate


def judge_tree(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Compare steps/s with water filling: in floating point and, where that differs, exactly."""
    try:
        check_steps(facts, answer, fill_tree(facts), verdict)
    except OracleFailure as failure:
        verdict.undecided = str(failure)
    if "off" in verdict.faults or verdict.undecided:
        verdict.forget("off")
        unit = facts.equal_share / facts.scale
        exact = exact_fill(facts, lambda active: rates(facts, active) * unit)
        check_steps(facts, answer, exact, verdict)


def fill_tree(facts: Facts) -> Floats:
    """Steps/s of every job after water filling of throughput / equal share."""
    jobs = facts.case.jobs
    active = np.ones(jobs, dtype=bool)
    floor = np.zeros(jobs)
    for _ in range(2 * jobs):
        rate = rates(facts, active)
        slope = rate * facts.equal_share / facts.scale
        most = facts.thr.max(axis=1).toarray().ravel()
        full = active & (floor >= most * (1 - 1e-11))
        if not full.any():
            try:
                level, _, weight = best_level(facts, slope, floor)
            except OracleFailure:  # the levels so far are met but for rounding errors
                level, _, weight = best_level(facts, slope, floor * (1 - _HAIR))
            floor = (floor + level * slope) * (1 - 1e-13)
            full = active & (rate > 0) & (weight > 1e-7)
            if not full.any():
                full = active & (weight == weight[active].max())
        active &= ~full
        if not active.any():
            break
    return floor
