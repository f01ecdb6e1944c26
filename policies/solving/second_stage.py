"""The choice among equal optima: spend what the objective leaves, then share it most evenly.

Optima are often not unique. At the least makespan, say, most GPUs may be left unassigned. So
`solve` goes on after a policy's own objective:

1. among the optimal allocations take one that maximises the total throughput, each job's relative
   to its equal share (a policy that maximises a ratio: the largest scale), so that no job could
   have more without another having less;
2. among those take the one with the least sum of ``GPUs * X**2 / capacity``, so that what is left
   to choose is spread over jobs alike and over types in proportion to their GPUs.

The last is strictly convex: the allocation is unique, whichever solver found it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.errors import SolveError
from apportion.policies.solving.cone import Point, Scales, alone_in_cost
from apportion.policies.solving.highs import SolverName, optimise
from apportion.policies.solving.rescaling import scales_of_columns
from apportion.policies.solving.solvers.active_set_least_squares import least_squares
from apportion.policies.solving.solvers.curved_face import curved_face
from apportion.policies.solving.solvers.iterative_refinement import corner, refine
from apportion.policies.solving.solvers.newton import polish

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.instance import Instance
    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Floats, Ints


_LOG = logging.getLogger(__name__)

_SLACK = 1e-9
"""How far, relatively, an objective may give way; an interior point's least value that counts."""
_TIE = 1e-12
"""Largest dual value of a vertex that is taken for zero."""
_ROUNDING, _CERTAIN = 1e-15, 1e-6
"""Between these a dual value of a vertex may be zero, or not, for the solver's tolerance."""


def relative_throughput(instance: Instance) -> Floats:
    """Return what each cell of X adds to the total of throughput / equal share, (rows, options)."""
    reference = np.where(
        instance.equal_share_throughput > 0,
        instance.equal_share_throughput,
        np.inf,  # a job that runs in combinations only has no share of its own to compare with
    )
    gain = np.zeros((instance.rows, instance.options))
    job = instance.member_job
    each = (
        instance.throughput
        * (instance.member_share * instance.count[job] / reference[job])[:, None]
    )
    np.add.at(gain, instance.member_row, each)
    return gain


def evenness(instance: Instance) -> Floats:
    """Weight of each squared cell of X in the last choice, shape (rows, options).

    The part of its type's GPUs that a row holds. A type without GPUs, of which every share is zero,
    weighs like the largest type: its weights must not dwarf those of the others.
    """
    there = np.where(instance.capacity > 0, instance.capacity, np.inf)
    largest = instance.capacity[instance.hard].max(initial=0.0) or 1.0
    capacity = np.where(np.isfinite(there), there, largest)[instance.option_accelerator]
    # Next to nothing for an option without GPUs, but not 0: squares have one minimum.
    return instance.row_count[:, None] * np.maximum(instance.gpus, 1e-9) / capacity


def choose_among_optima(
    program: ConeProgram, first: Point, gain: Floats, squares: Floats, solver: SolverName
) -> Point:
    """Return the optimum with the largest gain and, among those, the least weighted squares.

    Parameters
    ----------
    program
        The cone program of the policy's own objective.
    first
        Its optimum.
    gain, squares
        Cost vectors over the columns of the program.
    """
    if first.unique:
        return first
    first = told_apart(program, first)
    spending = replace(
        optimal_face(program, first), c=-gain / (np.abs(gain).max(initial=0.0) or 1.0)
    )
    before, second = first.left_in, None
    if before is not None and before.program is program and solver != "clarabel":
        second = before.solve_on_face(spending)
    try:
        second = optimise(spending, solver) if second is None else second
    except SolveError as error:
        _LOG.info("kept the first optimum: %s", error)
        return first
    if second.status != "optimal":
        return first
    second = polish(spending, told_apart(spending, second))
    return most_even(spending, second, squares, second.x, alone_in_cost(program.c))


def told_apart(given: ConeProgram | Callable[[], ConeProgram], vertex: Point) -> Point:
    """Return a vertex whose dual values are certainly zero or certainly not.

    What lies between may be either to a solver that stops at 1e-9, and which of them it takes for
    zero decides on the face: the vertex is refined where there is any such value. So is every
    interior point that is not too far from one.

    Parameters
    ----------
    given
        The program of the vertex, or what makes it once it is needed.
    """
    size = np.abs(vertex.y)
    doubtful = ((size > _ROUNDING) & (size < _CERTAIN)).any()
    if vertex.solver == "highs" and not doubtful:
        return vertex
    program = given() if callable(given) else given
    if not program.is_linear_program:
        return vertex
    return refine(program, vertex) if vertex.solver == "highs" else corner(program, vertex)


