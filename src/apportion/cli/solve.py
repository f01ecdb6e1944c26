"""``apportion solve``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import file_path
from apportion.cli.inputs import ids_of, read_csv
from apportion.cli.output import print_table
from apportion.csv_cells import to_csv
from apportion.experiments.provenance import plain
from apportion.policies import solve
from apportion.report.files import check_folder, write_text
from apportion.sim.traces.jobs_csv import jobs_of

if TYPE_CHECKING:
    import argparse

    from apportion.allocation import Allocation

__all__ = ["run"]

_MOST_ROWS = 40


def run(args: argparse.Namespace) -> None:
    """Solve one problem, print the allocation, and write it if asked."""
    out = None if args.out is None else file_path("--out", args.out)
    if out is not None:
        check_folder(out.parent)
    jobs = None
    if args.jobs_table is not None:
        jobs = _jobs(args.jobs_table)
    allocation = solve(args.policy, _throughputs(args.file), workers=args.workers, jobs=jobs)
    _show(allocation)
    if out is not None:
        content = _as_json(allocation) if out.suffix == ".json" else to_csv(_table(allocation))
        print(f"Written: {write_text(out, content)}")


def _throughputs(path: str) -> pd.DataFrame:
    """Read steps/s, naming the line of a value that is none."""
    table = read_csv(path)
    ids, *accelerators = map(str, table.rows.columns)
    speeds = {name: table.numbers(name, "a number >= 0 (steps/s)") for name in accelerators}
    return pd.DataFrame(speeds).set_axis(ids_of(table), axis=0).rename_axis(index=ids)


def _jobs(path: str) -> pd.DataFrame:
    """Read a jobs table, naming the line of a value out of range."""
    table = read_csv(path)
    ids = str(table.rows.columns[0])
    return jobs_of(table, ids).set_axis(ids_of(table), axis=0).rename_axis(index=ids)


def _table(allocation: Allocation) -> pd.DataFrame:
    """Put shares and throughputs side by side, one row per job."""
    return allocation.X.assign(
        steps_per_s=allocation.throughput.reindex(allocation.X.index)
    ).rename_axis(index="job")


def _show(allocation: Allocation) -> None:
    shares = allocation.X.head(_MOST_ROWS)
    speeds = allocation.throughput.reindex(shares.index)
    rows = [
        [str(job), *(f"{share:.3f}" for share in shares.loc[job]), f"{speeds[job]:,.4g}"]
        for job in shares.index
    ]
    print("Share of time on each accelerator, and effective throughput")
    print_table(["job", *map(str, shares.columns), "steps/s"], rows)
    if len(allocation.X) > _MOST_ROWS:
        print(f"... and {len(allocation.X) - _MOST_ROWS} more jobs")
    unit = f" {allocation.unit}" if allocation.unit else ""
    prices = ", ".join(f"{name} {price:.4g}" for name, price in allocation.prices.items())
    print(
        f"policy     {allocation.policy}\n"
        f"objective  {allocation.objective:.6g}{unit}\n"
        f"prices     {prices} (gain in the objective from one more GPU)\n"
        f"gap        {allocation.gap:.1e} ({allocation.status})"
    )
    if allocation.message:
        print(allocation.message)


def _as_json(allocation: Allocation) -> str:
    """Write the allocation with its certificate."""
    content: dict[str, Any] = {
        "policy": allocation.policy,
        "status": allocation.status,
        "objective": allocation.objective,
        "unit": allocation.unit,
        "gap": allocation.gap,
        "prices": allocation.prices.to_dict(),
        "shares": {str(job): row.to_dict() for job, row in allocation.X.iterrows()},
        "throughput": allocation.throughput.to_dict(),
    }
    return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
