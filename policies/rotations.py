"""Rotations: when jobs that share links begin their iterations (CASSINI)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apportion.errors import InputError, unknown_name
from apportion.policies.base import Policy
from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

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
    `apportion.SharedLinks` poses it from profiles and links, one job of each connected part pinned
    to rotation 0. There the weights, by name of the resource and
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


def rotation_problem(
    demand: Sequence[Floats], capacity: ArrayLike, *, weight: ArrayLike = 1.0
) -> tuple[Rotations, Instance]:
    """Pose the choice of rotations for jobs that share links.

    Parameters
    ----------
    demand
        For each job its demand on each link in each slot of its own period, shape (links, slots of
        the period), in the unit of the capacities; 0 on links that it does not use.
    capacity, weight
        Of each link, above 0, the weight in the mean score, shape (links,); or one weight.

    Returns
    -------
    policy, instance
        The objective is 1 - the weighted mean over links of their compatibility scores; ``X[job,
        k]`` is 1 where a job begins k slots later. A link counts time over the least common period
        of the jobs on it. The first job of each connected part is pinned to rotation 0.

    Raises
    ------
    InputError
        If common periods have too many slots.
    """
    links = np.asarray(capacity, dtype=float)
    parts = np.broadcast_to(np.asarray(weight, dtype=float), links.shape)
    on = np.array([(job > 0).any(axis=1) for job in demand])
    periods = np.array([job.shape[1] for job in demand])
    spans = [lcm(1, *periods[each].tolist()) for each in on.T]
    if sum(spans) > _MOST_SLOTS:
        raise InputError(
            f"The links have {sum(spans)} slots over the common periods of their jobs, above "
            f"{_MOST_SLOTS}: make slots longer, or periods that have a shorter common multiple."
        )
    names = [f"link {link} slot {t}" for link, span in enumerate(spans) for t in range(span)]
    share = np.repeat(parts / parts.sum() / np.array(spans, dtype=float), spans)
    rotations = int(periods.max())
    _, part = connected_components(sparse.csr_array((on @ on.T).astype(float)), directed=False)
    fixed = np.isin(np.arange(len(demand)), np.unique(part, return_index=True)[1])
    instance = Instance.of_options(
        (np.arange(rotations) < periods[:, None]).astype(float),
        np.zeros(rotations),
        [1.0],
        columns={"current_option": np.where(fixed, 0.0, -1.0), "pinned": fixed},
        usage=sparse.vstack(
            [_usage(job / links[:, None], spans, rotations) for job in demand], format="csr"
        ),
        resource_capacity=np.full(len(names), np.inf),
        resource_names=("gpu", *names),
    )
    return Rotations(dict(zip(names, share.tolist(), strict=True))), instance


def _usage(demand: Floats, spans: Sequence[int], rotations: int) -> sparse.coo_array:
    """Demand of a job under each rotation in each slot, shape (1, rotations * slots)."""
    period = demand.shape[1]
    turned = (np.arange(period) - np.arange(period)[:, None]) % period
    held = sparse.hstack(
        [
            sparse.csr_array(
                np.tile(rate[turned], span // period) if rate.any() else np.zeros((period, span))
            )
            for rate, span in zip(demand, spans, strict=True)
        ],
        format="csr",
    )
    held.resize(rotations, sum(spans))
    return sparse.coo_array(held.reshape(1, -1))
