"""Judge the policies about the worst off job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.definitions.demands import Linear, demands, fill, solve_levels
from benchmarks.trust.definitions.exact import exact_fill
from benchmarks.trust.definitions.packing import must_pack, packed
from benchmarks.trust.definitions.programs import OracleFailure
from benchmarks.trust.prices import check_level_prices
from benchmarks.trust.steps import check_steps
from benchmarks.trust.verdict import TOLERANCE, check_distance, check_objective

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.demands import FinishTime
    from benchmarks.trust.definitions.facts import Facts
    from benchmarks.trust.verdict import Verdict

# `fill` lets each job that is a bottleneck give way by 1e-12, so that rounding errors leave room
# for all: what up to ten of them leave may go to one job, and a sliver differ by a part that shows.
GIVEN_WAY = 1e-11
_SPENT = 1e-12
"""Relative part of lower levels that, given up, buys a level all it has where demands are flat."""


def judge_levels(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Policies about the worst off job, and their lexicographic form."""
    wanted = demands(facts)
    levels = wanted.levels(facts.thr @ facts.vector(answer.X))
    ours = float(levels.min())
    if isinstance(wanted, Linear):
        with np.errstate(divide="ignore"):
            stated = float(1 / np.float64(ours)) if wanted.reciprocal else ours
    else:
        stated = -ours
    check_objective(answer, stated, verdict)
    x = packed(facts, lambda other: solve_levels(other, wanted))
    theirs = float(wanted.levels(facts.thr @ x).min())
    if ours >= theirs:
        check_distance(ours, ours, verdict, answer)
        verdict.theirs = theirs
    else:
        check_distance(ours, theirs, verdict, answer)
    plain = facts.case.rows == facts.case.jobs and not must_pack(facts)
    if plain and not verdict.flagged and "off" not in verdict.faults:
        check_level_prices(facts, answer, wanted, ours, verdict)
    if facts.case.options.get("lexicographic") and "off" not in verdict.faults:
        _further_levels(facts, answer, wanted, levels, verdict)


def _further_levels(
    facts: Facts, answer: Answer, wanted: Linear | FinishTime, levels: Floats, verdict: Verdict
) -> None:
    """Compare all levels with water filling, without rounding errors where those may decide."""
    try:
        theirs = fill(facts, wanted)
        _prefix(np.sort(levels), np.sort(theirs), verdict)
        if not isinstance(wanted, Linear) and "off" in verdict.faults:
            made = facts.thr @ facts.vector(answer.X)
            apart = float((np.abs(made - wanted.at(-theirs)[0]) / facts.fast).max())
            if apart <= GIVEN_WAY:
                verdict.forget("off")
                verdict.undecided = f"shares of time differ by {apart:.1e} only"
    except OracleFailure as failure:
        verdict.undecided = str(failure)
    if isinstance(wanted, Linear) and ("off" in verdict.faults or verdict.undecided):
        verdict.forget("off")
        exact = exact_fill(facts, lambda active: np.where(active, wanted.slope, 0.0))
        check_steps(facts, answer, exact, verdict)


def _prefix(ours: Floats, theirs: Floats, verdict: Verdict) -> None:
    """Compare sorted levels: the first that differs decides."""
    apart = np.abs(ours - theirs) / np.maximum(np.abs(ours), np.abs(theirs))
    differ = np.flatnonzero(~(apart <= TOLERANCE))
    if not differ.size:
        return
    k = int(differ[0])
    verdict.ours, verdict.theirs, verdict.error = float(ours[k]), float(theirs[k]), float(apart[k])
    worse, better = (ours, theirs) if ours[k] < theirs[k] else (theirs, ours)
    # The little that the better one's lower levels lack, within the tolerance, may be spent here.
    spent = bool((better[:k] < worse[:k] - _SPENT * np.abs(worse[:k])).any())
    undecided = spent if worse is ours else not spent
    if undecided:
        verdict.undecided = f"level {k} is {ours[k]:.9g}, the oracle's {theirs[k]:.9g}"
    elif worse is ours:
        verdict.blame("off", apart[k], f"level {k} is {ours[k]:.9g}, not {theirs[k]:.9g}")
