"""Policies that are water filling: throughputs rise at rates of their own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.problem import Problem
    from apportion.types import Bools, Floats, Ints


class Rates(Protocol):
    """How fast each job's level rises, given which jobs still can."""

    def __call__(self, active: Bools, /) -> Floats:
        """Return a rate >= 0 for each job, 0 for those that are not active, not all of them 0."""
        ...


@dataclass(frozen=True, eq=False)
class RatesOfGroups:
    """`Rates` of groups of jobs, each of which passes its own on within itself.

    All of a group's rate goes to the jobs at its first place of which one can rise, in parts.

    Attributes
    ----------
    groups
        How many there are; some may have no job.
    group, place
        Group of each job, and its place in the line there, shape (jobs,).
    part
        What it has of the group's rate, beside others at its place, above 0, shape (jobs,).
    per
        How much of that makes its utility rise by 1, above 0, shape (jobs,).
    share
        Rates of the groups, given in which of them jobs can rise; both of shape (groups,). Each of
        these has a rate above 0.
    """

    groups: int
    group: Ints
    place: Floats
    part: Floats
    per: Floats
    share: Callable[[Bools], Floats]

    def __call__(self, active: Bools) -> Floats:
        """Return the rate of each job, given which of them can still rise."""
        part, first = np.where(active, self.part, 0.0), np.array([np.inf]).repeat(self.groups)
        np.minimum.at(first, self.group[active], self.place[active])
        part[self.place != first[self.group]] = 0.0
        in_group = np.bincount(self.group, weights=part, minlength=self.groups)
        alive = in_group > 0
        passed_on = self.share(alive) / np.where(alive, in_group, 1.0)
        return np.asarray(passed_on[self.group] * part / self.per)


class WaterFilling(Policy):
    """Raise throughputs, relative to equal shares, at rates: a policy says these.

    Its objective is the height of the first level.
    """

    lexicographic: bool = True

    @abstractmethod
    def rates(self, p: Problem) -> Rates:
        """Return how fast the utilities rise, given which jobs still can."""

    def utility(self, p: Problem) -> cp.Expression:
        """State the throughput relative to the equal share."""
        return cp.multiply(1 / p.equal_share_throughput, p.throughput)

    def objective(self, p: Problem) -> cp.Maximize:
        """State the height of the first level."""
        speed = self.rates(p)(np.ones(p.count.size, dtype=bool))
        rising = np.flatnonzero(speed > 0)
        return cp.Maximize(cp.min(cp.multiply(1 / speed[rising], self.utility(p)[rising])))
