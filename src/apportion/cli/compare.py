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
from apportion.cli.recorded import fill_in, recorded_of, settings_of, workload_is_changed
from apportion.cli.sections import as_toml
from apportion.cli.trace_options import fitting_options
from apportion.errors import ApportionError, InputError
from apportion.experiments import compare
from apportion.experiments.fitted_jobs import fitted
from apportion.experiments.plan import check_by
from apportion.jobs import is_recorded
from apportion.report.against import RECORDED
from apportion.report.files import write_table, write_text
from apportion.report.groups import group_table
from apportion.sim.deciders import get_decider
from apportion.sim.fingerprint import workload_fingerprint

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from apportion.experiments import Comparison

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
    workload = fitted(workload, cluster, **fitting_options(args))
    check_by(args.by, workload)
    policies = policies_of(args, elastic=workload.elastic, recorded=is_recorded(workload.jobs))
    against = _against(args.against, policies, elastic=workload.elastic)
    comparison = compare(
        policies,
        workload,
        cluster,
        **settings,
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
    notes = []
    if recorded is not None:
        mark = recorded.fingerprint if changed else workload_fingerprint(workload)
        notes = recorded.differences(mark)
    _show(comparison, notes, args, time.perf_counter() - started, against)


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
    others += "prices.csv, " * any("prices" in run.tables for run in comparison.runs.values())
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
