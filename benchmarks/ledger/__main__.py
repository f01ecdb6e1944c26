"""``python -m benchmarks.ledger``: which of the fixed runs end otherwise than in the last release.

The ledger beside this file has, for every release, a row for each run: mean completion time, last
completion, and a digest of the bytes of the jobs table. What differs is printed, and belongs into
the changelog with the rule that moved it; ``--write`` puts today's rows in place of those that this
release had.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from benchmarks.ledger.runs import ledger_runs, row_of
from benchmarks.reporting import progress, show

LEDGER = Path(__file__).with_name("ledger.csv")


def main() -> int:
    """Run all, print what differs; 1 if anything does and the ledger is not written anew."""
    options = _options()
    known = pd.read_csv(LEDGER)
    rows = []
    for name, run in ledger_runs():
        progress(name)
        rows.append({"release": options.release, **row_of(name, run())})
    now = pd.DataFrame(rows)
    progress("")
    differs = compared(known, now, options.against or options.release)
    if differs.empty:
        print(f"All {len(now)} runs end as in {options.against or options.release}.")
    else:
        show(differs, digits=10)
    if options.write:
        kept = known[known["release"] != options.release]
        table = pd.concat([kept, now]) if len(kept) else now
        table.to_csv(LEDGER, index=False, lineterminator="\n")
    return int(not differs.empty and not options.write)


def compared(known: pd.DataFrame, now: pd.DataFrame, release: str) -> pd.DataFrame:
    """Return the runs whose rows differ from those of a release, with both figures."""
    before = known[known["release"] == release].drop(columns="release")
    both = now.drop(columns="release").merge(before, "outer", on="run", suffixes=("", "_before"))
    differs = both[both["digest"] != both["digest_before"]]
    names = ["run", "mean_jct_s_before", "mean_jct_s"]
    return differs[[*names, "last_completion_s_before", "last_completion_s"]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.ledger", description="Fixed runs, beside those of a release."
    )
    add = parser.add_argument
    add("--release", default="unreleased", help="what the rows are called")
    add("--against", help="the release to compare with; the same")
    add("--write", action="store_true", help="write the rows of today into the ledger")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
