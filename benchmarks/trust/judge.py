"""Compare an answer with the definitions: what is wrong with it, if anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust import cones, cost, rules
from benchmarks.trust.bounds import level_bound, total_bound
from benchmarks.trust.demands import FinishTime, Linear, demands, fill, solve_levels
from benchmarks.trust.facts import Facts
from benchmarks.trust.hierarchy import fill_tree
from benchmarks.trust.programs import OracleFailure, best_total
from benchmarks.trust.totals import TOTALS, total_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Case, Floats

TOLERANCE = 1e-6
FEASIBLE = 1e-8
PRICE = 1e-4
LEVELS = {"max_min_fairness", "makespan", "finish_time_fairness"}
SAMPLE = 20
RULES = {"isolated", "proportional"}


@dataclass
class Verdict:
    """What the oracles say of one answer.

    Attributes
    ----------
    faults
        Kind of fault ("violated", "off", "prices", "inconsistent", "bound") to its size.
    flagged
        Whether the library itself says that the answer is not optimal.
    error
        Relative distance of the objective from the optimum.
    ours, theirs
        Objective of the answer by the definition, and the optimum.
    undecided
        Why the oracle cannot tell, or nothing.
    """

    faults: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    flagged: bool = False
    error: float = 0.0
    ours: float = float("nan")
    theirs: float = float("nan")
    undecided: str = ""

    def blame(self, kind: str, size: float, note: str = "") -> None:
        """Record a fault, the largest of its kind."""
        self.faults[kind] = max(float(size), self.faults.get(kind, 0.0))
        if note:
            self.notes.append(f"{kind}: {note}")

    @property
    def wrong(self) -> bool:
        """Whether something is wrong that the library does not say."""
        return any(kind != "off" or not self.flagged for kind in self.faults)

    @property
    def certified(self) -> bool:
        """Whether the library says optimal and the oracle agrees in everything."""
        return not (self.faults or self.flagged or self.undecided)


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
        _levels(facts, answer, verdict)
    elif policy in TOTALS:
        _total(facts, answer, verdict)
    elif policy == "nash_welfare":
        _nash(facts, answer, verdict)
    elif policy == "min_cost":
        ours = cost.ratio(facts, facts.vector(answer.X))
        _objective(answer, ours, verdict)
        _distance(ours, cost.best_bargain(facts), verdict, answer)
    elif policy == "min_cost_slos":
        _deadlines(facts, answer, verdict)
    elif policy in RULES:
        _same(rules.formula(facts), answer.X, verdict)
    elif policy == "allox":
        _distance(1.0, 1.0 + rules.queue_fault(facts, answer.X), verdict, answer)
    elif policy == "gandiva_packing":
        if wrong := rules.packing_fault(facts, answer.X):
            verdict.blame("off", 1.0, wrong)
    elif policy == "strategy_proof":
        theirs, doubt = cones.strategy_proof(facts)
        _steps(facts, answer, theirs, verdict, doubt)
    elif policy == "hierarchical_fairness":
        _steps(facts, answer, fill_tree(facts), verdict, 0.0)
    else:
        raise OracleFailure(f"no oracle for the policy {policy}")


def _objective(answer: Answer, ours: float, verdict: Verdict, scale: float | None = None) -> None:
    """Compare the reported objective with that of X by the definition."""
    off = abs(answer.objective - ours) / (abs(ours) if scale is None else scale)
    if not off <= TOLERANCE:
        text = f"objective {answer.objective:.9g}, by the definition {ours:.9g}"
        verdict.blame("inconsistent", off, text)


def _distance(
    ours: float, theirs: float, verdict: Verdict, answer: Answer, scale: float | None = None
) -> None:
    """Compare the objective of X with a value that an allocation of the oracle attains."""
    verdict.ours, verdict.theirs = ours, theirs
    scale = max(abs(theirs), abs(ours)) if scale is None else scale
    verdict.error = abs(ours - theirs) / max(scale, 1e-300) if np.isfinite(ours) else np.inf
    if verdict.error > TOLERANCE:
        verdict.blame("off", verdict.error, f"{ours:.9g}, the optimum is {theirs:.9g}")
    claimed = answer.gap if answer.loss is None else max(answer.loss, answer.gap)
    lost = abs(ours - theirs) / max(min(abs(ours), abs(theirs)), 1e-300)
    if verdict.flagged and min(lost, verdict.error) > claimed + TOLERANCE:
        verdict.blame("bound", verdict.error, f"loses {verdict.error:.3g}, claims {claimed:.3g}")


def _levels(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Policies about the worst off job, and their lexicographic form."""
    wanted = demands(facts)
    levels = wanted.levels(facts.thr @ facts.vector(answer.X))
    ours = float(levels.min())
    if isinstance(wanted, Linear):
        with np.errstate(divide="ignore"):
            stated = float(1 / np.float64(ours)) if wanted.reciprocal else ours
    else:
        stated = -ours
    _objective(answer, stated, verdict)
    x = solve_levels(facts, wanted)
    theirs = float(wanted.levels(facts.thr @ x).min())
    if ours >= theirs:
        _distance(ours, ours, verdict, answer)
        verdict.theirs = theirs
    else:
        _distance(ours, theirs, verdict, answer)
    plain = facts.case.shape != "combinations"
    if plain and not verdict.flagged and "off" not in verdict.faults:
        _level_prices(facts, answer, wanted, ours, verdict)
    if facts.case.options.get("lexicographic") and "off" not in verdict.faults:
        _prefix(np.sort(levels), np.sort(fill(facts, wanted)), verdict)


