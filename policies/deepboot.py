"""DeepBoot: the sum of speed-ups over a fair share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy
from apportion.policies.elastic_values import damped, fair_speedup, where_known

if TYPE_CHECKING:
    from apportion.policies.problem import Problem


@dataclass(frozen=True)
class DeepBoot(Policy):
    r"""Maximise the sum of speed-ups over a fair share.

    .. math:: \max_X \sum_{io} w_i X_{io} \frac{r_{io} T_{io}}{\mathrm{fair}_i},\ X \in \{0, 1\}

    The problem::

        max over whole X of sum over jobs of weight * s

        s = sum over options of V * X, V = throughput / throughput at a fair share of the GPUs,
            times the reallocation factor but under the current option

    Throughputs are goodputs. It is the training half of DeepBoot's two-level scheduler.
    """

    name, integral = "deepboot", True
    source = "DeepBoot (IEEE TPDS 2023), ATS-Training"
    columns = ("weight", "reallocation_factor")

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum over jobs of weight * V of the option that each has."""
        V = where_known(p, damped(p, fair_speedup(p)))
        return cp.Maximize(p.total(cp.multiply(p.weight, cp.sum(cp.multiply(V, p.X), axis=1))))
