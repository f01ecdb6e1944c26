"""The KKT system of the interior point, in arrow form: a block for each job, and few dense rows.

For the program of `ArrowProgram` a Newton step solves the linearised conditions of optimality. The
slacks and the dual values of ``x >= 0`` are eliminated first: with

    D = 1 / (cost / x + squares),  V = met / need,  W = idle / time,  R = free / price

(diagonal), T the throughputs, E the ones that sum the time of a job, and U the usage of resources,
what is left for the steps of the dual values and of the level is::

    [  T D T' + V     - T D E'         - T D U'        - rate ] [ need  ]   [ q1    ]
    [  E D T'         -(E D E' + W)    - E D U'          0    ] [ time  ] = [ q2    ]
    [  U D T'         - U D E'         -(U D U' + R)     0    ] [ price ]   [ q3    ]
    [  rate'             0                0              0    ] [ level ]   [ level ]

The upper left blocks fall apart into two equations for each job, since jobs meet in the capacities
and in the level only: the matrix is an arrow. Both are eliminated, in vectorised form, with

    M = E D E' + W,  mean = E D T' / M,  S = T D T' + V - mean^2 M

and what is left is the dense Schur complement K of (resources + 1) equations.

A block is eliminated in centred form, about the mean throughput of the cells that are still free:
the difference ``sum D T^2 * sum D - (sum D T)^2`` of the direct form loses all its digits once one
cell of a job dominates, which is what the optimum looks like where every job has throughputs of
its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.types import Floats


@dataclass(frozen=True, eq=False)
class ArrowProgram:
    """Raise a level that all jobs keep up with, and gain from what is left.

    Maximise ``reward * t + sum gain * X - sum squares * X^2 / 2`` such that each job m has
    ``throughput_m . X_m >= base_m + rate_m * t`` and ``sum_j X_mj <= 1``, and each resource r
    ``sum usage * X <= 1`` over the options that use it; ``X >= 0``. Arrays over cells are stored
    option by option, shape (options, jobs).

    Parameters
    ----------
    throughput
        What a cell adds to its job's side, each job's largest at most about 1.
    usage
        Part of its resource's capacity that a cell holds.
    resource
        Resource of each option, shape (options,).
    base, rate
        What a job needs at level 0, and more per unit of level; shape (jobs,).
    gain, squares
        Coefficients of X and of X^2 / 2 in the objective; 0 where there is only a level.
    reward
        Coefficient of the level; 0 if there is none.
    """

    throughput: Floats
    usage: Floats
    resource: NDArray[np.intp]
    base: Floats
    rate: Floats
    gain: Floats | float = 0.0
    squares: Floats | float = 0.0
    reward: float = 0.0

    @property
    def resources(self) -> int:
        """Number of resources."""
        return int(self.resource.max(initial=-1)) + 1

    def held(self, cells: Floats) -> Floats:
        """Sum over jobs and over the options of each resource, shape (resources,)."""
        by_option = cells.sum(axis=1)
        held = np.bincount(self.resource, weights=by_option, minlength=self.resources)
        return np.asarray(held, dtype=float)


@dataclass(eq=False)
class ArrowPoint:
    """Where the interior point stands.

    Attributes
    ----------
    x, level
        Shares of time, shape (options, jobs), and the level.
    met, idle, free
        Slacks: throughput beyond the need (jobs,), time left (jobs,), capacity left (resources,).
    need, time, price, cost
        Dual values of the needs (jobs,), of the time limits (jobs,), of the capacities
        (resources,), and of ``x >= 0``.
    steps
        Newton steps taken.
    error
        Largest of the residuals and of the gap, relative.
    """

    x: Floats
    level: float
    met: Floats
    idle: Floats
    free: Floats
    need: Floats
    time: Floats
    price: Floats
    cost: Floats
    steps: int = 0
    error: float = float("inf")


PAIRS = (("x", "cost"), ("met", "need"), ("idle", "time"), ("free", "price"))
"""Slacks and their dual values, whose products go to zero."""


class Residuals(NamedTuple):
    """What is missing in each block of equations."""

    need: Floats
    time: Floats
    capacity: Floats
    stationary: Floats
    level: float


class Eliminated:
    """The KKT system at a point, the jobs' blocks eliminated; one for both right-hand sides.

    The names are those of the system as this module displays it: ``D, V, W, R, M, S, mean`` and
    ``UD``, by option or by job; ``UDT`` is the block of that name once `mean` is subtracted from
    the throughputs; ``K`` the Schur complement.
    """

    def __init__(self, program: ArrowProgram, at: ArrowPoint) -> None:
        self.program, self.at = program, at
        T, U = program.throughput, program.usage
        self.D = 1.0 / (at.cost / at.x + program.squares)
        self.V, self.W, self.R = at.met / at.need, at.idle / at.time, at.free / at.price
        free = self.D.sum(axis=0)
        self.M = free + self.W
        self.mean = np.einsum("jm,jm->m", self.D, T) / self.M
        off = T - self.mean
        weighted = self.D * off
        self.S = np.einsum("jm,jm->m", weighted, off) + self.W * self.mean**2 + self.V
        self.UD = U * self.D
        self.UDT = weighted
        self.UDT *= U
        K = (self.UDT / self.S) @ self.UDT.T + (self.UD / self.M) @ self.UD.T
        own = np.einsum("jm,jm->j", self.UD * U, (free - self.D + self.W) / self.M)
        square = np.einsum("jm,jm->j", self.UD / self.M, self.UD)
        K[np.diag_indices_from(K)] -= own + square
        options = np.arange(program.resource.size)
        self.gather = np.zeros((program.resources, options.size))
        self.gather[program.resource, options] = 1.0
        K = self.gather @ K @ self.gather.T
        K[np.diag_indices_from(K)] -= self.R
        self.rate = program.rate / self.S
        toward = self.gather @ (self.UDT @ self.rate)
        self.K = np.block(
            [[K, toward[:, None]], [toward[None, :], np.array([[program.rate @ self.rate]])]]
        )
        if program.reward == 0.0:
            self.K[-1, :], self.K[:, -1], self.K[-1, -1] = 0.0, 0.0, 1.0

    def solve(self, missing: Residuals, products: list[Floats]) -> ArrowPoint:
        """Solve for the step whose linearised products change by the given amounts."""
        program, at = self.program, self.at
        T, U, resource = program.throughput, program.usage, program.resource
        by_need, by_idle, by_free = (
            part / getattr(at, dual)
            for part, (_, dual) in zip(products[1:], PAIRS[1:], strict=True)
        )
        pull = products[0] / at.x
        pull += missing.stationary
        moved = self.D * pull
        q1 = missing.need + by_need - np.einsum("jm,jm->m", T, moved)
        q2 = missing.time - by_idle - moved.sum(axis=0)
        q3 = missing.capacity - by_free - self.gather @ np.einsum("jm,jm->j", U, moved)
        fixed = (q1 - self.mean * q2) / self.S
        rest = q2 / self.M
        q3 -= self.gather @ (self.UDT @ fixed + self.UD @ rest)
        level = missing.level - program.rate @ fixed if program.reward else 0.0
        solved = np.linalg.solve(self.K, np.append(q3, level))
        price, rise = solved[:-1], float(solved[-1])
        by_option = price[resource]
        need = fixed + (self.UDT.T @ by_option) / self.S + self.rate * rise
        time = self.mean * need - rest - (self.UD.T @ by_option) / self.M
        pull += need * T
        pull -= time
        pull -= U * by_option[:, None]
        pull *= self.D
        cost = at.cost * pull
        np.subtract(products[0], cost, out=cost)
        cost /= at.x
        return ArrowPoint(
            x=pull,
            level=rise,
            met=by_need - self.V * need,
            idle=by_idle - self.W * time,
            free=by_free - self.R * price,
            need=need,
            time=time,
            price=price,
            cost=cost,
        )
