"""Judge policies about entities and power: programs with rows of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from benchmarks.trust.definitions.programs import OracleFailure, best_level, best_total, minimise
from benchmarks.trust.verdict import TOLERANCE, check_distance, check_objective

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts
    from benchmarks.trust.verdict import Verdict

LIMITED = {"fair_over_time", "cohort", "power_capped"}
_FEASIBLE = 1e-8


def judge_limited(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Judge an answer of one of `LIMITED`."""
    judges = {"fair_over_time": _over_time, "cohort": _cohort, "power_capped": _power}
    judges[facts.case.policy](facts, answer, verdict)


def _over_time(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Bound the sum of logarithms by its tangent, the largest value of which is a linear program.

    The sum is concave, so that no allocation gains more on it than on the tangent.
    """
    member, names = _members(facts)
    used_s = np.array([facts.case.columns["entity_used_s"][row > 0].max() for row in member])
    rates = member @ sp.diags_array(facts.scale * facts.count / facts.fast) @ facts.thr
    x = facts.vector(answer.X)
    has = used_s / facts.case.options["window_s"] + rates @ x
    if not has.min() > 0:
        verdict.blame("off", 1.0, f"entity {names[int(has.argmin())]} is left without any GPU")
        return
    ours, scale = float(np.log(has).sum()), float(len(names))
    check_objective(answer, ours, verdict, max(abs(ours), scale))
    slope = rates.T @ (1 / has)
    best = slope @ best_total(facts, slope)[0]
    above = max(float(best - slope @ x), 0.0)
    check_distance(ours, ours + above, verdict, answer, max(abs(ours), scale))


def _cohort(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Quotas first, then what all make, by two linear programs."""
    case = facts.case
    member, names = _members(facts)
    quota = np.array([case.options["quotas"].get(name, 0.0) for name in names])
    most = quota + np.array([case.options["borrowing"].get(name, np.inf) for name in names])
    due = np.minimum(quota, member @ (facts.scale * facts.count))
    held = member @ sp.diags_array(1 / facts.count) @ facts.time @ sp.diags_array(facts.usage)
    held = sp.csr_array(held)
    told = np.isfinite(most)
    x = facts.vector(answer.X)
    over = ((held @ x)[told] - most[told]) / np.maximum(most[told], 1.0)
    if over.size and over.max() > _FEASIBLE:
        verdict.blame("violated", float(over.max()), "borrowing")
    limited = facts.with_limits(held[told], most[told])
    value = (facts.scale * facts.count / facts.fast) @ facts.thr
    ours = float(value @ x)
    check_objective(answer, ours, verdict)
    # Variables: x, then what each entity misses.
    none, misses = sp.csr_array((case.jobs, len(names))), sp.csr_array(sp.eye_array(len(names)))
    rows = [sp.hstack([facts.time, none]), sp.hstack([limited.gpus, _empty(limited, names)])]
    rows.append(sp.hstack([-held, -misses]))
    right = np.concatenate([np.ones(case.jobs), limited.capacity, -due])
    cost = np.concatenate([np.zeros(len(value)), np.ones(len(names))])
    least = minimise(cost, sp.vstack(rows).tocsr(), right)[1]
    missing = float(np.maximum(due - held @ x, 0.0).sum())
    if missing - least > 10 * TOLERANCE * max(1.0, least):
        verdict.blame("off", missing - least, f"short by {missing:.9g} GPUs, not {least:.9g}")
        return
    summed = sp.hstack([sp.csr_array((1, len(value))), sp.csr_array(np.ones((1, len(names))))])
    right = np.append(right, least * (1 + 1e-9) + 1e-9)
    gain = np.concatenate([-value / value.max(), np.zeros(len(names))])
    best = minimise(gain, sp.vstack([*rows, summed]).tocsr(), right)[1]
    check_distance(ours, max(ours, -best * float(value.max())), verdict, answer)


def _power(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Level the worst off job under one more limit, that of power."""
    options = facts.case.options
    each_w = np.array([options["watts"][name] for name in facts.case.types])
    drawn = sp.csr_array(each_w[None, :] @ facts.gpus)
    x, cap_w = facts.vector(answer.X), options["cap_w"]
    over = float((drawn @ x)[0]) - cap_w
    if over > _FEASIBLE * max(cap_w, 1.0):
        verdict.blame("violated", over / max(cap_w, 1.0), "power")
    slope = facts.weight * facts.equal_share / facts.scale
    ours = float(((facts.thr @ x) / slope).min())
    check_objective(answer, ours, verdict)
    limited = facts.with_limits(drawn / cap_w, np.ones(1))
    theirs = best_level(limited, slope)[1]
    check_distance(ours, max(ours, float(((facts.thr @ theirs) / slope).min())), verdict, answer)


def _members(facts: Facts) -> tuple[Floats, list[str]]:
    """Return which jobs are whose, entities x jobs, and the names of those that have jobs."""
    names = sorted(set(facts.case.entity))
    if not names:
        raise OracleFailure("no entities")
    entity = np.array(facts.case.entity)
    return np.array([entity == name for name in names], dtype=float), names


def _empty(facts: Facts, names: list[str]) -> sp.csr_array:
    return sp.csr_array((len(facts.capacity), len(names)))
