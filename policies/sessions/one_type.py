"""One type of GPU under an affine objective: jobs are served in an order, and need no program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import make_feasible, relative_gap

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.policies.solving.demands import Gains

__all__ = ["served_in_order"]

_APART = 1e-6
"""Least difference, relative to the largest, of what jobs add per GPU that no solver overlooks."""


def served_in_order(told: Instance, gains: Gains) -> Attempted | None:
    """Give GPUs to the job that adds most to the objective per GPU, then to the next, and so on.

    That is the optimum of ::

        max over x of sum of v * x,  such that  sum of g * x <= W,  0 <= x <= 1

    where v is what a job adds if it runs all the time, and g are its GPUs, both above 0. For let p
    be ``v / g`` of the first job that does not run all the time, or 0 if there is none. Every x
    that is feasible adds at most ``W p + sum of max(v - g p, 0)``, as ``v x <= g p x + max(v - g p,
    0)`` for each job; and this one adds so much. No other x does if no other job has the same
    ``v / g``, and p is the least price at which the bound holds.

    Returns
    -------
    Attempted
        ``None`` where there are several types, jobs add nothing, or some at the end of what there
        is add nearly as much per GPU as each other: other choices count there.
    """
    if told.options != 1:
        return None
    gpus, available = told.gpus[:, 0], float(told.capacity[0])
    sign = 1.0 if gains.maximised else -1.0
    adds = sign * gains.slope * told.throughput[:, 0]
    if not (available > 0 and (adds > 0).all() and (gpus > 0).all()):
        return None
    per_gpu = adds / gpus
    order = np.argsort(-per_gpu, kind="stable")
    held = np.cumsum(gpus[order])
    served = int(np.searchsorted(held, available, side="right"))
    x, price = np.zeros(gpus.size), 0.0
    x[order[:served]] = 1.0
    if served < gpus.size:
        last = order[served]
        price = float(per_gpu[last])
        left = available - (held[served - 1] if served else 0.0)
        x[last] = left / gpus[last]
        beside = per_gpu[order[max(served - 1, 0) : served + 2]]
        if (np.diff(beside) > -_APART * per_gpu[order[0]]).any():
            return None
    X = make_feasible(x[:, None], told)
    value = float(adds @ X[:, 0])
    bound = available * price + float(np.maximum(adds - gpus * price, 0.0).sum())
    constant = sign * gains.constant
    gap = relative_gap(value + constant, bound + constant)
    stats = {"solver": "order", "changed": 0}
    return Attempted(X, sign * value + gains.constant, gap, np.array([price]), stats)
