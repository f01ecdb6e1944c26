"""Workloads made to fit the cluster, or the clusters, of an experiment."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from apportion.checks import listed
from apportion.errors import InputError, unknown_name, written
from apportion.sim import ElasticWorkload, Workload, measuring
from apportion.sim import resample as resampled
from apportion.sim.recorded_types import REFERENCE, as_run_on, types_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.experiments.sources import Source
    from apportion.sim.metrics import AnyWorkload

FITTING = ("too_large", "speed", "measure", "types")
"""How jobs are made to fit an experiment, drawn jobs as well: arguments of `fitted`."""


def made_for(
    source: Source,
    cluster: Cluster,
    load: float,
    seed: int,
    *,
    resample: bool | Literal["blocks"],
    beside: Sequence[Cluster] = (),
) -> Workload | ElasticWorkload:
    """Make the workload of one run: what fits the cluster, of which jobs may be drawn anew.

    Parameters
    ----------
    source, load, seed, resample
        As for `apportion.sweep`.
    cluster
        Where it is to run.
    beside
        All clusters on which the same jobs are to run: what does not fit one of them is left out
        on all, or runs on several would not be of the same jobs.
    """
    fitting = {**source.fitting}
    measure = fitting.pop("measure", None)
    made = source.made(load, seed)
    if beside and made.elastic is False:  # on whichever they run, jobs ran on one before
        made = as_run_on(made, beside[0], otherwise=REFERENCE)
    there = dict.fromkeys(chain(types_of(made.jobs), *(each.gpus for each in beside)))
    for name in (fitting.get("speed") or ()) if beside else ():
        if name not in there:
            raise unknown_name("accelerator in speed", name, there)
    own = _on_types_of(cluster, fitting, made) if beside else fitting
    workload = fitted(made, cluster, **own)
    for other in beside:
        if other != cluster and workload.elastic is False:
            kept = fitted(made, other, **_on_types_of(other, fitting, made)).jobs.index
            workload = _only(workload, kept, other)
    workload = resampled(workload, seed, blocks=resample == "blocks") if resample else workload
    return workload if measure is None else measuring(workload, *measure)


def _on_types_of(
    cluster: Cluster, fitting: Mapping[str, Any], made: Workload | ElasticWorkload
) -> dict[str, Any]:
    """Leave out speeds of types that neither a cluster, of several, nor the log has."""
    speed, types = fitting.get("speed"), {*cluster.gpus, *types_of(made.jobs)}
    if speed is None:
        return dict(fitting)
    return {**fitting, "speed": {name: x for name, x in speed.items() if name in types}}


def _only(workload: Workload, kept: pd.Index, other: Cluster) -> Workload:
    """Leave out jobs that another cluster does not hold, which a note says."""
    here = workload.jobs.index.isin(kept)
    if here.all():
        return workload
    if not here.any():
        raise InputError(f"No job of {workload.name!r} fits all clusters that are compared.")
    note = f"{int((~here).sum())} jobs left out on all clusters: {other} cannot hold them"
    return replace(workload, jobs=workload.jobs[here], notes=(*workload.notes, note))


def fitted(
    workload: AnyWorkload,
    cluster: Cluster,
    too_large: str | None = None,
    speed: Mapping[str, float] | None = None,
    measure: Sequence[float] | None = None,
    types: str | None = None,
) -> AnyWorkload:
    """Leave out jobs with more GPUs than any type of the cluster has, if so asked or expected.

    Speeds on types that the jobs were not measured on are modelled (`apportion.Workload.on`).

    Parameters
    ----------
    workload, cluster
        The jobs, and where they are to run.
    too_large
        ``drop`` or ``error``. By default such jobs of traces that tell no job types are dropped,
        as those were recorded on other clusters; else they are an error once they are simulated.
        Elastic jobs fit everywhere.
    speed
        Times as fast as a v100, by type, in place of the model; of elastic jobs as the type that
        their applications were measured on.
    measure
        Arguments of `apportion.sim.measuring`: which jobs figures are of; all by default.
    types
        ``recorded``: jobs run on the type that they had by their log only, where the cluster has
        it (column ``runs_on``); ``any``, the default: on every type.

    Raises
    ------
    InputError
        For a speed of a type that neither the cluster nor the log has, or that is no positive
        number, for no jobs that are measured, and for a workload whose log tells no types.
    """
    asked: Any = _as_asked(workload) if types == "recorded" else workload
    made = asked.on(cluster, speed)
    if not made.elastic:
        expected = "drop" if made.job_types_drawn else "error"
        made = made.fitting(cluster) if (too_large or expected) == "drop" else made
    fits: AnyWorkload = made
    return fits if measure is None else measuring(fits, *two_ends(measure))


def _as_asked(workload: Any) -> Any:
    """Let jobs run on the type that their log names only."""
    if "recorded_on" not in workload.jobs:
        raise InputError(
            f"types='recorded' (--types) is about logs that name the type of each job; the "
            f"workload {workload.name!r} has no recorded_on."
        )
    note = "jobs run on the type of their log only, where the cluster has it"
    jobs = workload.jobs.assign(runs_on=workload.jobs["recorded_on"])
    return replace(workload, jobs=jobs, notes=(*workload.notes, note))


def two_ends(measure: Sequence[float]) -> tuple[float, float]:
    """Return both ends of the jobs that figures are of."""
    ends = listed("measure", measure, "two numbers from 0 to 1")
    if len(ends) != 2:
        raise InputError(f"measure is {written(measure)}; it must be two numbers, as (0.4, 0.9).")
    return (ends[0], ends[1])
