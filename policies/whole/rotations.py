"""Rotations: when the jobs that share links should begin their iterations (CASSINI)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError, unknown_name
from apportion.policies.base import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["Rotations"]


@dataclass(frozen=True)
class Rotations(Policy):
    """Minimise the demand above the capacity of links, by shifting the jobs' iterations.

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
