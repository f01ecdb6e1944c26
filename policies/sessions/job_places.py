"""A linear program with a place for each of so many jobs, in HiGHS."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from heapq import heapify, heappop
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from apportion.policies.sessions.warm_stages import WarmStages
from apportion.policies.solving.cone import ConeProgram, Scales
from apportion.policies.solving.demands import read_off
from apportion.policies.solving.solvers.warm_highs import WarmSolver

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.solvers.highs import PersistentHighs
    from apportion.types import Floats, Ints


class Stated(NamedTuple):
    """The numbers of an objective, scaled to at most 1, so that it is to be maximised.

    Attributes
    ----------
    cost
        What each cell of X adds to it, shape (jobs, options); zeros where it is a level.
    demand, row
        Part of its fastest steps/s that each job has to make per unit of the level, ``None`` for an
        affine objective; and the scales of these rows, shape (jobs,).
    unit, constant
        What 1 stands for, and what is added.
    minimised
        Whether it is the negative of the policy's.
    limit
        Of the level, if it has one.
    """

    cost: Floats
    demand: Floats | None
    row: Floats
    unit: float
    constant: float = 0.0
    minimised: bool = False
    limit: float | None = None

    @classmethod
    def of(cls, policy: Policy, told: Instance) -> Stated | None:
        """Read them off; ``None`` where there are none, or they lie too far apart for one scale."""
        read, speed = read_off(policy, told), told.throughput
        gains, levels = read.gains, read.levels
        if gains is not None:
            sign = 1.0 if gains.maximised else -1.0
            cost = sign * gains.slope[:, None] * speed
            size = np.abs(cost)
            unit = float(size.max()) or 1.0
            seen = ((size == 0) | (size >= _SMALLEST * unit)).all()
            rest = unit, sign * gains.constant, not gains.maximised
            return cls(cost / unit, None, speed, *rest) if seen else None
        return None if levels is None else cls.of_demands(told, levels.rate)

    @classmethod
    def of_demands(
        cls, told: Instance, demand: Floats, limit: float | None = None
    ) -> Stated | None:
        """State the largest part of some demands, steps/s, that all jobs can have, up to a limit.

        ``None`` where they lie too far apart.
        """
        alone = told.throughput.max(axis=1) / demand
        unit = float(alone.min())
        if not (unit > 0 and (unit >= _SMALLEST * alone).all()):
            return None
        row = np.exp2(np.round(0.5 * np.log2(alone / unit)))
        return cls(np.zeros_like(told.throughput), unit / alone, row, unit, limit=limit)


class JobPlaces:
    """A program with a place for each of so many jobs, in HiGHS.

    Its columns are the cells of X, place by place, and the level, if there is one; its rows
    ``X >= 0``, the capacities, the time of each job and, if there is a level, its demand and the
    limit of the level. Places without a job are set aside, and so is every cell in which its job
    cannot run.

    Parameters
    ----------
    jobs
        Jobs that there is to be room for.
    told
        Has their options and capacities.
    level
        Whether there is a level.

    Attributes
    ----------
    scales
        Of rows and columns, for the numbers that it has now.
    """

    def __init__(self, jobs: int, told: Instance, *, level: bool) -> None:
        self._size = size = max(_FEWEST, 1 << (jobs - 1).bit_length())
        self._kind = _kind_of(told, level)
        self._level = level
        self._place, self._free = dict[int, int](), list(range(size))  # of jobs, and of nobody
        options, resources = told.options, told.capacity.size
        cells = size * options
        self._cells, self._capacity = slice(0, cells), slice(cells, cells + resources)
        self._time = slice(self._capacity.stop, self._capacity.stop + size)
        self._demands = slice(self._time.stop, self._time.stop + size * level)
        self._rows = self._demands.stop + level
        place, option = np.divmod(np.arange(cells), options)
        time = self._time.start + place
        of_cell = [np.arange(cells), cells + told.option_accelerator[option], time, time + size]
        each = 3 + level
        indices, demand = np.column_stack(of_cell[:each]), np.arange(self._time.stop, self._rows)
        starts = np.arange(0, indices.size + 1, each)
        entry = np.append(indices.ravel(), demand).astype(np.int32)
        start = np.append(starts, [indices.size + size + 1] * level).astype(np.int32)
        self._data = np.tile([-1.0, 1.0, 1.0, -1.0][:each], (size, options, 1))
        self._demand = np.ones((size + 1) * level)  # and the limit of the level
        shape = self._rows, cells + level
        self._matrix = sparse.csc_array((np.ones(entry.size), entry, start), shape=shape)
        self._none = sparse.csc_array((cells + level, cells + level))
        self._solver: WarmSolver | None = None

    def fits(self, jobs: int, told: Instance, *, level: bool) -> bool:
        """Whether there is room for so many jobs, not too much of it, and the options are these."""
        too_many = self._size > max(_FEWEST, 4 * jobs)
        return jobs <= self._size and not too_many and self._kind == _kind_of(told, level)

    @property
    def solver(self) -> WarmSolver:
        """The solver, once it holds anything."""
        assert self._solver is not None
        return self._solver

    def of(self, jobs: Ints) -> Ints:
        """Return the place of each job; who is new has one that is free."""
        had, asked = self._place, jobs.tolist()
        self._place = {job: had.pop(job, -1) for job in asked}
        self._free += had.values()  # of those who have left
        heapify(self._free)
        for job in asked:
            if self._place[job] < 0:
                self._place[job] = heappop(self._free)
        return np.fromiter(self._place.values(), np.intp, jobs.size)

    def hold(self, place: Ints, told: Instance, stated: Stated) -> int:
        """Bring the numbers of all jobs into HiGHS; return how many of them are new."""
        program = self._program(place, told, stated)
        self._aside = np.ones(program.c.size, dtype=bool)
        self._aside[self._cells.stop :] = False
        self._by_place(self._aside)[place] = told.throughput == 0
        empty = np.ones(self._size, dtype=bool)
        empty[place] = False
        shared = np.zeros(told.capacity.size, dtype=bool)
        own = [empty, empty, [stated.limit is None]] if self._level else [empty]
        self._freed = np.concatenate([self._aside[self._cells], shared, *own])
        if self._solver is None:
            self._solver, changed = WarmSolver(program), program.A.nnz
            self.stages = WarmStages(self._solver, self._cells, self._capacity, self._set_aside)
        else:
            changed = self._solver.highs.update(program)
        self._set_aside(self._solver.highs)
        return changed

    def _set_aside(self, highs: PersistentHighs) -> None:
        highs.set_all_aside(self._aside, self._freed)

    def _program(self, place: Ints, told: Instance, stated: Stated) -> ConeProgram:
        """Write the program; where there is no job its numbers stay what they were."""
        there = told.capacity > 0
        row, limit = np.ones((2, self._rows))
        row[self._capacity] = 1 / np.where(there, told.capacity, 1.0)
        limit[self._capacity] = there
        limit[self._cells] = limit[self._demands] = 0.0
        self._data[place, :, 1] = told.gpus * row[self._capacity][told.option_accelerator]
        cost = self.over_columns(place, -stated.cost)
        if stated.demand is not None:
            each = stated.row / told.throughput.max(axis=1)
            row[self._demands][place] = each
            self._data[place, :, 3] = -each[:, None] * told.throughput
            self._demand[place] = stated.row * stated.demand
            limit[-1] = (stated.limit or 1.0) / stated.unit
            cost[-1] = -1.0
        self.scales = Scales(np.ones(cost.size), row, stated.unit)
        A = copy(self._matrix)  # where numbers lie never changes
        A.data = np.append(self._data, self._demand)
        unequal, constant = np.zeros(row.size, dtype=bool), -stated.constant
        return ConeProgram(self._none, cost, A, limit, unequal, constant, stated.unit, {}, {})

    def with_demands(self, place: Ints, demand: Floats) -> ConeProgram:
        """Return the program at other demands, at the scales that it has now."""
        program, column = self.solver.highs.program, self._demand.copy()
        column[place] = self.scales.row[self._demands][place] * demand * self.scales.cost
        A = program.A.copy()
        A.data[-column.size :] = column
        return replace(program, A=A)

    def demand_duals(self, place: Ints, y: Floats) -> Floats:
        """Return dual values of the demands of jobs, shape (jobs,)."""
        scaled = self.scales.row[self._demands] * y[self._demands] * self.scales.cost
        return np.asarray(scaled[place], dtype=float)

    def over_columns(self, place: Ints, cells: Floats) -> Floats:
        """Write numbers of the cells of jobs, shape (jobs, options), over the columns."""
        vector = np.zeros(self._cells.stop + self._level)
        self._by_place(vector)[place] = cells
        return vector

    def shares(self, place: Ints, x: Floats) -> Floats:
        """Return the shares of jobs, shape (jobs, options)."""
        return np.asarray(self._by_place(x)[place], dtype=float)

    def _by_place(self, columns: Any) -> Any:
        """Look at the cells of X in a vector over the columns, shape (places, options)."""
        return columns[self._cells].reshape(self._size, -1)


def _kind_of(told: Instance, level: bool) -> tuple[bytes, int, bool]:
    return told.option_accelerator.tobytes(), told.capacity.size, level


_FEWEST = 16
"""Places that there are at least."""
_SMALLEST = 1e-7
"""Smallest number beside 1 that a solver is sure to tell from zero."""