def most_even(
    program: ConeProgram,
    optimum: Point,
    squares: Floats,
    near: Floats | None = None,
    known: Ints | None = None,
) -> Point:
    """Return the optimum of a program with the least weighted squares.

    With `near`, a point that may be close to it, it is looked for by active sets first. Not where
    constraints leave a little slack to many jobs, which an exact solution would give to one.
    Columns that are `known` are in all optima as they are there, but for rounding errors: if these
    leave no point, they are not taken as known. Rounding errors in the optimum can leave the
    equalities of the optimal face without a common point; the face with a little slack is then
    tried instead.
    """
    if optimum.unique:
        return optimum
    for restrict in (optimal_face, _near_optimal):
        face = _InSquares.of(restrict(program, optimum), squares)
        if near is not None and restrict is optimal_face:
            x = face.active_sets(near, known)
            if x is None and known is not None and known.size:
                x = face.active_sets(near)
            if x is not None:
                return optimum.at(x, optimum.y)
        point = face.interior_point()
        if point is not None:
            return point.at(point.x, optimum.y)  # a face may have a row that the program has not
    return optimum


def least_squares_on(program: ConeProgram, squares: Floats) -> Point | None:
    """Return the point with the least weighted squares among all that meet linear constraints.

    An interior point finds which constraints hold it, which then determine it to rounding errors.
    ``None`` if it finds nothing.
    """
    return _InSquares.as_given(program, squares).interior_point()


@dataclass(frozen=True, eq=False)
class _InSquares:
    """A program in units in which every square weighs the same, its rows of entries up to 1.

    A share of time is no larger or smaller for the unit of speeds, nor for the decades over which
    they spread. In units that suit a linear program the weights are the squares of both, and the
    lightest are below what a solver takes for zero.

    Attributes
    ----------
    program
        The program in these units.
    scales
        What takes it there.
    weight
        Weights of the squares, 1 or, where nothing is to be squared, 0; shape (columns,).
    tolerance
        What counts as zero beside 1.
    """

    program: ConeProgram
    scales: Scales
    weight: Floats
    tolerance: float = 1e-12

    @classmethod
    def of(cls, program: ConeProgram, squares: Floats) -> _InSquares:
        """Find the units of a program for weights of the squares of its columns."""
        weighed = squares > 0
        root = np.sqrt(squares / (float(squares.max(initial=0.0)) or 1.0))
        column = np.divide(1.0, root, out=np.ones_like(root), where=weighed)
        scales = scales_of_columns(program, column, free=~weighed)
        return cls(scales.scale(program), scales, weighed.astype(float))

    @classmethod
    def as_given(cls, program: ConeProgram, squares: Floats) -> _InSquares:
        """Keep the units of a program, where what constraints ask for are small parts of them."""
        scales = Scales(np.ones(program.c.size), np.ones(program.b.size), 1.0)
        weight = squares / (float(squares.max(initial=0.0)) or 1.0)
        # In units as given numbers are small, and 1e-12 of them below rounding.
        return cls(program, scales, weight, tolerance=1e-9)

    def active_sets(self, near: Floats, known: Ints | None = None) -> Floats | None:
        """Look for the least squares by active sets, from a point in the units that were given."""
        start, tolerance = near / self.scales.column, self.tolerance
        z = least_squares(self.program, self.weight, start, tolerance=tolerance, known=known)
        return None if z is None else z * self.scales.column

    def _sharpened(self, posed: ConeProgram, point: Point) -> Point:
        """Go from an interior point to the least squares, by active sets or Newton steps."""
        z = least_squares(self.program, self.weight, point.x, point.y, tolerance=self.tolerance)
        return polish(posed, point) if z is None else point.at(z, point.y)

    def interior_point(self) -> Point | None:
        """Return the least squares by the interior point, in the units that were given."""
        P = sparse.csc_array(sparse.diags_array(self.weight))
        posed = replace(self.program, c=np.zeros_like(self.program.c), P=P)
        try:
            point = optimise(posed, "clarabel")
        except SolveError as error:
            _LOG.info("no most even point: %s", error)
            return None
        if point.status != "optimal":
            return None
        point = self._sharpened(posed, point)
        return point.at(point.x * self.scales.column, point.y * self.scales.row)


def optimal_face(program: ConeProgram, point: Point, costs: Floats | None = None) -> ConeProgram:
    """Restrict a program to its optima, of which `point` is one; with other `costs`, if given.

    For a linear program these are the feasible points at which every row with a positive dual
    value is tight (complementary slackness), so no tolerance on the objective is needed. Where a
    row has both, the smaller one is a rounding error.
    """
    if not program.is_linear_program:
        face = curved_face(program, point)
        return face if costs is None else replace(face, c=costs)
    y = point.y[: program.linear]
    slack = (program.b - program.A @ point.x)[: program.linear]
    least = _TIE if point.solver == "highs" else _SLACK
    tight = y > np.maximum(np.abs(slack), least)
    costs = program.c if costs is None else costs
    return replace(program, c=costs, equality=program.equality | tight)


def _near_optimal(program: ConeProgram, point: Point) -> ConeProgram:
    """Restrict a program to points whose objective is that of a point, but for a hair."""
    cost = float(program.c @ point.x)
    linear = program.linear
    A = program.A.tocsr()
    return replace(
        program,
        A=sparse.vstack(
            [A[:linear], sparse.csr_array(program.c[None, :]), A[linear:]], format="csc"
        ),
        b=np.concatenate(
            [program.b[:linear], [cost + _SLACK * max(1.0, abs(cost))], program.b[linear:]]
        ),
        equality=np.append(program.equality, False),
    )
