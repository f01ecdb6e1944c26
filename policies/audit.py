"""`audit`: who would be better off otherwise, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linprog

from apportion.annotations import checked
from apportion.errors import InputError
from apportion.policies.labelled import columns_of, instance_of, solve
from apportion.policies.registry import get_policy
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.policies.base import Policy
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs
    from apportion.types import Floats


TELLING = 1e-6
"""Less than this, relatively, is no gain: optima are certified to about as much."""


@dataclass(frozen=True, eq=False)
class _Case:
    """An allocation in arrays: jobs by types.

    Attributes
    ----------
    jobs, types
        Labels.
    speed
        Steps/s, 0 where a job cannot run, shape (jobs, types).
    gang, weight
        GPUs of each job, and what its part of the cluster is in proportion to, shape (jobs,).
    gpus
        Of each type, shape (types,).
    X
        Share of time, shape (jobs, types).
    """

    jobs: pd.Index
    types: list[Any]
    speed: Floats
    gang: Floats
    weight: Floats
    gpus: Floats
    X: Floats

    @property
    def made(self) -> Floats:
        """Steps/s of each job."""
        return np.asarray((self.speed * self.X).sum(axis=1), dtype=float)

    def of_bundles(self, bundles: Floats) -> Floats:
        """Return steps/s that each job would make of some GPUs of each type, fastest first.

        Parameters
        ----------
        bundles
            GPUs on average, shape (jobs, types), a row for each job.
        """
        order = np.argsort(-self.speed, axis=1, kind="stable")
        time = np.take_along_axis(bundles / self.gang[:, None], order, axis=1)
        until = np.minimum(np.cumsum(time, axis=1), 1.0)
        used = np.diff(until, axis=1, prepend=0.0)
        return np.asarray((np.take_along_axis(self.speed, order, axis=1) * used).sum(axis=1))

    def sharing(self) -> pd.DataFrame:
        """Set each job beside its part of the cluster."""
        part = self.weight / self.weight.sum()
        alone = self.of_bundles(part[:, None] * self.gpus)
        ratio = np.divide(self.made, alone, out=np.full_like(alone, np.inf), where=alone > 0)
        table = {"has": self.made, "alone": alone, "ratio": ratio}
        return pd.DataFrame(table, index=self.jobs)

    def with_bundle_of(self, other: int) -> Floats:
        """Return steps/s that each job would make of what another one holds, at equal weights."""
        held = self.X[other] * self.gang[other]
        return self.of_bundles(held * (self.weight / self.weight[other])[:, None])

    def envy(self) -> pd.DataFrame:
        """List who would make more of what another one holds, the worst first."""
        with_others = np.array([self.with_bundle_of(other) for other in range(len(self.jobs))])
        nothing = np.where(with_others > 0, np.inf, 1.0)
        mine = np.broadcast_to(self.made, with_others.shape)
        ratio = np.divide(with_others, mine, out=nothing, where=mine > 0)
        others, who = np.nonzero(ratio > 1 + TELLING)
        labels = self.jobs.tolist()
        pairs = zip(who.tolist(), others.tolist(), strict=True)
        rows = [(labels[job], labels[other], float(ratio[other, job])) for job, other in pairs]
        table = pd.DataFrame(rows, columns=["job", "other", "ratio"])
        return table.sort_values("ratio", ascending=False, kind="stable", ignore_index=True)

    def improved(self) -> tuple[float, pd.DataFrame | None]:
        """Return the largest gain that costs nobody anything, and an allocation that has it."""
        count, kinds = self.speed.shape
        fastest = self.speed.max(axis=1, keepdims=True)
        gain = np.divide(self.speed, fastest, out=np.zeros_like(self.speed), where=fastest > 0)
        each, hold = np.eye(count), np.eye(kinds)
        time = np.repeat(each, kinds, axis=1)
        capacity = np.concatenate([gang * hold for gang in self.gang], axis=1)
        kept = (gain * self.X).sum(axis=1)
        limits = np.vstack([time, capacity, -time * gain.ravel()])
        most = np.concatenate([np.ones(count), self.gpus, -kept * (1 - TELLING**2)])
        close: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        rows: Any = sparse.csr_array(limits)
        found: Any = linprog(-gain.ravel(), rows, most, method="highs", options=close)
        more = float(gain.ravel() @ found.x - kept.sum()) if found.success else 0.0
        if more <= TELLING * max(kept.sum(), 1.0):
            return 0.0, None
        better = np.where(self.speed > 0, found.x.reshape(count, kinds), 0.0)
        table = pd.DataFrame(better, index=self.jobs, columns=self.types)
        return more, table


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
    subject
        What is audited, in words.
    """

    allocation: Allocation
    sharing: pd.DataFrame
    envy: pd.DataFrame
    better: pd.DataFrame | None
    pareto_gain: float
    subject: str = ""

    def by(self, groups: pd.Series) -> pd.DataFrame:
        """Return what the jobs of each group have to say, as of a user or an entity.

        Parameters
        ----------
        groups
            The group of each job, by job.

        Returns
        -------
        DataFrame
            Indexed by group: ``jobs``, ``least_ratio`` of `sharing`, and how many of its jobs
            ``envy`` one of another group.
        """
        own = groups.reindex(self.sharing.index)
        if own.isna().any():
            raise InputError(f"The job {own.index[own.isna()][0]!r} is in no group.")
        ratios = self.sharing["ratio"].groupby(own)
        table = pd.DataFrame({"jobs": ratios.size(), "least_ratio": ratios.min()})
        other = own.loc[self.envy["other"]].to_numpy() != own.loc[self.envy["job"]].to_numpy()
        envious = self.envy.loc[other, "job"].drop_duplicates()
        counted = own.loc[envious].value_counts()
        table["envy"] = counted.reindex(table.index, fill_value=0).astype(int)
        return table

    def __repr__(self) -> str:
        worst = self.sharing["ratio"].idxmin()
        least = float(self.sharing["ratio"].min())
        said = [
            f"{(self.sharing['ratio'] < 1 - TELLING).sum()} of {len(self.sharing)} jobs would "
            f"rather have their part of the cluster; the least is {worst!r}, with {least:.3g} of it"
        ]
        if len(self.envy):
            job, other, ratio = next(self.envy.itertuples(index=False))
            count = self.envy["job"].nunique()
            said += [
                f"{count} envy another, most {job!r}: {ratio:.3g} times with what {other!r} has"
            ]
        said += ["nobody envies another"] * (not len(self.envy))
        if self.better is None:
            said += ["nobody can have more without another having less (Pareto efficient)"]
        else:
            said += [f"jobs could have {self.pareto_gain:.3g} more of their fastest in sum"]
        return "\n".join([f"Audit of {self.subject}", *said])


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
    if found.space_sharing or not _is_plain(tensor):
        raise InputError("An audit is of shares of time of single jobs, on accelerator types.")
    allocation = solve(found, tensor)
    case = _case_of(found, tensor, allocation)
    gain, better = case.improved()
    return Audit(
        allocation=allocation,
        sharing=case.sharing(),
        envy=case.envy(),
        better=better,
        pareto_gain=gain,
        subject=allocation.policy,
    )


def _is_plain(tensor: ThroughputTensor) -> bool:
    """Whether rows are jobs by themselves and options are types."""
    return tensor.solo and tensor.options.nlevels == 1 and tensor.gpus_of_option is None


def _case_of(policy: Policy, tensor: ThroughputTensor, allocation: Allocation) -> _Case:
    """Read an allocation as arrays."""
    cluster = tensor.workers or tensor.cluster
    known = tensor.on_types_of(cluster)
    types = known.options.tolist()
    facts = instance_of(known, cluster, columns_of(known, known.jobs_table, policy))
    if (facts.count != 1).any():
        raise InputError("An audit is of single jobs; leave out the column 'count'.")
    gang, weight = facts.columns["scale_factor"], facts.columns["weight"]
    gpus = facts.capacity[facts.option_accelerator]
    X = allocation.X.loc[known.jobs, types].to_numpy(dtype=float)
    return _Case(known.jobs, types, facts.throughput, gang, weight, gpus, X)
