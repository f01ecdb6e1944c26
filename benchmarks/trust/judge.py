"""Compare an answer with the definitions: what is wrong with it, if anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.definitions import cones, cost, rules
from benchmarks.trust.definitions.facts import Facts
from benchmarks.trust.definitions.packing import broken, must_pack
from benchmarks.trust.definitions.programs import OracleFailure
from benchmarks.trust.definitions.totals import TOTALS
from benchmarks.trust.hierarchy import judge_tree
from benchmarks.trust.limited import LIMITED, judge_limited
from benchmarks.trust.steps import check_steps
from benchmarks.trust.sums import judge_nash, judge_total
from benchmarks.trust.verdict import TOLERANCE, Verdict, check_distance, check_objective
from benchmarks.trust.worst_off import judge_levels

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Case, Floats

FEASIBLE = 1e-8
LEVELS = {"max_min_fairness", "makespan", "finish_time_fairness"}
RULES = {"isolated", "proportional"}


def judge(case: Case, answer: Answer) -> Verdict:
    """Judge an answer by the definitions."""
    facts = Facts(case)
    verdict = Verdict(flagged=answer.status != "optimal" or not answer.gap <= TOLERANCE)
    _feasibility(facts, answer, verdict)
    _throughput(facts, answer, verdict)
    try:
        _optimality(facts, answer, verdict)
    except OracleFailure as failure:
        verdict.undecided = str(failure) or "no optimum found"
    return verdict


def _feasibility(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Nonnegativity, time, capacity, and nothing where a job cannot run."""
    X = answer.X
    if not np.isfinite(X).all():
        verdict.blame("violated", 1.0, "shares that are no numbers")
        return
    x = facts.vector(X)
    elsewhere = X.copy()
    elsewhere[facts.entries] = 0.0
    over = {
        "negative": -X.min(),
        "time": float((facts.time @ x).max()) - 1.0,
        "capacity": float(
            ((facts.gpus @ x - facts.capacity) / np.maximum(facts.capacity, 1)).max()
        ),
        "cannot run there": float(np.abs(elsewhere).max()),
    }
    if must_pack(facts):
        over["packing"] = broken(facts, x)[2]
    for what, size in over.items():
        if size > FEASIBLE:
            verdict.blame("violated", size, what)


def _throughput(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Reported steps/s are those of X at the true speeds."""
    made = facts.matrix(facts.true_speed) @ facts.vector(answer.X)
    off = np.abs(answer.throughput - made) / np.maximum(facts.fast, made)
    if not off.max() <= 1e-9:
        verdict.blame("inconsistent", off.max(), "throughput is not the sum of T X")


def _optimality(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    policy = facts.case.policy
    if policy in LEVELS:
        judge_levels(facts, answer, verdict)
    elif policy in TOTALS:
        judge_total(facts, answer, verdict)
    elif policy == "nash_welfare":
        judge_nash(facts, answer, verdict)
    elif policy == "min_cost":
        ours = cost.ratio(facts, facts.vector(answer.X))
        check_objective(answer, ours, verdict)
        check_distance(ours, cost.best_bargain(facts), verdict, answer)
    elif policy == "min_cost_slos":
        _deadlines(facts, answer, verdict)
    elif policy in RULES:
        _same(rules.formula(facts), answer.X, verdict)
    elif policy == "allox":
        check_distance(1.0, 1.0 + rules.queue_fault(facts, answer.X), verdict, answer)
    elif policy == "gandiva_packing":
        if wrong := rules.packing_fault(facts, answer.X):
            verdict.blame("off", 1.0, wrong)
    elif policy == "strategy_proof":
        theirs, doubt = cones.strategy_proof(facts)
        check_steps(facts, answer, theirs, verdict, doubt)
    elif policy in LIMITED:
        judge_limited(facts, answer, verdict)
    elif policy == "hierarchical_fairness":
        judge_tree(facts, answer, verdict)
    else:
        raise OracleFailure(f"no oracle for the policy {policy}")


def _deadlines(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Throughput per dollar with deadlines: floors first, then the ratio."""
    floor = cost.floors(facts)
    x = facts.vector(answer.X)
    thr = facts.thr @ x
    ours = cost.ratio(facts, x)
    check_objective(answer, ours, verdict)
    missing, least = cost.shortfall(facts, floor, thr), cost.least_shortfall(facts, floor)
    if missing - least > 10 * TOLERANCE * max(1.0, least):
        size = (missing - least) / max(least, 1.0)
        verdict.blame("off", size, f"short by {missing:.9g} floors, not {least:.9g}")
    elif least <= 1e-9:
        theirs = cost.best_with_floors(facts, floor)
        check_distance(ours, max(ours, theirs), verdict, answer)


def _same(theirs: Floats, X: Floats, verdict: Verdict) -> None:
    """Compare shares with those of a formula."""
    verdict.error = float(np.abs(X - theirs).max())
    if verdict.error > 1e-9:
        verdict.blame("off", verdict.error, "shares are not those of the formula")
