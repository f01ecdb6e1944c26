"""Problems in which the number of jobs of each class is a parameter, kept in HiGHS.

Only a few coefficients of such a problem change when a job arrives or completes: what its class
holds of each resource, and its part in an objective that sums over jobs.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import cvxpy as cp
import numpy as np

from apportion.policies.problem import Problem
from apportion.policies.solving.canonical import canonicalise, cone_program
from apportion.policies.solving.cone import Scales
from apportion.policies.solving.copies import counts_as_jobs
from apportion.policies.solving.demands import fills_further, has_earlier, read_off
from apportion.policies.solving.solvers.parametric_program import ParametricProgram
from apportion.policies.solving.solvers.warm_highs import WarmSolver

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.cone import ConeProgram
    from apportion.policies.solving.demands import ReadOff
    from apportion.policies.solving.solvers.highs import PersistentHighs
    from apportion.policies.solving.solvers.parametric_program import Moves
    from apportion.types import Floats, Ints


Route = Literal["direct deltas", "parametrised"]
"""How new counts reach HiGHS: as the numbers that they move, or through cvxpy's parameters."""

_FEW = 0.2
"""Share of the counts up to which their numbers are changed one by one."""


class CountedSolver:
    """A problem over classes of identical jobs in HiGHS, for counts that change.

    A class without jobs is set aside exactly: its shares are held at zero and its own constraints
    (those in which no other class has a share) are lifted, as if it were not there.

    Parameters
    ----------
    p, declared
        What the policy reads, and its problem, with the counts as a parameter.

    Attributes
    ----------
    p, declared
        The same.
    solver
        Has the problem, in scaled numbers.
    scales
        Of its rows and columns.
    cells
        Columns of the shares, class by class for each option.
    count
        Jobs of each class, shape (classes,).
    there
        Whether a class has any, shape (classes,).
    """

    def __init__(self, p: CountedProblem, declared: cp.Problem) -> None:
        self.p, self.declared = p, declared
        plain = ParametricProgram.of(declared, p.count)
        self._rows = plain.base.rows
        self.scales = Scales.of(plain.base)
        self._program = plain.scaled(self.scales)
        self.solver = WarmSolver(self._program.base)
        self.count = p.instance.count
        self.there = np.ones(p.instance.jobs, dtype=bool)
        start = plain.base.columns[p.X.id]
        self.cells = slice(start, start + p.X.size)
        self._moves: dict[int, Moves] = {}
        self._own_rows = _own_rows(plain.base, self.cells, p.instance.jobs)

    def rows_of(self, constraint: cp.Constraint) -> slice:
        """Return the rows of a constraint."""
        return self._rows[constraint.id]

    def change(self, count: Floats, route: Route) -> int:
        """Bring new counts into HiGHS; return how many numbers of the problem they moved."""
        moved = np.flatnonzero(count != self.count)
        if route == "parametrised":
            changed = self._through_cvxpy(count)
        elif moved.size > _FEW * count.size:
            changed = self.solver.highs.update(self._program.at(count))
        else:
            changed = sum(self._move(place, count) for place in moved.tolist())
        self.count = count.copy()
        self.there = count > 0
        self.set_aside(self.solver.highs)
        return changed

    def set_aside(self, highs: PersistentHighs) -> None:
        """Set the classes without jobs aside in a solver, and bring those back that have some."""
        start, classes = self.cells.start, self.there.size
        as_it_was = self.there == highs.aside[start : start + classes]
        for place in np.flatnonzero(as_it_was).tolist():
            columns = np.arange(start + place, self.cells.stop, classes)
            change = highs.bring_back if self.there[place] else highs.set_aside
            change(columns, self._own_rows[place])

    def _through_cvxpy(self, count: Floats) -> int:
        """Set cvxpy's parameter, have it apply the values, and pass on what differs."""
        self.p.count.value = count
        data, _, inverse = self.declared.get_problem_data(cp.CLARABEL, solver_opts={})
        program = cone_program(data, float(inverse[-1]["offset"]))
        return self.solver.highs.update(self.scales.scale(program))

    def _move(self, place: int, count: Floats) -> int:
        """Change the numbers that the count of one class moves."""
        if place not in self._moves:
            self._moves[place] = self._program.moves(place)
        moves, highs = self._moves[place], self.solver.highs
        entries, limits, costs = moves.at(np.append(count, 1.0))
        highs.change_entries(moves.entries, entries)
        if limits.size:
            highs.change_limits(moves.limits, limits)
        inside = moves.costs < highs.program.c.size
        if inside.any():
            highs.change_costs(moves.costs[inside], costs[inside])
        if not inside.all():
            highs.program = replace(highs.program, offset=float(costs[-1]))
        return entries.size + limits.size + int(np.count_nonzero(inside))


def _own_rows(program: ConeProgram, cells: slice, classes: int) -> list[Ints]:
    """Rows in which only one class has a share, by class."""
    A = program.A.tocoo()
    row, column = A.coords
    inside = (column >= cells.start) & (column < cells.stop)
    row, owner = row[inside], (column[inside] - cells.start) % classes
    first, last = np.full(program.b.size, classes), np.full(program.b.size, -1)
    np.minimum.at(first, row, owner)
    np.maximum.at(last, row, owner)
    return [np.flatnonzero((first == last) & (first == place)) for place in range(classes)]


_LOG = logging.getLogger(__name__)
_LASTING = {"weight", "count", "scale_factor"}
"""Columns of the jobs table that stay as they are while a job waits and runs."""


