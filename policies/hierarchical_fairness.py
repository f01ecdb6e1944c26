"""Hierarchical fairness: entities share the cluster, and jobs share within their entity."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.checks import number
from apportion.errors import InputError, unknown_name
from apportion.policies.base import Policy
from apportion.policies.instance import Instance
from apportion.policies.problem import Problem
from apportion.policies.solver import solve_instance
from apportion.ties import ranks

if TYPE_CHECKING:
    from apportion.policies.core.water_filling import Rates
    from apportion.types import Bools, Floats, Ints


_LOG = logging.getLogger(__name__)
_ROUNDING = 1e-9
"""Times left that differ by less, relatively, are equal."""
_PASSED_ON = frozenset({"depends_on_step_size", "tells_identical_jobs_apart"})
"""Traits that the policy has if one of its entities' has."""
_LEAST = 1e-9
"""Part of its fastest throughput below which a job has none."""


@dataclass(frozen=True)
class HierarchicalFairness(Policy):
    r"""Share between entities by weight, and within each by a policy of its own.

    .. math:: \max_X \min_i \frac{\mathrm{thr}_i}{r_i \, \mathrm{eq}_i},\ r_i =
        \frac{\rho_e}{s_i} \frac{w_i}{\sum_{k \in e} w_k}

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
    - by nothing where its policy serves jobs in an order (``"fifo"``, ``"shortest_job_first"``):
      all goes to the first that can rise;
    - else as its policy, any one, does on the entity's part of every type, with the entity's jobs
      only: levels rise in proportion to what they are there. Whoever has nothing there waits until
      the others can rise no further; then the policy divides the part among those who are left.

    Parameters
    ----------
    weights
        Weight of each entity, by path: ``{"physics": 1, "physics/lasers": 2, "biology": 3}``.
        All of them or none: without weights every entity weighs 1.
    inner
        How an entity shares among its jobs: ``"fairness"``, the name of a policy, or a policy;
        one for all, or by path. ``"fairness"`` where a path and those above it are not named.
        A path of which there are no jobs is told in the log, once; where there are weights it
        must be one of theirs.

    Raises
    ------
    InputError
        If an entity lacks a weight that others have, or for what `inner` cannot be.
    """

    name = "hierarchical_fairness"
    source = "Gavel (OSDI 2020), section 4.3"
    columns = ("weight", "entity", "order")

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = True
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    inner: Policy | str | Mapping[str, Policy | str] = field(default="fairness", hash=False)

    def __post_init__(self) -> None:
        """Check switches, weights and inner policies."""
        super().__post_init__()
        for entity, weight in self.weights.items():
            number(f"The weight of entity {entity!r}", weight, strict=True)
        for path in self._within:
            if path and self.weights and path not in self.weights:
                raise unknown_name("entity in inner", path, self.weights)
        own = [policy for policy in self._within.values() if policy]
        read = dict.fromkeys(sorted({name for policy in own for name in policy.columns}))
        object.__setattr__(self, "columns", tuple(dict.fromkeys(("weight", "entity", *read))))
        traits = _PASSED_ON & {one for policy in own for one in policy.traits}
        object.__setattr__(self, "traits", type(self).traits | traits)

    def objective(self, p: Problem) -> cp.Maximize:
        """State the height of the first level."""
        rate = self.rates(p)(np.ones(p.count.size, dtype=bool))
        rising = np.flatnonzero(rate > 0)
        return cp.Maximize(cp.min(cp.multiply(1 / rate[rising], self.utility(p)[rising])))

    def utility(self, p: Problem) -> cp.Expression:
        """State the throughput relative to the equal share."""
        return cp.multiply(1 / p.equal_share_throughput, p.throughput)

    def rates(self, p: Problem) -> Rates:
        """Split the entities' rates over the jobs that can still rise."""
        names, entity = p.instance.entities, p.column("entity").astype(int)
        self._check_entities(names)
        wanted, place = self._inside(p, entity)
        gpus = p.count * p.scale_factor
        split = lru_cache(lambda alive: self._split(names, np.array(alive)))

        def rates(active: Bools) -> Floats:
            part, first = np.where(active, wanted, 0.0), np.full(len(names), np.inf)
            np.minimum.at(first, entity[active], place[active])
            part[place != first[entity]] = 0.0
            of_entity = np.bincount(entity, part, len(names))
            alive = of_entity > 0
            passed_on = split(tuple(alive.tolist())) / np.where(alive, of_entity, 1.0)
            return np.asarray(passed_on[entity] * part / gpus)

        return rates

    def _inside(self, p: Problem, entity: Ints) -> tuple[Floats, Floats]:
        """Return what each job is to have of its entity's rate, and its place in line there.

        Whoever has the first place has it to himself; jobs of one place divide it.
        """
        names = p.instance.entities
        share = self._split(names, np.bincount(entity, minlength=len(names)) > 0)
        wanted, place = p.count * p.weight, np.zeros(entity.size)
        for k, name in enumerate(names):
            jobs, policy = np.flatnonzero(entity == k), self._inner_of(name)
            if policy is None or not jobs.size:
                continue
            if hasattr(policy, "order"):  # quicker than ``isinstance``
                told = p if policy.heterogeneity_aware else Problem(p.instance.blind_to_types())
                place[jobs] = ranks(policy.order(told)[jobs], relative=_ROUNDING)
            else:
                wanted[jobs], place[jobs] = _divided(p, policy, jobs, float(share[k]))
        return np.asarray(wanted, dtype=float), place

    def _check_entities(self, names: tuple[str, ...]) -> None:
        """Name an entity without a weight; one with a weight may have no jobs for now."""
        nodes = sorted({node for name in names for node in _path(name)})
        for node in nodes if self.weights else ():
            if node not in self.weights:
                raise InputError(
                    f"Entity {node!r} has no weight; weights are given for "
                    f"{', '.join(map(repr, self.weights))}."
                )
        for path in self._within:
            if path and path not in nodes:
                _tell_of_unknown(path, tuple(nodes))

    @cached_property
    def _within(self) -> dict[str, Policy | None]:
        """What is asked within entities, by path; that of the path "" is for all."""
        inner = self.inner if isinstance(self.inner, Mapping) else {"": self.inner}
        return {path: _policy(policy) for path, policy in inner.items()}

    def _inner_of(self, entity: str) -> Policy | None:
        """Inner policy of an entity: its own, or that of the nearest entity above."""
        named = [path for path in ("", *_path(entity)) if path in self._within]
        return self._within[named[-1]] if named else None

    def _split(self, names: tuple[str, ...], alive: Bools) -> Floats:
        """Split the rate down the tree: siblings that are alive share by weight."""
        living = {node for k in np.flatnonzero(alive).tolist() for node in _path(names[k])}
        total: dict[str, float] = {}
        for node in sorted(living):
            parent = node.rpartition("/")[0]
            total[parent] = total.get(parent, 0.0) + self.weights.get(node, 1.0)
        rates = np.zeros(len(names))
        for k in np.flatnonzero(alive).tolist():
            part = [self.weights.get(n, 1.0) / total[n.rpartition("/")[0]] for n in _path(names[k])]
            rates[k] = np.prod(part)
        return rates


