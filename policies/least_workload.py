"""Least workload first: which GPUs a job gets where GPUs are shared and have work waiting.

GPUs of servers are options of one job: how it is posed, and what is read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse

from apportion.checks import whole
from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Trait
    from apportion.policies.problem import Problem
    from apportion.types import Floats, Ints


_ONE_JOB: frozenset[Trait] = frozenset({"tells_identical_jobs_apart"})
"""Two equal jobs are not one that wants as many GPUs as both."""


@dataclass(frozen=True)
class LeastWorkload(Policy):
    r"""Minimise the sum of the ranks of the GPUs that a job gets.

    .. math:: \min_X \sum_g \mathrm{rank}_g X_g\ \text{such that}\ \sum_g X_g = n,\ X \in \{0,
        1\}

    The problem::

        min over n GPUs for one job of sum of rank

        n <= kappa: rank by (load, place) of the GPU
        else: by (load of the server, place of the server, load of the GPU, place of the GPU)

    It is LWF-kappa of Ada-SRSF (its Algorithm 1) as a program: options are GPUs, each a resource
    of one unit, and the row is one job of as many units (``count``) as it wants GPUs; throughputs
    above 0 say which GPUs have memory for it. Loads, seconds of work that wait for a GPU, are what
    the GPUs use of the soft resource ``load``; a GPU of a server uses its ``server ...``
    (`one_job` poses it so). Where GPUs are not shared all free ones have load 0, and the job gets
    the first by place. `kappa` is a size of jobs, no limit on servers. The load of a server is the
    sum over its GPUs.
    """

    name, integral, traits = "least_workload", True, _ONE_JOB
    source = "Ada-SRSF (ICDCS 2020), Algorithm 1"

    kappa: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("kappa", self.kappa, 1)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the sum of ranks."""
        load, server = _loads(p)
        keys = [np.arange(load.size), load]
        if p.count[0] > self.kappa:
            keys += [server, np.bincount(server, load)[server]]
        rank = np.argsort(np.lexsort(keys))
        return cp.Minimize(p.total(p.X @ rank))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Give the job all its GPUs."""
        return [(p.time == 1).set_label("all GPUs of the job")]


_LOAD, _SERVER = "load", "server "


def one_job(
    load: Sequence[Sequence[float]],
    available: Sequence[Sequence[bool]],
    gpus: int,
) -> Instance:
    """Pose the choice of GPUs for one job.

    Parameters
    ----------
    load
        Seconds of work that wait for each GPU, by server.
    available
        Whether it has memory for the job, by server.
    gpus
        GPUs that the job wants.

    Returns
    -------
    instance
        One row of `gpus` units; options are the GPUs, server by server.

    Raises
    ------
    InputError
        If servers have no GPUs or others in one table than in the other, loads are
        no finite numbers >= 0, or the job wants no GPUs.
    """
    server = np.repeat(np.arange(len(load)), _sizes(load, available))
    loads = np.array([each for row in load for each in row], dtype=float)
    if not (np.isfinite(loads) & (loads >= 0)).all():
        raise InputError("load holds a value that is no finite number >= 0.")
    whole("gpus", gpus, 1, integral=True)
    beside = np.zeros((server.size, 1 + len(load)))
    beside[:, 0] = loads
    beside[np.arange(server.size), 1 + server] = 1.0
    own = [f"gpu {place}" for place in range(server.size)]
    named = [f"{_SERVER}{place}" for place in range(len(load))]
    return Instance.of_options(
        np.array([[bool(each) for row in available for each in row]], dtype=float),
        np.ones(server.size),
        np.ones(server.size),
        option_accelerator=np.arange(server.size),
        columns={"count": np.array([float(gpus)])},
        usage=sparse.csr_array(beside.reshape(1, -1)),
        resource_capacity=np.full(beside.shape[1], np.inf),
        resource_names=(*own, _LOAD, *named),
    )


def _sizes(load: Sequence[Sequence[float]], available: Sequence[Sequence[bool]]) -> list[int]:
    """Return the GPUs of each server, of which both tables must tell alike."""
    sizes, others = ([len(each) for each in table] for table in (load, available))
    if not sizes or 0 in sizes or sizes != others:
        raise InputError(
            f"load and available tell of servers with {sizes} and {others} GPUs; they must be the "
            f"same, with a GPU or more."
        )
    return sizes


def _loads(p: Problem) -> tuple[Floats, Ints]:
    """Return the load of each GPU and the place of its server, read from the soft resources.

    Raises
    ------
    InputError
        If the problem has several rows, no resource ``load``, or GPUs without a server.
    """
    instance = p.instance
    if instance.rows != 1:
        raise InputError(
            f"GPUs are chosen for one job at a time, and there are {instance.rows} rows; give "
            f"one row, with the GPUs that the job wants as its count."
        )
    used = instance.usage.toarray().reshape(instance.options, instance.capacity.size)
    named = [name for name in instance.resource_names if name.startswith(_SERVER)]
    of_server = used[:, p.resource(*named)] if named else np.zeros((instance.options, 1))
    if ((of_server > 0).sum(axis=1) != 1).any():
        raise InputError(
            "Each GPU must be of one server: give soft resources 'server ...', of which the "
            "GPUs of that server use 1 and the others nothing."
        )
    return used[:, p.resource(_LOAD)[0]], of_server.argmax(axis=1)
