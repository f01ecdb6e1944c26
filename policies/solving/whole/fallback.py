"""What to decide when there is no decision and one is wanted all the same: what jobs have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.problem import Problem
from apportion.policies.solution import Solution
from apportion.policies.solving.whole.valid import held_by

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

__all__ = ["kept_options"]


def kept_options(policy: Policy, instance: Instance, reason: str) -> Solution:
    """Leave every job with the option that it has now, in order, as far as capacities reach.

    Parameters
    ----------
    policy
        The policy without a decision; its objective is evaluated.
    instance
        The problem. Jobs without a ``current_option`` get nothing.
    reason
        Why there is no decision.

    Returns
    -------
    Solution
        With the status "fallback", no prices (nan) and an infinite gap.
    """
    X = np.zeros((instance.rows, instance.options))
    now = np.where(instance.can_run, instance.current, 0.0)
    for row in np.flatnonzero(now.any(axis=1)):
        X[row] = now[row]
        if (held_by(instance, X * instance.row_count[:, None]) > instance.capacity).any():
            X[row] = 0.0
    p = Problem(instance)
    p.X.value = X
    with np.errstate(divide="ignore", invalid="ignore"):
        value = policy.objective(p).args[0].value
    return Solution(
        X=X,
        throughput=np.asarray(p.throughput.value, dtype=float),
        objective=float("nan") if value is None else float(np.asarray(value).item()),
        prices=np.full(instance.capacity.size, np.nan),
        gap=float("inf"),
        status="fallback",
        message=f"What jobs have now, as there is no decision: {reason}",
        stats={"jobs": instance.jobs, "options": instance.options, "reduction": "none (fallback)"},
    )
