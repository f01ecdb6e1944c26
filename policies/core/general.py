"""Whatever a policy states in cvxpy, by one canonical form: own variables and constraints, ratios.

The statement is compiled once. Then one cost after the other is optimised over it, each over the
optima of the one before (`apportion.policies.core.faces`): earlier objectives, the policy's own,
what could be spent beyond it, and squares:

    max  sum over members of count * speed * X / equal-share throughput
    min  sum over cells of GPUs * X**2 / capacity

The last is strictly convex, so that the allocation is unique, whichever solver found it.

A ratio N(X) / D(X) is linear over ``Y = X * scale`` with ``D = 1`` (Charnes and Cooper, 1962): the
limits b of the canonical form become a column, ``A Y - b * scale``; the most that can be spent is
then the least scale.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression
from scipy import sparse

from apportion.errors import InputError, SolveError
from apportion.policies.base import earlier_objectives
from apportion.policies.core.canonical import Program, compile_statement
from apportion.policies.core.certificate import dual_bound, make_feasible, relative_gap, violation
from apportion.policies.core.conic import interior_point, optimum
from apportion.policies.core.faces import least_duals, optimal_face
from apportion.policies.core.forms import SpeedProblem, stated_form
from apportion.policies.core.unsolvable import check_finite, no_optimum, solvable
from apportion.policies.problem import Problem
from apportion.policies.solution import Attempted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.policies.base import Policy
    from apportion.policies.core.canonical import Point
    from apportion.policies.instance import Instance
    from apportion.types import Floats

Objective: TypeAlias = cp.Maximize | cp.Minimize

_LOG = logging.getLogger(__name__)
_WORSE = 1e-9
"""By what part of itself an objective may be worse for what was chosen among its optima."""
_MET = 1e-7
"""By how much own constraints may be missed, in numbers around 1."""
_NEAR_ZERO = 0.1
"""Part of the smallest cost that a value near zero is compared with."""
_NOTHING = 1e-7
"""Part of the largest cost that is taken for none."""


def solve(policy: Policy, instance: Instance, *, second_stage: bool = True) -> Attempted:
    """Solve what a policy states on a reduced instance.

    Parameters
    ----------
    policy, instance
        The policy and its problem, one row a class of jobs.
    second_stage
        Whether what the objective leaves open is spent, then shared most evenly.

    Raises
    ------
    InputError
        If the problem is not convex by cvxpy's rules, not finite, or has boolean variables.
    InfeasibleError
        If no allocation meets the constraints; it names the ones that cannot hold together.
    SolveError
        If the objective is unbounded, or no solver found an optimum.
    """
    p = Problem(instance)
    stated = Statement.about(policy, p, policy.objective(p))
    scaled = stated.compiled(policy).scaled()
    optima, start = over_earlier(policy, stated, scaled)
    program = replace(optima, c=scaled.c, P=scaled.P)
    if stated.paid is not None:
        program, start = _over_scale(program, stated.paid).scaled(), None
    first = optimum_of(policy, stated, program, start)
    open_ = second_stage and not first.unique
    points = _second_stage(stated, program, first) if open_ else iter([first])
    X, value, off = _best_of(stated, program, first, points)
    bound = stated.declared(dual_bound(program, first.x, first.y, *_box(stated, program, first)))
    gap = max(relative_gap(value, bound, _unit(program)), p.inexact)
    return Attempted(
        X,
        value,
        gap if off <= _MET else max(gap, off),
        stated.slope(value) * _prices(stated, program, first),
        {"solver": first.solver, "rows": instance.rows},
    )


class Statement(NamedTuple):
    """What a policy states over a problem.

    Attributes
    ----------
    p, objective
        The problem and the objective as the policy states it.
    posed, constraints
        What is compiled for them.
    earlier
        A variable for each earlier objective, and its cost.
    paid
        The variable that is the denominator of a ratio.
    inverse
        Whether ``max of k / u`` is posed as ``min of u / k``, which is linear.
    """

    p: Problem
    objective: Objective
    posed: Objective
    constraints: list[cp.Constraint]
    earlier: list[tuple[cp.Variable, float]]
    paid: cp.Variable | None
    inverse: bool

    @classmethod
    def about(cls, policy: Policy, p: Problem, objective: Objective) -> Statement:
        """Pose an objective over what a policy states beside it."""
        constraints = list(policy.constraints(p))
        for name, own in p.variables.items():
            if own.boolean:
                raise InputError(
                    f"{policy!r} asks for the boolean variable {name!r}, which only a policy with "
                    f"integral = True can have."
                )
        earlier = list[tuple[cp.Variable, float]]()
        for each in earlier_objectives(policy, p):
            level, maximised = cp.Variable(), isinstance(each, cp.Maximize)
            reached = each.args[0] >= level if maximised else each.args[0] <= level
            constraints.append(reached.set_label("earlier objective"))
            earlier.append((level, -1.0 if maximised else 1.0))
        posed, paid, value = objective, None, objective.args[0]
        if isinstance(value, DivExpression) and not value.args[1].is_constant():
            if not all(side.is_affine() for side in value.args):
                raise InputError(
                    f"The objective of {policy!r} is a ratio: both its sides must be affine in X."
                )
            paid, posed = cp.Variable(name="paid"), type(objective)(value.args[0])
            constraints.append((paid == value.args[1]).set_label("denominator"))
        least = None if earlier or paid else _least_of_inverse(policy, p, objective)
        posed = posed if least is None else cp.Maximize(cp.min(least))
        return cls(p, objective, posed, constraints, earlier, paid, least is not None)

    def compiled(self, policy: Policy) -> Program:
        """Compile it, unscaled; say in words what cannot be."""
        with solvable(policy):
            program = compile_statement(self.posed, self.constraints, self.p)
        check_finite(policy, program)
        return program

    @property
    def maximised(self) -> bool:
        """Whether what is posed is maximised."""
        return isinstance(self.posed, cp.Maximize)

    def declared(self, minimised: float) -> float:
        """Turn a value of the canonical objective into that of the policy's."""
        value = -minimised if self.maximised else minimised
        if not self.inverse:
            return value
        return 1 / value if value > 0 else np.inf

    def slope(self, value: float) -> float:
        """Return how fast the policy's objective moves with what is posed."""
        return value**2 if self.inverse and np.isfinite(value) else 1.0

    def place(self, variable: cp.Variable, program: Program) -> slice:
        """Return the columns of a variable."""
        start = program.columns[variable.id]
        return slice(start, start + variable.size)

    def scale(self, program: Program, x: Floats) -> float:
        """Return what X is multiplied by in the columns of a program: 1, but for a ratio."""
        return max(float(program.column[-1] * x[-1]), 1e-300) if self.paid is not None else 1.0

    def at(self, program: Program, x: Floats) -> tuple[Floats, float]:
        """Give the variables the values of a point; return X, made feasible, and the objective."""
        values = program.column * x / self.scale(program, x)
        variables = [*self.objective.variables(), *(v.variable for v in self.p.variables.values())]
        for variable in (self.p.X, *variables):
            each = values[self.place(variable, program)].reshape(variable.shape, order="F")
            variable.save_value(each)
        for own in self.p.variables.values():
            if own.nonneg:
                own.variable.save_value(np.maximum(np.asarray(own.variable.value), 0.0))
        X = make_feasible(np.asarray(self.p.X.value), self.p.instance)
        self.p.X.save_value(X)
        return X, float(np.asarray(self.objective.args[0].value).item())


