"""`audit`: who would be better off otherwise, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.errors import InputError
from apportion.policies.labelled import columns_of, instance_of, solve
from apportion.policies.problem import Problem
from apportion.policies.registry import get_policy
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs
    from apportion.types import Floats


TELLING = 1e-6
"""Less than this, relatively, is no gain: optima are certified to about as much."""


@dataclass(frozen=True, repr=False)
class Audit:
    """What could be held against an allocation, with witnesses.

    Attributes
    ----------
    allocation
        What the policy decided.
    sharing
        A row per job: ``has``, its throughput, ``alone``, what it could make of its part of the
        cluster, by weight, and ``ratio``; below 1 it would rather be by itself (no sharing
        incentive).
    envy
        A row for each pair, the worst first: ``job`` would make ``ratio`` > 1 times its throughput
        of the GPUs that ``other`` holds on average, at equal weights.
    better
        An allocation by which nobody has less and ``pareto_gain`` is gained; None where there is
        none: then the allocation is Pareto efficient.
    pareto_gain
        The largest sum over jobs of throughput / fastest that can be added so.
    """

    allocation: Allocation
    sharing: pd.DataFrame
    envy: pd.DataFrame
    better: pd.DataFrame | None
    pareto_gain: float

    def __repr__(self) -> str:
        ratio = self.sharing["ratio"]
        said = [
            f"Audit of {self.allocation.policy}",
            f"{(ratio < 1 - TELLING).sum()} of {len(ratio)} jobs would rather have their part of "
            f"the cluster; the least is {ratio.idxmin()!r}, with {ratio.min():.3g} of it",
            "nobody envies another",
            "nobody can have more without another having less (Pareto efficient)",
        ]
        if len(self.envy):
            job, other, most = next(self.envy.itertuples(index=False))
            said[2] = (
                f"{self.envy['job'].nunique()} envy another, most {job!r}: {most:.3g} times with "
                f"what {other!r} has"
            )
        if self.better is not None:
            said[3] = f"jobs could have {self.pareto_gain:.3g} more of their fastest in sum"
        return "\n".join(said)


@checked
def audit(
    policy: Policy | str,
    throughput_tensor: Throughputs,
    *,
    workers: Workers | None = None,
    jobs: Jobs | None = None,
) -> Audit:
    """Solve a policy, and look for jobs that have reason to complain.

    Parameters
    ----------
    policy, throughput_tensor, workers, jobs
        As for `apportion.solve`; jobs by themselves, options are types.

    Raises
    ------
    InputError
        For combinations of jobs, and options that are no types.
    """
    found = get_policy(policy)
    tensor = ThroughputTensor.of(throughput_tensor, workers=workers, jobs=jobs)
    tensor = tensor.on_types_of(tensor.cluster)
    on_types = tensor.options.nlevels == 1 and tensor.gpus_of_option is None
    if found.space_sharing or not (tensor.solo and on_types):
        raise InputError("An audit is of shares of time of single jobs, on accelerator types.")
    allocation = solve(found, tensor)
    columns = columns_of(tensor, tensor.jobs_table, found)
    instance = instance_of(tensor, tensor.cluster, columns)
    if (instance.count != 1).any():
        raise InputError("An audit is of single jobs; leave out the column 'count'.")
    X, has = np.asarray(allocation.X, float), np.asarray(allocation.throughput, float)
    weight = instance.columns["weight"]
    gpus = instance.capacity[instance.option_accelerator]
    alone = _made_of(instance, (weight / weight.sum())[:, None] * gpus)
    ratio = np.divide(has, alone, out=np.full_like(alone, np.inf), where=alone > 0)
    gain, better = _improved(instance, X)
    return Audit(
        allocation=allocation,
        sharing=pd.DataFrame({"has": has, "alone": alone, "ratio": ratio}, index=tensor.jobs),
        envy=_envy(instance, X, has, tensor.jobs),
        better=None if better is None else pd.DataFrame(better, tensor.jobs, tensor.options),
        pareto_gain=gain,
    )


def _made_of(instance: Instance, bundles: Floats) -> Floats:
    """Return steps/s that each job would make of some GPUs of each type, fastest first.

    Parameters
    ----------
    bundles
        GPUs on average, shape (jobs, types), a row for each job.
    """
    speed = instance.throughput
    order = np.argsort(-speed, axis=1, kind="stable")
    time = np.take_along_axis(bundles / instance.columns["scale_factor"][:, None], order, axis=1)
    used = np.diff(np.minimum(np.cumsum(time, axis=1), 1.0), axis=1, prepend=0.0)
    return np.asarray((np.take_along_axis(speed, order, axis=1) * used).sum(axis=1))


def _envy(instance: Instance, X: Floats, has: Floats, jobs: pd.Index) -> pd.DataFrame:
    """List who would make more of what another one holds, at equal weights, the worst first."""
    weight, held = instance.columns["weight"], X * instance.columns["scale_factor"][:, None]
    rows, labels = [], jobs.tolist()
    for other, bundle in enumerate(held):
        made = _made_of(instance, bundle * (weight / weight[other])[:, None])
        ratio = np.divide(made, has, out=np.where(made > 0, np.inf, 1.0), where=has > 0)
        who = np.flatnonzero(ratio > 1 + TELLING)
        rows += [(labels[job], labels[other], float(ratio[job])) for job in who.tolist()]
    table = pd.DataFrame(rows, columns=["job", "other", "ratio"])
    return table.sort_values("ratio", ascending=False, kind="stable", ignore_index=True)


def _improved(instance: Instance, X: Floats) -> tuple[float, Floats | None]:
    """Return the largest gain that costs nobody anything, and an allocation that has it."""
    p = Problem(instance)
    gain = cp.multiply(1 / p.fastest_throughput, p.throughput)
    p.X.value = X
    kept = gain.value
    limits = [*p.constraints, gain >= kept * (1 - TELLING**2)]
    problem = cp.Problem(cp.Maximize(cp.sum(gain)), limits)
    close = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    problem.solve(solver=cp.HIGHS, **close)
    more = -np.inf if problem.status != cp.OPTIMAL else float(problem.value - kept.sum())
    if more <= TELLING * max(kept.sum(), 1.0):
        return 0.0, None
    return more, np.where(p.speed > 0, p.X.value, 0.0)
