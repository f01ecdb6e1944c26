"""``apportion compare``."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.cli.inputs import simulation_settings, workload_and_origin
from apportion.cli.options import CLUSTER_OPTIONS
from apportion.cli.output import print_summary, say
from apportion.cli.parser import parse
from apportion.cli.racks import cluster_of, policies_of
from apportion.cli.sections import as_toml, called, read_settings
from apportion.cli.workload_options import (
    FITTING_OPTIONS,
    GENERATED,
    READING_OPTIONS,
    fitting_options,
)
from apportion.errors import ApportionError, InputError, unknown_name
from apportion.experiments import compare
from apportion.experiments.fitted_jobs import fitted
from apportion.experiments.plan import check_by
from apportion.experiments.provenance import cluster_options
from apportion.experiments.recorded import read_recorded
from apportion.report.files import write_table, write_text
from apportion.report.found import RECORDED, group_table
from apportion.sim.deciders import get_decider
from apportion.sim.fingerprint import workload_fingerprint
from apportion.sim.recorded_types import not_told
from apportion.sim.traces.recorded_times import is_recorded

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.experiments import Comparison
    from apportion.experiments.recorded import Recorded


_WORKLOAD = ("workload", *READING_OPTIONS, *FITTING_OPTIONS, *GENERATED)
# What an option of a generated workload stands in place of, beside itself.
_REPLACED = {
    "arrivals": ("jobs_per_hour", "days"),
    "jobs_per_hour": ("days",),
    "days": ("jobs_per_hour",),
}


def recorded_of(args: argparse.Namespace) -> Recorded | None:
    """Read the file of ``--config``, if that is given.

    Raises
    ------
    InputError
        If it cannot be repeated with the options beside it.
    """
    if args.config is None:
        return None
    recorded = read_recorded(Path(args.config))
    for name in sorted(recorded.own):
        if getattr(args, name, None) is None:
            instead = f"give {called(args, name)}" if hasattr(args, name) else "repeat it in Python"
            raise InputError(
                f"{args.config}: {name} was an object of the caller's own, which a file does not "
                f"hold; {instead}."
            )
    if args.mechanism not in (None, recorded.mechanism):
        of = "several" if recorded.mechanism is None else repr(recorded.mechanism)
        raise InputError(
            f"--mechanism {args.mechanism} does not go with {args.config}, whose settings are "
            f"those of {of}. Leave out one of the two."
        )
    of_racks = "racks" in (cluster_options(recorded.cluster) or {})
    other, kind = ("cluster", "racks") if of_racks else ("racks", "types")
    if getattr(args, other) is not None:
        raise InputError(
            f"{_option(other)} does not go with {args.config}, whose cluster and workload are of "
            f"{kind}. Leave out one of the two."
        )
    return recorded


def workload_is_changed(args: argparse.Namespace) -> bool:
    """Whether options that make the workload or choose among its jobs are given."""
    return any(getattr(args, name) is not None for name in (*_WORKLOAD, *CLUSTER_OPTIONS, "seed"))


def settings_of(args: argparse.Namespace, recorded: Recorded) -> dict[str, Any]:
    """Return the settings of before, those that are given in their place."""
    own = {name: getattr(args, name) for name in ("seed", "mechanism", "network")}
    given = simulation_settings(args) | own
    return recorded.settings | {name: each for name, each in given.items() if each is not None}


def fill_in(args: argparse.Namespace, recorded: Recorded) -> Cluster | None:
    """Fill in the options that make policies, cluster and workload, where they are not given.

    Returns
    -------
    Cluster or None
        The cluster of before, where no option changes it.

    Raises
    ------
    InputError
        If the file does not tell them.
    """
    if args.policies is None:
        args.policies = ",".join(recorded.policies)
    _fill_workload(args, recorded)
    given = [name for name in CLUSTER_OPTIONS if getattr(args, name) is not None]
    before = cluster_options(recorded.cluster)
    if not given:
        args.racks = (before or {}).get("racks")
        return recorded.cluster
    if before is None and args.cluster is None:
        raise InputError(
            f"{_option(given[0])} cannot change the cluster of {args.config}, which has prices or "
            f"racks that no option describes; give --cluster too."
        )
    _fill(args, before or {})
    return None


def _fill_workload(args: argparse.Namespace, recorded: Recorded) -> None:
    given = {name for name in _WORKLOAD if getattr(args, name) is not None}
    if "workload" in given:
        return
    if recorded.origin is None:
        if given & {"generate_jobs"}:
            return
        raise InputError(
            f"{args.config} does not tell how its workload was made, as it was given in Python "
            f"without origin=; give --workload FILE, or --generate jobs=N."
        )
    seed = recorded.settings["seed"]
    if args.seed is None and recorded.origin.get("seed", seed) != seed:
        raise InputError(
            f"{args.config}: its workload was made with the seed {recorded.origin['seed']}, and "
            f"simulated with {seed}, for which there is no option; give --seed, for both."
        )
    origin = {name: value for name, value in recorded.origin.items() if name != "seed"}
    for name in origin:
        if name not in _WORKLOAD:
            raise unknown_name(f"option for the workload of {args.config}", name, _WORKLOAD)
    replaced = {other for name in given for other in _REPLACED.get(name, ())}
    kept = {name: value for name, value in origin.items() if name not in replaced}
    _fill(args, read_settings(f"{args.config}, origin of the workload", kept, args.sections))


def _fill(args: argparse.Namespace, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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
    untold = not_told(workload.jobs, cluster) if is_recorded(workload.jobs) else ""
    recorded_too = is_recorded(workload.jobs) and not untold
    policies = policies_of(args, elastic=workload.elastic, recorded=recorded_too)
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
    if untold:
        notes.append(f"no row {RECORDED}, as types of GPUs are not told")
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
