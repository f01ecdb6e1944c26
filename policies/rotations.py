"""Rotations: when jobs that share links begin their iterations (CASSINI).

`rotation_problem` poses it from demands over time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apportion.errors import InputError, unknown_name
from apportion.policies.base import Policy
from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from apportion.policies.problem import Problem
    from apportion.types import Floats


@dataclass(frozen=True)
class Rotations(Policy):
    r"""Minimise the demand above the capacity of links, by shifting the jobs' iterations.

    .. math:: \min_X \sum_r v_r \max(0, h_r - 1)\ \text{such that}\ \sum_o X_{io} = 1,\ X \in
        \{0, 1\}

    The problem::

        min over one rotation for each job of sum over slots of links of weight * max(0, demand - 1)

    Options are rotations in slots of the job's own period; a slot of a link is a soft resource, and
    usage is demand as a part of the link's capacity. On one link or many, with loops or without;
    `apportion.SharedLinks` poses it from profiles and links, `rotation_problem` from demands, one
    job of each connected part pinned to rotation 0. There the weights, by name of the resource and
    1 by default, are such that the objective is 1 - the mean compatibility score of the links.
    """

    name, integral = "rotations", True
    source = "CASSINI (NSDI 2024), sections 3 and 4"

    weights: Mapping[str, float] = field(default_factory=dict)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the demand above capacity."""
        if not p.soft.size and p.instance.usage.count_nonzero():
            raise InputError(
                f"{self!r} shifts the iterations of jobs that share links, and these options hold "
                f"GPUs and load no link; give the links, ap.solve('rotations', "
                f"ap.SharedLinks(profiles, jobs_of, capacities)), or take a policy that chooses "
                f"GPUs."
            )
        weight = _by_name(self.weights, [p.instance.resource_names[place] for place in p.soft])
        return cp.Minimize(weight @ cp.pos(p.held[p.soft] - 1))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Give every job a rotation."""
        return [(p.time == 1).set_label("a rotation for every job")]


def _by_name(weights: Mapping[str, float], names: Sequence[str]) -> Floats:
    """Return weights in the order of names, 1 for those that are not given."""
    for name in weights:
        if name not in names:
            raise unknown_name("slot of a link with a weight", name, names)
    return np.array([weights.get(name, 1.0) for name in names], dtype=float)


_MOST_SLOTS = 100_000
"""Slots of all links together; beyond that slots are too fine, or periods too different."""


class RotationProblem(NamedTuple):
    """A policy and the instance to solve it on: ``solve_instance(*problem)``."""

    policy: Rotations
    instance: Instance


def rotation_problem(
    demand: Sequence[ArrayLike], capacity: ArrayLike, *, weight: ArrayLike = 1.0
) -> RotationProblem:
    """Pose the choice of rotations for jobs that share links.

    Parameters
    ----------
    demand
        For each job its demand on each link in each slot of its own period, shape (links, slots of
        the period), in the unit of the capacities; 0 on links that it does not use.
    capacity
        Of each link, shape (links,).
    weight
        Of each link in the mean score, shape (links,) or one number.

    Returns
    -------
    problem
        Its objective is 1 - the weighted mean over links of their compatibility scores; ``X[job,
        k]`` is 1 where a job begins k slots later. A link counts time over the least common period
        of the jobs on it. The first job of each connected part is pinned to rotation 0.

    Raises
    ------
    InputError
        If a job has no slot or not a row for each link, a number is not finite and >= 0, a
        capacity or all weights are 0, or common periods have too many slots.
    """
    links = np.asarray(capacity, dtype=float)
    jobs = [np.asarray(each, dtype=float) for each in demand]
    parts = np.broadcast_to(np.asarray(weight, dtype=float), links.shape)
    _check(jobs, links, parts)
    periods = [job.shape[1] for job in jobs]
    on = np.array([(job > 0).any(axis=1) for job in jobs]).reshape(len(jobs), links.size)
    spans = [lcm(1, *(n for n, there in zip(periods, each, strict=True) if there)) for each in on.T]
    if sum(spans) > _MOST_SLOTS:
        raise InputError(
            f"The links have {sum(spans)} slots over the common periods of their jobs, above "
            f"{_MOST_SLOTS}: make slots longer, or periods that have a shorter common multiple."
        )
    starts = np.concatenate([[0], np.cumsum(spans)]).astype(np.int64)
    names = [f"link {link} slot {t}" for link, span in enumerate(spans) for t in range(span)]
    share = np.repeat(parts / max(parts.sum(), 1e-300) / np.array(spans, dtype=float), spans)
    rotations = max(periods, default=1)
    possible = (np.arange(rotations) < np.array(periods)[:, None]).astype(float)
    fixed = np.array([j in _first_of_parts(on) for j in range(len(jobs))])
    instance = Instance.of_options(
        possible,
        np.zeros(rotations),
        [1.0],
        columns={"current_option": np.where(fixed, 0.0, -1.0), "pinned": fixed},
        usage=_usage([job / links[:, None] for job in jobs], spans, starts, rotations),
        resource_capacity=np.full(len(names), np.inf),
        resource_names=("gpu", *names),
    )
    return RotationProblem(Rotations(dict(zip(names, share.tolist(), strict=True))), instance)


def _usage(
    demand: Sequence[Floats], spans: Sequence[int], starts: NDArray[np.int64], rotations: int
) -> sparse.csr_array:
    """Demand of each job under each rotation in each slot, shape (jobs, rotations * slots)."""
    total = int(starts[-1])
    rows, columns, values = [], [], []
    for job, by_link in enumerate(demand):
        period = by_link.shape[1]
        turned = (np.arange(period)[None, :] - np.arange(period)[:, None]) % period
        for link, rate in enumerate(by_link):
            if not rate.any():
                continue
            held = np.tile(rate[turned], spans[link] // period)
            rotation, slot = np.nonzero(held)
            rows.append(np.full(rotation.size, job))
            columns.append(rotation.astype(np.int64) * total + starts[link] + slot)
            values.append(held[rotation, slot])
    empty = [np.empty(0)]
    where = tuple(np.concatenate(each or empty).astype(np.int64) for each in (rows, columns))
    shape = (len(demand), rotations * total)
    return sparse.csr_array((np.concatenate(values or empty), where), shape=shape)


def _first_of_parts(on: NDArray[np.bool_]) -> set[int]:
    """Return the first job of each part of the jobs that links connect."""
    together = sparse.csr_array((on @ on.T).astype(float))
    _, part = connected_components(together, directed=False)
    return set(np.unique(part, return_index=True)[1].tolist())


def _check(jobs: Sequence[Floats], capacity: Floats, weight: Floats) -> None:
    """Refuse demands, capacities and weights that pose nothing."""
    if not (np.isfinite(capacity).all() and (capacity > 0).all()):
        raise InputError("The capacity of every link must be a finite number > 0.")
    if not (
        np.isfinite(weight).all() and (weight >= 0).all() and (weight.any() or not weight.size)
    ):
        raise InputError("The weights of links must be finite numbers >= 0, not all of them 0.")
    for place, job in enumerate(jobs):
        if job.ndim != 2 or job.shape[0] != capacity.size or not job.shape[1]:
            raise InputError(
                f"The demand of job number {place} has the shape {job.shape}; it must be (links, "
                f"slots of its period), with {capacity.size} links and at least one slot."
            )
        if not (np.isfinite(job).all() and (job >= 0).all()):
            raise InputError(f"The demand of job number {place} must be finite numbers >= 0.")
