"""Pollux: the power mean of speed-ups over a fair share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.elastic_values import damped, fair_speedup, powers, where_known

if TYPE_CHECKING:
    from apportion.policies.problem import Problem

_LARGEST_TERM = 1e6
"""Largest term of a job without GPUs: those of jobs with GPUs, about 1, keep their digits."""


@dataclass(frozen=True)
class Pollux(Policy):
    r"""Maximise the power mean of speed-ups over a fair share, which Pollux calls FITNESS.

    .. math:: \max_X \Big( \frac{1}{\sum_i w_i} \sum_i w_i \Big( \frac{S_i + \epsilon}{1 +
        \epsilon} \Big)^p \Big)^{1/p},\ S_i = \sum_o X_{io} \frac{r_{io}
        T_{io}}{\mathrm{fair}_i},\ X \in \{0, 1\}

    The problem::

        max over whole X of (mean over jobs of ((s + epsilon) / (1 + epsilon)) ** p) ** (1 / p)

        s = throughput / throughput at a fair share of the GPUs, 0 without an option,
            times the reallocation factor but under the current option

    Throughputs are goodputs; p is `power`. FITNESS is 1 where every job is as fast as with a fair
    share. What is solved is the mean, by weight, of the powers, so that
    ``Allocation.objective ** (1 / power)`` is FITNESS, and the gap is one of that mean. A job
    without an option counts with the power of its own ``epsilon / (1 + epsilon)``; 0.004 chooses as
    the released code, which adds 1e-3 to 16 machines / 64 GPUs times s. Power 0 is the mean of
    logarithms, 1 the mean of speed-ups. At minus infinity the worst job alone counts, and the
    objective is its s; what it leaves idle others have.

    Here options say what is possible; the limits that Pollux sets (at most twice the GPUs that a
    job ever had, one job over several machines at a time on a machine) are limits on options.
    """

    name, integral = "pollux", True
    source = "Pollux (OSDI 2021), section 4.2"
    columns = ("weight", "reallocation_factor")

    power: float = -1.0
    epsilon: float = 4e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)

    def objective(self, p: Problem) -> cp.Minimize | cp.Maximize:
        """State the mean of the powers."""
        s = damped(p, fair_speedup(p))
        if np.isneginf(self.power):
            return cp.Maximize(cp.min(cp.sum(cp.multiply(s, p.X), axis=1)))
        level = ((x + self.epsilon) / (1 + self.epsilon) for x in (s, 0.0))
        terms, of_none = (powers(x, self.power) for x in level)
        V = where_known(p, terms, float(of_none))
        each = cp.sum(cp.multiply(V, p.X), axis=1) + float(of_none) * (1 - p.time)
        mean = p.total(cp.multiply(p.weight, each)) / (p.count @ p.weight)
        return cp.Minimize(mean) if self.power < 0 else cp.Maximize(mean)


def _check(policy: Pollux) -> None:
    """Refuse powers that state no sum over jobs, or one in which the digits of speed-ups are lost.

    Raises
    ------
    InputError
        It says what would be valid.
    """
    if not policy.power <= 1:
        raise InputError(
            f"{policy!r}: power is above 1, where the mean favours the fast over the slow and "
            f"FITNESS is no longer concave; it must be at most 1."
        )
    if not 0 < policy.epsilon < np.inf:
        raise InputError(f"{policy!r}: epsilon must be a finite number > 0.")
    term = policy.power * np.log(float(policy.epsilon))  # about that of epsilon / (1 + epsilon)
    if np.log(_LARGEST_TERM) + 1e-9 < term < np.inf:
        raise InputError(
            f"{policy!r}: a job without an option would count 10^{term / np.log(10):.0f}, beside "
            f"which the digits of speed-ups are lost; it may be at most {_LARGEST_TERM:g}. Give a "
            f"larger epsilon, or power=-inf, by which the worst job alone counts."
        )
