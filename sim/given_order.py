"""One order of jobs and types, so that a run does not depend on the order in which they are given.

Sums of floats, equal optima and ties between jobs or types all depend on the order of rows and
columns, be it in their last digits, and a tie that is broken otherwise is another schedule. So a
simulation puts jobs and types in an order of its own first, and its tables back afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from apportion.ties import order_of_submission

if TYPE_CHECKING:
    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload


def by_arrival_and_id(workload: Workload) -> Workload:
    """Sort jobs that arrive together by their ids, numbers in ids by their value.

    Ties between jobs are broken by the order of jobs; in this order the outcome belongs to the
    jobs, whatever row they stood in.
    """
    arrival_s = workload.jobs["arrival_s"]
    if arrival_s.is_unique:  # a workload is sorted by arrival
        return workload
    order = order_of_submission(workload.jobs.index, arrival_s.to_numpy(dtype=float))
    if (order == np.arange(order.size)).all():
        return workload
    return replace(workload, jobs=workload.jobs.iloc[order])


def present_types(cluster: Cluster) -> Cluster:
    """Return a cluster of the types of which it has GPUs, in the order of their names.

    A type without GPUs cannot change anything then, for it is not there.
    """
    gpus = {name: cluster.gpus[name] for name in sorted(cluster.gpus) if cluster.gpus[name]}
    prices = {name: price for name, price in cluster.prices_per_gpu_hour.items() if name in gpus}
    return replace(cluster, gpus=gpus, prices_per_gpu_hour=prices)


def of_types_given(table: pd.DataFrame, suffix: str, cluster: Cluster) -> pd.DataFrame:
    """Put the columns by type of a table in the order of a cluster; types without GPUs have zeros.

    Parameters
    ----------
    table
        With a column ``<accelerator><suffix>`` for each type that has GPUs, one behind the other.
    suffix
        What follows the name of a type.
    cluster
        As it was given.
    """
    own = [f"{name}{suffix}" for name in cluster.accelerators]
    present = {f"{name}{suffix}" for name, count in cluster.gpus.items() if count}
    names = list(table.columns)
    first = min(map(names.index, present))
    others = [name for name in names if name not in present]
    columns = [*others[:first], *own, *others[first:]]
    return table.reindex(columns=columns, fill_value=0.0)


def named_types(workload: Workload | ElasticWorkload) -> tuple[list[str], list[str]]:
    """Return what jobs train, and all that is known of such."""
    applications = getattr(workload, "applications", None)
    if applications is not None:
        return workload.jobs["application"].tolist(), list(applications)
    rigid = cast("Workload", workload)
    return rigid.jobs["job_type"].tolist(), rigid.throughputs.index.unique(0).tolist()
