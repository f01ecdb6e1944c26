"""`audit`: who would be better off otherwise, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import number
from apportion.errors import InputError
from apportion.policies.auditing.case import TELLING, Case, worst_first
from apportion.policies.labelled import jobs_of, solve
from apportion.policies.registry import get_policy
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.allocation import Allocation
    from apportion.policies.base import Policy
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs


@dataclass(frozen=True, repr=False)
class Audit:
    """What could be held against an allocation, with witnesses.

    Attributes
    ----------
    allocation
        What the policy decided; None of a run (`apportion.audit_run`).
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
        its true speeds. Of a run they are those of `apportion.try_lies`.
    lies_tried, lies_told
        How many were, and, of a run, what came of it, in words.
    subject
        What is audited, in words.
    """

    allocation: Allocation | None
    sharing: pd.DataFrame
    envy: pd.DataFrame
    better: pd.DataFrame | None
    pareto_gain: float
    lies: pd.DataFrame
    lies_tried: int = 0
    subject: str = ""
    lies_told: str = ""

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
            ``envy`` one of another group, and ``gain_by_lies`` where lies were tried.
        """
        own = groups.reindex(self.sharing.index)
        if own.isna().any():
            raise InputError(f"The job {own.index[own.isna()][0]!r} is in no group.")
        ratios = self.sharing["ratio"].groupby(own)
        table = pd.DataFrame({"jobs": ratios.size(), "least_ratio": ratios.min()})
        other = own.loc[self.envy["other"]].to_numpy() != own.loc[self.envy["job"]].to_numpy()
        envious = self.envy.loc[other, "job"].drop_duplicates()
        counted_as = {"envy": envious}
        if self.lies_tried:
            counted_as["gain_by_lies"] = self.lies.iloc[:, 0].drop_duplicates()
        for name, jobs in counted_as.items():
            alone = jobs.name in ("job", None)  # else a group lies together
            counted = (own.loc[jobs] if alone else jobs).value_counts()
            table[name] = counted.reindex(table.index, fill_value=0).astype(int)
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
        if self.lies_told:
            said += [self.lies_told]
        elif len(self.lies):
            job, kind, factor, ratio = next(self.lies.itertuples(index=False))
            what = f"{job!r} has {ratio:.3g} times as much if it says {factor:g} times on {kind}"
            said += [f"of {self.lies_tried} lies {len(self.lies)} pay: {what}"]
        elif self.lies_tried:
            said += [f"none of {self.lies_tried} lies pays"]
        return "\n".join([f"Audit of {self.subject}", *said])


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
    if found.space_sharing or not _is_plain(tensor):
        raise InputError("An audit is of shares of time of single jobs, on accelerator types.")
    allocation = solve(found, tensor)
    case = _case_of(found, tensor, allocation)
    gain, better = case.improved()
    tried = [
        lie
        for job in range(len(case.jobs))
        for kind in range(len(case.types))
        for factor in lies
        if (lie := _after_lie(case, tensor, found, job, kind, factor)) is not None
    ]
    pay = [lie for lie in tried if lie[3] > 1 + 10 * TELLING]
    return Audit(
        allocation=allocation,
        sharing=case.sharing(),
        envy=case.envy(),
        better=better,
        pareto_gain=gain,
        lies=worst_first(pay, ["job", "accelerator", "factor", "ratio"]),
        lies_tried=len(tried),
        subject=allocation.policy,
    )


def _is_plain(tensor: ThroughputTensor) -> bool:
    """Whether rows are jobs by themselves and options are types."""
    return tensor.solo and tensor.options.nlevels == 1 and tensor.gpus_of_option is None


def _case_of(policy: Policy, tensor: ThroughputTensor, allocation: Allocation) -> Case:
    """Read an allocation as arrays."""
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
    return Case(known.jobs, types, speed, gang, weight, gpus, X)


def _after_lie(
    case: Case, tensor: ThroughputTensor, policy: Policy, job: int, kind: int, factor: float
) -> tuple[object, object, float, float] | None:
    """Return what a job has by its true speeds if it says another one, if it can say so."""
    told = case.speed.copy()
    told[job, kind] *= factor
    if factor == 1 or not case.speed[job, kind] or not told[job].any():
        return None
    table = pd.DataFrame(told, index=case.jobs, columns=case.types)
    jobs, workers = tensor.jobs_table, tensor.workers or tensor.cluster
    X: Any = solve(policy, table, workers=workers, jobs=jobs).X[case.types]
    made, before = float(case.speed[job] @ X.to_numpy(dtype=float)[job]), float(case.made[job])
    ratio = made / before if before else np.inf if made else 1.0
    return case.jobs.tolist()[job], case.types[kind], float(factor), ratio
