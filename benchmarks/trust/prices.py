"""Whether reported prices prove the optimum and are what one more GPU is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.definitions.bounds import level_bound, total_bound, welfare_bound
from benchmarks.trust.definitions.demands import FinishTime, Linear, solve_levels
from benchmarks.trust.definitions.programs import OracleFailure, best_total
from benchmarks.trust.verdict import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts
    from benchmarks.trust.verdict import Verdict

PRICE = 1e-4
SAMPLE = 20  # of so many cases prices are compared with finite differences in one


def check_level_prices(
    facts: Facts, answer: Answer, wanted: Linear | FinishTime, level: float, verdict: Verdict
) -> None:
    """Prices prove the optimum and are its derivatives, as weak duality tells."""
    reciprocal = isinstance(wanted, Linear) and wanted.reciprocal
    per_level = answer.prices * (level**2 if reciprocal else 1.0)
    _check_sign(answer, verdict)
    per_level = np.maximum(per_level, 0.0)
    start = wanted.start(facts.thr.max(axis=1).toarray().ravel())
    bound, low, high = level_bound(facts, per_level, wanted.at, start)
    reached = level if isinstance(wanted, Linear) else -level
    loose = abs(bound - reached) / abs(reached)
    if loose > TOLERANCE:
        text = f"they prove {bound:.9g} for {reached:.9g}; {answer.prices.tolist()}"
        verdict.blame("prices", loose, text)
    elif not low * (1 - PRICE) <= 1 <= high * (1 + PRICE):
        text = f"derivatives are {low:.6g} to {high:.6g} of what they should be"
        verdict.blame("prices", min(abs(low - 1), abs(high - 1)), text)
    if facts.case.number % SAMPLE == 0 and "prices" not in verdict.faults:
        _compare(facts, per_level, level, lambda other: level_of(other, wanted), verdict)


def level_of(facts: Facts, wanted: Linear | FinishTime) -> float:
    """Best level, the larger the better, with the capacities of `facts`."""
    return float(wanted.levels(facts.thr @ solve_levels(facts, wanted)).min())


def check_total_prices(
    facts: Facts, answer: Answer, value: Floats, ours: float, verdict: Verdict
) -> None:
    """Prices of a sum that is maximised, as weak duality tells."""
    _check_sign(answer, verdict)
    bound = total_bound(facts, value, answer.prices)
    if not bound - ours <= TOLERANCE * abs(ours):
        text = f"they prove {bound:.9g} for {ours:.9g}; {answer.prices.tolist()}"
        verdict.blame("prices", (bound - ours) / abs(ours), text)
    elif facts.case.number % SAMPLE == 0:

        def optimum(other: Facts) -> float:
            return float(value @ best_total(other, value)[0])

        _compare(facts, answer.prices, ours, optimum, verdict)


def check_nash_prices(
    facts: Facts, answer: Answer, ours: float, scale: float, verdict: Verdict
) -> None:
    """Prices of a sum of logarithms, as weak duality tells."""
    _check_sign(answer, verdict)
    bound = welfare_bound(facts, np.maximum(answer.prices, 0.0))
    if not bound - ours <= TOLERANCE * scale:
        text = f"they prove {bound:.9g} for {ours:.9g}; {answer.prices.tolist()}"
        verdict.blame("prices", (bound - ours) / scale, text)


def _check_sign(answer: Answer, verdict: Verdict) -> None:
    if answer.prices.min() < -1e-9 * np.abs(answer.prices).max():
        verdict.blame("prices", 1.0, f"negative: {answer.prices.tolist()}")


def _compare(
    facts: Facts, prices: Floats, value: float, optimum: Callable[[Facts], float], verdict: Verdict
) -> None:
    """A price lies between what one more GPU gains and what one less loses.

    Normalisers stay as they are: they are part of the demands, not of the capacities.
    """
    for kind in np.flatnonzero(facts.in_tensor & (facts.capacity >= 1))[:2]:
        try:
            gain = optimum(facts.with_more(int(kind), 1.0)) - value
            loss = value - optimum(facts.with_more(int(kind), -1.0))
        except OracleFailure:
            continue
        slack = 1e-6 * abs(value) + PRICE * abs(loss)
        if not gain - slack <= prices[kind] <= loss + slack:
            text = f"{facts.case.types[kind]} {prices[kind]:.6g} not in [{gain:.6g}, {loss:.6g}]"
            verdict.blame("prices", 1.0, text)
