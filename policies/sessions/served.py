"""Affine objectives over single jobs without a program: served in an order, or at prices.

Both give an optimum where it is the only one; elsewhere the program chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import make_feasible, relative_gap
from apportion.policies.solving.rows import group_rows
from apportion.policies.solving.solvers.price_walk import PriceWalk

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.policies.solving.demands import Gains
    from apportion.policies.solving.solvers.price_walk import Tie
    from apportion.types import Floats, Ints


_APART = 1e-6
"""Least difference, relative to the largest, of what jobs add per GPU that no solver overlooks."""


@dataclass
class LastWalk:
    """Where the last walk over prices ended; the next one begins there.

    So one that is long, as of a thousand jobs that come at once, is gone in several solves.

    Attributes
    ----------
    prices
        Per GPU of each type, shape (types,); ``None`` before the first walk.
    ties
        Jobs by number, to which two options were worth as much.
    """

    prices: Floats | None = None
    ties: list[Tie] = field(default_factory=list)

    def near(self, types: int, jobs: Ints, class_of: Ints) -> tuple[Floats, list[Tie]]:
        """Return prices to begin at, and the ties of those who are still there, by class."""
        if self.prices is None or self.prices.size != types:
            return np.zeros(types), []
        found = [(np.flatnonzero(jobs == tie.job), tie) for tie in self.ties]
        ties = [tie._replace(job=int(class_of[at[0]])) for at, tie in found if at.size]
        return self.prices, ties

    def freed(self) -> None:
        """Note that nothing had a price, as there was room for all."""
        self.prices, self.ties = None, []

    def ended(self, walk: PriceWalk, jobs: Ints) -> None:
        """Note where a walk ended, and which jobs stand for the classes."""
        self.prices = walk.prices
        self.ties = [tie._replace(job=int(jobs[tie.job])) for tie in walk.ties]


def is_plain(instance: Instance) -> bool:
    """Whether rows are a job each that hold GPUs of hard capacities only."""
    count = instance.columns["count"]
    hard = instance.own_usage is None and bool((instance.capacity < np.inf).all())
    return hard and count.size > 0 and bool((count == 1).all())


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


def served(
    told: Instance,
    gains: Gains,
    jobs: Ints | None = None,
    last: LastWalk | None = None,
    *,
    least: bool = True,
) -> Attempted | None:
    """Serve jobs in an order on one type, on several at prices.

    ``None`` where none of these will do.

    Parameters
    ----------
    jobs, last
        A number for each job, by which it is known again, shape (jobs,), and where the last walk
        over prices ended, which takes the end of this one.
    least
        Whether prices are to be the least where several are right.
    """
    if told.options == 1:
        return served_in_order(told, gains)
    return served_at_prices(told, gains, jobs, last, least=least)


def served_at_prices(
    told: Instance,
    gains: Gains,
    jobs: Ints | None = None,
    last: LastWalk | None = None,
    *,
    least: bool = True,
) -> Attempted | None:
    """Let each job take the option that is worth most to it, at prices that fill each type.

    That is the optimum of ::

        max over x of sum of v * x,  such that  sum of g * x <= W of each type,
                                     sum over options of x <= 1 for each job,  x >= 0

    where v is what a job adds on an option and g are its GPUs. For let p >= 0 be any prices. Every
    x that is feasible adds at most ``W @ p + sum over jobs of max(0, max over options of v -
    g p)``, as ``v x = g p x + (v - g p) x``, and no job has more than one whole time to spend. x
    adds so much if each job spends its time on what is worth most to it, all of it if that is above
    0, and each type with a price is full. As many jobs as there are types may be split between
    options that are worth the same (`PriceWalk`). Every optimum keeps to what is worth most at
    these prices and fills each type that has one. So where no other job is near a tie, and no other
    type near a price of 0, the shares of those who are split solve a square, regular system: there
    is one x. Jobs that are alike are one with all their GPUs, and share evenly what that has.

    Returns
    -------
    Attempted
        ``None`` where a type has no GPUs, two choices are worth nearly the same, or, if the least
        prices are wanted, several may be right.
    """
    capacity = told.capacity
    if not (capacity > 0).all():
        return None
    sign = 1.0 if gains.maximised else -1.0
    runs = (told.throughput > 0) & (told.gpus > 0)
    adds = np.where(runs, sign * gains.slope[:, None] * told.throughput, -np.inf)
    some = np.where(runs, adds, 0.0)
    unit = np.abs(some).max(initial=0.0)
    if not 0 < unit < np.inf or (told.throughput > 0)[~runs].any():
        return None
    jobs = np.arange(told.jobs) if jobs is None else jobs
    last = LastWalk() if last is None else last
    gpus, first = told.gpus, np.arange(told.jobs)
    class_of = first
    told_by = np.sort(some.sum(axis=1) + unit * gpus.sum(axis=1))
    if (told_by[1:] == told_by[:-1]).any():  # there may be some that are alike
        first, class_of = group_rows(told.throughput, gains.slope, gpus)
        count = np.bincount(class_of).astype(float)[:, None]
        adds, gpus = np.asarray(count * adds[first]), np.asarray(count * gpus[first])
        unit = np.abs(some[first] * count).max()
    walk = PriceWalk(adds, gpus, told.option_accelerator, capacity)
    came = walk.run(*last.near(capacity.size, jobs, class_of))
    last.ended(walk, jobs[first])
    if not came or walk.apart <= _APART * unit or (least and walk.degenerate):
        return None
    X = make_feasible(walk.shares[class_of], told)
    value = float((some * X).sum())
    constant = sign * gains.constant
    gap = relative_gap(value + constant, walk.bound + constant)
    stats = {"solver": "prices", "changed": 0}
    return Attempted(X, sign * value + gains.constant, gap, walk.prices, stats)
