"""Figures beside those of a comparison: the distance from anything possible, costlier starts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError
from apportion.experiments.fitted_jobs import made_for
from apportion.report import human_table
from apportion.report.tables import Measure, time_unit
from apportion.sim.deciders import get_decider
from apportion.sim.floors import floor
from apportion.sim.run import ALONE_ON_GPUS
from apportion.statistics.intervals import batch_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.experiments.plan import Plan
    from apportion.experiments.simulations import Setup
    from apportion.sim import ElasticWorkload, Run, Workload
    from apportion.sim.floors import Floor
    from apportion.statistics.typeset import HumanTable


MOST_JOBS = 1000
"""Jobs for which tables are set against a floor unasked: it takes seconds."""


def bounded(runs: Mapping[str, Run], workload: Workload | ElasticWorkload) -> dict[str, Run]:
    """Return the runs that a floor is below: those in which each GPU has one job at a time.

    Not by a mechanism of one's own, of which nobody knows, and not ``as_recorded``, which works at
    the speeds of a log.
    """
    return {
        label: run
        for label, run in runs.items()
        if may_be_bounded(label, run.settings.get("mechanism"), workload)
    }


def may_be_bounded(label: str, mechanism: object, workload: Workload | ElasticWorkload) -> bool:
    """Whether a floor is below runs of a policy by a mechanism; see `bounded`."""
    return (
        mechanism in ALONE_ON_GPUS
        and label != "as_recorded"
        and not (getattr(workload, "pairs", None) is not None and _may_share(label))
    )


def _may_share(label: str) -> bool:
    """Whether a policy may let jobs share GPUs; of one's own that is not known by name it may."""
    try:
        return bool(getattr(get_decider(label), "space_sharing", False))
    except InputError:
        return True


def above_floor(runs: Mapping[str, Run], floor: Floor) -> pd.DataFrame:
    """Return by how much of the floor runs are above it, a row per policy.

    Parameters
    ----------
    runs
        By policy.
    floor
        Of the workload that they ran.

    Returns
    -------
    DataFrame
        Indexed by policy, the figures of `Run.above_floor`.
    """
    rows = {label: run.above_floor(floor) for label, run in runs.items()}
    columns = ["mean_jct", "makespan", "ftf_max"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.rename_axis("policy")


def best_in_words(table: pd.DataFrame, least_s: float) -> str:
    """Say which policy is nearest to the floor under each figure, and how near it is.

    Parameters
    ----------
    table
        As `above_floor` returns it.
    least_s
        The floor under the mean completion time, seconds.
    """
    unit, seconds = time_unit(least_s)
    least = math.floor(least_s / seconds * 100) / 100
    said = f"{_nearest(table['mean_jct'])} of anything possible: no mean JCT is below {least:.2f}"
    others = {"makespan": table["makespan"], "max FTF": table["ftf_max"]}
    also = [f"by {name} {_nearest(far)}" for name, far in others.items() if far.notna().any()]
    return "; ".join([f"{said} {unit}", *also])


def _nearest(far: pd.Series) -> str:
    """Say who is least above the floor under a figure, and by how much, rounded up."""
    above = float(far.min())
    percent = max(math.ceil(above * 1000) / 10, 0.0)  # rounding may put a run below the floor
    near = f"within {percent:.1f} %" if above < 1 else f"at most {above + 1:.3g} times the least"
    return f"{far.idxmin()} is {near}"


def nearest_in_words(table: pd.DataFrame, plan: Plan) -> dict[str, list[str]]:
    """Say at each point which policy is nearest to the floor, by means over the seeds.

    Parameters
    ----------
    table
        As `Sweep.table` returns it.
    plan
        Of the sweep.

    Returns
    -------
    dict
        Lines by workload. None where jobs are elastic, figures are of some jobs only, or the runs
        are of more than ``MOST_JOBS`` different jobs; seeds at which a policy failed are left out.
    """
    setup, said = plan.setup, dict[str, list[str]]()
    point = ["workload", *["cluster"] * bool(setup.clusters), "load"]
    if table["error"].notna().all():
        return said
    if table.drop_duplicates([*point, "seed"])["jobs"].sum() > MOST_JOBS:
        return said
    for at, runs in table.groupby(point, sort=False):
        where: dict[str, Any] = dict(zip(point, at, strict=True))
        line = _nearest_at(runs, setup, where["workload"], where.get("cluster"), where["load"])
        if line:
            head = f"load {where['load']:g}"
            head = f"{where['cluster']}, {head}" if setup.clusters else head
            said.setdefault(where["workload"], []).append(f"{head}: {line}")
    return said


def _nearest_at(
    runs: pd.DataFrame, setup: Setup, workload: str, cluster: str | None, load: float
) -> str | None:
    failed = set(runs.loc[runs["error"].notna(), "seed"])
    runs = runs[~runs["seed"].isin(failed)]
    seeds = [int(seed) for seed in runs["seed"].unique()]
    on_it = setup.on(cluster)
    how: Any = {"resample": setup.resample, "beside": setup.clusters}
    jobs = [made_for(setup.sources[workload], on_it, load, seed, **how) for seed in seeds]
    if any(each.elastic is not False or "measured" in each.jobs for each in jobs):
        return None
    bounded = [
        label
        for label in runs["policy"].unique()
        if seeds and may_be_bounded(label, setup.settings_of(label)["mechanism"], jobs[0])
    ]
    if not bounded:
        return None
    floors = [floor(each, on_it) for each in jobs]
    least_s = sum(each.mean_jct_s for each in floors) / len(floors)
    last_s = sum(each.makespan_s for each in floors) / len(floors)
    means = runs.groupby("policy")[["mean_jct_s", "makespan_s"]].mean().loc[bounded]
    above = means / [least_s, last_s] - 1
    far = above.set_axis(["mean_jct", "makespan"], axis=1).assign(ftf_max=math.nan)
    over = f"over {len(seeds)} seeds, " * (len(seeds) > 1)
    return over + best_in_words(far, least_s)


def at_costs(
    runs_at: Mapping[float, Mapping[str, Run]], marked: Sequence[str] | None = None
) -> HumanTable:
    """Return mean completion times, a column for each multiple of what a start costs, with marks.

    Parameters
    ----------
    runs_at
        Runs by policy, by these multiples. Policies that failed at one of them are left out.
    marked
        Policies that may be best; all by default.
    """
    at = dict(sorted(runs_at.items()))
    labels = [label for label in runs_at[1.0] if all(label in runs for runs in at.values())]
    jobs = {
        f"{times:g}": {label: runs[label].measured for label in labels}
        for times, runs in at.items()
    }
    means = {
        name: [table["jct_s"].mean() for table in tables.values()] for name, tables in jobs.items()
    }
    found = {name: batch_figures(tables).get("mean_jct_s") for name, tables in jobs.items()}
    summary = pd.DataFrame({"policy": labels, **means})
    return human_table(
        summary,
        longest_s=max((each for row in means.values() for each in row), default=0.0),
        measures=[Measure(name, f"x {name}", "h", 3600.0) for name in means],
        replicates={name: each for name, each in found.items() if each is not None},
        marked=marked,
    )
