"""From labelled tables to an Instance: what `solve` checks and aligns before any solver sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs
from apportion.policies.extensions import ChecksJobs
from apportion.policies.instance import Instance
from apportion.policies.resource import Resource, usage_of
from apportion.policies.solving.rows.pairs import PairTable
from apportion.submission import order_of_submission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.policies.base import Policy
    from apportion.tensor import ThroughputTensor

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["DEFAULTS", "instance_of", "jobs_of", "pair_table"]

DEFAULTS = {
    "weight": 1.0,
    "count": 1.0,
    "scale_factor": 1.0,
    "elapsed_s": 0.0,
    "network_priority": 0.0,
    "waited_s": 0.0,
    "reallocation_factor": 1.0,
}
"""What is taken of jobs of which a column of the jobs table does not tell."""


def jobs_of(tensor: ThroughputTensor, jobs: pd.DataFrame | None, policy: Policy) -> pd.DataFrame:
    """Jobs table in the order of the tensor, with what the policy needs."""
    ids = tensor.jobs
    if jobs is None:
        table = pd.DataFrame(index=ids)
    else:
        table = check_jobs(jobs)
        for job in ids.difference(table.index, sort=False):
            raise unknown_name(
                "job in the throughput tensor (not in the jobs table)", job, table.index
            )
        for job in table.index.difference(ids, sort=False):
            raise unknown_name("job in the jobs table (not in the throughput tensor)", job, ids)
        table = table.loc[ids]
    for name, value in DEFAULTS.items():
        table = table if name in table else table.assign(**{name: value})
    if "running_on" in policy.columns and "running_on" not in table:
        table = table.assign(running_on="")
    if "steps_remaining" not in table and "total_steps" in table:
        table = table.assign(steps_remaining=table["total_steps"])
    if "isolated_elapsed_s" not in table:
        table = table.assign(isolated_elapsed_s=table["elapsed_s"])
    needed = [name for name in policy.columns if name != "order"]
    check_jobs(table[[name for name in needed if name in table]], required=needed)
    if isinstance(policy, ChecksJobs):
        policy.check_jobs(table)
    return table.assign(order=_place_in_order(table))


def _place_in_order(table: pd.DataFrame) -> Floats:
    """Place of each job by arrival, jobs of one time by the numbers in their ids."""
    arrival = table.get("arrival_s", pd.Series(0.0, index=table.index))
    by_arrival = order_of_submission(table.index, np.asarray(arrival, dtype=float))
    order = np.empty(len(table))
    order[by_arrival] = np.arange(len(table))
    return order


def instance_of(
    tensor: ThroughputTensor,
    cluster: Cluster,
    table: pd.DataFrame,
    resources: Sequence[Resource],
    largest_gang: Floats,
) -> Instance:
    """Turn labels into indices, and check that every job fits somewhere.

    `largest_gang` is the number of GPUs that one gang can have under each option at most, shape
    (options,), where it is less than there are of the type.
    """
    named = _named(cluster, resources)
    accelerator = _types_of_options(tensor, cluster)
    row, job = (
        index.get_indexer(tensor.values.index.get_level_values(level))
        for level, index in enumerate((tensor.rows, tensor.jobs))
    )
    gpus = _gpus(tensor, table["scale_factor"].to_numpy(dtype=float), row, job)
    room = np.minimum(cluster.counts[accelerator], largest_gang)
    speed = np.where(gpus[row] <= room, tensor.values.to_numpy(), 0.0)
    _check_fits(tensor, cluster, speed, gpus, row, job)
    capacity = np.append(cluster.counts, [resource.limit for resource in resources])
    columns, entities = _numbers(table)
    if "current_option" in table:
        columns["current_option"] = _places_of_options(table["current_option"], tensor.options)
    if "pinned" in table:
        columns["pinned"] = table["pinned"].to_numpy(dtype=float)
    if "running_on" in table:
        columns["running_on"] = _places_of_types(table["running_on"], cluster)
    return Instance(
        throughput=speed,
        member_row=row,
        member_job=job,
        usage=usage_of(tensor, gpus, accelerator, resources, len(cluster.gpus)),
        capacity=capacity.astype(float),
        option_accelerator=accelerator,
        columns=columns,
        prices=np.append(cluster.prices, np.zeros(len(resources))),
        entities=entities,
        types=len(cluster.gpus),
        resource_names=named,
    )


def _named(cluster: Cluster, resources: Sequence[Resource]) -> tuple[str, ...]:
    """Names of accelerator types and further resources, each checked to be there once."""
    for resource in resources:
        if not isinstance(resource, Resource):
            raise InputError(f"{written(resource)} is among the resources; it must be a Resource.")
    named = (*cluster.accelerators, *(str(resource.name) for resource in resources))
    twice = next((name for place, name in enumerate(named) if name in named[:place]), None)
    if twice is not None:
        raise InputError(f"Two resources are called {written(twice)}; each needs its own name.")
    return named


def _types_of_options(tensor: ThroughputTensor, cluster: Cluster) -> Ints:
    """Places in the cluster of the accelerator types of options, shape (options,)."""
    for accelerator in tensor.accelerator_of_option:
        if accelerator not in cluster.gpus:
            raise unknown_name("accelerator in the throughput tensor", accelerator, cluster.gpus)
    places = [cluster.accelerators.index(name) for name in tensor.accelerator_of_option]
    return np.array(places, dtype=np.intp)


def _gpus(tensor: ThroughputTensor, scale_factor: Floats, row: Ints, job: Ints) -> Floats:
    """GPUs that rows hold under options: what these say, or of the largest of the jobs of a row.

    `row` and `job` are the places of the members, shape (members,); the result has the shape
    (rows, options).
    """
    gpus = np.zeros((len(tensor.rows), len(tensor.options)))
    per_option = tensor.gpus_of_option
    if per_option is None:
        np.maximum.at(gpus, row, scale_factor[job, None])
    else:
        gpus[:] = per_option
    return gpus


def _check_fits(
    tensor: ThroughputTensor, cluster: Cluster, speed: Floats, gpus: Floats, row: Ints, job: Ints
) -> None:
    """Name the first job that no row of it can run under any option."""
    together = np.ones(gpus.shape, dtype=bool)
    np.logical_and.at(together, row, speed > 0)
    fits = np.zeros(len(tensor.jobs), dtype=bool)
    np.logical_or.at(fits, job, together[row].any(axis=1))
    if not fits.all():
        first = int(np.argmin(fits))
        raise InputError(
            f"Job {written(tensor.jobs[first])} fits nowhere: it needs "
            f"{_least_gpus(gpus[row], tensor, job == first):g} GPUs of a type on which it runs, "
            f"and the cluster has {cluster}."
        )


def _least_gpus(gpus: Floats, tensor: ThroughputTensor, member: NDArray[np.bool_]) -> float:
    """Fewest GPUs that a row of a job holds where the job has a throughput."""
    runs = member[:, None] & (tensor.values.to_numpy() > 0)
    return float(gpus[runs].min(initial=np.inf))


def _numbers(table: pd.DataFrame) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Numeric columns as arrays, entities as places in the list of their names."""
    columns = {
        str(name): values.to_numpy(dtype=float)
        for name, values in table.select_dtypes("number").items()
    }
    if "entity" not in table:
        return columns, ()
    code, names = pd.factorize(table["entity"], sort=True)
    return columns | {"entity": code.astype(float)}, tuple(map(str, names))


