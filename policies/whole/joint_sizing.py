"""How many GPUs serve requests and what elastic jobs have of the others, as one 0/1 program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import number
from apportion.errors import InputError, SolveError
from apportion.table_checks import array_of, at_least_0

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.types import Bools, Floats, Ints

_GAP = 1e-9
"""Relative: the worth of options is known to fewer digits."""


@dataclass(frozen=True, eq=False)
class JointSizing:
    """What each job trains with and what serves each service.

    Parameters
    ----------
    option
        Of each job, -1 for none, shape (jobs,).
    serving
        GPUs of each type that serve each service, shape (services, types).
    kept
        Scenarios whose demands are all served, shape (scenarios,).
    worth
        Sum of what the options are worth.
    """

    option: Ints
    serving: Ints
    kept: Bools
    worth: float


def joint_sizing(
    worth: ArrayLike,
    gpus: ArrayLike,
    accelerator: ArrayLike,
    capacity: ArrayLike,
    demand: ArrayLike,
    *,
    epsilon: float = 0.05,
    serves: ArrayLike | None = None,
    probability: ArrayLike | None = None,
) -> JointSizing:
    r"""Choose options of elastic jobs, and GPUs that serve requests as a forecast has them.

    .. math:: \max_{X, n, z} \sum_{jo} V_{jo} X_{jo},\quad \sum_o X_{jo} \le 1,\quad
        \sum_{jo} g_o [t_o = t] X_{jo} + \sum_k n_{kt} \le G_t,

    .. math:: \sum_t a_{kt} n_{kt} \ge d_{sk} z_s,\quad \sum_s p_s z_s \ge 1 - \epsilon,\quad
        X, z \in \{0, 1\},\ n \in \mathbb{Z}_{\ge 0}.

    The last line is a chance constraint: with probability 1 - epsilon all demands are within what
    serves them, P(demand <= capacity) >= 1 - epsilon. Of one service on one type it says that as
    many GPUs serve as the quantile of its demand (`Reserve`); of several types the program chooses
    who serves and who trains, of several services in which scenarios the forecast may be missed.

    Parameters
    ----------
    worth
        V, what each option is worth to each job, shape (jobs, options): speed-ups (DeepBoot), or
        what another policy sums up. What is not above 0 is never chosen.
    gpus, accelerator
        GPUs of each option, and the place of its type, shape (options,).
    capacity
        GPUs of each type, shape (types,).
    demand
        Forecast by scenarios, shape (scenarios,) or (scenarios, services), in GPUs, or in the unit
        of `serves`.
    epsilon
        Probability with which demand may be above what serves it, from 0 to below 1.
    serves
        Demand that a GPU of a type serves, of all services or of each, shape (types,) or (services,
        types); by default 1.
    probability
        Of each scenario; by default all alike.

    Raises
    ------
    InputError
        For shapes that do not fit, values out of range, and demands that not even all GPUs serve.
    """
    V, size, kind, total = _options(worth, gpus, accelerator, capacity)
    d = at_least_0("demand", demand)
    d = d[:, None] if d.ndim == 1 else d
    p, a = _chances(d, probability), _serves(serves, d.shape[1], total.size)
    # With 1 nothing would have to be served.
    allowed = number("epsilon", epsilon, most=1.0 - 1e-9)
    n = cp.Variable(a.shape, integer=True)
    X, z = cp.Variable(V.shape, boolean=True), cp.Variable(d.shape[0], boolean=True)
    constraints = _served(n, z, d, a, p, allowed)
    serving: cp.Expression = cp.sum(n, axis=0)
    held = (size[:, None] * (kind[:, None] == np.arange(total.size))).astype(float)
    useful = np.maximum(V, 0.0)
    if V.size:
        constraints += [cp.sum(X, axis=1) <= 1, (V > 0) >= X]
        serving = serving + cp.sum(X, axis=0) @ held
    constraints.append(serving <= total)
    goal = cp.sum(cp.multiply(useful, X)) if V.size else cp.Constant(0.0)
    problem = cp.Problem(cp.Maximize(goal), constraints)
    problem.solve(solver=cp.HIGHS, mip_rel_gap=_GAP)
    if problem.status in ("infeasible", "infeasible_or_unbounded"):
        raise InputError(
            f"No number of GPUs serves the demand with probability {1 - allowed:g}: the largest is "
            f"{d.max(axis=0).tolist()} by service, and there are {total.tolist()} by type."
        )
    if n.value is None or z.value is None:
        raise SolveError(f"The program of serving and training has status {problem.status}.")
    chosen = np.zeros(V.shape, dtype=bool) if X.value is None else np.asarray(X.value) > 0.5
    option = np.full(V.shape[0], -1, dtype=np.intp)
    if V.size:
        option = np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1).astype(np.intp)
    counts = np.rint(n.value).astype(np.intp)
    # Demands and what GPUs serve are rounded to floats.
    kept = ((a * counts).sum(axis=1) >= d - 1e-9).all(axis=1)
    return JointSizing(option, counts, kept, float((useful * chosen).sum()))


def _options(
    worth: ArrayLike, gpus: ArrayLike, accelerator: ArrayLike, capacity: ArrayLike
) -> tuple[Floats, Floats, Ints, Floats]:
    """Return what options are worth, their GPUs and types, and the GPUs of types, as arrays."""
    V = array_of("worth", worth, 2)
    size = at_least_0("gpus", gpus)
    kind = np.asarray(accelerator, dtype=np.intp)
    total = at_least_0("capacity", capacity)
    of_a_type = ((kind >= 0) & (kind < total.size)).all()
    if not (size.shape == kind.shape == V.shape[1:] and of_a_type):
        raise InputError(
            f"worth has {V.shape[1]} options, gpus {size.size}, accelerator {kind.size} of "
            f"{total.size} types; each option has a number of GPUs and the place of a type."
        )
    return V, size, kind, total


def _served(
    n: cp.Variable, z: cp.Variable, demand: Floats, serves: Floats, p: Floats, epsilon: float
) -> list[cp.Constraint]:
    """State that GPUs serve the demands of scenarios, which together are probable enough."""
    services = [cp.sum(cp.multiply(serves[k], n[k])) for k in range(demand.shape[1])]
    # Probabilities of many scenarios sum up to 1 but for rounding.
    stated: list[cp.Constraint] = [n >= 0, p @ z >= 1 - epsilon - 1e-12]
    stated += [cp.multiply(demand[:, k], z) <= each for k, each in enumerate(services)]
    return stated


def _chances(demand: Floats, probability: ArrayLike | None) -> Floats:
    """Return the probability of each scenario."""
    scenarios = demand.shape[0]
    if not scenarios:
        raise InputError("A forecast needs at least one scenario of the demand.")
    if probability is None:
        return np.full(scenarios, 1.0 / scenarios)
    p = at_least_0("probability", probability)
    if p.shape != (scenarios,) or abs(float(p.sum()) - 1) > 1e-9:
        raise InputError(
            f"probability has {p.size} numbers with the sum {p.sum():g}; it must have "
            f"{scenarios}, one for each scenario, with the sum 1."
        )
    return p


def _serves(serves: ArrayLike | None, services: int, types: int) -> Floats:
    """Return what a GPU of each type serves of each service."""
    given = np.ones(types) if serves is None else at_least_0("serves", serves)
    if given.shape not in ((types,), (services, types)):
        raise InputError(
            f"serves has the shape {given.shape}; it must be ({types},), by type, or "
            f"({services}, {types}), by service and type."
        )
    return np.broadcast_to(given, (services, types)).astype(float)