def _least_of_inverse(policy: Policy, p: Problem, objective: Objective) -> cp.Expression | None:
    """Return ``u / k`` where the largest of ``k / u`` is minimised; ``None`` for another one."""
    if not (isinstance(objective, cp.Minimize) and isinstance(objective.args[0], cp.max)):
        return None
    form = stated_form(policy, SpeedProblem(p.instance))
    if form is None or form.kind != "inverse" or form.offset.any():
        return None
    return cp.multiply(1 / form.k, p.throughput)


def over_earlier(policy: Policy, stated: Statement, scaled: Program) -> tuple[Program, object]:
    """Return the optima of a policy's earlier objectives as a program, and the last basis."""
    now, start = scaled, None
    for level, cost in stated.earlier:
        c, none = np.zeros(scaled.c.size), sparse.csc_array(scaled.P.shape)
        c[scaled.columns[level.id]] = cost
        posed = replace(now, c=c, P=none)
        point = optimum_of(policy, stated, posed, start)
        now, start = optimal_face(posed, point), point.basis
    return now, start


def optimum_of(policy: Policy, stated: Statement, program: Program, start: object) -> Point:
    """Solve, or say which constraints cannot hold together."""
    point = optimum(program, start)
    if point.status == "optimal":
        return point
    raise no_optimum(policy, stated.p, stated.posed, stated.constraints, point.status)


