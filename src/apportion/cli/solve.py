"""``apportion solve``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.cli.inputs import read_csv
from apportion.cli.output import print_table
from apportion.comparison.provenance import plain
from apportion.errors import InputError
from apportion.jobs import check_jobs
from apportion.policies import solve
from apportion.report.files import check_folder, write_text

if TYPE_CHECKING:
    import argparse

    import pandas as pd

    from apportion.allocation import Allocation

__all__ = ["run"]

_MOST_ROWS = 40


def run(args: argparse.Namespace) -> None:
    """Solve one problem, print the allocation, and write it if asked."""
    out = None if args.out is None else Path(args.out)
    if out is not None:
        check_folder(out.parent)
    jobs = None
    if args.jobs_table is not None:
        jobs = check_jobs(read_csv(args.jobs_table))
    allocation = solve(args.policy, _throughputs(args.file), workers=args.workers, jobs=jobs)
    _show(allocation)
    if out is not None:
        content = _as_json(allocation) if out.suffix == ".json" else _table(allocation).to_csv()
        print(f"Written: {write_text(out, content)}")


def _throughputs(path: str) -> pd.DataFrame:
    """Read steps/s, and name the line of a value that is no number."""
    table = read_csv(path)
    for column in table.columns:
        if table[column].dtype.kind in "iuf":
            continue
        for line, value in enumerate(table[column], start=2):
            try:
                float(value)
            except ValueError:
                raise InputError(
                    f"{path}, line {line}, column {column!r}: {value!r} is no number of steps/s."
                ) from None
    return table


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
