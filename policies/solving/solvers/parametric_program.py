"""A cone program as a function of a cvxpy parameter: read off the compiled problem, then arrays.

The numbers of a program that obeys cvxpy's rules for parameters (DPP) are affine functions of their
values. cvxpy keeps these functions as sparse matrices; applied directly they give a new program
without a call of cvxpy, and their columns say which numbers one parameter moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse

from apportion.policies.solving.canonical import cone_program

if TYPE_CHECKING:
    from apportion.policies.solving.cone import ConeProgram, Scales
    from apportion.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Moves:
    """What one entry of the parameter moves: places of numbers, and their affine functions.

    Attributes
    ----------
    entries, limits, costs
        Places in ``A.data``, ``b``, and ``c`` with the offset behind it.
    factor, operand, start
        Affine functions of these numbers, in this order, term after term: the factor, the entry of
        the parameter (with a 1 behind it), and where the terms of each number start.
    """

    entries: Ints
    limits: Ints
    costs: Ints
    factor: Floats
    operand: Ints
    start: Ints

    def at(self, point: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the numbers at values of the parameter with a 1 behind them."""
        if not self.start.size:
            return self.factor, self.factor, self.factor
        numbers = np.add.reduceat(self.factor * point[self.operand], self.start)
        first, last = self.entries.size, numbers.size - self.costs.size
        return numbers[:first], numbers[first:last], numbers[last:]


@dataclass(frozen=True, eq=False)
class ParametricProgram:
    """The numbers of a cone program as affine functions of one parameter vector.

    Attributes
    ----------
    base
        The program at the values that the parameter had when it was compiled. Numbers that depend
        on the parameter are stored even where they are zero.
    entries, limits, costs
        Numbers of ``base.A.data``, ``base.b`` and ``base.c`` followed by the offset: each row of a
        matrix times the parameter with a 1 behind it, shape (numbers, size + 1).
    """

    base: ConeProgram
    entries: sparse.csc_array
    limits: sparse.csc_array
    costs: sparse.csc_array

    @classmethod
    def of(cls, problem: cp.Problem, parameter: cp.Parameter) -> ParametricProgram:
        """Compile a problem without quadratic terms whose only parameter is a vector with a value.

        Raises
        ------
        cvxpy.error.DPPError
            If the numbers are not affine functions of the parameter.
        """
        data, _, inverse = problem.get_problem_data(
            cp.CLARABEL, solver_opts={}, enforce_dpp=True, canon_backend=cp.COO_CANON_BACKEND
        )
        base = cone_program(data, float(inverse[-1]["offset"]))
        compiled = data["param_prob"]
        reduced = compiled.reduced_A
        indptr = reduced.problem_data_index[1]
        columns, last = base.c.size, indptr[base.c.size]
        order = np.append(
            np.arange(parameter.size) + compiled.param_id_to_col[parameter.id], parameter.size
        )
        numbers = sparse.csc_array(reduced.reduced_mat)[:, order]
        rows = reduced.problem_data_index[0][last:]
        place = sparse.csc_array(
            (np.ones(rows.size), (rows, np.arange(rows.size))), shape=(base.b.size, rows.size)
        )
        costs = sparse.csc_array(compiled.q)[:, order]
        return cls(
            base=base,
            entries=sparse.csc_array(-numbers[:last]),
            limits=sparse.csc_array(place @ numbers[last:]),
            costs=sparse.csc_array(costs[: columns + 1]),
        )

    def at(self, values: Floats) -> ConeProgram:
        """Return the program at values of the parameter."""
        point = np.append(values, 1.0)
        costs = self.costs @ point
        A = self.base.A
        return replace(
            self.base,
            A=sparse.csc_array((self.entries @ point, A.indices, A.indptr), shape=A.shape),
            b=self.limits @ point,
            c=costs[:-1],
            offset=float(costs[-1]),
        )

    def scaled(self, scales: Scales) -> ParametricProgram:
        """Scale the program, at whatever values."""
        A = self.base.A
        by = scales.row[A.indices] * np.repeat(scales.column, np.diff(A.indptr))
        cost = np.append(scales.column / scales.cost, 1.0)
        return ParametricProgram(
            base=scales.scale(self.base),
            entries=sparse.csc_array(sparse.diags_array(by) @ self.entries),
            limits=sparse.csc_array(sparse.diags_array(scales.row) @ self.limits),
            costs=sparse.csc_array(sparse.diags_array(cost) @ self.costs),
        )

    def moves(self, place: int) -> Moves:
        """Tell what one entry of the parameter moves."""
        by_number, by_place = self._numbers
        numbers = by_place.indices[by_place.indptr[place] : by_place.indptr[place + 1]]
        terms = [np.arange(*by_number.indptr[number : number + 2]) for number in numbers.tolist()]
        term = np.concatenate(terms) if terms else np.zeros(0, dtype=np.intp)
        first, second = self.entries.shape[0], self.entries.shape[0] + self.limits.shape[0]
        entries, limits, costs = np.split(
            numbers.astype(np.intp), np.searchsorted(numbers, [first, second])
        )
        return Moves(
            entries=entries,
            limits=limits - first,
            costs=costs - second,
            factor=by_number.data[term],
            operand=by_number.indices[term].astype(np.intp),
            start=np.cumsum([0, *(each.size for each in terms)][:-1], dtype=np.intp),
        )

    @cached_property
    def _numbers(self) -> tuple[sparse.csr_array, sparse.csc_array]:
        """All affine functions, row after row and column after column."""
        rows = sparse.csr_array(
            sparse.vstack([self.entries, self.limits, self.costs], format="csr")
        )
        return rows, sparse.csc_array(rows)
