"""What policies of fixed shares state: the total time, under limits on the time of each row.

``max sum of X such that X <= share``, each with the formula of its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem
    from apportion.types import Floats


def total_time(p: Problem) -> cp.Expression:
    """Return the total time, an option that is slower than another of its type counting less."""
    return p.instance.row_count @ cp.sum(cp.multiply(relative_to_type(p), p.X), axis=1)


def time_by_type(p: Problem) -> cp.Expression:
    """Return the time of each row on each accelerator type, shape (rows, types)."""
    return p.X @ type_of_option(p)


def type_of_option(p: Problem) -> Floats:
    """Return 1 where an option is of an accelerator type, else 0, shape (options, types)."""
    return np.asarray(np.eye(p.instance.accelerators)[p.instance.option_accelerator])


def relative_to_type(p: Problem) -> Floats:
    """Return the speed of each row under each option over its fastest option of the same type."""
    instance = p.instance
    fastest = np.zeros((instance.accelerators, instance.member_row.size))
    np.maximum.at(fastest, instance.option_accelerator, instance.throughput.T)
    fastest = np.maximum(fastest.T, 1e-300)[:, instance.option_accelerator]
    relative = np.zeros((instance.rows, instance.options))
    np.maximum.at(relative, instance.member_row, instance.throughput / fastest)
    return relative


def by_themselves(p: Problem, share: Floats) -> Floats:
    """Bring shares of jobs to their rows, with none for combinations, shape (rows, types)."""
    refuse_combinations_only(p.instance)
    of_rows = np.zeros((p.instance.rows, share.shape[1]))
    of_rows[p.instance.row_alone] = share
    return of_rows


def refuse_combinations_only(instance: Instance) -> None:
    """Refuse jobs without a row of their own; `solve` has refused them by name before."""
    if (instance.row_alone < 0).any():
        job = int(np.argmin(instance.row_alone))
        raise InputError(f"Job number {job} has no row of its own, which this policy needs.")
