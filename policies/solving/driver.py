"""From a policy and an instance to a certified solution: every layer under `solve`, in order."""

from __future__ import annotations

import logging
import time
from functools import cached_property, partial
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InfeasibleError, InputError, SolveError
from apportion.policies.core.water_filling import solve as fill_to_the_last
from apportion.policies.solution import ACCURATE, Attempted, Solution
from apportion.policies.solving.choice import choose
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.declared_floors import with_floors_merged
from apportion.policies.solving.demand_intervals import ROWS_TO_MERGE, worth_merging
from apportion.policies.solving.demands import (
    fills_further,
    has_earlier,
    pose,
    read_off,
    reported,
)
from apportion.policies.solving.options import (
    Fallback,
    check_options,
    isolated_solution,
    kept_options,
)
from apportion.policies.solving.ratio import at_best_bargains
from apportion.policies.solving.rows import Reduction, reduce
from apportion.policies.solving.solvable import unsolvable
from apportion.policies.solving.whole.decide import decide
from apportion.policies.solving.worst_off.arrow_share import ArrowShare
from apportion.policies.solving.worst_off.levels import ROWS_FOR_ARROW, by_levels
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.highs import SolverName
    from apportion.policies.solving.pairs import PairTable


_LOG = logging.getLogger(__name__)

TIME_LIMIT_S = 60.0
"""Seconds that the search for a whole decision may take unless another limit is given."""
_PLAIN = ("auto", "raise", None, None, 1e-9)
"""Options by default, which need no check."""
_MET = 1e-7
"""By how much own constraints may be missed, in numbers around 1."""


@one_thread
def solve_instance(
    policy: Policy,
    instance: Instance,
    *,
    pairs: PairTable | None = None,
    group: bool = True,
    intervals: bool = True,
    second_stage: bool = True,
    solver: SolverName = "auto",
    fallback: Fallback = "raise",
    time_limit_s: float | None = None,
    gap: float = 1e-9,
) -> Solution:
    """Solve one allocation problem.

    Parameters
    ----------
    pairs
        Throughputs of jobs that share devices: with them, pairs of jobs become rows too. Only for
        instances whose rows are single jobs.
    group
        Whether identical jobs are solved as one (exact; off for comparison).
    intervals
        Whether jobs that differ in their demands only may be solved together
        (`apportion.policies.solving.demand_intervals`; the objective is the same). Without
        `group` they are not.
    second_stage
        Whether what the objective leaves open is chosen as
        `apportion.policies.solving.second_stage` says.
    solver
        "auto", "highs", "clarabel", or "arrow", the interior point for jobs that are all different
        (`apportion.policies.solving.solvers.arrow_interior_point`); the optimum is the same.
    fallback
        "isolated" returns the isolated share if every solver failed, with the status "fallback";
        by default that is an error. Of a policy that decides in whole numbers it is what jobs
        have now, as far as it fits.
    time_limit_s
        Seconds that the search for a whole decision may take, by default `TIME_LIMIT_S`; with a
        decision that is not proved the status is "time_limit". Only for policies with
        ``integral = True``.
    gap
        Relative distance from its bound at which the search for a whole decision ends. A
        decision that is not within it, or not within 1e-6, is "optimal_inaccurate".

    Raises
    ------
    InputError
        If an option has no such value, or does not go with the policy.
    InfeasibleError
        If no allocation meets the constraints; it names the ones that cannot hold together.
    SolveError
        If no solver found an optimum; the message tells what was tried.
    """
    asked = (solver, fallback, pairs, time_limit_s, gap)
    if asked != _PLAIN:
        check_options(policy, *asked)
    if instance.jobs == 0:
        empty = np.zeros((instance.rows, instance.options))
        return Solution(empty, np.zeros(0), float("nan"), np.zeros_like(instance.capacity), 0.0)
    whole = partial(
        _solve_whole,
        policy,
        group=group,
        intervals=intervals,
        second_stage=second_stage,
        solver=solver,
    )
    try:
        if policy.integral:
            limit_s = TIME_LIMIT_S if time_limit_s is None else time_limit_s
            return decide(policy, instance, group=group, time_limit_s=limit_s, gap=gap)
        return whole(instance, pairs=pairs)
    except InfeasibleError:
        raise
    except SolveError as error:
        if fallback == "raise":
            raise
        if policy.integral:
            return kept_options(policy, instance, str(error))
        return isolated_solution(policy, instance, str(error))


def _solve_whole(
    policy: Policy,
    instance: Instance,
    *,
    group: bool,
    intervals: bool,
    second_stage: bool,
    solver: SolverName,
    pairs: PairTable | None = None,
) -> Solution:
    """Reduce, solve in the best of the ways there are, and go back to the jobs."""
    started = time.perf_counter()
    reduction = reduce(policy, instance, group, pairs)
    if group and intervals and pairs is None and reduction.believed.jobs >= ROWS_TO_MERGE:
        reduction = with_floors_merged(policy, reduction)
    grouped_s = time.perf_counter() - started
    attempts = _attempts(policy, reduction, solver, second_stage, group and intervals)
    best, tried = _best_of(attempts)
    return _solution(policy, reduction, best, tried, grouped_s)


def _best_of(
    attempts: Iterator[tuple[str, Callable[[], Attempted]]],
) -> tuple[Attempted, dict[str, str]]:
    """Go through the attempts until one is accurate; return the best, and how each one ended."""
    best: Attempted | None = None
    tried: dict[str, str] = {}
    for name, solve in attempts:
        try:
            outcome = solve()
        except InfeasibleError:
            raise
        except SolveError as error:
            tried[name] = str(error)
            continue
        tried[name] = f"gap {outcome.gap:.1e}"
        best = outcome if best is None or outcome.gap < best.gap else best
        if best.gap <= ACCURATE:
            return best, tried
        _LOG.info("%s: %s", name, tried[name])
    if best is None:
        raise SolveError(" Then ".join(dict.fromkeys(tried.values())))
    return best, tried