def _places_of_types(names: pd.Series, cluster: Cluster) -> Floats:
    """Places of accelerator types in a cluster, -1 for none, shape (jobs,)."""
    for name in names.unique():
        if name and name not in cluster.gpus:
            raise unknown_name("accelerator in the column 'running_on'", name, cluster.gpus)
    return pd.Index(cluster.accelerators).get_indexer(pd.Index(names)).astype(float)


def _places_of_options(labels: pd.Series, options: pd.Index) -> Floats:
    """Places of options in a tensor, -1 for none, shape (jobs,)."""
    places = {option: place for place, option in enumerate(options)}
    for job, option in labels.items():
        if option is not None and option not in places:
            raise InputError(
                f"Job {written(job)} has current_option = {written(option)}; it must be one of "
                f"{', '.join(map(written, options[:20]))}, or None."
            )
    return np.array([-1 if option is None else places[option] for option in labels], dtype=float)


def pair_table(pairs: PairThroughputs, tensor: ThroughputTensor, table: pd.DataFrame) -> PairTable:
    """Look up pair throughputs by the job types and scale factors of the jobs.

    Raises
    ------
    InputError
        If the jobs table has no job types, or an option of the tensor is no type of the pairs.
    """
    check_jobs(table[table.columns.intersection(["job_type"])], required=["job_type"])
    names = tensor.options.map(str)
    runs = (tensor.values.to_numpy() > 0).any(axis=0)
    asked = np.flatnonzero(runs | names.isin(pairs.accelerators))  # the others need no pairs
    known, key = pairs.lookup(table, names[asked])
    own = np.zeros((*known.shape[:2], len(names)))
    own[:, :, asked] = known
    return PairTable(own, key)
