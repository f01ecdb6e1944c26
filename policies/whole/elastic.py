"""Elastic jobs: Pollux and DeepBoot, Sia, Optimus and Lyra."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import as_float, seconds
from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.whole.option_worth import WeightedOptions
from apportion.policies.whole.values import (
    damped,
    expected_seconds,
    fair_speedup,
    over_least,
    powers,
    where_known,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.problem import Problem
    from apportion.types import Floats


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


@dataclass(frozen=True)
class DeepBoot(WeightedOptions):
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

    def worth(self, p: Problem) -> Floats:
        """Return the speed-ups."""
        return where_known(p, damped(p, fair_speedup(p)))


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


@dataclass(frozen=True)
class Sia(WeightedOptions):
    r"""Maximise the worth of one option (type, GPUs) for each job, or none.

    .. math:: \max_X \sum_{io} w_i X_{io} (\lambda - G_{io}^p),\ G_{io} = \frac{r_{io}
        T_{io}}{\min_o T_{io}},\ X \in \{0, 1\}

    The problem::

        max over whole X of sum over jobs of weight * (penalty - G ** power)

        G = throughput / least throughput * (1 under the current option, else reallocation factor)
        with power > 0: sum of weight * (penalty + G ** power)

    Throughputs are goodputs. The least is over the options under which the job runs, before the
    factor; ``scale_by_gpus=True`` counts it for the GPUs of the job's smallest option. `penalty` is
    lambda, what it costs that a job has no option; its size counts only. Options that are worth
    nothing or less are never taken.

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
    scale_by_gpus: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        finite = all(math.isfinite(as_float(each)) for each in (self.power, self.penalty))
        if self.power == 0 or not finite:
            raise InputError(f"{self!r}: power and penalty are finite numbers, power not 0.")

    def worth(self, p: Problem) -> Floats:
        """Return what the penalty leaves of each option, by its goodput over the least."""
        G = damped(p, over_least(p, of_fewest_gpus=self.scale_by_gpus))
        return where_known(p, abs(self.penalty) + powers(G, self.power) * np.sign(self.power))


@dataclass(frozen=True)
class Optimus(Policy):
    r"""Minimise the remaining time of all jobs.

    .. math:: \min_X \sum_i w_i \Big( \sum_o X_{io} \frac{R_i}{T_{io}} + U (1 - \sum_o X_{io})
        \Big),\ X \in \{0, 1\}

    The problem::

        min over whole X of sum over jobs of weight * remaining seconds

        remaining seconds = steps remaining / throughput, `unserved_s` without an option

    Optimus gives each job one worker in turn, then each next one to the job whose remaining time it
    cuts most. That is this program where savings fall from GPU to GPU, and where `unserved_s` is so
    large that as many jobs as possible are served; by default it is twice the sum,
    over all jobs, of their remaining times under their slowest options.
    """

    name, integral, unit = "optimus", True, "s"
    source = "Optimus (EuroSys 2018), section 4.1"
    columns = ("weight", "steps_remaining")

    unserved_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds("unserved_s", 1.0 if self.unserved_s is None else self.unserved_s, strict=True)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the sum of remaining times."""
        left_s = expected_seconds(p)
        slowest = np.where(np.isfinite(left_s), left_s, 0.0).max(axis=1)
        U = self.unserved_s or float(2 * p.count @ (p.weight / p.weight.min() * slowest))
        V = where_known(p, left_s, U)
        remaining_s = cp.sum(cp.multiply(V, p.X), axis=1) + U * (1 - p.time)
        return cp.Minimize(p.total(cp.multiply(p.weight, remaining_s)))


@dataclass(frozen=True)
class Lyra(WeightedOptions):
    r"""Maximise the seconds that workers beyond the first ones save, every job having those.

    .. math:: \max_X \sum_{io} w_i X_{io} L_{io} \frac{e_{io}}{s_i + e_{io}}\ \text{such that}\
        \sum_o X_{io} = 1,\ X \in \{0, 1\}

    The problem::

        max over whole X of sum over jobs of weight * T e / (w + e)

        w = scale factor, the base workers; e = GPUs of the option beyond w
        T = steps remaining / throughput with w workers on the type

    It is Lyra's elastic phase (also Aryl's): speeds are taken to grow with the workers. Which jobs
    have their base workers is decided before, shortest first
    (`apportion.mechanism.elastic.greedy.shortest_first`); the jobs here are those. Options of fewer
    GPUs than w are closed, and each type on which a job runs has one of w.
    """

    name, integral, unit, base_workers_first = "lyra", True, "s", True
    works_by = ("configurations",)
    works_how = "divides what the base workers of all jobs leave, of elastic jobs"
    source = "Lyra (EuroSys 2023), its elastic phase"
    columns = ("weight", "scale_factor", "steps_remaining")

    def worth(self, p: Problem) -> Floats:
        """Return the seconds that are saved."""
        extra = np.maximum(p.gpus - p.scale_factor[:, None], 0.0)
        return where_known(p, _base_seconds(p) * extra / np.maximum(p.gpus, 1.0))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Let every job keep its base workers."""
        enough = p.gpus >= p.scale_factor[:, None]
        served = cp.sum(cp.multiply(enough, p.X), axis=1) == 1
        return [served.set_label("base workers of every job")]


def _base_seconds(p: Problem) -> Floats:
    """Return remaining seconds with the base workers, on the type of each option.

    Raises
    ------
    InputError
        If a job runs on a type on which it has no option of its base workers.
    """
    seconds, base = expected_seconds(p), p.gpus == p.scale_factor[:, None]
    found = np.full(seconds.shape, np.inf)
    for accelerator in np.unique(p.instance.option_accelerator):
        mine = p.instance.option_accelerator == accelerator
        least = np.where(base & mine, seconds, np.inf).min(axis=1, initial=np.inf)
        found[:, mine] = least[:, None]
    missing = np.isinf(found) & (p.speed > 0) & (p.gpus > p.scale_factor[:, None])
    if missing.any():
        job, option = np.argwhere(missing)[0]
        raise InputError(
            f"A job of {p.scale_factor[job]:g} base workers has no throughput with as many GPUs on "
            f"a type on which it runs with {p.gpus[job, option]:g}; Lyra needs it to say how long "
            f"the job takes."
        )
    return np.where(np.isfinite(found), found, 0.0)
