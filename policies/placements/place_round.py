"""One round placed as a whole: which jobs run, at which network tier, on which machines.

An integer program for GPUs of one type. Gangs of one size are the same to a machine. So the program
counts gangs by size, and only tiers are variables of single jobs; nothing is lost::

    max  sum over jobs, tiers of value at
    s.t. jobs of each size at a tier  = gangs of the size in all machines, in all racks
         GPUs of gangs in a machine  <= free GPUs of the machine
         GPUs of gangs in machines of a rack and in the rack <= free GPUs of the rack
         GPUs of all gangs           <= free GPUs
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import LARGEST_NUMBER, listed, seconds, whole
from apportion.cluster import TIERS
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs
from apportion.table_checks import as_floats, check_unique

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Bools, Floats, Int64s


_GAP = 1e-6
"""Relative gap up to which a placement is called optimal."""
_FEASIBLE = 2
"""How HiGHS says that a solution meets the constraints."""


@dataclass(frozen=True, eq=False)
class RoundPlacement:
    """Who runs in a round, and where.

    Attributes
    ----------
    tier
        One of `TIERS` for every job that runs, None for the others, indexed by job.
    gpus
        GPUs of each job on each machine, shape (jobs, machines), columns ``(rack, machine)``.
    objective
        Total value of the tiers that were chosen.
    bound
        No placement has a larger value.
    status
        "optimal", or "time_limit" if the search ended before that was proved.
    """

    tier: pd.Series
    gpus: pd.DataFrame
    objective: float
    bound: float
    status: str

    @property
    def gap(self) -> float:
        """Distance of the value from its bound, relative to the bound."""
        return (self.bound - self.objective) / self.bound if self.bound > 0 else 0.0


@checked
def place_round(
    value: pd.DataFrame,
    scale_factor: pd.Series,
    free: Sequence[Sequence[int]],
    *,
    time_limit_s: float | None = None,
) -> RoundPlacement:
    """Choose the jobs of a round and their tiers, such that all gangs fit, at the largest value.

    A gang at the machine tier gets GPUs of one machine, at the rack tier of one rack, in any split
    over its machines, at the network tier any.

    Parameters
    ----------
    value
        What it is worth to run each job at each tier, columns out of `TIERS`, >= 0; 0 where it may
        not run. Any policy's: shares of an allocation over the time received, or weight times
        steps/s.
    scale_factor
        GPUs of each job.
    free
        Free GPUs of each machine, by rack.
    time_limit_s
        After so many seconds the best placement found is taken, or that of jobs served one after
        the other, by value for a GPU, if it is better; by default the search goes on until the
        placement is optimal.

    Raises
    ------
    InputError
        For unknown tiers, jobs without a scale factor, and values or counts out of range.
    """
    if time_limit_s is not None:
        time_limit_s = seconds("time_limit_s", time_limit_s, strict=True)
    check_unique("job id", value.index)
    gang = _gangs(value.index, scale_factor)
    worth = _values(value)
    machines = _machines(free)
    held = np.zeros((len(value), len(machines)), dtype=np.int64)
    at = np.zeros(worth.shape, dtype=bool)
    bound, status = 0.0, "optimal"
    if (wanted := np.flatnonzero(worth.any(axis=1))).size:
        round_ = _Round(worth[wanted], gang[wanted], *machines[["rack", "free"]].to_numpy().T)
        at[wanted], held[wanted], bound, status = round_.placed(time_limit_s)
    tier = np.full(len(value), None, dtype=object)
    job, place = np.nonzero(at)
    tier[job] = np.array(TIERS)[place]
    objective = float(worth[at].sum())
    columns = pd.MultiIndex.from_frame(machines[["rack", "machine"]])
    gpus = pd.DataFrame(held, index=value.index, columns=columns)
    named = pd.Series(tier, index=value.index, name="tier", dtype=object)
    return RoundPlacement(named, gpus, objective, max(bound, objective), status)


class _Round(NamedTuple):
    """A round in arrays.

    Attributes
    ----------
    worth
        Value of each job at each tier, shape (jobs, 3).
    gang
        GPUs of each job, shape (jobs,).
    rack, free
        Rack of each machine, and its free GPUs, shape (machines,).
    """

    worth: Floats
    gang: Int64s
    rack: Int64s
    free: Int64s

    def placed(self, time_limit_s: float | None) -> tuple[Bools, Int64s, float, str]:
        """Solve the program.

        Returns
        -------
        at, held
            Tiers of jobs, shape (jobs, 3), and their GPUs, shape (jobs, machines).
        bound, status
            As of a `RoundPlacement`.
        """
        sizes, racks = np.unique(self.gang), np.unique(self.rack)
        at = cp.Variable(self.worth.shape, boolean=True)
        packed = cp.Variable((self.free.size, sizes.size), integer=True)
        racked = cp.Variable((racks.size, sizes.size), integer=True)
        in_rack = (self.rack == racks[:, None]).astype(float)
        of_size = (self.gang[:, None] == sizes).astype(float)
        unit = float(self.worth.max())
        constraints = [
            at <= (self.worth > 0),
            cp.sum(at, axis=1) <= 1,
            packed >= 0,
            racked >= 0,
            packed <= self.free[:, None] // sizes,
            packed @ sizes <= self.free,
            at[:, 0] @ of_size == cp.sum(packed, axis=0),
            at[:, 1] @ of_size == cp.sum(racked, axis=0),
            (in_rack @ packed + racked) @ sizes <= in_rack @ self.free,
            # The gangs at the network tier can have whatever is left, in any split over racks.
            self.gang @ cp.sum(at, axis=1) <= self.free.sum(),
        ]
        total = cp.Maximize(cp.sum(cp.multiply(self.worth / unit, at)))
        problem = cp.Problem(total, constraints)
        limit = {} if time_limit_s is None else {"time_limit": time_limit_s}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")  # the status says it
            problem.solve(solver=cp.HIGHS, mip_rel_gap=_GAP, **limit)
        info: Any = problem.solver_stats.extra_stats
        bound = unit * min(-info.mip_dual_bound, float((self.worth / unit).max(axis=1).sum()))
        status = "optimal" if problem.status == cp.OPTIMAL else "time_limit"
        known = info.primal_solution_status == _FEASIBLE
        runs, inside, across = (
            np.rint(each.value if known else np.zeros(each.shape)).astype(np.int64)
            for each in (at, packed, racked)
        )
        if status != "optimal":
            other, held = self.in_order()
            if (self.worth * runs).sum() < (self.worth * other).sum():
                return other, held, bound, status
        held = np.zeros((self.gang.size, self.free.size), dtype=np.int64)
        for place, size in enumerate(sizes):
            jobs = np.flatnonzero(runs[:, 0] & (self.gang == size))
            held[jobs, np.repeat(np.arange(self.free.size), inside[:, place])] = size
        for place in np.argsort(-sizes):
            jobs = np.flatnonzero(runs[:, 1] & (self.gang == sizes[place]))
            for job, rack in zip(jobs.tolist(), np.repeat(racks, across[:, place]), strict=True):
                self._take(held, job, self.rack == rack)
        for job in np.flatnonzero(runs[:, 2]).tolist():
            self._take(held, job, self.free > 0)
        return runs > 0, held, bound, status

    def in_order(self) -> tuple[Bools, Int64s]:
        """Place job after job, by value for a GPU, at the best tier that is left, without search.

        Returns
        -------
        at, held
            As of `placed`.
        """
        at = np.zeros(self.worth.shape, dtype=bool)
        held = np.zeros((self.gang.size, self.free.size), dtype=np.int64)
        for job in np.argsort(-self.worth.max(axis=1) / self.gang, kind="stable").tolist():
            for tier in np.argsort(-self.worth[job], kind="stable"):
                place = (np.arange(self.free.size), self.rack, np.zeros_like(self.rack))[tier]
                room = np.bincount(place, self.free - held.sum(axis=0))
                fits = np.flatnonzero(room >= self.gang[job])
                if self.worth[job, tier] > 0 and fits.size:
                    self._take(held, job, place == fits[np.argmin(room[fits])])
                    at[job, tier] = True
                    break
        return at, held

    def _take(self, held: Int64s, job: int, there: Bools) -> None:
        """Give a job GPUs of some machines, of those with the most free ones first."""
        free = np.where(there, self.free - held.sum(axis=0), 0)
        order = np.argsort(-free, kind="stable")
        before = np.cumsum(free[order]) - free[order]
        held[job, order] = np.clip(self.gang[job] - before, 0, free[order])


def _gangs(jobs: pd.Index, scale_factor: pd.Series) -> Int64s:
    """GPUs of each job, in their order."""
    known = check_jobs(scale_factor.to_frame("scale_factor"))["scale_factor"]
    for job in jobs.difference(known.index, sort=False):
        raise unknown_name("job (without a scale factor)", job, known.index)
    return known.loc[jobs].to_numpy(dtype=np.int64)


def _values(value: pd.DataFrame) -> Floats:
    """Value of each job at each of `TIERS`, 0 at tiers that are not there."""
    check_unique("tier in the values", value.columns)
    for name in value.columns.difference(pd.Index(TIERS), sort=False):
        raise unknown_name("tier in the values", name, TIERS)
    worth = as_floats(value.reindex(columns=list(TIERS), fill_value=0.0))
    wrong = ~((worth >= 0) & (worth <= LARGEST_NUMBER))
    if wrong.any():
        job, tier = np.argwhere(wrong)[0]
        raise InputError(
            f"The value of job {written(value.index[job])} at tier {TIERS[tier]!r} is "
            f"{written(worth[job, tier])}; it must be a finite number >= 0."
        )
    return worth


def _machines(free: Sequence[Sequence[int]]) -> pd.DataFrame:
    """One row per machine: ``rack``, ``machine`` (its place in the rack) and ``free`` GPUs."""
    by_rack = "the free GPUs of each machine, by rack, e.g. [[8, 8], [8, 4]]"
    rows = [
        (rack, place, whole(f"The free GPUs of machine {place} of rack {rack}", n, integral=True))
        for rack, machines in enumerate(listed("free", free, by_rack))
        for place, n in enumerate(listed(f"Rack {rack} of free", machines, by_rack))
    ]
    if not rows:
        raise InputError("There are no machines: give the free GPUs of each, by rack.")
    return pd.DataFrame(rows, columns=["rack", "machine", "free"]).astype(np.int64)