def _attempts(
    policy: Policy, reduction: Reduction, solver: SolverName, second_stage: bool, merge: bool
) -> Iterator[tuple[str, Callable[[], Attempted]]]:
    """Name the ways to solve a problem, best first."""
    believed = reduction.believed
    if fills_further(policy):
        yield "levels", partial(fill_to_the_last, policy, believed, second_stage=second_stage)
        return
    if solver == "auto" and second_stage and (found := read_off(policy, believed).bargains):
        ruled = at_best_bargains(believed, found)
        if ruled is not None:
            yield "bargains", lambda: ruled
    levels = _takes_levels(policy, believed, solver, merge)
    if solver == "arrow" and not (levels and ArrowShare.fits(believed)):
        raise InputError(
            f"solver='arrow' does not go with {policy!r} here: it needs a policy about the worst "
            "off job, rows of single jobs and one resource for each option. "
            "Valid for all: auto, highs, clarabel."
        )
    if levels:
        yield "levels", partial(by_levels, policy, believed, solver, second_stage, merge)
    first: SolverName = "auto" if solver == "arrow" else solver
    if first == "auto" and has_earlier(policy):
        first = "highs"  # held to what it reached, an objective leaves an interior point no room
    declared = DeclaredProblem(policy, reduction, second_stage)
    for note, rescaled in (("", False), (", rescaled", True)):
        yield first + note, partial(declared.solve, first, rescaled=rescaled)
        if declared.compiled.program.is_linear_program:
            other: SolverName = "highs" if declared.last == "clarabel" else "clarabel"
            yield other + note, partial(declared.solve, other, rescaled=rescaled)


def _takes_levels(policy: Policy, instance: Instance, solver: SolverName, merge: bool) -> bool:
    """Whether a policy is to be solved level by level on an instance.

    Objectives that are no linear program always are; the others where there are jobs to merge, or
    so many rows that the interior point of arrow form is ahead.
    """
    levels = read_off(policy, instance).levels
    if levels is None or levels.constrained:
        return False
    if not levels.proportional:
        return True
    if not instance.solo:
        return False
    large = instance.jobs > ROWS_FOR_ARROW and ArrowShare.fits(instance)
    if solver == "arrow" or (solver == "auto" and large):
        return True
    many = merge and instance.jobs >= ROWS_TO_MERGE
    return many and worth_merging(instance) is not None


class DeclaredProblem:
    """The policy's own problem over reduced rows as it stands, compiled on first use.

    What its objective leaves open is chosen as well where `second_stage` says so.
    """

    def __init__(self, policy: Policy, reduction: Reduction, second_stage: bool) -> None:
        self.policy, self.second_stage = policy, second_stage
        self._believed, self._floors = reduction.believed, reduction.floors
        self._compile_s = 0.0
        self.last = ""
        """The solver that was used last."""

    @cached_property
    def compiled(self) -> Compiled:
        """The compiled problem."""
        started = time.perf_counter()
        try:
            posed = pose(self.policy, self._believed, self._floors)
            compiled = Compiled.of(*posed, stated_by=self.policy)
        except (cp.error.DCPError, cp.error.SolverError) as error:
            raise unsolvable(self.policy, error) from error
        self._compile_s = time.perf_counter() - started
        return compiled

    def solve(self, solver: SolverName, *, rescaled: bool = False) -> Attempted:
        """Solve by one solver, or by the one that suits the size; or at scales of all numbers.

        What an objective leaves open is the second stage, for which most optima of linear programs
        leave nothing: they are the only ones.
        """
        policy, compiled = self.policy, self.compiled
        compiled = compiled.rescaled() if rescaled else compiled
        started = time.perf_counter()
        first = compiled.optimum(solver, policy)
        self.last = first.solver
        bound = compiled.bound(first, own=bool(compiled.p.variables))
        solved = time.perf_counter()
        X = compiled.X_at(first)
        off = compiled.missed(first)
        open_ = self.second_stage and not first.unique and "has_one_optimum" not in policy.traits
        if open_:
            X = choose(policy, compiled, first, solver)
        objective = compiled.objective()
        value = -objective if compiled.maximises else objective
        gap = max(compiled.distance(value, bound), compiled.p.inexact)
        chosen = time.perf_counter()
        prices = compiled.least_prices(first)
        prices = compiled.prices(first) if prices is None else prices
        return Attempted(
            X,
            objective,
            gap if off <= _MET else max(gap, off),
            prices,
            {
                "solver": first.solver,
                "rows": self._believed.rows,
                "compile_s": self._compile_s,
                "solve_s": solved - started,
                "second_stage_s": chosen - solved,
            },
        )


def _solution(
    policy: Policy,
    reduction: Reduction,
    best: Attempted,
    tried: dict[str, str],
    grouped_s: float,
) -> Solution:
    """Bring an outcome back to jobs, in the words of the policy."""
    objective, slope = reported(policy, reduction.believed, best.objective)
    shares, jobs_of_pairs = reduction.expand(best.X)
    return Solution(
        X=shares,
        throughput=reduction.throughput(best.X),
        objective=objective,
        prices=slope * best.prices,
        gap=best.gap,
        status="optimal" if best.gap <= ACCURATE else "optimal_inaccurate",
        stats={
            "jobs": reduction.full.jobs,
            "classes": reduction.believed.jobs,
            "pairs": len(reduction.pairs),
            "options": reduction.full.options,
            "reduction": reduction.kind,
            "tried": tried,
            "group_s": grouped_s,
            **best.stats,
        },
        pairs=jobs_of_pairs,
    )
