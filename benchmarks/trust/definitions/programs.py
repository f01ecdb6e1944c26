"""Linear programs for scipy's HiGHS, over the entries of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts

_EXACT: dict[str, Any] = {
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
_ATTEMPTS: tuple[dict[str, Any], ...] = (_EXACT, _EXACT | {"presolve": False}, {})


class OracleFailure(Exception):
    """The oracle found no optimum; says nothing about the library."""


def minimise(
    cost: Floats,
    a_ub: sp.csr_array,
    b_ub: Floats,
    a_eq: sp.csr_array | None = None,
    b_eq: Floats | None = None,
) -> tuple[Floats, float, Floats]:
    """Return a least-cost x >= 0, its cost, and what one more unit of each `b_ub` would save."""
    last = ""
    for options in _ATTEMPTS:
        sparse: dict[str, Any] = {"A_ub": a_ub, "A_eq": a_eq}  # the stubs know dense ones only
        settings: dict[str, Any] = {"method": "highs", "options": options}
        found = linprog(cost, b_ub=b_ub, b_eq=b_eq, **sparse, **settings)
        if found.status == 0:
            return found.x, float(found.fun), -found.ineqlin.marginals
        last = str(found.message)
        if found.status == 2 and options is not _EXACT:
            break
    raise OracleFailure(last)


def into_constraints(facts: Facts, x: Floats) -> Floats:
    """Clip and scale x down until time and capacity hold exactly."""
    x = np.maximum(x, 0.0)
    over = np.maximum(facts.time @ x, 1.0)
    x = x / (facts.time.T @ np.maximum(over - 1.0, 0.0) + 1.0)
    held = facts.gpus @ x
    over = np.maximum(held / np.maximum(facts.capacity, 1e-300), 1.0) - 1.0
    most = (facts.gpus.astype(bool).multiply(over[:, None])).max(axis=0)
    return np.asarray(x / (1.0 + most.toarray().ravel()))


def best_total(facts: Facts, value: Floats) -> tuple[Floats, Floats]:
    """Maximise value @ x; return x and the price of each type."""
    top = float(value.max())
    a_ub = sp.vstack([facts.time, facts.gpus]).tocsr()
    b_ub = np.concatenate([np.ones(facts.case.jobs), facts.capacity])
    x, _, duals = minimise(-value / top, a_ub, b_ub)
    return into_constraints(facts, x), top * duals[facts.case.jobs :]


def best_level(
    facts: Facts, slope: Floats, floor: Floats | None = None
) -> tuple[float, Floats, Floats]:
    """Maximise z such that every job makes floor + z * slope steps/s.

    Every entry is counted in units of the time that its neediest job wants, so that needs of many
    magnitudes are all of the order of 1 in the program.

    Returns
    -------
    z, x, and the weight of each job's demand (they sum to 1)
    """
    floor = np.zeros_like(slope) if floor is None else floor
    thr = facts.thr
    most = thr.max(axis=1).toarray().ravel()
    rising = slope > 0
    top = float(np.min((most[rising] - floor[rising]) / slope[rising]))
    if top <= 0:
        raise OracleFailure("no room above the floors")
    demand = floor + top * slope
    need = np.clip(demand / most, 1e-14, 1.0)
    unit = np.asarray((facts.time.T * need).max(axis=1).toarray()).ravel()
    wanting = demand > 0
    scaled = sp.diags_array(1 / demand[wanting]) @ thr[wanting] @ sp.diags_array(unit)
    level = sp.csr_array((top * slope / np.where(wanting, demand, 1.0))[wanting][:, None])
    columns = sp.diags_array(unit)
    held = facts.gpus @ columns
    a_ub = sp.block_array(
        [[-scaled, level], [facts.time @ columns, None], [held, None]], format="csr"
    )
    b_ub = np.concatenate(
        [-(floor / np.where(wanting, demand, 1.0))[wanting], np.ones(len(slope)), facts.capacity]
    )
    cost = np.zeros(a_ub.shape[1])
    cost[-1] = -1.0
    found, _, duals = minimise(cost, a_ub, b_ub)
    x = into_constraints(facts, found[:-1] * unit)
    wanters = int(wanting.sum())
    weight = np.zeros(len(slope))
    weight[wanting] = duals[:wanters] * np.asarray(level.toarray()).ravel()
    return top * float(found[-1]), x, weight
