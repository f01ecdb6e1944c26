"""``apportion solve``."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import file_path
from apportion.cli.output import print_table
from apportion.errors import InputError
from apportion.policies import solve
from apportion.report.files import check_folder, write_text
from apportion.sim.traces.jobs_csv import jobs_of
from apportion.sim.traces.table import TraceTable, parse_table
from apportion.text_files import read_text
from apportion.whole_files import to_csv

if TYPE_CHECKING:
    import argparse

    from apportion.allocation import Allocation
    from apportion.estimators import EstimatedThroughputs

_MOST_ROWS = 40


def run(args: argparse.Namespace) -> None:
    """Solve one problem, print the allocation, and write it if asked."""
    out = None if args.out is None else file_path("--out", args.out)
    if out is not None:
        check_folder(out.parent)
    jobs = None
    if args.jobs_table is not None:
        jobs = jobs_table(args.jobs_table)
    throughputs = throughputs_of(args.file)
    estimates: EstimatedThroughputs | None = None
    notes: list[str] = []
    if throughputs.isna().to_numpy().any():
        estimates, notes = _completed(throughputs)
    told = throughputs if estimates is None else estimates
    allocation = solve(args.policy, told, workers=args.workers, jobs=jobs)
    if estimates is not None:
        _show_estimates(estimates, notes)
    _show(allocation)
    if out is not None:
        json_wanted = out.suffix == ".json"
        content = _as_json(allocation, estimates) if json_wanted else to_csv(_table(allocation))
        print(f"Written: {write_text(out, content)}")


def _read_csv(path: str) -> TraceTable:
    """Read a csv of jobs: the first column holds their ids, whatever it is called.

    Raises
    ------
    InputError
        If the file cannot be read or holds no table.
    """
    table = parse_table(read_text(path))
    if len(table.rows.columns) < 2:
        raise InputError(
            f"{path!r} holds no table: the first line must name the columns, the job id first, "
            f"and one line per job must follow."
        )
    return table


def _ids_of(table: TraceTable) -> pd.Series:
    """Return the ids of the jobs of a csv, by line."""
    return table.ids(str(table.rows.columns[0]))


def throughputs_of(path: str) -> pd.DataFrame:
    """Read steps/s, naming the line of a value that is none."""
    table = _read_csv(path)
    ids, *accelerators = map(str, table.rows.columns)
    valid = "a number >= 0 (steps/s), or empty where it was not measured"
    speeds = {name: table.numbers(name, valid, optional=True) for name in accelerators}
    return pd.DataFrame(speeds).set_axis(_ids_of(table), axis=0).rename_axis(index=ids)


def _completed(throughputs: pd.DataFrame) -> tuple[EstimatedThroughputs, list[str]]:
    """Fill empty cells, with the help of known job types where the accelerators are theirs."""
    from apportion.estimators import estimate_speeds  # not waited for where nothing is empty
    from apportion.sim.job_types import job_types

    known = job_types()
    references = known if set(throughputs.columns) <= set(known.columns) else None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        estimates = estimate_speeds(throughputs, references)
    source = "the other jobs"
    if references is not None:
        source += f" and the {len(known)} job types that come with apportion"
    head = f"Filled in from {source}; about a third of the truths lies outside of the range"
    return estimates, [head, *(f"Note: {warning.message}" for warning in said)]


def _show_estimates(estimates: EstimatedThroughputs, notes: list[str]) -> None:
    """Print what was filled in, and how far off it may be."""
    print("\n".join(notes))
    cells = _estimated_cells(estimates)
    rows = [
        [str(job), str(option), f"{speed:,.4g}", f"{speed / factor:,.4g} to {speed * factor:,.4g}"]
        for job, option, speed, factor in cells[:_MOST_ROWS]
    ]
    print_table(["job", "on", "steps/s", "range"], rows)
    if len(cells) > _MOST_ROWS:
        print(f"... and {len(cells) - _MOST_ROWS} more")
    print()


def _estimated_cells(estimates: EstimatedThroughputs) -> list[tuple[Any, Any, float, float]]:
    """Job, option, steps/s, and the factor of one standard deviation, of what was filled in."""
    speeds, factors = estimates.values.to_numpy(), np.exp(estimates.spread.to_numpy())
    jobs, options = estimates.estimated.index, estimates.estimated.columns
    return [
        (jobs[row], options[column], float(speeds[row, column]), float(factors[row, column]))
        for row, column in np.argwhere(estimates.estimated.to_numpy())
    ]


def jobs_table(path: str) -> pd.DataFrame:
    """Read a jobs table, naming the line of a value out of range."""
    table = _read_csv(path)
    ids = str(table.rows.columns[0])
    return jobs_of(table, ids).set_axis(_ids_of(table), axis=0).rename_axis(index=ids)


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
    prices = allocation.written_prices
    gain = f"{prices} (gain in the objective from one more GPU)" if prices else "none"
    print(
        f"policy     {allocation.policy}\n"
        f"objective  {allocation.objective:.6g}{unit}\n"
        f"prices     {gain}\n"
        f"gap        {allocation.gap:.1e} ({allocation.status})"
    )
    if allocation.message:
        print(allocation.message)


def _as_json(allocation: Allocation, estimates: EstimatedThroughputs | None) -> str:
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
    if estimates is not None:
        content["estimated"] = [
            {"job": str(job), "on": str(option), "steps_per_s": speed, "range_factor": factor}
            for job, option, speed, factor in _estimated_cells(estimates)
        ]
    from apportion.experiments.provenance import plain

    return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
