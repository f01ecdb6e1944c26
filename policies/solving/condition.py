"""`condition`: by how much shares of time may differ while the objective is as good as it is.

An objective is certified up to a gap; the allocation behind it may be one of many. Over all
allocations that are feasible and within a distance of the optimum, the least and the largest value
of a share are the optima of two more programs: linear ones for linear objectives. They differ in
their costs only, so one goes on from the basis of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import cvxpy as cp
import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import choice, number
from apportion.errors import InputError, SolveError
from apportion.policies.labelled import read
from apportion.policies.problem import Problem
from apportion.policies.registry import get_policy
from apportion.policies.solving.choice import sums_logarithms
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.demands import fills_further, levels_of, read_off
from apportion.policies.solving.driver import solve_instance
from apportion.policies.solving.earlier import constraints_of
from apportion.policies.solving.highs import optimise
from apportion.policies.solving.rows import believed
from apportion.policies.solving.solvable import solvable
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.tensor import ThroughputTensor
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.resource import Resource
    from apportion.policies.solution import Solution
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs
    from apportion.types import Floats


@dataclass(frozen=True, eq=False, repr=False)
class Condition:
    """How far shares of time may move within a distance of the optimum.

    Attributes
    ----------
    table
        A line for each job (or combination), or each cell: ``least`` and ``largest`` share of
        time, ``share`` as it was chosen, and ``width``, largest less least.
    within
        The distance from the optimum.
    """

    table: pd.DataFrame
    within: float

    @property
    def largest(self) -> float:
        """The largest width: 0 where the optimum is unique, 1 where a share may be anything."""
        return float(self.table["width"].max()) if len(self.table) else 0.0

    def __float__(self) -> float:
        return self.largest

    def __repr__(self) -> str:
        if not len(self.table):
            return "condition 0"
        place = int(np.argmax(self.table["width"]))
        at, line = self.table.index[place], self.table.iloc[place]
        name = ", ".join(map(str, at)) if isinstance(at, tuple) else str(at)
        return (
            f"condition {self.largest:.2g} (share of {name} from {line['least']:.4g} to "
            f"{line['largest']:.4g} within {self.within:.0e} of the optimum)"
        )


@one_thread
@checked
def condition(
    policy: Policy | str,
    throughput_tensor: Throughputs,
    *,
    workers: Workers | None = None,
    jobs: Jobs | None = None,
    resources: Sequence[Resource] = (),
    gang_packing: bool = True,
    within: float = 1e-6,
    of: Literal["jobs", "cells"] = "jobs",
) -> Condition:
    """Tell how far the shares of an allocation may move within a distance of the optimum.

    For each share of time s(X), of a job or of a cell of X::

        width = max s(X) - min s(X)   over all feasible X whose objective is within the distance

    A gap tells how good an objective is, not whether the allocation is the only one with it: with
    a width near 0 it is; with a width of .5 another solver, or another unit of speeds, might have
    chosen half of the time more or less for some job, but for the rule by which `solve` chooses
    among equal optima. Two programs are solved for each share, so this takes longer than `solve`.

    Parameters
    ----------
    policy, throughput_tensor, workers, jobs, resources, gang_packing
        As in `solve`.
    within
        Distance from the optimum, relative to the objective; by default that up to which `solve`
        calls an allocation optimal. For a lexicographic policy it is the part of its level by
        which each job may have less; for sums of logarithms the distance itself.
    of
        "jobs" for the time of each job (or combination), "cells" for each cell of X.

    Returns
    -------
    Condition
        Its `largest` is the condition of the allocation.

    Raises
    ------
    InputError
        As `solve`, and for policies that decide in whole numbers.
    InfeasibleError, SolveError
        If there is no allocation, or a solver found no optimum.
    """
    choice("of", of, ("jobs", "cells"))
    number("within", within, most=1.0)
    chosen = get_policy(policy)
    if chosen.integral:
        raise InputError(
            f"{chosen!r} decides in whole numbers; the condition is of shares of time."
        )
    tensor = ThroughputTensor.of(throughput_tensor, workers=workers, jobs=jobs)
    read_in = read(chosen, tensor, resources, gang_packing=gang_packing)
    instance, order, tensor = read_in.instance, read_in.order, read_in.tensor
    solution = solve_instance(chosen, instance)
    least, largest = widths(chosen, instance, solution, within, cells=of == "cells")
    found, index = {"least": least, "share": solution.X, "largest": largest}, tensor.rows
    if of == "cells":
        index = pd.MultiIndex.from_product([tensor.rows, _flat(tensor.options)])
        columns = {name: order.shares(values).ravel() for name, values in found.items()}
    else:
        back = np.argsort(order.rows)
        found["share"] = solution.X.sum(axis=1)
        columns = {name: values[back] for name, values in found.items()}
    columns["width"] = columns["largest"] - columns["least"]
    return Condition(pd.DataFrame(columns, index=index), within)


def _flat(options: pd.Index) -> list[str]:
    """Return options as one text each."""
    return [
        " ".join(map(str, option)) if isinstance(option, tuple) else str(option)
        for option in options
    ]


def widths(
    policy: Policy, instance: Instance, solution: Solution, within: float, *, cells: bool = False
) -> tuple[Floats, Floats]:
    """Return the least and the largest shares of time within a distance of the optimum.

    Parameters
    ----------
    solution
        An optimum, rows as those of the instance.
    within
        The distance, relative to the objective; of lexicographic policies, by what part of itself
        each level may give way; of sums of logarithms the distance itself.
    cells
        Whether single cells of X are asked for, not the time of each row under all options.

    Returns
    -------
    least, largest
        Shape (rows,), or (rows, options) with `cells`.

    Raises
    ------
    SolveError
        If one of the programs was not solved.
    """
    told = believed(policy, instance)
    p = Problem(told)
    with solvable(policy):
        kept = [*constraints_of(policy, p), *_near(policy, p, solution, within)]
        compiled = Compiled.of(p, cp.Minimize(0 * cp.sum(p.X)), kept)
    linear = compiled.program.is_linear_program
    highs = PersistentHighs(compiled.program) if linear else None
    runs = told.can_run
    least, largest = np.zeros(runs.shape if cells else runs.shape[:1]), None
    largest = np.zeros_like(least)
    for place in np.ndindex(least.shape):
        share = np.zeros(runs.shape)
        share[place] = 1.0
        if (share * runs).any():
            toward = compiled.over_columns(share * runs)
            least[place] = _least(compiled, highs, toward)
            largest[place] = -_least(compiled, highs, -toward)
    return least, largest


def _near(policy: Policy, p: Problem, solution: Solution, within: float) -> Sequence[cp.Constraint]:
    """State that an allocation is within a distance of an optimum."""
    p.X.value = solution.X
    made = np.asarray(p.throughput.value, dtype=float)
    if fills_further(policy):
        return [p.throughput >= (1 - within) * made]
    levels = levels_of(policy, p.instance)
    if levels is not None:
        level = levels.level(made)
        worse = level * (1 - within if levels.maximised else 1 + within)
        return [p.throughput >= levels.demand(worse)]
    declared, value = policy.objective(p), solution.objective
    slack = within if sums_logarithms(policy, p.instance) else within * abs(value)
    goal = declared.args[0]
    worse = value - slack if isinstance(declared, cp.Maximize) else value + slack
    if read_off(policy, p.instance).ratio:
        goal, worse = goal.args[0] - worse * goal.args[1], 0.0
    return [goal >= worse if isinstance(declared, cp.Maximize) else goal <= worse]


def _least(compiled: Compiled, highs: PersistentHighs | None, cost: Floats) -> float:
    """Minimise a cost over the scaled columns."""
    if highs is not None:
        highs.change_costs(np.arange(cost.size), cost)
        point = highs.solve()
        if point.status == "optimal":
            return float(cost @ point.x)
    point = optimise(replace(compiled.program, c=cost))
    if point.status != "optimal":
        raise SolveError(f"A least share was not found: the problem is {point.status}.")
    return float(cost @ point.x)
