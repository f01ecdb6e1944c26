"""`audit`: who would be better off otherwise, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from apportion.annotations import checked
from apportion.checks import number
from apportion.errors import InputError
from apportion.policies.labelled import jobs_of, solve
from apportion.policies.registry import get_policy
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.allocation import Allocation
    from apportion.policies.base import Policy
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs

    Floats = NDArray[np.float64]

__all__ = ["Audit", "audit"]

_TELLING = 1e-6
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
    lies
        A row for each lie that brings something, the best first: ``job`` says that it runs
        ``factor`` times as fast on ``accelerator``, and has ``ratio`` > 1 times its throughput by
        its true speeds.
    lies_tried
        How many were.
    """

    allocation: Allocation
    sharing: pd.DataFrame
    envy: pd.DataFrame
    better: pd.DataFrame | None
    pareto_gain: float
    lies: pd.DataFrame
    lies_tried: int = field(default=0)

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
            ``envy`` one of another group, and ``gain_by_lies``.
        """
        own = groups.reindex(self.sharing.index)
        if own.isna().any():
            raise InputError(f"The job {own.index[own.isna()][0]!r} is in no group.")
        ratios = self.sharing["ratio"].groupby(own)
        table = pd.DataFrame({"jobs": ratios.size(), "least_ratio": ratios.min()})
        other = own.loc[self.envy["other"]].to_numpy() != own.loc[self.envy["job"]].to_numpy()
        envious = self.envy.loc[other, "job"].drop_duplicates()
        liars = self.lies["job"].drop_duplicates()
        for name, jobs in (("envy", envious), ("gain_by_lies", liars)):
            counted = own.loc[jobs].value_counts()
            table[name] = counted.reindex(table.index, fill_value=0).astype(int)
        return table

    def __repr__(self) -> str:
        worst = self.sharing["ratio"].idxmin()
        least = float(self.sharing["ratio"].min())
        said = [
            f"{(self.sharing['ratio'] < 1 - _TELLING).sum()} of {len(self.sharing)} jobs would "
            f"rather have their part of the cluster; the least is {worst!r}, with {least:.3g} of it"
        ]
        if len(self.envy):
            job, other, ratio = self.envy.iloc[0]
            count = self.envy["job"].nunique()
            said += [f"{count} jobs envy another, most {job!r}: {ratio:.3g} times with {other!r}'s"]
        said += ["nobody envies another"] * (not len(self.envy))
        if self.better is None:
            said += ["nobody can have more without another having less (Pareto efficient)"]
        else:
            said += [f"jobs could have {self.pareto_gain:.3g} more of their fastest in sum"]
        if len(self.lies):
            job, kind, factor, ratio = self.lies.iloc[0]
            what = f"{job!r} has {ratio:.3g} times as much if it says {factor:g} times on {kind}"
            said += [f"of {self.lies_tried} lies {len(self.lies)} pay: {what}"]
        elif self.lies_tried:
            said += [f"none of {self.lies_tried} lies pays"]
        return "\n".join([f"Audit of {self.allocation.policy}", *said])


@checked
def audit(
    policy: Policy | str,
    throughput_tensor: Throughputs,
    *,
    workers: Workers | None = None,
    jobs: Jobs | None = None,
    lies: Sequence[float] = (0.0, 0.5, 2.0),
) -> Audit:
    """Solve a policy, and look for jobs that have reason to complain.

    Parameters
    ----------
    policy, throughput_tensor, workers, jobs
        As for `apportion.solve`; jobs by themselves, options are types.
    lies
        Factors: each job says of each type, one at a time, that it runs so many times as fast
        there, and the policy is solved anew. None are tried if empty.

    Raises
    ------
    InputError
        For combinations of jobs, options that are no types, and factors below 0.
    """
    for factor in lies:
        number("A factor of lies", factor)
    found = get_policy(policy)
    tensor = ThroughputTensor.of(throughput_tensor, workers=workers, jobs=jobs)
    if found.space_sharing or found.integral or not _is_plain(tensor):
        raise InputError("An audit is of shares of time of single jobs, on accelerator types.")
    allocation = solve(found, tensor)
    case = _Case.of(found, tensor, allocation)
    gain, better = case.improved()
    tried = [
        lie
        for job in range(len(case.names))
        for kind in range(len(case.types))
        for factor in lies
        if (lie := case.after_lie(found, job, kind, factor)) is not None
    ]
    pay = [lie for lie in tried if lie[3] > 1 + 10 * _TELLING]
    return Audit(
        allocation=allocation,
        sharing=case.sharing(),
        envy=case.envy(),
        better=better,
        pareto_gain=gain,
        lies=_worst_first(pay, ["job", "accelerator", "factor", "ratio"]),
        lies_tried=len(tried),
    )


def _is_plain(tensor: ThroughputTensor) -> bool:
    """Whether rows are jobs by themselves and options are types."""
    return tensor.solo and tensor.options.nlevels == 1 and tensor.gpus_of_option is None


@dataclass(frozen=True, eq=False)
class _Case:
    """An allocation in arrays: jobs by types."""

    tensor: ThroughputTensor
    names: list[object]
    types: list[object]
    speed: Floats
    gang: Floats
    weight: Floats
    gpus: Floats
    X: Floats

    @classmethod
    def of(cls, policy: Policy, tensor: ThroughputTensor, allocation: Allocation) -> _Case:
        cluster = tensor.workers or tensor.cluster
        known = tensor.on_types_of(cluster)
        types = known.options.tolist()
        facts = jobs_of(known, known.jobs_table, policy)
        if (facts["count"] != 1).any():
            raise InputError("An audit is of single jobs; leave out the column 'count'.")
        gpus = np.array([float(cluster.gpus[name]) for name in types])
        gang = facts["scale_factor"].to_numpy(dtype=float)
        speed = np.nan_to_num(known.to_frame().to_numpy(dtype=float))
        speed = np.where(gang[:, None] <= gpus, speed, 0.0)
        X = allocation.X.loc[known.jobs, types].to_numpy(dtype=float)
        weight = facts["weight"].to_numpy(dtype=float)
        return cls(known, known.jobs.tolist(), types, speed, gang, weight, gpus, X)

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
        return pd.DataFrame(table, index=self.tensor.jobs)

    def envy(self) -> pd.DataFrame:
        """Find who would make more of what another one holds."""
        held = self.X * self.gang[:, None]
        rows = []
        for other, name in enumerate(self.names):
            scaled = held[other] * (self.weight / self.weight[other])[:, None]
            made = self.of_bundles(scaled)
            nothing = np.where(made > 0, np.inf, 1.0)
            ratio = np.divide(made, self.made, out=nothing, where=self.made > 0)
            for job in np.flatnonzero(ratio > 1 + _TELLING).tolist():
                rows.append((self.names[job], name, float(ratio[job])))
        return _worst_first(rows, ["job", "other", "ratio"])

    def improved(self) -> tuple[float, pd.DataFrame | None]:
        """Return the largest gain that costs nobody anything, and an allocation that has it."""
        jobs, kinds = self.speed.shape
        fastest = self.speed.max(axis=1, keepdims=True)
        gain = np.divide(self.speed, fastest, out=np.zeros_like(self.speed), where=fastest > 0)
        each, hold = np.eye(jobs), np.eye(kinds)
        time = np.repeat(each, kinds, axis=1)
        capacity = np.concatenate([gang * hold for gang in self.gang], axis=1)
        kept = (gain * self.X).sum(axis=1)
        limits = np.vstack([time, capacity, -time * gain.ravel()])
        most = np.concatenate([np.ones(jobs), self.gpus, -kept * (1 - _TELLING**2)])
        found: Any = linprog(-gain.ravel(), limits, most, bounds=(0, None), method="highs")
        if found.x is None or -found.fun - kept.sum() <= _TELLING * max(kept.sum(), 1.0):
            return 0.0, None
        better = np.where(self.speed > 0, found.x.reshape(jobs, kinds), 0.0)
        table = pd.DataFrame(better, index=self.tensor.jobs, columns=self.types)
        return float(-found.fun - kept.sum()), table

    def after_lie(
        self, policy: Policy, job: int, kind: int, factor: float
    ) -> tuple[object, object, float, float] | None:
        """Return what a job has by its true speeds if it says another one, if it can say so."""
        told = self.speed.copy()
        told[job, kind] *= factor
        if factor == 1 or not self.speed[job, kind] or not told[job].any():
            return None
        table = pd.DataFrame(told, index=self.tensor.jobs, columns=self.types)
        jobs, workers = self.tensor.jobs_table, self.tensor.workers or self.tensor.cluster
        X: Any = solve(policy, table, workers=workers, jobs=jobs).X[self.types]
        made, before = float(self.speed[job] @ X.to_numpy(dtype=float)[job]), float(self.made[job])
        ratio = made / before if before else np.inf if made else 1.0
        return self.names[job], self.types[kind], float(factor), ratio


def _worst_first(rows: Sequence[tuple[object, ...]], columns: list[str]) -> pd.DataFrame:
    """Make a table, the largest ratio first."""
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("ratio", ascending=False, kind="stable").reset_index(drop=True)
