"""Policies that are water filling: throughputs rise at rates of their own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
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

    All of a group's rate goes to the jobs at its first place of which one can rise, in parts. The
    levels are then known without a step for each job that stops.

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
    _known: dict[bytes, Floats] = field(default_factory=dict, init=False, repr=False)
    _rates: dict[bytes, Floats] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def in_line(self) -> Ints | None:
        """Jobs group by group in the order of their places; ``None`` if some have the same."""
        order = np.lexsort((self.place, self.group))
        group, place = self.group[order], self.place[order]
        same = (group[1:] == group[:-1]) & (place[1:] == place[:-1])
        return None if same.any() else order

    def __call__(self, active: Bools) -> Floats:
        """Return the rate of each job, given which of them can still rise."""
        known = self._rates.get(key := active.tobytes())
        if known is not None:
            return known
        part, first = np.where(active, self.part, 0.0), np.array([np.inf]).repeat(self.groups)
        np.minimum.at(first, self.group[active], self.place[active])
        part[self.place != first[self.group]] = 0.0
        in_group = np.bincount(self.group, weights=part, minlength=self.groups)
        alive = in_group > 0
        passed_on = self.shares(alive) / np.where(alive, in_group, 1.0)
        rate = self._rates[key] = passed_on[self.group] * part / self.per
        return rate

    def shares(self, alive: Bools) -> Floats:
        """Return rates of groups; they change when one of these has no job left."""
        known = self._known.get(alive.tobytes())
        if known is None:
            known = self._known[alive.tobytes()] = self.share(alive)
        return known


class WaterFilling(Policy):
    """Raise throughputs, relative to equal shares, at rates: a policy says these.

    Who fills again and again asks for `rates` alone, and needs no expression.
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