@lru_cache
def _tell_of_unknown(path: str, nodes: tuple[str, ...]) -> None:
    """Warn, once, of a path without jobs: misspelt, or its jobs have left or were not drawn."""
    _LOG.warning("No job is of it: %s", unknown_name("entity in inner", path, nodes))


def _policy(inner: Any) -> Policy | None:
    """Return how an entity shares among its jobs; None stands for their weights."""
    # The registry has this policy too, so it cannot be imported before.
    from apportion.policies.registry import POLICIES, get_policy, is_known

    if inner == "fairness":
        return None
    if isinstance(inner, str) and not is_known(inner, installed=True):
        raise unknown_name("inner policy", inner, ["fairness", *POLICIES])
    policy = get_policy(inner)
    if isinstance(policy, HierarchicalFairness):
        raise InputError(
            "An inner policy shares among the jobs of one entity; entities within entities are "
            'told by their paths, as "physics/lasers".'
        )
    return policy


def _divided(p: Problem, policy: Policy, jobs: Ints, share: float) -> tuple[Floats, Floats]:
    """Return GPUs that jobs are to have, as a policy divides a part of the cluster, and places.

    The part is so many of the GPUs of each type. Those who have some of it stand in front; the
    others have what the policy gives them where the part is theirs.
    """
    gpus, place, left = np.zeros(jobs.size), np.zeros(jobs.size), np.arange(jobs.size)
    while left.size:
        part = _part(p.instance, jobs[left], share)
        solution = solve_instance(policy, part)
        p.inexact = max(p.inexact, solution.gap)
        has = solution.throughput > _LEAST * part.fastest_throughput
        has |= not has.any()  # nobody: all are alike
        level = np.where(solution.throughput > 0, solution.throughput, part.fastest_throughput)
        equal = p.equal_share_throughput[jobs[left]]
        held = part.count * part.columns["scale_factor"]
        gpus[left] = held * level / np.where(equal > 0, equal, 1.0)
        place[left] += ~has
        left = left[~has]
    return gpus, place


def _part(instance: Instance, jobs: Ints, share: float) -> Instance:
    """Pose some jobs by themselves, on a part of the GPUs of each type."""
    return Instance.of_jobs(
        instance.alone[jobs],
        instance.columns["scale_factor"][jobs],
        share * instance.shared_gpus,
        columns={name: values[jobs] for name, values in instance.columns.items()},
        prices=instance.prices[: instance.accelerators],
    )


def _path(entity: str) -> list[str]:
    """Entities above a leaf and itself, from the top: ``a``, ``a/b``, ``a/b/c``."""
    parts = entity.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
