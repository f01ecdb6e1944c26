"""``apportion compare``."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.cli.inputs import simulation_settings, workload_and_origin
from apportion.cli.output import print_summary, say
from apportion.cli.parser import parse
from apportion.cli.racks import cluster_of, policies_of
from apportion.cli.sections import as_toml
from apportion.cli.workload_options import fitting_options
from apportion.errors import ApportionError, InputError
from apportion.experiments import compare
from apportion.experiments.fitted_jobs import fitted
from apportion.experiments.plan import check_by
from apportion.report.files import write_table, write_text
from apportion.report.found import RECORDED, group_table
from apportion.sim.deciders import get_decider
from apportion.sim.fingerprint import versions, workload_fingerprint
from apportion.sim.recorded_types import not_told
from apportion.sim.traces.recorded_times import is_recorded
from apportion.text_files import read_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from apportion.experiments import Comparison
    from apportion.sim import ElasticWorkload, Workload


AGAINST = "against.csv"
"""File in which jobs stand beside those of another policy."""


def run(args: argparse.Namespace) -> None:
    """Compare policies, print the table, and say where the files are.

    Raises
    ------
    ApportionError
        At the end, if a policy failed.
    """
    started = time.perf_counter()
    workload, origin = workload_and_origin(args)
    cluster = cluster_of(args, lambda: workload)
    workload = fitted(workload, cluster, **fitting_options(args))
    check_by(args.by, workload)
    untold = not_told(workload.jobs, cluster) if is_recorded(workload.jobs) else ""
    recorded_too = is_recorded(workload.jobs) and not untold
    policies = policies_of(args, elastic=workload.elastic, recorded=recorded_too)
    against = _against(args.against, policies, elastic=workload.elastic)
    comparison = compare(
        policies,
        workload,
        cluster,
        **simulation_settings(args),
        seed=args.seed,
        backend=args.backend,
        address=args.address,
        n_jobs=args.jobs,
        out=args.out,
        start_costs=args.start_costs or "usual",
        raise_on_failure=False,
        origin=origin,
    )
    if comparison.command is not None:
        again = parse(shlex.split(comparison.command)[1:])
        write_text(Path(args.out) / "run.toml", as_toml(again))
    (Path(args.out) / AGAINST).unlink(missing_ok=True)  # of another comparison that was here before
    if against in comparison.runs:
        write_table(Path(args.out) / AGAINST, comparison.jobs_against(against))
    notes = [] if args.config is None else _differences(args.config, workload)
    if untold:
        notes.append(f"no row {RECORDED}, as types of GPUs are not told")
    _show(comparison, notes, args, time.perf_counter() - started, against)


def _differences(file: str, workload: Workload | ElasticWorkload) -> list[str]:
    """Say why the repetition of a ``run.json`` may come to other figures."""
    record = read_text(file).json()
    before, versions_before = (
        record[key] if isinstance(record.get(key), dict) else {} for key in ("workload", "versions")
    )
    notes, now = [], versions()
    if before.get("fingerprint") != workload_fingerprint(workload):
        notes.append(f"the workload is not the one of {file}")
    changed = [
        f"{name} {made_with}, now {now.get(name, 'none')}"
        for name, made_with in versions_before.items()
        if now.get(name) != made_with
    ]
    if changed:
        notes.append(f"{file} was made with {'; '.join(changed)}")
    return notes


def _against(name: str | None, policies: Sequence[str], *, elastic: bool) -> str:
    """Return the label of the policy that others are set against, none for nobody.

    By default the log's own schedule, if it is among them.

    Raises
    ------
    InputError
        If it is not among those that are to run.
    """
    if name is None:
        return RECORDED if RECORDED in policies else ""
    labels = [get_decider(each, elastic=elastic).label for each in policies]
    label: str = get_decider(name, elastic=elastic).label
    if label not in labels:
        raise InputError(
            f"--against {name} is not among the policies that run: {', '.join(labels)}. Add it to "
            f"--policies."
        )
    return label


def _show(
    comparison: Comparison, notes: list[str], args: argparse.Namespace, seconds: float, against: str
) -> None:
    workload, count, out = comparison.workload, len(comparison), Path(args.out)
    print(
        f"{workload.name}: {len(workload.jobs):,} jobs on {comparison.cluster}, "
        f"{count} {'policy' if count == 1 else 'policies'} in {seconds:.0f} s\n"
    )
    print_summary(comparison.human_table(brief=True))
    costs = comparison.start_costs()
    if costs is not None:
        print("\nmean JCT where a start costs so many times as much")
        print_summary(costs)
    apart = comparison.differences_in_words(against) if against in comparison.runs else None
    if apart is not None:
        print(f"\nlater than by {against} (below 0: sooner), with paired 95 % intervals")
        print_summary(apart)
    if args.by is not None:
        print()
        print_summary(group_table(comparison.by(args.by)))
    if not (costs is None and apart is None and args.by is None):
        print()  # notes are of all tables, and not of the last
    for note in [*comparison.notes, *notes]:
        say(f"Note: {note}")
    sys.stdout.flush()
    schedule = "schedule.csv.gz, " * comparison.has_schedule
    options = ", run.toml" * (comparison.command is not None)
    options += f", {AGAINST}" * (against in comparison.runs)
    others = "start_costs.csv, " * bool(comparison.at_other_costs)
    for name in ("prices", "iteration_times"):
        others += f"{name}.csv, " * any(name in run.tables for run in comparison.runs.values())
    files = f"summary.csv, jobs.csv, {others}{schedule}run.json{options}"
    page = out / "report.html"
    told = f"Report: {page} (and {files})" if page.exists() else f"Files: {files} in {out}"
    say(told)
    if comparison.errors:
        failed = " ".join(f"{name!r}: {text}" for name, text in comparison.errors.items())
        raise ApportionError(
            f"{len(comparison.errors)} of {len(comparison) + len(comparison.errors)} policies "
            f"failed. {failed} The same command tries them again, and them alone."
        )
