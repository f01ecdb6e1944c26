"""Judge the policies that maximise a sum over the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.trust.definitions import cones
from benchmarks.trust.definitions.packing import must_pack, packed
from benchmarks.trust.definitions.programs import best_total
from benchmarks.trust.definitions.totals import total_value
from benchmarks.trust.prices import check_nash_prices, check_total_prices
from benchmarks.trust.verdict import check_distance, check_objective

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer
    from benchmarks.trust.definitions.facts import Facts
    from benchmarks.trust.verdict import Verdict


def judge_total(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Policies that maximise a weighted sum of throughputs."""
    value = total_value(facts)
    ours = float(value @ facts.vector(answer.X))
    check_objective(answer, ours, verdict)
    x = packed(facts, lambda other: best_total(other, value)[0])
    check_distance(ours, max(float(value @ x), ours), verdict, answer)
    if (
        facts.case.rows > facts.case.jobs
        or must_pack(facts)
        or verdict.flagged
        or "off" in verdict.faults
    ):
        return
    check_total_prices(facts, answer, value, ours, verdict)


def judge_nash(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Welfare is a sum of logarithms: errors count relative to the sum of the weights."""
    weights = float(facts.weight @ facts.count)
    x = facts.vector(answer.X)
    ours = cones.welfare(facts, facts.thr @ x)
    scale = max(abs(ours), weights)
    check_objective(answer, ours, verdict, scale)
    best, _ = cones.best_nash(facts)
    theirs = cones.welfare(facts, facts.thr @ best)
    check_distance(ours, max(ours, theirs), verdict, answer, scale)
    if not verdict.flagged and "off" not in verdict.faults:
        check_nash_prices(facts, answer, ours, scale, verdict)
