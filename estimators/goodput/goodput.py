"""Goodput from step times and gradient noise, and the batches that reach most of it."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from apportion.annotations import explained
from apportion.checks import choice, is_number, whole, yes_no
from apportion.errors import InputError, written
from apportion.estimators.goodput.step_times import StepTimes, checked_gangs, efficiency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from apportion.types import Floats, Int64s


BatchSearch = Literal["exact", "sampled"]
SEARCHES = ("exact", "sampled")
"""Ways to look for the best batch."""

_SAMPLES = 50
_ROUNDING = 1e-8
"""Samples: a batch that fits but for rounding takes no further accumulation step."""
_BETTER = 1.0 + 1e-12
"""A larger batch must be better by more than the last digits of a float."""


@dataclass(frozen=True)
class BatchLimits:
    """Batches that a job may train with, samples.

    Parameters
    ----------
    initial
        Per step, the least: what the job was tuned for.
    largest
        Per step, the most. It may be passed by what fills the last GPU: a batch per GPU is whole.
    local_least, local_most
        Per GPU and gradient; `local_most` is what fits the memory, `largest` by default.
    accumulates
        Whether several gradients may be added up before a synchronisation. Without it, a single
        GPU trains with the initial batch only.

    Raises
    ------
    InputError
        For batches that are not whole numbers >= 1, or are the wrong way round.
    """

    initial: int
    largest: int
    local_least: int = 1
    local_most: int | None = None
    accumulates: bool = True

    def __post_init__(self) -> None:
        whole("The initial batch", self.initial, 1, integral=True)
        whole("The largest batch", self.largest, 1, integral=True)
        whole("The least batch per GPU", self.local_least, 1, integral=True)
        most = self.largest if self.local_most is None else self.local_most
        whole("The largest batch per GPU", most, 1, integral=True)
        yes_no("accumulates", self.accumulates)
        object.__setattr__(self, "local_most", most)
        if self.initial > self.largest:
            raise InputError(
                f"The initial batch of {self.initial} samples is beyond the largest, "
                f"{self.largest}."
            )
        if self.local_least > most:
            raise InputError(
                f"The least batch per GPU of {self.local_least} samples is beyond the largest that "
                f"fits its memory, {most}."
            )


class BestBatches(NamedTuple):
    """Goodput in samples/s that are worth one of the initial batch, and how it is reached.

    0, 0 and 0 where no batch within the limits fills the GPUs.
    """

    goodput: Floats
    local_batch: Int64s
    accumulation: Int64s


class _Searched(NamedTuple):
    """Jobs on options, one after the other; all of one length."""

    times: StepTimes
    noise: Floats
    gpus: Int64s
    synchronisation_s: Floats
    initial: Int64s
    largest: Int64s
    local_least: Int64s
    local_most: Int64s
    accumulates: NDArray[np.bool_]

    def goodput(self, local_batch: Int64s | Floats, accumulation: Int64s | int) -> Floats:
        gradient = self.times.gradient_s(local_batch)
        step_s = accumulation * gradient + self.times.joint_s(gradient, self.synchronisation_s)
        batch = self.gpus * local_batch * (np.asarray(accumulation) + 1.0)
        return np.asarray(batch / step_s * efficiency(batch, self.initial, self.noise))

    def at(self, where: Int64s) -> _Searched:
        times = StepTimes(*(values[where] for values in astuple(self.times)))
        others: list[Any] = [values[where] for values in self[1:]]
        return _Searched(*[times, *others])


def best_batches(
    times: StepTimes,
    noise: Floats,
    limits: Sequence[BatchLimits],
    gpus: Int64s,
    nodes: Int64s,
    search: BatchSearch = "exact",
) -> BestBatches:
    """Best batches of several jobs on several options.

    Accumulation steps are as few as the memory allows for a batch: more of them never make a step
    of the same batch shorter, since a gradient that is split takes its constant part again and
    overlaps less. On a single GPU, a batch above the initial one takes at least one: the noise of
    gradients cannot be measured from a single one.

    Parameters
    ----------
    times
        Of the jobs, shape (jobs, 1).
    noise
        Gradient noise scales in samples, shape (jobs, 1).
    limits
        Of each job.
    gpus, nodes
        Of the options, shape (options,).
    search
        ``"exact"``: the best whole batch per GPU for each number of accumulation steps, by
        bisection, which is exact as goodput rises to one top and falls after it (a concave gain
        over a convex time). ``"sampled"``: the best of 50 batches in geometric progression, as
        AdaptDL does.

    Returns
    -------
    BestBatches
        Each of shape (jobs, options).
    """
    shape = (len(limits), len(gpus))
    cells = _cells(times, noise, limits, gpus, nodes)
    found = (_exact if search == "exact" else _sampled)(cells)
    fills = cells.local_least * cells.gpus <= cells.largest
    filled: list[Any] = [np.where(fills, values, 0).reshape(shape) for values in found]
    return BestBatches(*filled)


def _cells(
    times: StepTimes, noise: Floats, limits: Sequence[BatchLimits], gpus: Int64s, nodes: Int64s
) -> _Searched:
    shape = (len(limits), len(gpus))
    synchronisation_s = times.synchronisation_s(gpus, nodes)
    rows = np.array([astuple(each) for each in limits], dtype=np.int64).reshape(-1, 5)
    columns: list[Any] = [noise, gpus, synchronisation_s, *(row[:, None] for row in rows.T)]
    flat: list[Any] = [np.broadcast_to(values, shape).ravel() for values in columns]
    spread = StepTimes(*(np.broadcast_to(values, shape).ravel() for values in astuple(times)))
    return _Searched(*[spread, *flat[:-1], flat[-1].astype(bool)])


def _exact(cells: _Searched) -> BestBatches:
    """Take the best batch per GPU for each number of accumulation steps in turn."""
    count = cells.gpus.size
    best = BestBatches(np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64))
    most = -(-cells.largest // (cells.gpus * cells.local_most)) - 1
    most = np.where(cells.accumulates, np.maximum(most, cells.gpus == 1), 0)
    for steps in range(int(most.max(initial=-1)) + 1):
        least, last = _local_range(cells, steps)
        where = np.flatnonzero((steps <= most) & (least <= last))
        if not where.size:
            continue
        here = cells.at(where)
        local = _top(here, least[where], last[where], steps)
        goodput = here.goodput(local, steps)
        better = goodput > best.goodput[where] * _BETTER
        for old, new in zip(best, (goodput, local, np.full(local.shape, steps)), strict=True):
            old[where[better]] = new[better]
    return best


def _local_range(cells: _Searched, steps: int) -> tuple[Int64s, Int64s]:
    """Least and largest batch per GPU with so many accumulation steps."""
    parts = cells.gpus * (steps + 1)
    least = np.maximum(cells.local_least, -(-cells.initial // parts))
    last = np.minimum(cells.local_most, -(-cells.largest // parts))
    if steps == 0:
        last = np.where(cells.gpus == 1, np.minimum(last, cells.initial), last)
    return least, last


def _top(cells: _Searched, least: Int64s, last: Int64s, steps: int) -> Int64s:
    """Bisect for the first batch per GPU after which goodput does not rise."""
    low, high = least.copy(), last.copy()
    while np.any(low < high):
        middle = (low + high) // 2
        rises = cells.goodput(middle + 1, steps) > cells.goodput(middle, steps) * _BETTER
        low = np.where((low < high) & rises, middle + 1, low)
        high = np.where((low <= middle) & ~rises, middle, high)
    return low


def _sampled(cells: _Searched) -> BestBatches:
    """Take the best of batches in geometric progression."""
    first = np.maximum(cells.initial, cells.local_least * cells.gpus)
    last = np.maximum(cells.largest, first)
    per_gpu = np.geomspace(first, last, _SAMPLES) / cells.gpus
    several = np.ceil(per_gpu / cells.local_most - _ROUNDING).astype(np.int64) - 1
    beyond_first = (cells.gpus == 1) & (per_gpu > cells.initial + _ROUNDING)
    steps = np.where(cells.accumulates, np.maximum(several, beyond_first), 0)
    alone = ~cells.accumulates & (cells.gpus == 1)
    whole_batch = np.ceil(per_gpu / (steps + 1) - _ROUNDING).astype(np.int64)
    local = np.where(alone, cells.initial, whole_batch)
    fits = (local >= cells.local_least) & (local <= cells.local_most)
    goodput = np.where(fits, cells.goodput(local, steps), 0.0)
    best = np.argmax(goodput > goodput.max(axis=0) / _BETTER, axis=0)
    columns = np.arange(best.size)
    some = goodput[best, columns] > 0
    chosen: list[Any] = [
        np.where(some, values[best, columns], 0) for values in (goodput, local, steps)
    ]
    return BestBatches(*chosen)


@dataclass(frozen=True)
class Goodput:
    r"""Progress per second of a job, in samples that are worth one of its initial batch.

    .. math:: GOODPUT(K, n, m, s) = \frac{M}{T_{iter}(K, n, m, s)} \cdot
              \frac{\varphi + M_0}{\varphi + M}, \qquad M = K m (s + 1)

    Divided by the initial batch :math:`M_0` it is progress in steps of the initial batch per
    second. (Qiao et al., OSDI 2021, section 3.)

    Parameters
    ----------
    times
        Seconds of a step.
    noise
        Gradient noise scale :math:`\varphi`, samples; may be infinite.
    limits
        Batches that the job may train with.

    Raises
    ------
    InputError
        For step times of several jobs, or noise that is no number >= 0.
    """

    times: StepTimes
    noise: float
    limits: BatchLimits

    @explained
    def __post_init__(self) -> None:
        if np.size(self.times.gradient_s(1)) != 1:
            raise InputError("The goodput of one job needs step times of one job.")
        if not (is_number(self.noise) and self.noise >= 0):
            raise InputError(
                f"A gradient noise scale is {written(self.noise)}; it must be a number >= 0."
            )

    def value(
        self, gpus: ArrayLike, nodes: ArrayLike, local_batch: ArrayLike, accumulation: ArrayLike = 0
    ) -> Floats:
        """Goodput with given batches per GPU and accumulation steps, samples/s.

        Raises
        ------
        InputError
            For a batch per GPU that the memory does not hold, or a batch below the initial one.
        """
        gang, places = checked_gangs(gpus, nodes)
        local, steps = np.asarray(local_batch), np.asarray(accumulation)
        self._check_batches(gang, local, steps)
        samples = gang * local * (steps + 1.0)
        speed = self.times.throughput(gang, places, local, steps)
        return np.asarray(speed * efficiency(samples, self.limits.initial, self.noise))

    def best(self, gpus: ArrayLike, nodes: ArrayLike, search: BatchSearch = "exact") -> BestBatches:
        """Best goodput on so many GPUs of so many nodes, and the batches that reach it.

        Parameters
        ----------
        gpus, nodes
            Whole numbers, nodes <= GPUs, that broadcast.
        search
            See `best_batches`.

        Returns
        -------
        BestBatches
            Each of the broadcast shape; 0 where no batch within the limits fills the GPUs.
        """
        choice("search", search, SEARCHES)
        gang, places = checked_gangs(gpus, nodes)
        noise = np.array([[self.noise]], dtype=np.float64)
        times = StepTimes.stacked([self.times])
        found = best_batches(times, noise, [self.limits], gang.ravel(), places.ravel(), search)
        shaped: list[Any] = [values.reshape(gang.shape) for values in found]
        return BestBatches(*shaped)

    def _check_batches(self, gang: Int64s, local: Int64s, steps: Int64s) -> None:
        limits = self.limits
        wrong = (local < limits.local_least) | (local > np.asarray(limits.local_most)) | (steps < 0)
        if wrong.any():
            batch_there, steps_there = (
                np.broadcast_to(values, wrong.shape)[wrong][0] for values in (local, steps)
            )
            raise InputError(
                f"A batch of {batch_there} samples per GPU with {steps_there} accumulation steps; "
                f"it must be from {limits.local_least} to {limits.local_most} samples, which is "
                f"what the memory of a GPU holds, with >= 0 steps."
            )
        batch = np.asarray(gang * local * (steps + 1))
        if (batch < limits.initial).any():
            raise InputError(
                f"A batch of {int(batch.min())} samples is below the initial one of "
                f"{limits.initial}, beneath which its efficiency is not known."
            )
