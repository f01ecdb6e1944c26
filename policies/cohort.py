"""Quotas of entities first; what these leave is lent."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import number
from apportion.errors import unknown_name
from apportion.policies import Policy, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.types import Floats

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cohort(Policy):
    r"""Give entities the GPUs of their quotas first, and lend what these leave.

    .. math:: \min_X \sum_e \max(0, \min(q_e, n_e) - h_e),\ \text{then}\ \max_X \sum_i s_i
        \frac{\mathrm{thr}_i}{\mathrm{fast}_i}\ \text{such that}\ h_e = \sum_{i \in e} s_i
        \sum_j X_{ij} \le q_e + b_e

    There are two objectives, the first of which counts first::

        1. min sum over entities of max(0, min(quota, GPUs asked for) - GPUs held)
        2. max sum over jobs of scale_factor * throughput / fastest,  held <= quota + borrowing

    What an entity does not need of its quota is lent to whoever makes most of it, and goes back
    when its owner has jobs for it. Nobody ever holds more than its quota and what it may borrow
    (Kueue's cohorts; deserved and over-quota GPUs of KAI). Entities without a quota only borrow.

    Parameters
    ----------
    quotas
        GPUs promised to each entity: ``{"vision": 8, "speech": 4}``. Those without jobs lend all.
    borrowing
        GPUs that each may hold beyond its quota; as many as there are where none are told.
    """

    name = "cohort"
    source = "cohorts of Kueue; over-quota of the KAI scheduler"
    columns = ("entity",)
    _bounds_resources = True

    heterogeneity_aware: bool = True
    quotas: Mapping[str, float] = field(default_factory=dict, hash=False)
    borrowing: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check switches and GPUs."""
        super().__post_init__()
        for option, each in (("quotas", self.quotas), ("borrowing", self.borrowing)):
            for entity, gpus in each.items():
                number(f"{option} of entity {entity!r}", gpus)

    def earlier_objectives(self, p: Problem) -> Sequence[cp.Minimize]:
        """State the GPUs that entities miss, which counts before how much all make of theirs."""
        member, quota, _ = self._entities(p)
        due = np.minimum(quota, member @ p.scale_factor)
        return [cp.Minimize(cp.sum(cp.pos(due - member @ cp.multiply(p.scale_factor, p.time))))]

    def objective(self, p: Problem) -> cp.Maximize:
        """State how many GPUs, each of the type on which its job is fastest, all are worth."""
        progress = cp.multiply(p.scale_factor / p.fastest_throughput, p.throughput)
        return cp.Maximize(p.total(progress))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit what entities hold."""
        member, quota, most = self._entities(p)
        told = np.isfinite(most)
        held = member[told] @ cp.multiply(p.scale_factor, p.time)
        return [(held <= (quota + most)[told]).set_label("borrowing")] if told.any() else []

    def _entities(self, p: Problem) -> tuple[Floats, Floats, Floats]:
        """Return which jobs are whose, counted, and quota and borrowing of those who have jobs."""
        names, entity = p.texts("entity"), p.column("entity").astype(int)
        told = (*self.quotas, *self.borrowing)
        if told and not {*told} & {*names}:
            _tell_of_absent(told[0], tuple(names))
        here = np.unique(entity)
        own = [names[k] for k in here]
        quota = np.array([self.quotas.get(name, 0.0) for name in own])
        most = np.array([self.borrowing.get(name, np.inf) for name in own])
        return (here[:, None] == entity) * p.count, quota, most


@lru_cache
def _tell_of_absent(entity: str, names: tuple[str, ...]) -> None:
    """Warn, once, of quotas that are nobody's: misspelt, or none of the jobs is here now."""
    _LOG.warning("No job is of it: %s", unknown_name("entity of a cohort", entity, names))
