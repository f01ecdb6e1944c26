"""How far the policies of a sweep are from anything possible."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.experiments.comparisons.possible import MOST_JOBS, best_in_words, may_be_bounded
from apportion.experiments.fitted_jobs import made_for
from apportion.sim.floors import floor

if TYPE_CHECKING:
    import pandas as pd

    from apportion.experiments.plan import Plan
    from apportion.experiments.simulations import Setup


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
        line = _nearest(runs, setup, where["workload"], where.get("cluster"), where["load"])
        if line:
            head = f"load {where['load']:g}"
            head = f"{where['cluster']}, {head}" if setup.clusters else head
            said.setdefault(where["workload"], []).append(f"{head}: {line}")
    return said


def _nearest(
    runs: pd.DataFrame, setup: Setup, workload: str, cluster: str | None, load: float
) -> str | None:
    """Say it at one point."""
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
