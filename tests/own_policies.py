"""Policies of one's own, as tests of the contracts need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies import Policy

if TYPE_CHECKING:
    from apportion.policies import Problem


@dataclass(frozen=True)
class Mine(Policy):
    """Keeps the contract: the sum of normalised throughputs."""

    name = "mine"
    problem = "what a test says"
    source = "nowhere"

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(cp.multiply(1 / p.fastest_throughput, p.throughput)))


@dataclass(frozen=True)
class FirstColumnFirst(Mine):
    """Prefers the type that stands first."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum(p.X[:, 0]) * 100 + cp.sum(p.X))
