"""What policies are told of speeds, apart from what is true."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from apportion.checks import yes_no
from apportion.errors import InputError, written
from apportion.mechanism.scheduler import NOBODY
from apportion.pairs import PairThroughputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.cluster import Cluster
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.sharing import BelievedPairs
    from apportion.sim.workload import Workload
    from apportion.types import Floats, Ints


__all__ = ["Agnostic", "Beliefs", "Believed", "Told"]


class Beliefs(Protocol):
    """A way to know speeds, before any run: a value, which `start` makes into what is believed."""

    def start(self, truth: TrueState, workload: Workload, cluster: Cluster) -> Believed:
        """Begin a run; the truth is there to profile jobs in, as far as the way has it."""
        ...


class Believed(Protocol):
    """What is believed in the course of a run.

    Attributes
    ----------
    speed
        Steps/s of each job on each type, 0 where it cannot run, shape (jobs, types). It may change
        in place, for the jobs that `observe` returns.
    fixed
        Whether `speed` never changes.
    """

    speed: Floats
    fixed: bool

    @property
    def pairs(self) -> BelievedPairs | None:
        """What jobs are believed to make beside each other; ``None`` if nothing is known of it."""
        ...

    def observe(self, gangs: Gangs, rate: Floats, seconds: Floats) -> Ints:
        """Learn from what has run.

        Parameters
        ----------
        gangs
            Who ran, a line for each job of each gang.
        rate
            Steps/s that were measured, shape (lines,).
        seconds
            Over so many seconds of work, shape (lines,).

        Returns
        -------
        ndarray
            Jobs for which it moved so far that shares should be found anew.
        """
        ...

    def spread(self, jobs: Ints) -> Floats:
        """Return the standard deviation of ln(speed), 0 where told, shape (jobs, types)."""
        ...


@dataclass(frozen=True)
class Told:
    """The truth of single jobs is told, and that of pairs unless estimates are given for it.

    Parameters
    ----------
    pair_estimates
        What is told of pairs instead (see `apportion.estimators`).
    learn_pairs
        Whether the truth of a pair is told from the time on at which it has run on a type. That two
        jobs cannot share is always learnt: they fail at once.

    Raises
    ------
    InputError
        For options out of range.
    """

    pair_estimates: PairThroughputs | None = None
    learn_pairs: bool = False

    def __post_init__(self) -> None:
        given = self.pair_estimates
        if not (given is None or isinstance(given, PairThroughputs)):
            raise InputError(
                f"pair_estimates is {written(given)}; it must be PairThroughputs, as "
                f"`estimate_pairs` makes them."
            )
        yes_no("learn_pairs", self.learn_pairs)

    def start(self, truth: TrueState, workload: Workload, cluster: Cluster) -> Believed:
        """Tell the workload's speeds."""
        estimates = self.pair_estimates
        if estimates is None:
            return _Fixed(truth.speed, lambda: truth.beside)
        if (pairs := truth.beside) is not None:
            pairs = pairs.estimated(estimates, workload, cluster, self.learn_pairs)
        return _Fixed(truth.speed, lambda: pairs)


@dataclass(frozen=True)
class Agnostic:
    """No type is known to be faster than another: each is as fast as a job's types in the mean.

    The mean is the geometric one over the types on which the job can run. Of a pair is told what it
    loses by sharing.
    """

    def start(self, truth: TrueState, workload: Workload, cluster: Cluster) -> Believed:
        """Tell the means."""
        runs = truth.speed > 0
        logarithms = np.log(np.where(runs, truth.speed, 1.0)).sum(axis=1) / runs.sum(axis=1)
        speed = np.where(runs, np.exp(logarithms)[:, None], 0.0)
        ratio = np.divide(speed, truth.speed, out=np.zeros_like(speed), where=runs)
        return _Fixed(speed, lambda: truth.beside and truth.beside.believed_times(ratio))


class _Fixed:
    """Speeds of single jobs that stay as told, and pairs of which the truth may come out.

    `pairs` returns what is told of these; it is asked where they matter.
    """

    fixed = True

    def __init__(self, speed: Floats, pairs: Callable[[], BelievedPairs | None]) -> None:
        self.speed, self._pairs = speed, cache(pairs)

    @property
    def pairs(self) -> BelievedPairs | None:
        """What is told of pairs; ``None`` if nothing is known of them."""
        return self._pairs()

    def observe(self, gangs: Gangs, rate: Floats, seconds: Floats) -> Ints:
        """Learn of pairs; return the jobs that turned out not to fit one GPU."""
        if gangs.mate is None or self.pairs is None:
            return NOBODY
        first = (gangs.mate > np.arange(gangs.mate.size)).nonzero()[0]
        one, other = gangs.job[first], gangs.job[gangs.mate[first]]
        misfits = self.pairs.measure(one, other, gangs.option[first])
        return np.append(one[misfits], other[misfits])

    def spread(self, jobs: Ints) -> Floats:
        """Return zeros."""
        return np.zeros((jobs.size, self.speed.shape[1]))
