"""Hierarchical fairness: entities share the cluster, and jobs share within their entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import cvxpy as cp
import numpy as np

from apportion.checks import choice, number
from apportion.errors import InputError, unknown_name
from apportion.policies.base import Policy
from apportion.ties import ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.extensions import Rates
    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["HierarchicalFairness", "InnerPolicy"]

InnerPolicy = Literal["fairness", "fifo", "shortest_job_first", "makespan", "finish_time_fairness"]
"""How an entity shares among its jobs."""

_ROUNDING = 1e-9
"""Times left that differ by less, relatively, are equal."""


@dataclass(frozen=True)
class HierarchicalFairness(Policy):
    """Share between entities by weight, and within each by a policy of its own.

    The problem::

        water filling of throughput / equal share at rates per GPU passed on by entities

    Its objective is the height of the first level, of which the others are raised, at the rates
    with which all begin::

        max over X of min over jobs of throughput / equal share / rate

    Multi-level water filling (Gavel, section 4.3): each entity's rate is split over its jobs by
    its inner policy, and what a job gets of it over its GPUs: so fast rises its throughput relative
    to its equal share. A job that can rise no further passes its part on to the others of its
    entity, an entity without such jobs to its siblings. An entity splits its rate

    - by weights (``"fairness"``);
    - by nothing: all goes to the first job (``"fifo"``), or to that with the least time left where
      it is fastest (``"shortest_job_first"``);
    - such that throughputs are as steps remaining and all complete together (``"makespan"``);
    - such that throughputs are as those at which all have one ratio of completion time to that in a
      1/n slice (``"finish_time_fairness"``): the ratio that the GPUs of its part make at the speeds
      of equal shares.

    Parameters
    ----------
    weights
        Weight of each entity, by path: ``{"physics": 1, "physics/lasers": 2, "biology": 3}``.
        All of them or none: without weights every entity weighs 1.
    inner
        How an entity shares among its jobs: one word for all, or by path; ``"fairness"`` where a
        path and those above it are not named.
    """

    name = "hierarchical_fairness"
    source = "Gavel (OSDI 2020), section 4.3"
    columns = ("weight", "entity", "order")

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = True
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    inner: InnerPolicy | Mapping[str, InnerPolicy] = field(default="fairness", hash=False)

    def __post_init__(self) -> None:
        """Check switches, weights and inner policies."""
        super().__post_init__()
        for entity, weight in self.weights.items():
            number(f"The weight of entity {entity!r}", weight, strict=True)
        for each in self.inner.values() if isinstance(self.inner, Mapping) else [self.inner]:
            choice("inner policy", each, _COLUMNS)
        inner = {self.inner} if isinstance(self.inner, str) else set(self.inner.values())
        read = dict.fromkeys(name for each in sorted(inner) for name in _COLUMNS[each])
        object.__setattr__(self, "columns", ("weight", "entity", *read))

    def utility(self, p: Problem) -> cp.Expression:
        """State the throughput relative to the equal share."""
        return cp.multiply(1 / p.equal_share_throughput, p.throughput)

    def objective(self, p: Problem) -> cp.Maximize:
        """State the height of the first level."""
        speed = self.rates(p)(np.ones(p.count.size, dtype=bool))
        rising = np.flatnonzero(speed > 0)
        return cp.Maximize(cp.min(cp.multiply(1 / speed[rising], self.utility(p)[rising])))

    def rates(self, p: Problem) -> Rates:
        """Split the entities' rates over the jobs that can still rise."""
        names = p.instance.entities
        leaf = p.column("entity").astype(int)
        self._check_weights(names)
        wanted, order = self._inside(p, leaf)

        def split(active: NDArray[np.bool_]) -> Floats:
            part = np.where(active, wanted, 0.0)
            first = np.full(len(names), np.inf)
            np.minimum.at(first, leaf[active], order[active])
            part[order != first[leaf]] = 0.0
            in_leaf = np.bincount(leaf, weights=part, minlength=len(names))
            share = self._shares(names, in_leaf > 0)
            own = np.divide(part, in_leaf[leaf], out=np.zeros_like(part), where=part > 0)
            rate = share[leaf] * own / (p.count * p.scale_factor)
            return np.asarray(rate, dtype=float)

        return split

    def _inside(self, p: Problem, leaf: Ints) -> tuple[Floats, Floats]:
        """Return what each job is to have of its entity's rate, and its place in line there.

        Whoever has the first place has it to himself; jobs of one place divide it.
        """
        names = p.instance.entities
        inner = np.array([self._inner_of(name) for name in names])[leaf]
        wanted, order = p.count * p.weight, np.zeros(leaf.size)
        if (inner == "fifo").any():
            order = np.where(inner == "fifo", p.column("order"), order)
        if (inner == "shortest_job_first").any():
            left = ranks(p.steps_remaining / p.fastest_throughput, relative=_ROUNDING)
            order = np.where(inner == "shortest_job_first", left, order)
        if (inner == "makespan").any():
            gpus = p.count * p.scale_factor * p.steps_remaining / p.equal_share_throughput
            wanted = np.where(inner == "makespan", gpus, wanted)
        if (inner == "finish_time_fairness").any():
            share = self._shares(names, np.bincount(leaf, minlength=len(names)) > 0)
            for entity in np.unique(leaf[inner == "finish_time_fairness"]):
                here = np.flatnonzero(leaf == entity)
                own = float(p.instance.shared_gpus.sum() * share[entity])
                wanted[here] = _gpus_at_one_ratio(p, here, own)
        return np.asarray(wanted, dtype=float), np.asarray(order, dtype=float)

    def _check_weights(self, names: tuple[str, ...]) -> None:
        """Name an entity without a weight, or a weight without an entity."""
        nodes = {node for name in names for node in _path(name)}
        for entity in self.weights:
            if entity not in nodes:
                raise unknown_name("entity in the weights", entity, sorted(nodes))
        for node in sorted(nodes):
            if self.weights and node not in self.weights:
                raise InputError(
                    f"Entity {node!r} has no weight; weights are given for "
                    f"{', '.join(map(repr, self.weights))}."
                )

    def _inner_of(self, entity: str) -> str:
        """Inner policy of an entity: its own, or that of the nearest entity above."""
        if isinstance(self.inner, str):
            return self.inner
        while entity not in self.inner and "/" in entity:
            entity = entity.rpartition("/")[0]
        return self.inner.get(entity, "fairness")

    def _shares(self, names: tuple[str, ...], alive: NDArray[np.bool_]) -> Floats:
        """Rate of each leaf entity: down the tree, siblings that are alive share by weight."""
        paths = [_path(name) for name in names]
        living = {node for path, lives in zip(paths, alive, strict=True) if lives for node in path}
        total: dict[str, float] = {}
        for node in sorted(living):
            parent = node.rpartition("/")[0]
            total[parent] = total.get(parent, 0.0) + self.weights.get(node, 1.0)
        share = [
            np.prod([self.weights.get(n, 1.0) / total[n.rpartition("/")[0]] for n in path])
            if lives
            else 0.0
            for path, lives in zip(paths, alive, strict=True)
        ]
        return np.array(share, dtype=float)


