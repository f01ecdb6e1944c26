"""``apportion audit`` and ``floor``: what is proved of a run, and of any schedule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.answers.audited_runs import audit_run
from apportion.answers.lies import try_lies
from apportion.cli.answers.asked import settings_given
from apportion.cli.inputs import workload_and_origin
from apportion.cli.output import print_table
from apportion.cli.racks import cluster_of
from apportion.cli.solve import jobs_table, throughputs_of
from apportion.cli.workload_options import fitting_options
from apportion.errors import InputError
from apportion.experiments.fitted_jobs import fitted
from apportion.experiments.plan import check_by
from apportion.policies.auditing import audit
from apportion.report.files import write_table
from apportion.sim import simulate
from apportion.sim.floors import floor
from apportion.sim.traces.table import parse_table
from apportion.sim.traces.text import read_text

if TYPE_CHECKING:
    import argparse

    import pandas as pd

    from apportion.policies.auditing import Audit


_MOST_ROWS = 10
_OF_RUNS = ("workload", "generate_jobs", "racks", "tries", "jobs")
_OF_FILES = ("jobs_table", "lies")


def run_audit(args: argparse.Namespace) -> None:
    """Audit one allocation, or a run, and say who has reason to complain."""
    found, jobs = _of_run(args) if args.file is None else _of_allocation(args)
    print(found)
    print("\nLeast of its own part of the cluster")
    least = found.sharing.sort_values("ratio", kind="stable").reset_index(names="job")
    _show(least)
    _show_if_any("Envy: what the job would make of what the other has", found.envy)
    _show_if_any("Lies that pay", found.lies)
    tables = {"sharing": least, "envy": found.envy, "lies": found.lies}
    if found.better is not None:
        tables["better"] = found.better.reset_index(names="job")
        _show_if_any("Shares of time by which nobody has less", tables["better"])
    if args.by is not None:
        tables["groups"] = found.by(jobs[args.by]).reset_index(names=args.by)
        _show_if_any(f"By {args.by}", tables["groups"])
    if args.out is not None:
        for name, table in tables.items():
            write_table(Path(args.out) / f"{name}.csv", table)
        print(f"Files: {', '.join(f'{name}.csv' for name in tables)} in {args.out}")


def _of_allocation(args: argparse.Namespace) -> tuple[Audit, pd.DataFrame]:
    """Audit what a policy makes of a table of steps/s; return its jobs table, too."""
    _refuse(args, _OF_RUNS, f"the table {args.file!r}")
    if args.cluster is None:
        raise InputError("An audit of an allocation needs the GPUs: give --cluster v100=1,k80=1.")
    speeds = throughputs_of(args.file)
    jobs = None if args.jobs_table is None else jobs_table(args.jobs_table)
    if args.by is not None and (jobs is None or args.by not in jobs):
        there = "--jobs-table FILE" if jobs is None else "a column of --jobs-table"
        raise InputError(f"--by {args.by} is about a column of the jobs; give {there}.")
    factors = (0.0, 0.5, 2.0) if args.lies is None else args.lies
    found = audit(args.policy, speeds, workers=args.cluster, jobs=jobs, lies=factors)
    return found, speeds if jobs is None else jobs


def _of_run(args: argparse.Namespace) -> tuple[Audit, pd.DataFrame]:
    """Simulate and audit the run; return the jobs of the workload, too."""
    _refuse(args, _OF_FILES, "a run; give a table of steps/s as FILE")
    workload, _ = workload_and_origin(args)
    cluster = cluster_of(args, lambda: workload)
    made: Any = fitted(workload, cluster, **fitting_options(args))
    if made.elastic:
        raise InputError("An audit is of jobs whose gangs have one size; these are elastic.")
    check_by(args.by, made)
    args.policies = args.policy
    settings = {**settings_given(args), "seed": args.seed}
    if args.tries is None:
        return audit_run(simulate(args.policy, made, cluster, **settings), made), made.jobs
    told = {"lies": args.tries, "by": args.by, "n_jobs": args.jobs}
    lies = try_lies(args.policy, made, cluster, **told, **settings)
    print(lies, end="\n\n")
    return audit_run(lies.run, made, lies=lies), made.jobs


def _refuse(args: argparse.Namespace, names: tuple[str, ...], subject: str) -> None:
    for name in names:
        if getattr(args, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} does nothing to the audit of {subject}. Leave it out.")


def _show_if_any(title: str, table: pd.DataFrame) -> None:
    if len(table):
        print(f"\n{title}")
        _show(table)


def _show(table: pd.DataFrame) -> None:
    """Print the first rows."""
    rows = [
        [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in table.head(_MOST_ROWS).itertuples(index=False)
    ]
    print_table([str(name) for name in table.columns], rows)
    if len(table) > _MOST_ROWS:
        print(f"... and {len(table) - _MOST_ROWS} more")


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
