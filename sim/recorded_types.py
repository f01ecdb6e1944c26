"""On which types of GPUs the jobs of a log ran: their durations hold there, whatever speeds are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.errors import InputError
from apportion.jobs import RECORDED_TIMES
from apportion.sim.modelled_speeds import BASE, with_modelled_speeds
from apportion.sim.workload_tables import find_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from apportion.cluster import Cluster
    from apportion.sim.workload import Workload

REFERENCE = "v100"
"""Where jobs count as run of which nobody says it, while the cluster has several types."""
_ALONE = 1 + 2.0**-30
"""Steps/s that stand for no speed, where jobs run on a type that is compared with no other."""


def ran_on(jobs: pd.DataFrame) -> pd.Series:
    """Return the type on which each job took its recorded duration, empty where nobody says.

    Of jobs whose steps are those of the duration in a log only.
    """
    if not {"duration_s", "start_included"} <= {*jobs}:
        return pd.Series([], dtype=str)
    jobs = jobs[jobs["start_included"] & (jobs["duration_s"] > 0)]
    return jobs["recorded_on"] if "recorded_on" in jobs else pd.Series("", index=jobs.index)


def types_of(jobs: pd.DataFrame) -> list[str]:
    """Return the types on which jobs took their recorded durations."""
    return [name for name in ran_on(jobs).unique() if name]


def not_told(jobs: pd.DataFrame, cluster: Cluster) -> str:
    """Say how many jobs of a log name no type, where a cluster has several; else nothing."""
    none, types = int((ran_on(jobs) == "").sum()), _present(cluster)
    if not none or len(types) == 1:
        return ""
    return (
        f"{none:,} of {len(jobs):,} jobs name no type of GPU, and the cluster has several "
        f"({', '.join(types)}), so nobody knows how long they would have taken on each; "
        f"reference= tells the type"
    )


def as_run_on(workload: Workload, cluster: Cluster, otherwise: str | None = None) -> Workload:
    """Take jobs of a log that name no type to have run on the only type of a cluster.

    On `otherwise` where it has several, and then the times of the log are none to be set beside
    others; without one their types stay open. Notes say so.
    """
    jobs, types, notes = workload.jobs, _present(cluster), [*workload.notes]
    here = ran_on(jobs)
    if not (here == "").any():
        return workload
    kind = otherwise
    if len(types) == 1:
        kind = types[0]
        notes.append(f"jobs that name no type ran on {kind}, the only one of the cluster")
    elif (why := f"{not_told(jobs, cluster)}; they count as run on {REFERENCE}") not in notes:
        notes.insert(0, why)
    told = replace(workload, notes=tuple(notes))
    if kind is None:
        return told
    if len(types) > 1:
        jobs = jobs.drop(columns=[*RECORDED_TIMES], errors="ignore")
    before = jobs.get("recorded_on", pd.Series("", index=jobs.index))
    jobs = jobs.assign(recorded_on=before.mask(jobs.index.isin(here.index[here == ""]), kind))
    return _in_steps(replace(told, jobs=jobs), [kind])


def on_types(
    workload: Workload, cluster: Cluster, speed: Mapping[str, float] | None = None
) -> Workload:
    """Return a workload with speeds on the types of a cluster, and on those of its log.

    Durations of the log stay what they are on the types on which they were recorded.

    Raises
    ------
    InputError
        As `with_modelled_speeds`; and if jobs ran, or may run, on a type of which nobody knows how
        fast it is beside another one.
    """
    workload = as_run_on(workload, cluster)
    before, types = workload.throughputs, types_of(workload.jobs)
    known = with_modelled_speeds(workload, cluster.accelerators, speed, types)
    table = known.throughputs
    lost = [name for name in types if name not in table or table[name].eq(_ALONE).all()]
    if lost:
        _check_apart(known, cluster, lost)
        alone = {name: _ALONE for name in lost if name in cluster.gpus}
        known = replace(known, throughputs=known.throughputs.assign(**alone))
    table = known.throughputs
    new = [each for each in types if each not in before or not table[each].equals(before[each])]
    return _in_steps(known, [name for name in new if name in table])


def duration_steps(jobs: pd.DataFrame, table: pd.DataFrame, on: pd.Series) -> pd.Series:
    """Return the steps that jobs do on these types while their durations last."""
    column = table.columns.get_indexer(pd.Index(on))
    speed = table.to_numpy(dtype=float)[find_rows(jobs, table), column]
    return pd.Series(jobs["duration_s"].to_numpy(dtype=float) * speed, jobs.index)


def _in_steps(workload: Workload, types: Collection[str]) -> Workload:
    """Count the steps of jobs that ran on these types anew, as far as speeds on them are known."""
    on, table = ran_on(workload.jobs), workload.throughputs
    on = on[on.isin([name for name in types if name in table])]
    if on.empty:
        return workload
    steps = workload.jobs["total_steps"].copy()
    steps[on.index] = duration_steps(workload.jobs.loc[on.index], table, on)
    return replace(workload, jobs=workload.jobs.assign(total_steps=steps))


def _check_apart(workload: Workload, cluster: Cluster, lost: Collection[str]) -> None:
    """Refuse types of unknown speed, unless no job may run both on one of them and elsewhere."""
    jobs, types = workload.jobs, np.array(cluster.accelerators, dtype=object)
    own = jobs["recorded_on"].to_numpy(dtype=object)[:, None] == types
    strange = jobs["recorded_on"].isin(lost).to_numpy()[:, None] | np.isin(types, [*lost])
    if not (workload.may_run(cluster) & (cluster.counts > 0) & ~own & strange).any():
        return
    count = jobs["recorded_on"].value_counts()
    ran = ", ".join(f"{name} ({count[name]:,} jobs)" for name in lost)
    raise InputError(
        f"Jobs of {workload.name!r} ran on {ran}, and nobody knows how fast that is beside other "
        f"types of GPUs. Tell how many times as fast as a {BASE} each is: "
        f"--speed {','.join(f'{name}=12' for name in lost)}, in Python "
        f"speed={ {name: 12.0 for name in lost} }."
    )


def _present(cluster: Cluster) -> list[str]:
    """Return the types of which a cluster has GPUs."""
    return [name for name, gpus in cluster.gpus.items() if gpus]