def _over_scale(program: Program, paid: cp.Variable) -> Program:
    """Pose a ratio over ``Y = x * scale``, its denominator 1; the scale is the last column.

    Bounds are all zero or infinite, so that they hold for Y as for x.
    """
    lower, upper = np.append(program.lower, 0.0), np.append(program.upper, np.inf)
    place = program.columns[paid.id]
    lower[place] = upper[place] = 1 / program.column[place]
    one = sparse.csc_array((1, 1))
    return replace(
        program,
        P=sparse.csc_array(sparse.block_diag([program.P, one])),
        c=np.append(program.c, program.offset / program.cost),
        A=sparse.csc_array(sparse.hstack([program.A, sparse.csc_array(-program.b[:, None])])),
        b=np.zeros(program.b.size),
        lower=lower,
        upper=upper,
        column=np.append(program.column, 1.0),
        offset=0.0,
    )


def _second_stage(stated: Statement, program: Program, first: Point) -> Iterator[Point]:
    """Yield the most even of the optima that spend most, one that spends most, and the first."""
    instance, cells = stated.p.instance, stated.place(stated.p.X, program)
    c = np.zeros(program.c.size)
    if stated.paid is not None:
        c[-1] = 1.0
    else:
        c[cells] = -relative_throughput(instance).ravel(order="F") * program.column[cells]
        c /= np.abs(c).max(initial=0.0) or 1.0
    spending = replace(optimal_face(program, first), c=c)
    try:
        most = optimum(spending, first.basis)
    except SolveError as error:
        _LOG.info("kept the first optimum: %s", error)
        most = replace(first, status=str(error))
    if most.status == "optimal":
        if not most.unique:
            weight = evenness(instance).ravel(order="F") * program.column[cells] ** 2
            yield most_even(optimal_face(spending, most), cells, weight)
        yield most
    yield first


def most_even(program: Program, cells: slice, weight: Floats) -> Point:
    """Return the point with the least weighted squares of some columns, the costs left out.

    In units in which every square weighs the same. In units that suit a linear program the weights
    are the squares of these, and the lightest below what a solver takes for zero.
    """
    squares, column = np.zeros(program.c.size), np.zeros(program.c.size)
    squares[cells], column[cells] = 1.0, np.sqrt(weight.max() / weight)
    column *= program.lower < program.upper
    entries = abs(program.A)
    largest = (entries @ sparse.diags_array(column)).max(axis=1).toarray().ravel()
    largest[program.equality.size :] = 1.0
    row = 1 / np.where(largest > 0, largest, 1.0)
    beside = (sparse.diags_array(row) @ entries).max(axis=0).toarray().ravel()
    column = np.where(column > 0, column, 1 / np.where(beside > 0, beside, 1.0))
    posed = program.scaled_by(column, row)
    P = sparse.csc_array(sparse.diags_array(squares))
    point = interior_point(replace(posed, P=P, c=np.zeros(column.size)))
    return replace(point, x=column * point.x)


