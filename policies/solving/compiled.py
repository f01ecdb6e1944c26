"""A declared problem, compiled: solve it, read allocations off its points, tell what conflicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.solution import ACCURATE
from apportion.policies.solving.canonical import canonicalise_by_reductions, straight
from apportion.policies.solving.certificate import (
    Bounds,
    dual_bound,
    make_feasible,
    open_duals,
    relative_gap,
    violation,
)
from apportion.policies.solving.cone import (
    ConeProgram,
    Point,
    Scales,
    equilibrate,
    program_of_throughputs,
)
from apportion.policies.solving.highs import SolverName, optimise
from apportion.policies.solving.rescaling import scales_of_all_numbers, smallest_cost
from apportion.policies.solving.solvable import check_finite, no_optimum
from apportion.policies.solving.solvers.iterative_refinement import corner
from apportion.policies.solving.solvers.kinks import Priced, least_duals
from apportion.policies.solving.solvers.logarithmic_interior_point import sharpen
from apportion.policies.solving.solvers.newton import polish
from apportion.policies.solving.solvers.sums_of_logarithms import only_logarithms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.policies.base import Policy
    from apportion.policies.problem import Problem
    from apportion.types import Floats


_SMALL = 1e-7
"""Relative distance of values, and part of the largest cost, that need no second look."""
_ROUNDING, _CORNER = 0.1, 1e-7
"""Part of the smallest cost that a value near zero is compared with: of curved programs, of which
an interior point finds the optimum, and of linear ones, which end in a corner."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """A problem of a policy with its scaled cone program.

    Attributes
    ----------
    p
        The problem that the policy saw.
    goal, constraints
        What is stated beside the limits that all policies share.
    program
        Its cone program, scaled.
    column, row
        Scales: ``x = column * x_scaled``, ``y = cost_scale * row * y_scaled``.
    """

    p: Problem
    goal: cp.Maximize | cp.Minimize
    constraints: tuple[cp.Constraint, ...]
    program: ConeProgram
    column: Floats
    row: Floats

    @classmethod
    def of(
        cls,
        p: Problem,
        objective: cp.Maximize | cp.Minimize,
        constraints: Sequence[cp.Constraint] = (),
        *,
        scaled: bool = True,
        stated_by: Policy | None = None,
    ) -> Compiled:
        """Compile an objective and constraints over the expressions of `p`.

        The program is scaled by `equilibrate`; or not, for `scaled_by`. NaN and infinity in what a
        policy states are refused.
        """
        program = None if constraints else program_of_throughputs(objective, p)
        program = program or straight(objective, [*p.own_limits, *constraints], p)
        if program is None:
            whole = cp.Problem(objective, [*p.constraints, *constraints])
            program = canonicalise_by_reductions(whole)
            rows = {"capacity": program.rows[p.capacity.id], **program.rows}
            program = replace(program, rows=rows)
        numbers = np.concatenate([program.c, program.b, program.A.data, program.P.data])
        if stated_by is not None and not np.isfinite(numbers).all():
            check_finite(stated_by, program)
        if scaled:
            return cls(p, objective, tuple(constraints), *equilibrate(program))
        program.A.eliminate_zeros()
        units = np.ones(program.c.size), np.ones(program.b.size)
        return cls(p, objective, tuple(constraints), program, *units)

    @cached_property
    def declared(self) -> cp.Problem:
        """The whole of it as a cvxpy problem."""
        return cp.Problem(self.goal, [*self.p.constraints, *self.constraints])

    @cached_property
    def _variables(self) -> list[cp.Variable]:
        """Variables that are stated, and those of the problem."""
        found = dict[int, cp.Variable]()
        for stated in (self.goal, *self.constraints):
            for variable in stated.variables():
                found[variable.id] = variable
        for shared in (self.p.X, self.p.scale):
            if isinstance(shared, cp.Variable):
                found[shared.id] = shared
        for own in self.p.variables.values():
            found[own.variable.id] = own.variable
        return [*found.values()]

    def scaled_by(self, scales: Scales) -> Compiled:
        """Scale the program further."""
        return replace(
            self,
            program=scales.scale(self.program),
            column=self.column * scales.column,
            row=self.row * scales.row,
        )

    def rescaled(self) -> Compiled:
        """Scale limits and costs as well; what lies far apart may then be solved."""
        return self.scaled_by(scales_of_all_numbers(self.program))

    @property
    def maximises(self) -> bool:
        """Whether the declared objective is maximised."""
        return isinstance(self.goal, cp.Maximize)

    def optimum(self, solver: SolverName, asked_by: Policy | str) -> Point:
        """Solve, or say which constraints cannot hold together."""
        point = optimise(self.program, solver)
        if point.status == "optimal":
            if self.program.is_linear_program:
                return point if point.solver == "highs" else corner(self.program, point)
            return self._sharpened(point)
        if (other := optimise(self.rescaled().program, solver).status) != point.status:
            raise SolveError(f"The problem is {point.status}, or {other} in other units.")
        raise no_optimum(self.declared, self.p.variables, point.status, str(asked_by))

    def _sharpened(self, point: Point) -> Point:
        """Solve what is curved to rounding errors; logarithms if that proves to be nearer."""
        sharp = sharpen(self.program, point)
        if sharp is None:
            return polish(self.program, point)
        return sharp if self._distance(sharp) <= self._distance(point) else point

    def _distance(self, point: Point) -> float:
        """Certified distance of the objective at a point, brought into the limits, from its bound.

        The variables take the values of the point.
        """
        self.X_at(point)
        value = self.objective()
        return abs((-value if self.maximises else value) - self.bound(point))

    def over_columns(self, cells: Floats, power: int = 1) -> Floats:
        """Write coefficients of X (or, with power 2, of its squares) over the scaled columns."""
        vector = np.zeros(self.column.size)
        start = self.program.columns[self.p.X.id]
        vector[start : start + cells.size] = cells.ravel(order="F")
        return vector * self.column**power

    def X_at(self, point: Point) -> Floats:
        """Feasible X at a point, shape (rows, options); the variables take its values."""
        return self.X_of(point.x)

    def X_of(self, scaled: Floats) -> Floats:
        """Feasible X of scaled columns, shape (rows, options); the variables take their values."""
        x = self.column * scaled
        for variable in self._variables:
            start = self.program.columns[variable.id]
            values = x[start : start + variable.size].reshape(variable.shape, order="F")
            variable.save_value(values)  # of its shape, and plain as it is compiled here
        for own in self.p.variables.values():
            if own.nonneg and own.variable.value is not None:
                own.variable.value = np.maximum(own.variable.value, 0.0)
        scale = self.p.scale
        divisor = 1.0
        if isinstance(scale, cp.Variable):
            divisor = max(float(np.asarray(scale.value).item()), 1e-300)
        X = make_feasible(np.asarray(self.p.X.value) / divisor, self.p.instance)
        self.p.X.save_value(X * divisor)
        return X

    def objective(self) -> float:
        """Return the declared objective at the variables' values, evaluated by cvxpy."""
        return float(np.asarray(self.goal.args[0].value).item())

    def worse_by(self, reached: float) -> float:
        """Tell by what part of a value once reached the objective is now worse than it."""
        now = self.objective()
        better = now >= reached if self.maximises else now <= reached
        return 0.0 if better else self.distance(now, reached)

    def distance(self, value: float, other: float) -> float:
        """Distance of two values of the objective, relative to the larger one.

        A difference of sums of logarithms is relative as it is; their value may well be zero. So
        may that of any objective: what rounding leaves of it is compared with its smallest cost.
        Where more than rounding is left of a linear one, it is the distance of the two values.
        """
        if not self.program.is_linear_program and only_logarithms(self.program):
            return abs(value - other)
        plain = relative_gap(value, other)
        if plain <= _SMALL:
            return plain
        part = _CORNER if self.program.is_linear_program else _ROUNDING
        unit = max(abs(value), abs(other), part * smallest_cost(self.program))
        rounding = relative_gap(value, other, unit)
        return plain if rounding > ACCURATE and self.program.is_linear_program else rounding

    def missed(self, point: Point) -> float:
        """Tell by how much own constraints are missed at a point, in numbers that are around 1.

        Those that all policies share are met: that is what `make_feasible` is for.
        """
        if not self.constraints:
            return 0.0
        x = point.x.copy()
        for variable in (self.p.X, *(own.variable for own in self.p.variables.values())):
            start = self.program.columns.get(variable.id)
            if start is not None and variable.value is not None:
                place = slice(start, start + variable.size)
                x[place] = np.ravel(variable.value, order="F") / self.column[place]
        scales = scales_of_all_numbers(self.program)
        return violation(scales.scale(self.program), x / scales.column)

    def bound(self, point: Point, *, own: bool = False) -> float:
        """Bound the minimised objective from below by the dual vector of a point.

        Shares lie in [0, 1]; other variables are taken to lie within ten times their value. With
        `own` they are a policy's own, of which a small one need not be small in other points: they
        are taken to lie within ten times their unit in numbers that are all around 1, at least.
        """
        # A variable about 0 has room as well.
        unit = scales_of_all_numbers(self.program).column if own else 1e-6
        upper = 10 * np.maximum(np.abs(point.x), unit)
        lower = -upper
        start, cells = self.program.columns[self.p.X.id], self.p.X.size
        most = 1.0
        if isinstance(self.p.scale, cp.Variable):
            place = self.program.columns[self.p.scale.id]
            most = 10 * self.column[place] * point.x[place]
        lower[start : start + cells] = 0.0
        upper[start : start + cells] = most / self.column[start : start + cells]
        return dual_bound(self.program, point.x, point.y, lower, upper)

    def duals(self, constraint: int | str, point: Point) -> Floats:
        """Dual values of a linear constraint at a point."""
        y = self.row * point.y * self.program.cost_scale
        return np.asarray(y[self.program.rows[constraint]], dtype=float)

    def prices(self, point: Point) -> Floats:
        """Dual value of one more unit of each resource, shape (resources,).

        A policy that maximises a ratio holds capacities against ``capacity * scale``, so that one
        more unit of a resource is `scale` more on that side. An interior point leaves a rounding
        error where a resource is not used up.
        """
        priced = np.maximum(self.duals("capacity", point), 0.0)
        if point.solver != "highs":
            rows = self.program.rows["capacity"]
            slack = self.program.b[rows] - (self.program.A @ point.x)[rows]
            priced[point.y[rows] < slack] = 0.0
        instance = self.p.instance
        dual = np.zeros(instance.capacity.size)  # nothing for what has no capacity
        dual[instance.hard] = priced
        if not isinstance(self.p.scale, cp.Variable):
            return dual
        place = self.program.columns[self.p.scale.id]
        return np.asarray(dual * self.column[place] * max(float(point.x[place]), 0.0))

    def least_prices(
        self, point: Point, slopes: Callable[[], ConeProgram] | None = None
    ) -> Floats | None:
        """Prices at a kink, see `solvers.kinks`; ``None`` where there is none."""
        instance, program = self.p.instance, self.program
        rows = program.rows["capacity"]
        bounds = Bounds.of(program)
        if open_duals(program, point, bounds, np.arange(rows.start, rows.stop)) is None:
            return None
        priced = Priced.of(rows, instance.capacity[instance.hard], self.row)
        y = least_duals(program, point, bounds, priced, slopes)
        return None if y is None else self.prices(replace(point, y=y))
