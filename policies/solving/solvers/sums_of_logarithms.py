"""Sums of logarithms, read out of a cone program and written back into one.

For `apportion.policies.solving.solvers.logarithmic_interior_point`, which solves them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from apportion.policies.solving.cone import rows_that_are_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Floats

    Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class SumOfLogarithms:
    """Maximise ``weight @ log(d + D @ x)`` subject to ``G @ x <= h`` and ``x >= 0``.

    Attributes
    ----------
    cells, terms, zero, shut
        Columns of the cone program: those that x takes, the logarithms, those held at zero, and
        those for which there is nothing.
    limits, empty, bounds, holds, logs
        Its rows: ``G @ x <= h``, those that leave nothing for `shut`, ``x >= 0`` of cells and then
        of `shut`, ``zero == 0``, and the last of each cone.
    unit, sign, by
        Coefficients of the logarithms, of x in its bounds and of what is held, in those rows.
    """

    D: sparse.csr_array
    d: Floats
    G: sparse.csr_array
    h: Floats
    weight: Floats
    cells: Ints
    terms: Ints
    zero: Ints
    shut: Ints
    empty: Ints
    limits: Ints
    bounds: Ints
    holds: Ints
    logs: Ints
    unit: Floats
    sign: Floats
    by: Floats

    @classmethod
    def of(cls, program: ConeProgram) -> SumOfLogarithms | None:
        """Read a cone program as such a sum; ``None`` where it is none."""
        A, b, linear = program.A.tocsr(), program.b, program.linear
        if not program.cones:
            return None
        first = linear + 3 * np.arange(len(program.cones))
        head = A[first]
        if (np.diff(head.indptr) != 1).any() or A[first + 1].nnz:
            return None
        terms, unit = head.indices, -head.data
        holds, zero, by = _held(program, A)
        bounds, sign, cells, shut, empty = _shares(program, A, zero)
        others = np.ones(linear, dtype=bool)
        others[bounds] = False
        others[empty] = False
        others &= np.diff(sparse.csr_array(A[:linear][:, cells]).indptr) > 0
        limits = np.flatnonzero(others)
        simple = (
            cells.size + shut.size + zero.size + terms.size == program.c.size
            and not A[:linear][:, terms].nnz
            and cells.size > 0
            and not np.concatenate([b[first], program.c[cells]]).any()
            and (b[first + 2] >= 0).all()
            and (b[first + 1] == 1).all()
            and not program.equality[limits].any()
            and (b[limits] > 0).all()
            and (unit > 0).all()
            and (program.c[terms] < 0).all()
        )
        if not simple:
            return None
        return cls(
            D=sparse.csr_array(-A[first + 2][:, cells]),
            d=b[first + 2],
            G=sparse.csr_array(A[limits][:, cells]),
            h=b[limits],
            weight=-program.c[terms] / unit,
            cells=cells,
            terms=terms,
            zero=zero,
            shut=shut,
            empty=empty,
            limits=limits,
            bounds=bounds,
            holds=holds,
            logs=first + 2,
            unit=unit,
            sign=sign,
            by=by,
        )

    def inside(self, x: Floats) -> Floats:
        """Return what the logarithms are of."""
        v: Floats = self.d + self.D @ x
        return v

    def point(self, program: ConeProgram, x: Floats, y: Floats) -> tuple[Floats, Floats] | None:
        """Write shares and prices of the limits as primal and dual vectors of the cone program."""
        v = self.inside(x)
        if not (v > 0).all():
            return None
        primal, dual = np.zeros(program.c.size), np.zeros(program.b.size)
        primal[self.cells] = x
        primal[self.terms] = np.log(v) / self.unit
        dual[self.limits] = y
        dual[self.logs] = self.weight / v
        dual[self.logs - 1] = self.weight * (np.log(v) - 1)
        dual[self.logs - 2] = -self.weight
        A = program.A.tocsr()
        for row in self.empty:  # the first unit would be worth what its best use is
            use, need = A[[row]].indices, A[[row]].data
            lacks = -(program.c + program.A.T @ dual)[use]
            dual[row] = float((lacks / need).max(initial=0.0))
        missing = program.c + program.A.T @ dual
        bounded = np.concatenate([self.cells, self.shut])
        dual[self.bounds] = np.maximum(missing[bounded], 0.0) / self.sign
        dual[self.holds] = -missing[self.zero] / self.by
        return primal, dual


def _shares(
    program: ConeProgram, A: sparse.csr_array, zero: Ints
) -> tuple[Ints, Floats, Ints, Ints, Ints]:
    """Find the columns that are shares: those that x takes, and those for which there is nothing.

    Returns
    -------
    bounds, sign
        Rows ``x >= 0`` of the ones and then of the others, and their coefficients.
    cells, shut
        The ones and the others.
    empty
        Limits of zero.
    """
    linear = program.linear
    bounds, bounded, sign = rows_that_are_bounds(
        replace(program, A=A[:linear].tocsc(), b=program.b[:linear])
    )
    empty = _empty(program, A, bounds)
    inside = np.zeros(program.c.size, dtype=bool)
    inside[bounded] = True
    inside[zero] = False
    kept = inside[bounded]
    bounds, bounded, sign = bounds[kept], bounded[kept], sign[kept]
    inside[A[empty].indices] = False
    opened = inside[bounded]
    order = np.concatenate([np.flatnonzero(opened), np.flatnonzero(~opened)])
    return bounds[order], sign[order], bounded[opened], bounded[~opened], empty


def _empty(program: ConeProgram, A: sparse.csr_array, bounds: Ints) -> Ints:
    """Find the limits of zero on sums of shares: there is nothing of these resources."""
    candidate = ~program.equality & (program.b[: program.linear] == 0)
    candidate[bounds] = False
    least = A[: program.linear].min(axis=1).toarray().ravel()
    filled = np.diff(A.indptr[: program.linear + 1]) > 0
    return np.flatnonzero(candidate & (least >= 0) & filled)


def _held(program: ConeProgram, A: sparse.csr_array) -> tuple[Ints, Ints, Floats]:
    """Find the equalities that hold one column at zero: rows, columns, coefficients."""
    single = np.flatnonzero(
        (np.diff(A.indptr[: program.linear + 1]) == 1)
        & program.equality
        & (program.b[: program.linear] == 0)
    )
    entry = A.indptr[single]
    column, first = np.unique(A.indices[entry], return_index=True)
    return single[first], column, A.data[entry[first]]


def only_logarithms(program: ConeProgram) -> bool:
    """Whether nothing but logarithms has a cost in a program."""
    if program.kinds != {"exponential"}:
        return False
    A = program.A.tocsr()
    first = program.linear + 3 * np.arange(len(program.cones))
    logarithm = np.diff(A.indptr)[first + 1] == 0
    heads = A[first[logarithm]].indices
    return bool(np.isin(np.flatnonzero(program.c), heads).all())