def relative_throughput(instance: Instance) -> Floats:
    """Return what each cell of X adds to the total of throughput / equal share, (rows, options)."""
    share = instance.equal_share_throughput
    # A job that runs in combinations only has no share of its own to compare with.
    per_step = np.divide(instance.count, share, out=np.zeros(share.size), where=share > 0)
    gain = np.zeros((instance.rows, instance.options))
    each = (instance.member_share * per_step[instance.member_job])[:, None] * instance.throughput
    np.add.at(gain, instance.member_row, each)
    return gain


def evenness(instance: Instance) -> Floats:
    """Weight of each squared cell of X in the last choice, shape (rows, options).

    The part of its type's GPUs that a row holds. A type without GPUs, of which every share is zero,
    weighs like the largest type: its weights must not dwarf those of the others.
    """
    largest = instance.capacity[instance.hard].max(initial=0.0) or 1.0
    usable = (instance.capacity > 0) & np.isfinite(instance.capacity)
    capacity = np.where(usable, instance.capacity, largest)[instance.option_accelerator]
    # Next to nothing for an option without GPUs, but not 0: squares have one minimum.
    return instance.row_count[:, None] * np.maximum(instance.gpus, 1e-9) / capacity


def _best_of(
    stated: Statement, program: Program, first: Point, points: Iterator[Point]
) -> tuple[Floats, float, float]:
    """Return X, the objective and what is missed of the first point that is as good as an optimum.

    It is no worse, and meets the constraints. Rounding errors, where data span many magnitudes, may
    spoil what was chosen among optima.
    """
    reached = stated.at(program, first.x)[1]
    sign = 1.0 if isinstance(stated.objective, cp.Minimize) else -1.0
    for point in points:
        X, value = stated.at(program, point.x)
        off, worse = _missed(stated, program, point.x), sign * (value - reached)
        good = worse <= 0 or relative_gap(value, reached, _unit(program)) <= _WORSE
        if good and off <= _MET:
            break
    return X, value, off


def _unit(program: Program) -> float:
    """Return what a value near zero is compared with."""
    costs = np.abs(np.append(program.c, program.P.data))
    return _NEAR_ZERO * float(costs[costs > _NOTHING].min(initial=1.0)) * program.cost


def _box(stated: Statement, program: Program, point: Point) -> tuple[Floats, Floats]:
    """Return where optima lie: shares in [0, 1], others within ten times their value or unit."""
    most = 10 * np.maximum(np.abs(point.x), 1.0)
    lower, upper = np.maximum(-most, program.lower), np.minimum(most, program.upper)
    cells, scale = stated.place(stated.p.X, program), stated.scale(program, point.x)
    lower[cells] = 0.0
    upper[cells] = (1.0 if stated.paid is None else 10 * scale) / program.column[cells]
    return lower, np.where(program.upper == 0, 0.0, upper)


def _missed(stated: Statement, program: Program, x: Floats) -> float:
    """Tell by how much own constraints are missed where the variables are, in numbers around 1.

    Those that all policies share are met: that is what `make_feasible` is for.
    """
    if not stated.constraints:
        return 0.0
    x, scale = x.copy(), stated.scale(program, x)
    for variable in (stated.p.X, *(own.variable for own in stated.p.variables.values())):
        place = stated.place(variable, program)
        x[place] = scale * np.ravel(variable.value, order="F") / program.column[place]
    return violation(program, x)


def _prices(stated: Statement, program: Program, point: Point) -> Floats:
    """Dual value of one more unit of each resource, shape (resources,).

    A ratio holds what is used against ``capacity * scale``, so that one more unit of a resource is
    `scale` more on that side. An interior point leaves a rounding error where a resource is not
    used up.
    """
    instance, rows = stated.p.instance, np.arange(stated.p.instance.hard.size)
    y = least_duals(program, point, rows, instance.capacity[instance.hard])
    if not point.exact:
        slack = program.b - program.A @ point.x
        y = np.where(y < np.abs(slack), 0.0, y)
    prices = np.zeros(instance.capacity.size)
    unit = program.row[rows] * program.cost * stated.scale(program, point.x)
    prices[instance.hard] = np.maximum(y[rows], 0.0) * unit
    return prices