_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "fairness": (),
    "fifo": ("order",),
    "shortest_job_first": ("steps_remaining",),
    "makespan": ("steps_remaining",),
    "finish_time_fairness": ("steps_remaining", "elapsed_s", "isolated_elapsed_s"),
}
"""Inner policies, and what they read of the jobs table beside weights and entities."""


def _gpus_at_one_ratio(p: Problem, jobs: Ints, gpus: float) -> Floats:
    """Return GPUs for jobs at which all have one finish-time ratio, so many in total.

    At the speeds of equal shares; the ratio is the root of a decreasing function, by bisection.
    """
    steps, elapsed_s = p.steps_remaining[jobs], p.elapsed_s[jobs]
    alone_s = p.column("isolated_elapsed_s")[jobs] + steps / p.isolated_throughput[jobs]
    size = p.count[jobs] * p.scale_factor[jobs] * steps / p.equal_share_throughput[jobs]
    least = float((elapsed_s / alone_s).max())
    low, high = 0.0, float((size / alone_s).sum() / gpus)  # of the ratio above the least
    for _ in range(200):
        middle = (low + high) / 2
        many = (size / ((least + middle) * alone_s - elapsed_s)).sum() > gpus
        low, high = (middle, high) if many else (low, middle)
    return np.asarray(size / ((least + high) * alone_s - elapsed_s), dtype=float)


def _path(entity: str) -> list[str]:
    """Entities above a leaf and itself, from the top: ``a``, ``a/b``, ``a/b/c``."""
    parts = entity.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
