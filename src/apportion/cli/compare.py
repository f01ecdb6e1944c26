"""``apportion compare``."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.cli.inputs import simulation_settings, workload_and_origin
from apportion.cli.output import print_summary
from apportion.cli.parser import parse
from apportion.cli.racks import cluster_of, policies_of
from apportion.cli.recorded import fill_in, recorded_of, settings_of, workload_is_changed
from apportion.cli.sections import as_toml
from apportion.errors import ApportionError, unknown_name
from apportion.experiments import compare
from apportion.experiments.sources import fitted
from apportion.report import human_table
from apportion.report.files import write_text
from apportion.report.groups import group_table
from apportion.sim.elastic_workload import ELASTIC_COLUMNS
from apportion.sim.fingerprint import workload_fingerprint
from apportion.sim.metrics import told_columns

if TYPE_CHECKING:
    import argparse

    from apportion.experiments import Comparison
    from apportion.sim import ElasticWorkload, Workload

__all__ = ["run"]


def run(args: argparse.Namespace) -> None:
    """Compare policies, print the table, and say where the files are.

    Raises
    ------
    ApportionError
        At the end, if a policy failed.
    """
    started = time.perf_counter()
    recorded = recorded_of(args)
    changed = workload_is_changed(args)
    if recorded is None:
        settings, cluster = simulation_settings(args), None
    else:
        settings, cluster = settings_of(args, recorded), fill_in(args, recorded)
    args.seed = settings["seed"] = args.seed or settings.get("seed", 0)
    workload, origin = workload_and_origin(args)
    if cluster is None:
        cluster = cluster_of(args, lambda: workload)
    workload = fitted(workload, cluster, args.too_large)
    _check_by(args.by, workload)
    comparison = compare(
        policies_of(args, elastic=workload.elastic),
        workload,
        cluster,
        **settings,
        backend=args.backend,
        address=args.address,
        n_jobs=args.jobs,
        out=args.out,
        raise_on_failure=False,
        origin=origin,
    )
    if comparison.command is not None:
        again = parse(shlex.split(comparison.command)[1:])
        write_text(Path(args.out) / "run.toml", as_toml(again))
    notes = []
    if recorded is not None:
        mark = recorded.fingerprint if changed else workload_fingerprint(workload)
        notes = recorded.differences(mark)
    _show(comparison, notes, args, time.perf_counter() - started)


def _check_by(column: str | None, workload: Workload | ElasticWorkload) -> None:
    """Refuse a column that runs will not tell, before any runs."""
    left_out = {*ELASTIC_COLUMNS, "rigid"} if workload.elastic else set()
    told = [name for name in told_columns(workload.jobs) if name not in left_out]
    known = ["job_type", "scale_factor", *told]
    if column is not None and column not in known:
        raise unknown_name("column of the jobs for --by", column, known)


def _show(
    comparison: Comparison, notes: list[str], args: argparse.Namespace, seconds: float
) -> None:
    workload, count, out = comparison.workload, len(comparison), Path(args.out)
    print(
        f"{workload.name}: {len(workload.jobs):,} jobs on {comparison.cluster}, "
        f"{count} {'policy' if count == 1 else 'policies'} in {seconds:.0f} s\n"
    )
    print_summary(human_table(comparison.summary(), brief=True))
    if args.by is not None:
        print()
        print_summary(group_table(comparison.by(args.by)))
        print()
    for note in [*comparison.notes, *notes]:
        print(f"Note: {note}")
    sys.stdout.flush()
    schedule = "schedule.csv.gz, " * comparison.has_schedule
    options = ", run.toml" * (comparison.command is not None)
    files = f"summary.csv, jobs.csv, {schedule}run.json{options}"
    print(f"Report: {out / 'report.html'} (and {files})")
    if comparison.errors:
        failed = " ".join(f"{name!r}: {text}" for name, text in comparison.errors.items())
        raise ApportionError(
            f"{len(comparison.errors)} of {len(comparison) + len(comparison.errors)} policies "
            f"failed. {failed} The same command tries them again, and them alone."
        )
