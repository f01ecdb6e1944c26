"""``apportion floor``: what is proved of any schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.cli.inputs import workload_and_origin
from apportion.cli.output import print_table
from apportion.cli.racks import cluster_of
from apportion.cli.workload_options import fitting_options
from apportion.errors import InputError
from apportion.experiments.fitted_jobs import fitted
from apportion.sim.floors import floor
from apportion.sim.traces.table import parse_table
from apportion.text_files import read_text

if TYPE_CHECKING:
    import argparse

    import pandas as pd


class _Figures(NamedTuple):
    """What floors are under; of a table without ``ftf`` the last is NaN."""

    mean_jct_s: float
    weighted_mean_jct_s: float
    makespan_s: float
    ftf_max: float


_SHOWN = {"mean JCT, h": 3600, "weighted mean JCT, h": 3600, "makespan, h": 3600, "worst FTF": 1}


def run_floor(args: argparse.Namespace) -> None:
    """Say what no schedule is below, and how far above it those of a table are."""
    workload, _ = workload_and_origin(args)
    cluster = cluster_of(args, lambda: workload)
    made: Any = fitted(workload, cluster, **fitting_options(args))
    ran = {} if args.jobs_table is None else _ran(args.jobs_table, made)
    bound = floor(made, cluster)
    least = _Figures(*(getattr(bound, name) for name in _Figures._fields))
    print(f"No schedule of {made.name} ({len(made.jobs):,} jobs) on {cluster} is below")
    rows = [
        [
            name,
            f"{least[row] / unit:.4g}",
            *(_above(each[row], least[row]) for each in ran.values()),
        ]
        for row, (name, unit) in enumerate(_SHOWN.items())
    ]
    print_table(["", "floor", *ran], rows)
    for name, less_s in bound.shorter_by_s.items():
        print(f"one more {name}: {less_s / 60:.3g} min off this mean JCT, at the margin")
    print(f"(the best bound of its kind on the mean is at most {100 * bound.gap:.2g} % higher)")


def _above(figure: float, least: float) -> str:
    return "-" if np.isnan(figure) else f"{100 * (figure / least - 1):+.1f} %"


def _ran(path: str, workload: Any) -> dict[str, _Figures]:
    """Return the figures of each policy of a table of completed jobs."""
    table = parse_table(read_text(path))
    columns = {"job": table.texts("job"), "completion_s": table.numbers("completion_s")}
    if "ftf" in table.rows:
        columns["ftf"] = table.numbers("ftf", optional=True)
    policies = table.texts("policy") if "policy" in table.rows else None
    told = table.rows[[]].assign(**columns)
    runs = {"run": told} if policies is None else dict(iter(told.groupby(policies, sort=False)))
    return {
        str(name): _figures(each, workload.jobs, path)
        for name, each in runs.items()
        if name != "as_recorded"  # at the speeds of its log, which no floor is below
    }


def _figures(table: pd.DataFrame, jobs: pd.DataFrame, path: str) -> _Figures:
    """Return the figures of the jobs of a workload, of which each must stand in a table once."""
    names = jobs.index.astype(str)
    by_job = table.set_index("job")
    for what, wrong in (
        ("lacks job", names.difference(by_job.index)),
        ("has, beside those of the workload, job", by_job.index.difference(names)),
        ("has twice job", by_job.index[by_job.index.duplicated()]),
    ):
        if len(wrong):
            raise InputError(f"{path!r} {what} {wrong[0]!r}; it must have each job once a policy.")
    ended_s = by_job["completion_s"].reindex(names).to_numpy(dtype=float)
    arrival_s = jobs["arrival_s"].to_numpy(dtype=float)
    weight = jobs["weight"].to_numpy(dtype=float) if "weight" in jobs else np.ones(len(jobs))
    jct_s = ended_s - arrival_s
    if (jct_s < 0).any():
        raise InputError(f"{path!r} has job {names[int(jct_s.argmin())]!r} end before it arrives.")
    return _Figures(
        mean_jct_s=float(jct_s.mean()),
        weighted_mean_jct_s=float(np.average(jct_s, weights=weight)),
        makespan_s=float(ended_s.max() - arrival_s.min()),
        ftf_max=float(by_job["ftf"].max(skipna=False)) if "ftf" in by_job else float("nan"),
    )
