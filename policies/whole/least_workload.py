"""Least workload first: which GPUs a job gets where GPUs are shared and have work waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import cvxpy as cp

from apportion.checks import number, whole
from apportion.policies.base import Policy
from apportion.policies.whole.gpus_of_servers import GPUs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Trait
    from apportion.policies.problem import Problem

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
    the first by place. `kappa` is a size of jobs, no limit on servers (see `CappedWorkload`).

    What the paper leaves open: `server_load` is the sum over a server's GPUs, their mean (as
    released), or the sum over the GPUs with memory; with `strict_servers` only GPUs of the
    ``ceil(n / GPUs of a server)`` least loaded servers are taken.
    """

    name, integral, traits = "least_workload", True, _ONE_JOB
    source = "Ada-SRSF (ICDCS 2020), Algorithm 1"

    kappa: int = 1
    server_load: Literal["sum", "mean", "available"] = "sum"
    strict_servers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("kappa", self.kappa, 1)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the sum of ranks."""
        rank = GPUs.of(p).ranks(self.server_load if p.count[0] > self.kappa else "none")
        return cp.Minimize(p.total(p.X @ rank))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Give the job all its GPUs."""
        served = (p.time == 1).set_label("all GPUs of the job")
        if not self.strict_servers or p.count[0] <= self.kappa:
            return [served]
        closed = GPUs.of(p).beyond(self.server_load, p.count[0])
        return [served, (cp.sum(p.X @ closed) == 0).set_label("least loaded servers only")]


@dataclass(frozen=True)
class CappedWorkload(Policy):
    r"""Minimise the largest load of the GPUs that a job gets, on at most so many servers.

    .. math:: \min_X \max_{g: X_g = 1} l_g + \frac{\theta}{n} \sum_g l_g X_g + \alpha [v > 1] +
        \beta b\ \text{such that}\ \sum_g X_g = n,\ v \le v_{\max},\ X \in \{0, 1\}

    The problem::

        min over n GPUs for one job of largest load + tie * mean load + penalties, servers <= limit

        penalties = several (if there are several servers) + neighbour * jobs with traffic there

    Posed as for `LeastWorkload`, whose kappa caps no servers. Jobs with traffic on a server are
    what its GPUs use of the soft resource ``neighbours``, if there is one.
    """

    name, integral, unit, traits = "capped_workload", True, "s", _ONE_JOB
    source = "Ada-SRSF (ICDCS 2020), Algorithm 1, with a limit on servers"

    servers: int = 1
    several: float = 0.0
    neighbour: float = 0.0
    tie: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("servers", self.servers, 1)
        for name in ("several", "neighbour", "tie"):
            number(name, getattr(self, name))

    def objective(self, p: Problem) -> cp.Minimize:
        """State the largest load and the penalties."""
        gpus, used, more, most = _variables(p)
        penalties = self.several * more + self.neighbour * (gpus.neighbours @ used)
        return cp.Minimize(gpus.unit * most + self.tie * (p.X[0] @ gpus.load) + penalties)

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Relate GPUs to servers and to the largest load."""
        (gpus, used, more, most), chosen = _variables(p), p.count[0] * p.X[0]
        limits = [cp.sum(used) <= self.servers, cp.sum(used) <= 1 + gpus.servers * more]
        loads = cp.multiply(gpus.load / gpus.unit, chosen) <= most
        return _labelled([p.time == 1, chosen <= used[gpus.server], *limits, loads])


def _variables(p: Problem) -> tuple[GPUs, cp.Variable, cp.Variable, cp.Variable]:
    """Return the GPUs, whether servers are used, whether several are, and the largest load."""
    gpus = GPUs.of(p)
    used = p.variable("servers in use", gpus.servers, boolean=True)
    more = p.variable("several servers", boolean=True)
    return gpus, used, more, p.variable("largest load", nonneg=True)


def _labelled(constraints: Sequence[cp.Constraint]) -> list[cp.Constraint]:
    """Call the constraints by what cannot hold where there is no decision."""
    what = ("all GPUs of the job", *["limit of servers"] * (len(constraints) - 1))
    return [each.set_label(name) for each, name in zip(constraints, what, strict=True)]
