"""What the arguments of `solve` may be, and what it returns where every solver has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from apportion.checks import choice, number, seconds
from apportion.errors import InputError
from apportion.policies.core.certificate import make_feasible
from apportion.policies.problem import Problem
from apportion.policies.solution import Solution

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.core.pairs import PairTable
    from apportion.policies.instance import Instance
    from apportion.types import Floats


Fallback = Literal["raise", "isolated"]
"""What `solve_instance` does when every solver has failed."""


def check_options(
    policy: Policy,
    fallback: str,
    pairs: PairTable | None,
    time_limit_s: float | None,
    gap: float,
) -> None:
    """Refuse unknown words and numbers, and what does not go with whole decisions or shares."""
    choice("fallback", fallback, get_args(Fallback))
    if time_limit_s is not None:
        seconds("time_limit_s", time_limit_s, strict=True, infinite=True)
    number("gap", gap, most=1.0)
    if not policy.integral:
        if time_limit_s is not None:
            raise InputError(
                f"time_limit_s is of whole decisions, and {policy!r} gives shares of time, which "
                f"take no search; leave it out."
            )
        return
    if pairs is not None:
        raise InputError(
            f"pairs= does not go with {policy!r}, which decides in whole numbers: give the "
            f"combinations that may share GPUs as rows of the throughput tensor."
        )


def without_optimum(policy: Policy, instance: Instance, reason: str) -> Solution:
    """Return what is decided where there is no optimum: feasible, and not optimal.

    Every job has its isolated share; of a policy of whole decisions, what it has now.

    Parameters
    ----------
    policy
        The policy that could not be solved; its objective is evaluated.
    instance
        The problem.
    reason
        What came of the solvers.

    Returns
    -------
    Solution
        With the status "fallback", no prices (nan) and an infinite gap.
    """
    p = Problem(instance)
    if policy.integral:
        _keep(p)
        said = "What jobs have now, as there is no decision"
    else:
        p.X.value = make_feasible(_slices(instance), instance)
        said = "The isolated share, as every solver failed"
    with np.errstate(divide="ignore", invalid="ignore"):
        value = policy.objective(p).args[0].value
    return Solution(
        X=p.X.value,
        throughput=np.asarray(p.throughput.value, dtype=float),
        objective=float("nan") if value is None else float(np.asarray(value).item()),
        prices=np.full(instance.capacity.size, np.nan),
        gap=float("inf"),
        status="fallback",
        message=f"{said}: {reason}",
        stats={"jobs": instance.jobs, "options": instance.options, "reduction": "none (fallback)"},
    )


def _slices(instance: Instance) -> Floats:
    """Give each job that runs by itself a 1/n slice; scaled down to all of its time.

    Combinations of jobs get nothing; options of a type share the slice evenly.
    """
    accelerator = instance.option_accelerator
    alike = np.bincount(accelerator)[accelerator]
    row = instance.row_alone[instance.row_alone >= 0]
    slice_gpus = instance.capacity / max(float(instance.count.sum()), 1.0)
    X = np.zeros((instance.rows, instance.options))
    X[row] = slice_gpus[accelerator] / alike / instance.gpus[row]
    X[row] /= np.maximum(X[row].sum(axis=1, keepdims=True), 1.0)
    return X


def _keep(p: Problem) -> None:
    """Leave every job with the option that it has now, in order, as far as capacities reach."""
    now, p.X.value = np.where(p.instance.can_run, p.current, 0.0), np.zeros(p.X.shape)
    for row in np.flatnonzero(now.any(axis=1)):
        p.X.value[row] = now[row]
        if (np.asarray(p.held.value) > p.instance.capacity).any():
            p.X.value[row] = 0.0
