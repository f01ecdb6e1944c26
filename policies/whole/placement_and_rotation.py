"""Where gangs lie and when they begin their iterations, in one program (CASSINI, without loops)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse

from apportion.errors import InputError
from apportion.policies.base import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem
    from apportion.types import Floats


@dataclass(frozen=True)
class PlacementAndRotation(Policy):
    r"""Minimise how much longer iterations take, by where gangs lie and when they begin.

    .. math:: \min_X \sum_i w_i \Big( 1 + \max_{l \in L_i(X)} \frac{1}{K} \sum_k \max(0, h_{lk} - 1)
        \Big)\ \text{such that}\ \sum_o X_{io} = 1,\ X \in \{0, 1\}

    The problem::

        min over one place and rotation for each job of sum of weight * (1 + worst over[l] in use)

        over[l] = mean over the slots of link l of max(0, demand - 1)

    Options are candidate placements times rotations in slots of the job's own period; GPUs are hard
    resources, slots of links soft ones, whose usage is demand as a part of the link's capacity.
    ``1 + longer`` is 2 less the score of the job's worst link: its iteration over that alone, by
    the law of the score (`apportion.mechanism.time_shifts.iteration_s`). Jobs and links may form
    loops. `apportion.PlacedGangs` poses it from profiles, gangs and a topology; `link_of` names the
    link of each slot.
    """

    name, integral = "placement_and_rotation", True
    source = "CASSINI (NSDI 2024), sections 3 and 4, with placements as decisions"
    columns = ("weight",)

    link_of: Mapping[str, str] = field(default_factory=dict)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the sum of the jobs' slowdowns."""
        return cp.Minimize(p.weight @ (1 + _longer(p)))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Give every job an option, and the delay of the worst link that it uses there."""
        placed = (p.time == 1).set_label("an option for every job")
        job, link, on, most, share = _users(p, self.link_of)
        if not job.size:
            return [placed]
        over = share @ cp.pos(p.held[p.soft] - 1)
        away = cp.multiply(most, 1 - on @ cp.vec(p.X, order="C"))
        met = (over[link] - away <= _longer(p)[job]).set_label("delay of the links in use")
        return [placed, met]


def _longer(p: Problem) -> cp.Variable:
    """Return by what part of its own time each job's iteration is longer."""
    return p.variable("longer", p.instance.jobs, nonneg=True)


def _users(
    p: Problem, link_of: Mapping[str, str]
) -> tuple[NDArray[np.intp], NDArray[np.intp], sparse.csr_array, Floats, sparse.csr_array]:
    """Return who may use which link, in which options, and what it may be over without them.

    Jobs and links of the pairs that can meet, the cells of X of each pair, the most that the
    link can be over while the job is away, and the mean over its slots, (links, slots).
    """
    instance = p.instance
    names = [instance.resource_names[place] for place in p.soft]
    missing = next((name for name in names if name not in link_of), None)
    if missing is not None or not names:
        raise InputError(
            "placement_and_rotation places gangs on links, and these options tell of none; give "
            "ap.solve('placement_and_rotation', ap.PlacedGangs(profiles, gangs, topology))."
        )
    links, slot_link = np.unique([link_of[name] for name in names], return_inverse=True)
    count = np.bincount(slot_link)
    share = sparse.csr_array((1 / count[slot_link], (slot_link, np.arange(slot_link.size))))
    usage = instance.usage.tocoo()
    option, resource = np.divmod(usage.coords[1], instance.capacity.size)
    place = np.full(instance.capacity.size, -1)
    place[p.soft] = np.arange(p.soft.size)
    used = (place[resource] >= 0) & (usage.data > 0)
    row, option, slot = usage.coords[0][used], option[used], place[resource[used]]
    pair, which = np.unique(row * links.size + slot_link[slot], return_inverse=True)
    job, link = np.divmod(pair, links.size)
    cell = row * instance.options + option
    on = sparse.csr_array((np.ones(cell.size), (which, cell)), (pair.size, p.X.size))
    on.data[:] = 1.0
    means = sparse.csr_array((usage.data[used] / count[slot_link[slot]], (which, cell)))
    peaks = np.zeros(pair.size)
    np.maximum.at(peaks, which, usage.data[used])
    mean = np.asarray(means.max(axis=1).todense()).ravel()
    size = links.size
    others = np.bincount(link, mean, size)[link] - mean
    together = np.maximum(np.bincount(link, peaks, size)[link] - peaks, 1.0)
    return job, link, on, others * (1 - 1 / together), share