class _Counts(cp.Parameter):  # type: ignore[misc]
    """Counts that ``*`` multiplies one by one, as it does the array that policies know."""

    def __mul__(self, other: Any) -> Any:
        return cp.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return cp.multiply(other, self)


class CountedProblem(Problem):
    """A `Problem` whose `count` is a cvxpy parameter of shape (classes,)."""

    def __init__(self, instance: Instance) -> None:
        self._parameter = _Counts(instance.jobs, nonneg=True, value=instance.count)
        super().__init__(instance)

    @property
    def count(self) -> Any:
        """Jobs behind each class, a parameter."""
        return self._parameter

    @cached_property
    def held(self) -> cp.Expression:
        """Units of each resource in use on average, at the parameter's counts."""
        single = self.instance.with_columns(
            {**self.instance.columns, "count": np.ones(self.instance.jobs)}
        )
        held = Problem(single)
        held.__dict__["X"] = cp.multiply(
            cp.reshape(self._parameter, (single.rows, 1), order="F"), self.X
        )
        return held.held


def is_of_counts(policy: Policy, classes: Instance) -> bool:
    """Whether a policy may go by classes: ever one and the same, single jobs, one objective.

    Not if it decides in whole numbers, has further objectives or reads what changes while jobs run.
    """
    lasting = "tells_identical_jobs_apart" not in policy.traits and set(policy.columns) <= _LASTING
    further = fills_further(policy) or has_earlier(policy)
    return lasting and classes.solo and not (policy.space_sharing or policy.integral or further)


def read_at_all_counts(policy: Policy, one: Instance) -> ReadOff | None:
    """Read an objective that is the same at all counts, but for sums over the jobs of classes.

    Then it says all of the problem, and no program need be compiled to see that it follows counts.

    Parameters
    ----------
    one
        Classes with one job each.

    Returns
    -------
    ReadOff
        Levels, or gains that are counted; ``None`` where it is neither, or has constraints.
    """
    if not is_of_counts(policy, one):
        return None
    try:
        count = _drawn_counts(one.jobs)
        read = read_off(policy, one)
        other = read_off(policy, one.with_columns({**one.columns, "count": count}))
        same = _same_levels(read, other) or _counted(read, other, count)
        known = same and read.exact and other.exact and counts_as_jobs(policy, one)
        return read if known else None
    except Exception as error:  # what it is that fails shows where the problem is stated anew
        _LOG.info("%r is stated as a program: %s", policy, error)
        return None


def _same_levels(one: ReadOff, other: ReadOff) -> bool:
    """Whether two objectives are the same levels, without constraints."""
    a, b = one.levels, other.levels
    if a is None or b is None or a.constrained or b.constrained or a.inverse != b.inverse:
        return False
    return _close(a.factor, b.factor) and _close(a.offset, b.offset)


def _counted(one: ReadOff, other: ReadOff, count: Floats) -> bool:
    """Whether each class adds to an objective what so many jobs of it add, and nothing else."""
    a, b = one.gains, other.gains
    if a is None or b is None or a.maximised != b.maximised or a.constant or b.constant:
        return False
    return _close(count * a.slope, b.slope)


def _close(one: Floats, other: Floats) -> bool:
    """Whether numbers are the same but for the rounding of sums, a part of 1e-9."""
    return np.allclose(one, other, rtol=1e-9, atol=0.0)


def _drawn_counts(classes: int) -> Floats:
    return np.random.default_rng(0).integers(1, 100, classes).astype(float)


def declare(policy: Policy, classes: Instance) -> tuple[CountedProblem, cp.Problem] | None:
    """State a policy's problem over classes of jobs with their counts as a parameter.

    Parameters
    ----------
    classes
        Classes of identical jobs, at the speeds that the policy believes in.

    Returns
    -------
    p, declared
        The problem as the policy saw it, and the cvxpy problem. ``None`` where that is not the
        policy's problem whatever the counts: where it is no linear program, is not affine in the
        counts or does not count classes as their jobs, or `is_of_counts` says so.
    """
    if not is_of_counts(policy, classes):
        return None
    p = CountedProblem(classes)
    try:
        objective, own = policy.objective(p), policy.constraints(p)
        declared = cp.Problem(objective, [*p.constraints, *own])
        follows = _follows_counts(policy, p, declared) and counts_as_jobs(policy, classes)
    except Exception as error:  # a policy may do with its numbers what no parameter allows
        _LOG.info("%r is solved anew each time: %s", policy, error)
        return None
    return (p, declared) if follows else None


def _follows_counts(policy: Policy, p: CountedProblem, declared: cp.Problem) -> bool:
    """Compare with the problem stated at fixed counts, which a policy may read in other ways."""
    if not declared.is_dpp() or len(declared.parameters()) != 1:
        return False
    count = _drawn_counts(p.instance.jobs)
    plain = Problem(p.instance.with_columns({**p.instance.columns, "count": count}))
    fixed = cp.Problem(policy.objective(plain), [*plain.constraints, *policy.constraints(plain)])
    expected = canonicalise(fixed)
    if not expected.is_linear_program:
        return False
    return _same(ParametricProgram.of(declared, p.count).at(count), expected)


def _same(one: ConeProgram, other: ConeProgram) -> bool:
    """Whether two programs have the same numbers, but for rounding."""
    if one.A.shape != other.A.shape or not np.array_equal(one.equality, other.equality):
        return False
    rest = np.append(one.b, [*one.c, one.offset]), np.append(other.b, [*other.c, other.offset])
    # Both were summed up in another order; what differs by more is another problem.
    entries = abs(one.A - other.A).max() <= 1e-9 * abs(other.A).max()
    return bool(entries) and np.allclose(*rest, rtol=1e-9, atol=1e-12)
