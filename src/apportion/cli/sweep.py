"""``apportion sweep``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.cli.answers.asked import workloads_of
from apportion.cli.inputs import simulation_settings
from apportion.cli.output import print_summary, print_table, say
from apportion.cli.racks import cluster_of, policies_of
from apportion.cli.sections import as_toml
from apportion.experiments import plan_sweep, sweep
from apportion.experiments.machine.store import FILE, Store
from apportion.experiments.sources import sources_of
from apportion.report.files import check_format, write_text
from apportion.report.tables import notes_on
from apportion.sim.traces.elastic import is_elastic

if TYPE_CHECKING:
    import argparse

    from apportion.experiments import Plan, Sweep


def run(args: argparse.Namespace) -> None:
    """Sweep, print the summary, and say where the files are; or list what would run.

    Raises
    ------
    ApportionError
        At the end, if a run failed.
    """
    started = time.perf_counter()
    workloads = workloads_of(args)
    elastic = all("path" in each and is_elastic(each["path"]) for each in workloads)
    what: dict[str, Any] = {
        "policies": policies_of(args, elastic=elastic),
        "workloads": workloads,
        "cluster": cluster_of(args, lambda: sources_of(workloads)[0].made(1.0, 0)),
        "loads": args.loads,
        "seeds": args.seeds,
        "resample": args.resample,
        "by": args.by,
        **simulation_settings(args),
    }
    check_format(args.table_format)
    if args.dry_run:
        _list(plan_sweep(**what), Path(args.out))
        return
    swept = sweep(
        **what,
        backend=args.backend,
        address=args.address,
        n_jobs=args.jobs,
        out=args.out,
        format=args.table_format,
        resume=not args.restart,
    )
    write_text(Path(args.out) / "run.toml", as_toml(args))
    _show(swept, args, time.perf_counter() - started)


def _list(plan: Plan, out: Path) -> None:
    """Print all runs, and which of them are finished."""
    finished = Store(out / FILE).finished()
    header = ["policy", "workload", "load", "seed", "finished"]
    rows = []
    for cell in plan.cells:
        label = cell.label
        done = "yes" if cell.fingerprint in finished else "no"
        rows.append([label["policy"], label["workload"], f"{label['load']:g}"])
        rows[-1] += [str(label["seed"]), done]
    print_table(header, rows, left=(0, 1))
    left = sum(cell.fingerprint not in finished for cell in plan.cells)
    print(f"{len(plan.cells)} runs, {left} of them to do")


def _show(swept: Sweep, args: argparse.Namespace, seconds: float) -> None:
    """Print the tables by workload, notes and files; raise if a run failed."""
    before = f", {swept.resumed} of them finished before" if swept.resumed else ""
    print(f"{len(swept)} runs on {swept.clusters} in {seconds:.0f} s{before}")
    near = swept.possible()
    for name, table in swept.human_tables().items():
        print(f"\n{name}: means over seeds; lowest and highest mean JCT of a seed")
        print_summary(table)
        for line in near.get(name, []):
            say(f"Note: {line}")
    for name, table in ({} if args.by is None else swept.group_tables()).items():
        print(f"\n{name}: means over seeds by {args.by}")
        print_summary(table)
    setup = swept.plan.setup
    for note in notes_on(swept.notes, None, *(setup.by_policy.values() or [setup.settings])):
        say(f"Note: {note}")
    names = ["runs", "summary", *["groups"] * (args.by is not None)]
    tables = ", ".join(f"{name}.{args.table_format}" for name in names)
    files = f"{tables}, sweep.json, run.toml, {FILE}"
    page = Path(args.out) / "report.html"
    told = f"Report: {page} (and {files})" if page.exists() else f"Files: {files} in {args.out}"
    say(told)
    sys.stdout.flush()
    failure = swept.failure()
    if failure is not None:
        raise failure
