"""From what a policy states to a program over whole numbers.

Only what the policy states itself is compiled by cvxpy. What holds for every policy is written
here, in arrays, which takes a tenth of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse

from apportion.errors import InputError
from apportion.policies.base import HasEarlierObjectives
from apportion.policies.problem import Problem
from apportion.policies.solving.canonical import canonicalise
from apportion.policies.solving.cone import ConeProgram
from apportion.policies.solving.solvable import check_finite, solvable
from apportion.policies.solving.whole.program import WholeProgram, without_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints


def state(policy: Policy, instance: Instance) -> WholeProgram:
    """State a policy's problem on an instance.

    Raises
    ------
    InputError
        If it is not linear once cvxpy has rewritten it, or has several objectives.
    """
    if isinstance(policy, HasEarlierObjectives):
        raise InputError(f"{policy!r} decides in whole numbers, by one objective only.")
    p = Problem(instance)
    objective, constraints = _stated(policy, p)
    limits = [limit for own in p.variables.values() for limit in own.limits]
    with solvable(policy):
        declared = cp.Problem(objective, [*limits, *constraints])
        raw = canonicalise(declared) if declared.variables() else _constant(declared)
    check_finite(policy, raw)
    if not raw.is_linear_program:
        raise InputError(
            f"{policy!r} decides in whole numbers: its objective and constraints must be "
            f"linear, or of atoms that cvxpy makes linear (abs, max, min, pos, norm1), and "
            f"they are not."
        )
    return _Assembly(policy, p, objective, constraints, raw).program()


def _stated(
    policy: Policy, p: Problem
) -> tuple[cp.Maximize | cp.Minimize, Sequence[cp.Constraint]]:
    try:
        with solvable(policy):
            objective, constraints = policy.objective(p), policy.constraints(p)
            cp.Problem(objective, list(constraints))
    except TypeError as error:
        raise InputError(
            f"{policy!r} must state cp.Maximize or cp.Minimize of a number, and constraints as a "
            f"list, which may be empty: {error}."
        ) from error
    except ValueError as error:  # of shapes
        if p.instance.solo or isinstance(error, InputError):
            raise
        raise InputError(
            f"{policy!r} states values of jobs, shape {p.speed.shape}, where rows are combinations "
            f"of jobs, shape {p.X.shape}; state them by p.throughput, or leave combinations out."
        ) from error
    return objective, constraints


def _constant(declared: cp.Problem) -> ConeProgram:
    """Return a program without columns, for an objective that reads no variable."""
    value = float(np.asarray(declared.objective.args[0].value).item())
    none = sparse.csc_array((0, 0))
    return ConeProgram(
        P=none,
        c=np.zeros(0),
        A=none,
        b=np.zeros(0),
        equality=np.zeros(0, dtype=bool),
        offset=-value if isinstance(declared.objective, cp.Maximize) else value,
        cost_scale=1.0,
        columns={},
        rows={},
    )


@dataclass(frozen=True, eq=False)
class _Assembly:
    """Rows and columns put together from what cvxpy compiled."""

    policy: Policy
    p: Problem
    objective: cp.Maximize | cp.Minimize
    constraints: Sequence[cp.Constraint]
    raw: ConeProgram

    def program(self) -> WholeProgram:
        """Put the program together."""
        instance, raw = self.p.instance, self.raw
        c_cell, own_cells, others = self._columns()
        separable = others.size == 0 and raw.b.size == 0 and not self.constraints
        cells = self._cells(c_cell, separable)
        row = cells // instance.options
        beside = others.size
        count = instance.row_count[row]
        own = own_cells[:, cells]
        own.data = own.data * (1 / count)[own.indices]
        if beside:
            own = sparse.hstack([own, raw.A[:, others]], format="csr")
        held, capacity = self._capacities(cells)
        units, most = self._units(row)
        k = cells.size
        nonnegative = sparse.csr_array((-np.ones(k), (np.arange(k), np.arange(k))), shape=(k, k))
        shared = sparse.vstack([nonnegative, held, units], format="csr")
        if beside:
            shared = sparse.hstack(
                [shared, sparse.csr_array((shared.shape[0], beside))], format="csr"
            )
        A = sparse.csc_array(sparse.vstack([own, shared], format="csr"))
        starts = {each: k + int(np.searchsorted(others, at)) for each, at in raw.columns.items()}
        starts.pop(self.p.X.id, None)
        whole = np.zeros(k + beside, dtype=bool)
        whole[:k] = True
        upper = np.append(count, np.full(beside, np.inf))
        lower = np.append(np.zeros(k), np.full(beside, -np.inf))
        for variable in self.p.variables.values():
            start = starts.get(variable.variable.id)
            if variable.boolean and start is not None:
                mine = slice(start, start + variable.variable.size)
                whole[mine], lower[mine], upper[mine] = True, 0.0, 1.0
        kept = instance.pinned[row]
        lower[:k][kept] = count[kept]
        b = np.concatenate([raw.b, -lower[:k], capacity, most])
        costs = np.append(c_cell[cells] / count, raw.c[others])
        program = ConeProgram(
            P=sparse.csc_array((k + beside, k + beside)),
            c=without_noise(costs),
            A=A,
            b=b,
            equality=np.append(raw.equality, np.zeros(b.size - raw.b.size, dtype=bool)),
            offset=raw.offset,
            cost_scale=1.0,
            columns=starts,
            rows={},
        )
        priced = slice(raw.b.size + k, raw.b.size + k + capacity.size)
        stated = (self.policy, self.p, self.objective, self.constraints)
        return WholeProgram(*stated, program, costs, cells, whole, lower, upper, raw.b.size, priced)

    def _columns(self) -> tuple[Floats, sparse.csr_array, Ints]:
        """Costs and coefficients of the cells of X, row by row, and places of other columns."""
        instance, raw = self.p.instance, self.raw
        size = instance.rows * instance.options
        start = raw.columns.get(self.p.X.id)
        if start is None:  # the policy does not read X
            return np.zeros(size), sparse.csr_array((raw.b.size, size)), np.arange(raw.c.size)
        place = np.arange(size).reshape(instance.options, instance.rows).T.ravel() + start
        others = np.concatenate([np.arange(start), np.arange(start + size, raw.c.size)])
        own = raw.A[:, place] if raw.b.size else sparse.csr_array((0, size))
        return raw.c[place], sparse.csr_array(own), others.astype(np.intp)

    def _cells(self, cost: Floats, separable: bool) -> Ints:
        """Cells that can be above zero: where rows can run, are pinned to, and can be of use.

        Where the objective is a sum over cells, one that makes it no better is never needed, but
        for a row that is there now.
        """
        instance = self.p.instance
        open_ = instance.can_run & (~instance.pinned[:, None] | (instance.current > 0))
        if separable:
            cost = cost.reshape(open_.shape)
            useful = (cost < 0) | ((cost == 0) & (instance.current > 0))
            open_ &= useful | instance.pinned[:, None]
        return np.flatnonzero(open_)

    def _capacities(self, cells: Ints) -> tuple[sparse.csr_array, Floats]:
        """Units of each hard resource that a unit of a cell holds, and how many there are."""
        instance = self.p.instance
        resources = instance.capacity.size
        column_of = np.full(instance.rows * instance.options, -1, dtype=np.intp)
        column_of[cells] = np.arange(cells.size)
        hard_of = np.full(resources, -1, dtype=np.intp)
        hard_of[instance.hard] = np.arange(instance.hard.size)
        usage = instance.usage.tocoo()
        option, resource = np.divmod(usage.coords[1], resources)
        column = column_of[usage.coords[0].astype(np.intp) * instance.options + option]
        hard = hard_of[resource]
        kept = (column >= 0) & (hard >= 0) & (usage.data != 0)
        shape = (instance.hard.size, cells.size)
        held = sparse.csr_array((usage.data[kept], (hard[kept], column[kept])), shape=shape)
        return held, instance.capacity[instance.hard]

    def _units(self, row: Ints) -> tuple[sparse.csr_array, Floats]:
        """Units that each job has, and those that a unit of a cell takes."""
        instance = self.p.instance
        column = np.arange(row.size)
        if instance.solo:
            shape = (instance.rows, row.size)
            return sparse.csr_array((np.ones(row.size), (row, column)), shape=shape), instance.count
        in_row = sparse.csr_array(
            (np.ones(row.size), (row, column)), shape=(instance.rows, row.size)
        )
        members = sparse.csr_array(
            (instance.member_share, (instance.member_job, instance.member_row)),
            shape=(instance.jobs, instance.rows),
        )
        return sparse.csr_array(members @ in_row), instance.count
