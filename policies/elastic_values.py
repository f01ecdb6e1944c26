"""What options of elastic jobs are worth: facts that Sia, Pollux, DeepBoot, Optimus, Lyra share.

The throughputs may be goodputs: steps/s that count, as a job of another batch size makes fewer of
them. All here is of jobs by themselves, shape (jobs, options), and 0 where a job cannot run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.table_checks import at_least_0

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.policies.problem import Problem
    from apportion.types import Floats


def reallocation_factor(
    age_s: ArrayLike,
    restarts: ArrayLike,
    delay_s: ArrayLike,
    *,
    started: ArrayLike = True,
    one_below_delay: bool = False,
) -> Floats:
    """Return the part of its speed that a job keeps on average if it is moved now.

    The formula::

        r = max(age - restarts * delay, 0) / (age + delay)

    Parameters
    ----------
    age_s
        Seconds since each job was submitted.
    restarts
        Restarts of each so far, without its first start.
    delay_s
        Seconds that a restart takes: 30 (Pollux), 10 (DeepBoot), 15 to 250 by application (Sia).
    started
        Whether each ever ran. One that never did has nothing to restart, r = 1; with ``True`` for
        all it has r = 0 at age 0 and is not served, as in the released DeepBoot.
    one_below_delay
        Take r = 1 where the age is less than the delay, as Sia does.

    Returns
    -------
    factor
        For the column ``reallocation_factor`` of the jobs table, in [0, 1].

    Raises
    ------
    InputError
        For ages, restarts and delays that are not numbers >= 0.
    """
    age, delay = at_least_0("age_s", age_s), at_least_0("delay_s", delay_s)
    with np.errstate(over="ignore"):  # more than can be written is as much as the whole age
        kept = np.maximum(age - at_least_0("restarts", restarts) * delay, 0.0)
    total = age + delay
    kept, total, ran = np.broadcast_arrays(kept, total, np.asarray(started, dtype=bool))
    factor = np.divide(kept, total, out=np.ones(total.shape), where=total > 0)
    young = ~ran | (np.broadcast_to(age < delay, total.shape) & one_below_delay)
    return np.where(young, 1.0, factor)


def damped(p: Problem, worth: Floats) -> Floats:
    """Multiply all but the option that a job has now by its ``reallocation_factor``, by default 1.

    Raises
    ------
    InputError
        If a factor is no number from 0 to 1; above, a move would make a job faster.
    """
    factor = p.instance.columns.get("reallocation_factor", np.ones(p.instance.jobs))
    wrong = ~((factor >= 0) & (factor <= 1))
    if wrong.any():
        raise InputError(
            f"A job has reallocation_factor = {factor[wrong][0]:g}; it must be a number from 0 to "
            f"1, the part of its speed that a job keeps if it is moved."
        )
    return np.asarray(worth * np.where(p.current > 0, 1.0, factor[:, None]), dtype=float)


def over_least(p: Problem) -> Floats:
    """Return speeds over the least speed of a job under the options that it runs under."""
    least = np.where(p.speed > 0, _speed(p), np.inf).min(axis=1, initial=np.inf)
    return np.asarray(p.speed / least[:, None], dtype=float)


def fair_speedup(p: Problem) -> Floats:
    """Return speeds over `fair_throughput`."""
    speed, fair = _speed(p), fair_throughput(p)
    return np.divide(speed, fair[:, None], out=np.zeros_like(speed), where=fair[:, None] > 0)


def fair_throughput(p: Problem) -> Floats:
    """Return the speed at a fair share of the GPUs, ``ceil(GPUs / jobs)`` of them, shape (jobs,).

    On each type a job has the option of most GPUs of those with no more than its share, or, if all
    hold more, the one of fewest; types count in proportion to their GPUs. On one type with an
    option for each number of GPUs it is what Pollux divides by, with the share on one machine.
    Where options are closed to a job for now, whoever asks says it in a column `fair_throughput`.

    Raises
    ------
    InputError
        If that is not above 0 for a job that can run: it would never be worth anything.
    """
    speed, instance = _speed(p), p.instance
    if "fair_throughput" in instance.columns:
        told = instance.columns["fair_throughput"]
        wrong = ~(told > 0) & (speed > 0).any(axis=1)
        if wrong.any():
            raise InputError(
                f"A job has fair_throughput = {told[wrong][0]:g}; it must be a number > 0, the "
                f"steps/s that it would make with a fair share of the GPUs."
            )
        return told
    total = instance.shared_gpus.sum()
    if not total:
        return np.zeros(len(speed))
    # 12 GPUs of 4 jobs are 3 each, not 4 because of the last digit.
    share = np.ceil(total / p.count.sum() * (1 - 1e-12))
    small = np.where(p.gpus <= share, p.gpus, 0.0)
    rank = np.where(speed > 0, np.where(p.gpus <= share, 1.0 + small, 1 / (1.0 + p.gpus)), 0.0)
    fair_rank = instance.best_of_types(rank)[:, instance.option_accelerator]
    at_share = np.where((rank > 0) & (rank == fair_rank), speed, 0.0)
    return np.asarray(instance.best_of_types(at_share) @ instance.type_share, dtype=float)


def expected_seconds(p: Problem) -> Floats:
    """Return the seconds that a job's remaining steps take, infinite where it cannot run."""
    seconds = np.full(p.speed.shape, np.inf)
    np.divide(p.steps_remaining[:, None], _speed(p), out=seconds, where=p.speed > 0)
    return seconds


def powers(level: ArrayLike, power: float) -> Floats:
    """Raise to a power, 0 being the logarithm: 0 to a negative one is infinite."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(level) if power == 0 else np.power(level, power), dtype=float)


def where_known(p: Problem, worth: Floats, otherwise: float = 0.0) -> Floats:
    """Return what options are worth; `otherwise` for closed ones and those of no finite worth."""
    return np.where(np.isfinite(worth) & p.instance.can_run, worth, otherwise)


def _speed(p: Problem) -> Floats:
    """Return speeds, one row for each job.

    Raises
    ------
    InputError
        If there are rows for combinations of jobs.
    """
    if not p.instance.solo:
        raise InputError(
            "This policy chooses options of single jobs; leave the rows of combinations out."
        )
    return p.speed
