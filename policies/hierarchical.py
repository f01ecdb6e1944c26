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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.extensions import Rates
    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["HierarchicalFairness", "InnerPolicy"]

InnerPolicy = Literal["fairness", "fifo"]


@dataclass(frozen=True)
class HierarchicalFairness(Policy):
    """Share between entities by weight, and within each by fairness or first in, first out.

    The problem::

        water filling of throughput / equal share at rates per GPU passed on by entities

    Its objective is the height of the first level, of which the others are raised, at the rates
    with which all begin::

        max over X of min over jobs of throughput / equal share / rate

    Multi-level water filling (Gavel, section 4.3): each entity's rate is split over its jobs by
    their weights, and what a job gets of it over its GPUs: so fast rises its throughput relative to
    its equal share. A job that can rise no further passes its part on to the others of its entity,
    an entity without such jobs to its siblings.

    Parameters
    ----------
    weights
        Weight of each entity, by path: ``{"physics": 1, "physics/lasers": 2, "biology": 3}``.
        All of them or none: without weights every entity weighs 1.
    inner
        How an entity shares among its jobs: one word for all, or by path.
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
            choice("inner policy", each, ("fairness", "fifo"))
        if self.inner == "fairness":  # the order matters first in, first out only
            object.__setattr__(self, "columns", ("weight", "entity"))

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
        fifo = np.array([self._inner_of(name) == "fifo" for name in names])[leaf]
        order = p.column("order") if fifo.any() else np.zeros(leaf.size)

        def split(active: NDArray[np.bool_]) -> Floats:
            part = np.where(active, p.count * p.weight, 0.0)
            first = np.full(len(names), np.inf)
            np.minimum.at(first, leaf[active], order[active])
            part[fifo & (order != first[leaf])] = 0.0
            in_leaf = np.bincount(leaf, weights=part, minlength=len(names))
            share = self._shares(names, in_leaf > 0)
            own = np.divide(part, in_leaf[leaf], out=np.zeros_like(part), where=part > 0)
            rate = share[leaf] * own / (p.count * p.scale_factor)
            return np.asarray(rate, dtype=float)

        return split

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


def _path(entity: str) -> list[str]:
    """Entities above a leaf and itself, from the top: ``a``, ``a/b``, ``a/b/c``."""
    parts = entity.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
