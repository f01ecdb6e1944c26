"""One round placed as a whole: which jobs run, at which network tier, on which machines.

An integer program for GPUs of one type. It counts gangs by size and machines by packing pattern
(see `apportion.policies.placements.machine_groups`), so that only the tiers are variables of single
jobs; nothing is lost by it. `place_in_order` places job after job instead, each as well as those
before it leave possible.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import LARGEST_COUNT, LARGEST_NUMBER, listed, seconds, whole
from apportion.cluster import TIERS
from apportion.errors import InputError, unknown_name, written
from apportion.policies.base import Policy
from apportion.policies.placements.machine_groups import GangCounts, MachineGroups, assign_gangs
from apportion.policies.placements.round_places import RoundPlaces
from apportion.policies.solving.driver import solve_instance
from apportion.table_checks import as_floats, check_unique

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem
    from apportion.types import Floats, Int64s


_LOG = logging.getLogger(__name__)


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
    gang = _gangs(value, scale_factor)
    worth = _values(value)
    machines = _machines(free)
    wanted = np.flatnonzero(worth.any(axis=1))
    held = np.zeros((len(value), len(machines)), dtype=np.int64)
    tier = np.full(len(value), None, dtype=object)
    objective, bound, status = 0.0, 0.0, "optimal"
    if wanted.size:
        groups = MachineGroups.of(gang[wanted], machines)
        counts, bound, status = _solve(worth[wanted], gang[wanted], groups, time_limit_s)
        at, held[wanted] = counts.at, assign_gangs(counts, gang[wanted], groups, machines)
        if status != "optimal":
            at, held[wanted] = _better(worth[wanted], gang[wanted], machines, at, held[wanted])
        job, place = np.nonzero(at)
        tier[wanted[job]] = np.array(TIERS)[place]
        objective = float((worth[wanted] * at).sum())
    columns = pd.MultiIndex.from_frame(machines[["rack", "machine"]])
    gpus = pd.DataFrame(held, index=value.index, columns=columns)
    named = pd.Series(tier, index=value.index, name="tier", dtype=object)
    return RoundPlacement(named, gpus, objective, max(bound, objective), status)


def _solve(
    worth: Floats, gang: Int64s, groups: MachineGroups, time_limit_s: float | None
) -> tuple[GangCounts, float, str]:
    """Solve the integer program; return its solution, a bound on its value, and a status."""
    sizes, racks = groups.sizes.size, groups.free_of_rack.size
    at = cp.Variable(worth.shape, boolean=True)
    filled = cp.Variable(groups.group.size, integer=True)
    packed = cp.Variable((groups.count.size, sizes), integer=True)
    racked = cp.Variable((racks, sizes), integer=True)
    of_size = (gang[:, None] == groups.sizes).astype(float)
    in_group = (groups.group[:, None] == np.arange(groups.count.size)).astype(float)
    in_rack = (groups.rack[:, None] == np.arange(racks)).astype(float)
    constraints = [
        at <= (worth > 0),
        cp.sum(at, axis=1) <= 1,
        filled >= 0,
        packed >= 0,
        racked >= 0,
        in_group.T @ filled <= groups.count,
        cp.vec(packed, order="C") <= groups.room @ filled,
        at[:, 0] @ of_size == cp.sum(packed, axis=0),
        at[:, 1] @ of_size == cp.sum(racked, axis=0),
        (in_rack.T @ packed + racked) @ groups.sizes <= groups.free_of_rack,
        # The gangs at the network tier can have whatever is left, in any split over racks.
        gang @ cp.sum(at, axis=1) <= groups.free_of_rack.sum(),
    ]
    unit = float(worth.max())
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(worth / unit, at))), constraints)
    limit = {} if time_limit_s is None else {"time_limit": time_limit_s}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # the status says it
        problem.solve(solver=cp.HIGHS, mip_rel_gap=_GAP, **limit)
    info: Any = problem.solver_stats.extra_stats
    bound = unit * min(-info.mip_dual_bound, float((worth / unit).max(axis=1).sum()))
    status = "optimal" if problem.status == cp.OPTIMAL else "time_limit"
    found = [np.asarray(each.value, dtype=float) for each in (at, filled, packed, racked)]
    if info.primal_solution_status != _FEASIBLE:
        _LOG.info("the search found no placement within %g s", time_limit_s)
        found = [np.zeros(each.shape) for each in (at, filled, packed, racked)]
    return GangCounts(*(np.rint(each).astype(np.int64) for each in found)), bound, status


def _better(
    worth: Floats, gang: Int64s, machines: pd.DataFrame, at: Int64s, held: Int64s
) -> tuple[Int64s, Int64s]:
    """Return the placement that a search was left with, or that of jobs in order of value."""
    racks = [each.tolist() for _, each in machines.groupby("rack")["free"]]
    tiers, gpus = place_in_order(worth, gang, racks)
    if (worth * at).sum() >= (worth * tiers).sum():
        return at, held
    columns = machines.groupby("rack")["machine"].size().cumsum().shift(fill_value=0)
    in_order = np.zeros_like(held)
    for job, each in enumerate(gpus):
        for (rack, machine), number in each.items():
            in_order[job, columns.iloc[rack] + machine] = number
    return tiers.astype(np.int64), in_order


_GAP = 1e-6
"""Relative gap up to which a placement is called optimal."""
_FEASIBLE = 2
"""How HiGHS says that a solution meets the constraints."""


def _gangs(value: pd.DataFrame, scale_factor: pd.Series) -> Int64s:
    """GPUs of each job in the order of the values."""
    check_unique("job id", value.index)
    check_unique("job with a scale factor", scale_factor.index)
    for job in value.index.difference(scale_factor.index, sort=False):
        raise unknown_name("job (without a scale factor)", job, scale_factor.index)
    gang = as_floats(scale_factor.loc[value.index])
    wrong = ~((gang >= 1) & (gang <= LARGEST_COUNT) & (gang == np.floor(gang)))
    if wrong.any():
        job = value.index[wrong][0]
        raise InputError(
            f"Job {written(job)} has scale_factor = {written(gang[wrong][0])}; it must be a whole "
            f"number >= 1."
        )
    return gang.astype(np.int64)


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
        (
            rack,
            machine,
            whole(f"The free GPUs of machine {machine} of rack {rack}", gpus, integral=True),
        )
        for rack, machines in enumerate(listed("free", free, by_rack))
        for machine, gpus in enumerate(listed(f"Rack {rack} of free", machines, by_rack))
    ]
    if not rows:
        raise InputError("There are no machines: give the free GPUs of each, by rack.")
    return pd.DataFrame(rows, columns=["rack", "machine", "free"]).astype(np.int64)


_AT_ONCE_S = 1e-9
"""Without time to search jobs take the best of what is free."""


@dataclass(frozen=True)
class _MostValuable(Policy):
    """Serve the jobs of most value for a GPU first; values stand for throughputs.

    The problem::

        lex max over whole X of (value[j, :] X[j, :], for j by value for a GPU)
    """

    name, integral, places_gangs = "most_valuable", True, True
    source = "first fit, in order of value"

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total value."""
        return cp.Maximize(p.total(cp.sum(cp.multiply(p.speed, p.X), axis=1)))

    def serves_in_order(self, p: Problem) -> NDArray[np.intp]:
        """Return the jobs in order."""
        return np.argsort(-p.speed.max(axis=1) / p.scale_factor, kind="stable")


def place_in_order(
    worth: Floats, gang: Int64s, free: Sequence[Sequence[int]]
) -> tuple[NDArray[np.bool_], list[dict[tuple[int, int], int]]]:
    """Place a round without a search.

    Parameters
    ----------
    worth
        Value of each job at each tier, 0 where it may not run, shape (jobs, tiers).
    gang
        GPUs of each job, shape (jobs,).
    free
        Free GPUs of each machine, by rack.

    Returns
    -------
    at, held
        Tier of each job, shape (jobs, tiers), and its GPUs by (rack, machine).
    """
    places = RoundPlaces.of([free])
    solution = solve_instance(_MostValuable(), places.problem(worth, gang), time_limit_s=_AT_ONCE_S)
    option = np.where(solution.X.any(axis=1), solution.X.argmax(axis=1), -1)
    at = np.zeros(worth.shape, dtype=bool)
    runs = np.flatnonzero(option >= 0)
    at[runs, places.tier[option[runs]]] = True
    taken = places.devices(option, gang)
    return at, [{} if each is None else dict(each.gpus) for each in taken]
