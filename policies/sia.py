"""Sia: what one option (type, GPUs) is worth to each job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import as_float
from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.elastic_values import damped, over_least, powers, where_known

if TYPE_CHECKING:
    from apportion.policies.problem import Problem


@dataclass(frozen=True)
class Sia(Policy):
    r"""Maximise the worth of one option (type, GPUs) for each job, or none.

    .. math:: \max_X \sum_{io} w_i X_{io} (\lambda - G_{io}^p),\ G_{io} = \frac{r_{io}
        T_{io}}{\min_o T_{io}},\ X \in \{0, 1\}

    The problem::

        max over whole X of sum over jobs of weight * (penalty - G ** power)

        G = throughput / least throughput * (1 under the current option, else reallocation factor)
        with power > 0: sum of weight * (penalty + G ** power)

    Throughputs are goodputs. The least is over the options under which the job runs, before the
    factor. `penalty` is lambda, what it costs that a job has no option; its size counts only.
    Options that are worth nothing or less are never taken.

    With the published penalty, 1.1, the least option of a job is worth 0.1 only, while more GPUs
    may be worth up to 1 to another: newcomers can starve beside a job that holds several GPUs. So
    can jobs that lost theirs: where the reallocation factor is below 0.83, their least option is
    worth nothing. From 2 on a newcomer is worth more than any growth of another job.

    Throughputs raised to a power are taken as they are: the released code rounds them to two
    decimals, which makes many options equal.
    """

    name, integral, whole_nodes = "sia", True, True
    source = "Sia (SOSP 2023), section 3"
    columns = ("weight", "reallocation_factor")

    power: float = -0.5
    penalty: float = 1.1

    def __post_init__(self) -> None:
        super().__post_init__()
        finite = all(math.isfinite(as_float(each)) for each in (self.power, self.penalty))
        if self.power == 0 or not finite:
            raise InputError(f"{self!r}: power and penalty are finite numbers, power not 0.")

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum over jobs of weight * V of the option that each has."""
        G = damped(p, over_least(p))
        V = where_known(p, abs(self.penalty) + powers(G, self.power) * np.sign(self.power))
        return cp.Maximize(p.total(cp.multiply(p.weight, cp.sum(cp.multiply(V, p.X), axis=1))))