def _prefix(ours: Floats, theirs: Floats, verdict: Verdict) -> None:
    """Compare sorted levels: the first that differs decides."""
    apart = np.abs(ours - theirs) / np.maximum(np.abs(ours), np.abs(theirs))
    differ = np.flatnonzero(~(apart <= TOLERANCE))
    if not differ.size:
        return
    k = int(differ[0])
    verdict.ours, verdict.theirs, verdict.error = float(ours[k]), float(theirs[k]), float(apart[k])
    if ours[k] < theirs[k]:
        verdict.blame("off", apart[k], f"level {k} is {ours[k]:.9g}, not {theirs[k]:.9g}")
    elif not (ours[:k] < theirs[:k] - 1e-11 * np.abs(theirs[:k])).any():
        # Otherwise the little that lower levels lack, within the tolerance, was spent here.
        verdict.undecided = f"level {k} is {ours[k]:.9g}, the oracle's {theirs[k]:.9g}"


def _level_prices(
    facts: Facts, answer: Answer, wanted: Linear | FinishTime, level: float, verdict: Verdict
) -> None:
    """Prices prove the optimum and are its derivatives, as weak duality tells."""
    reciprocal = isinstance(wanted, Linear) and wanted.reciprocal
    per_level = answer.prices * (level**2 if reciprocal else 1.0)
    if answer.prices.min() < -1e-9 * np.abs(answer.prices).max():
        verdict.blame("prices", 1.0, "negative")
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


def _compare(
    facts: Facts,
    prices: Floats,
    value: float,
    optimum: Callable[[Facts], float],
    verdict: Verdict,
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


def _total(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Policies that maximise a weighted sum of throughputs."""
    value = total_value(facts)
    ours = float(value @ facts.vector(answer.X))
    _objective(answer, ours, verdict)
    x, _ = best_total(facts, value)
    _distance(ours, max(float(value @ x), ours), verdict, answer)
    if facts.case.shape == "combinations" or verdict.flagged or "off" in verdict.faults:
        return
    if answer.prices.min() < -1e-9 * np.abs(answer.prices).max():
        verdict.blame("prices", 1.0, "negative")
    bound = total_bound(facts, value, answer.prices)
    if not bound - ours <= TOLERANCE * abs(ours):
        text = f"they prove {bound:.9g} for {ours:.9g}; {answer.prices.tolist()}"
        verdict.blame("prices", (bound - ours) / abs(ours), text)
    elif facts.case.number % SAMPLE == 0:
        _compare(
            facts,
            answer.prices,
            ours,
            lambda other: float(value @ best_total(other, value)[0]),
            verdict,
        )


def _nash(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Welfare is a sum of logarithms: errors count relative to the sum of the weights."""
    weights = float(facts.weight @ facts.count)
    x = facts.vector(answer.X)
    ours = cones.welfare(facts, facts.thr @ x)
    scale = max(abs(ours), weights)
    _objective(answer, ours, verdict, scale)
    best, _ = cones.best_nash(facts)
    theirs = cones.welfare(facts, facts.thr @ best)
    _distance(ours, max(ours, theirs), verdict, answer, scale)
    if not verdict.flagged and "off" not in verdict.faults:
        loose = cones.nash_bound(facts, x, np.maximum(answer.prices, 0.0)) / scale
        # A tangent that is off by a relative e bounds the welfare to within e, not e squared.
        if not loose <= 10 * np.sqrt(TOLERANCE) * TOLERANCE**0.25:
            verdict.blame("prices", loose, f"they leave {loose:.3g} open")


def _deadlines(facts: Facts, answer: Answer, verdict: Verdict) -> None:
    """Throughput per dollar with deadlines: floors first, then the ratio."""
    floor = cost.floors(facts)
    x = facts.vector(answer.X)
    thr = facts.thr @ x
    ours = cost.ratio(facts, x)
    _objective(answer, ours, verdict)
    missing, least = cost.shortfall(facts, floor, thr), cost.least_shortfall(facts, floor)
    if missing - least > 10 * TOLERANCE * max(1.0, least):
        size = (missing - least) / max(least, 1.0)
        verdict.blame("off", size, f"short by {missing:.9g} floors, not {least:.9g}")
    elif least <= 1e-9:
        theirs = cost.best_with_floors(facts, floor)
        _distance(ours, max(ours, theirs), verdict, answer)


def _same(theirs: Floats, X: Floats, verdict: Verdict) -> None:
    """Compare shares with those of a formula."""
    verdict.error = float(np.abs(X - theirs).max())
    if verdict.error > 1e-9:
        verdict.blame("off", verdict.error, "shares are not those of the formula")


def _steps(facts: Facts, answer: Answer, theirs: Floats, verdict: Verdict, doubt: float) -> None:
    """Compare steps/s where the policy determines those of every job."""
    ours = facts.thr @ facts.vector(answer.X)
    nothing = theirs < 1e-9 * facts.fast
    scale = np.where(nothing, facts.fast, np.maximum(theirs, 1e-300))
    apart = np.abs(ours - theirs) / scale
    job = int(np.argmax(apart))
    verdict.ours, verdict.theirs, verdict.error = ours[job], theirs[job], float(apart[job])
    if apart[job] > TOLERANCE + 10 * doubt:
        text = f"job {job} makes {ours[job]:.9g} steps/s, not {theirs[job]:.9g}"
        verdict.blame("off", apart[job], text)
    elif apart[job] > TOLERANCE:
        verdict.undecided = f"the oracle is exact to {doubt:.1e}"
