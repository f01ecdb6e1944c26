"""What labels say that few problems have, and what is wrong with them: for `solve`, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs
from apportion.policies.core.pairs import PairTable
from apportion.policies.resource import Resource
from apportion.policies.whole.valid import check_pins
from apportion.problem_inputs import COMBINATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.allocation import Allocation
    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solution import Solution
    from apportion.tensor import ThroughputTensor
    from apportion.types import Floats, Ints


def aligned(jobs: pd.DataFrame, ids: pd.Index) -> pd.DataFrame:
    """Return a jobs table in the order of a tensor; both must have the same jobs."""
    if jobs.index.equals(ids):
        return jobs
    for job in ids.difference(jobs.index, sort=False):
        raise unknown_name("job in the throughput tensor (not in the jobs table)", job, jobs.index)
    for job in jobs.index.difference(ids, sort=False):
        raise unknown_name("job in the jobs table (not in the throughput tensor)", job, ids)
    return jobs.loc[ids]


@runtime_checkable
class PosedByItself(Protocol):
    """What stands in `solve` in place of throughputs, and knows what a policy makes of it."""

    def solved_by(self, policy: Policy, **how: Any) -> Allocation:
        """Return what a policy decides; `how` are options of `apportion.policies.solve_instance`.

        Raises
        ------
        InputError
            If the policy is for others.
        """
        ...


def refuse_beside(posed: PosedByItself, given: Mapping[str, Any]) -> None:
    """Refuse arguments that say nothing to a problem that is posed by itself."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name}= goes with throughputs; a {type(posed).__name__} has all that it needs. "
                f"Leave it out."
            )


def names_of_resources(cluster: Cluster, resources: Sequence[Resource]) -> tuple[str, ...]:
    """Names of accelerator types and further resources, each checked to be there once."""
    for resource in resources:
        if not isinstance(resource, Resource):
            raise InputError(f"{written(resource)} is among the resources; it must be a Resource.")
    named = (*cluster.accelerators, *(str(resource.name) for resource in resources))
    twice = next((name for place, name in enumerate(named) if name in named[:place]), None)
    if twice is not None:
        raise InputError(f"Two resources are called {written(twice)}; each needs its own name.")
    return named


def places_of_accelerators(tensor: ThroughputTensor, cluster: Cluster) -> Ints:
    """Place in a cluster of the accelerator type of each option, shape (options,)."""
    places = {name: place for place, name in enumerate(cluster.gpus)}
    for name in tensor.accelerator_of_option:
        if name not in places:
            raise unknown_name("accelerator in the throughput tensor", name, cluster.gpus)
    return np.array([places[name] for name in tensor.accelerator_of_option], dtype=np.intp)


def fits_nowhere(
    tensor: ThroughputTensor, cluster: Cluster, gpus: Floats, job: Ints, first: int
) -> InputError:
    """Name a job that no row of it can run under any option.

    `gpus` and `job` are what members hold, shape (members, options), and who they are.
    """
    runs = (job == first)[:, None] & (tensor.values.to_numpy() > 0)
    return InputError(
        f"Job {written(tensor.jobs[first])} fits nowhere: it needs "
        f"{float(gpus[runs].min(initial=np.inf)):g} GPUs of a type on which it runs, "
        f"and the cluster has {cluster}."
    )


def places_of_types(names: Any, cluster: Cluster) -> Floats:
    """Places of accelerator types in a cluster, -1 for none, shape (jobs,)."""
    for name in dict.fromkeys(names):
        if name and name not in cluster.gpus:
            raise unknown_name("accelerator in the column 'running_on'", name, cluster.gpus)
    return pd.Index(cluster.accelerators).get_indexer(pd.Index(names)).astype(float)


def places_of_options(labels: Any, tensor: ThroughputTensor) -> Floats:
    """Places of options in a tensor, -1 for none, shape (jobs,)."""
    options = tensor.options
    places = {option: place for place, option in enumerate(options)}
    for job, option in zip(tensor.jobs, labels, strict=True):
        if option is not None and option not in places:
            raise InputError(
                f"Job {written(job)} has current_option = {written(option)}; it must be one of "
                f"{', '.join(map(written, options[:20]))}, or None."
            )
    return np.array([-1 if option is None else places[option] for option in labels], dtype=float)


def pair_table(
    policy: Policy, pairs: PairThroughputs | None, tensor: ThroughputTensor, jobs: pd.DataFrame
) -> PairTable | None:
    """Look up pair throughputs by the job types and scale factors of the jobs.

    ``None`` where rows are combinations already.

    Raises
    ------
    InputError
        If nothing says how fast jobs run together, the jobs table has no job types, or an option of
        the tensor is no type of the pairs.
    """
    if pairs is None:
        if tensor.rows.equals(tensor.jobs):
            raise InputError(
                f"{policy!r} lets jobs share GPUs: give pairs=, or combinations as rows of the "
                f"tensor."
            )
        return None
    check_jobs(jobs[jobs.columns.intersection(["job_type"])], required=["job_type"])
    names = tensor.options.map(str)
    runs = (tensor.values.to_numpy() > 0).any(axis=0)
    asked = np.flatnonzero(runs | names.isin(pairs.accelerators))  # the others need no pairs
    known, key = pairs.lookup(jobs, names[asked])
    own = np.zeros((*known.shape[:2], len(names)))
    own[:, :, asked] = known
    return PairTable(own, key)


def check_alone(policy: Policy, instance: Instance, tensor: ThroughputTensor) -> None:
    """Name a job that never runs by itself, if the policy gives time to single jobs only."""
    together = instance.row_alone < 0
    if together.any():
        job = tensor.jobs[together][0]
        raise InputError(
            f"{policy!r} gives time to jobs by themselves only, and job {written(job)} runs in "
            f"combinations only; give its throughputs alone, or use a policy such as "
            f"'max_min_fairness'."
        )


def check_pinned(policy: Policy, instance: Instance, tensor: ThroughputTensor) -> None:
    """Name jobs whose pins cannot hold, or that are pinned where shares of time are given."""
    if instance.pinned.any() and not policy.integral:
        job = tensor.rows[instance.pinned][0]
        raise InputError(
            f"Job {written(job)} is pinned, which is for policies that decide in whole numbers; "
            f"{policy!r} gives shares of time. Leave the column out."
        )
    check_pins(instance, tensor.rows.tolist())


def names_of_pairs(rows: pd.Index, jobs: pd.Index, solution: Solution) -> pd.Index:
    """Labels of the rows of X: those that were given, then pairs of jobs."""
    ids = jobs.tolist()
    pairs = [COMBINATION.join((str(ids[a]), str(ids[b]))) for a, b in solution.pairs.tolist()]
    return pd.Index([*rows.tolist(), *pairs])


def missed_deadlines(table: pd.DataFrame, solution: Solution) -> str:
    """Name the jobs that the allocation is too slow for."""
    left_s = table["deadline_s"] - table["elapsed_s"]
    # Shares are right to some 1e-7: who misses by a millionth is in time.
    late = ~(left_s * solution.throughput * (1 + 1e-6) >= table["steps_remaining"]) & left_s.notna()
    if not late.any():
        return ""
    names = ", ".join(repr(job) for job in table.index[late][:5])
    return f"{late.sum()} deadlines cannot be met, the first of them of {names}."
