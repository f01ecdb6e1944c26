"""What to return when every solver has failed and an answer is wanted all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.certificate import make_feasible
from apportion.policies.isolated import isolated_share
from apportion.policies.problem import Problem
from apportion.policies.solution import Solution

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

__all__ = ["isolated_solution"]


def isolated_solution(policy: Policy, instance: Instance, reason: str) -> Solution:
    """Return the isolated share of every job: feasible, for no solver, and not optimal.

    Parameters
    ----------
    policy
        The policy that could not be solved; its objective is evaluated.
    instance
        The problem. Combinations of jobs get nothing.
    reason
        What came of the solvers.

    Returns
    -------
    Solution
        With the status "fallback", no prices (nan) and an infinite gap.
    """
    accelerator = instance.option_accelerator
    alike = np.bincount(accelerator)[accelerator]
    gpus = instance.capacity[: instance.accelerators]
    share = isolated_share(gpus, instance.columns["scale_factor"], instance.count.sum())
    X = np.zeros((instance.rows, instance.options))
    single = np.bincount(instance.member_row, minlength=instance.rows)[instance.member_row] == 1
    job, member = np.unique(instance.member_job[single], return_index=True)
    X[instance.member_row[single][member]] = share[job][:, accelerator] / alike
    X = make_feasible(X, instance)
    p = Problem(instance)
    p.X.value = X
    value = np.asarray(policy.objective(p).args[0].value).item() if not policy.fractional else None
    return Solution(
        X=X,
        throughput=np.asarray(p.throughput.value, dtype=float),
        objective=float("nan") if value is None else policy.reported(float(value))[0],
        prices=np.full(instance.capacity.size, np.nan),
        gap=float("inf"),
        status="fallback",
        message=f"The isolated share, as every solver failed: {reason}",
        stats={"jobs": instance.jobs, "options": instance.options, "reduction": "none (fallback)"},
    )
