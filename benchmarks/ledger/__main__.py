"""``python -m benchmarks.ledger``: which runs end otherwise than they did.

Beside this file ``fixed.csv`` has the figures of fixed runs of every policy and scheduler, and
``drawn.csv`` (with ``--drawn``) those of `WORKLOADS` drawn workloads. What differs is printed, and
belongs into the changelog with the rule that moved it. ``--write`` puts the figures of today into
the file.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import pandas as pd

from benchmarks.ledger.drawn import WORKLOADS, drawn_rows
from benchmarks.ledger.runs import FIGURES, fixed_rows, moved
from benchmarks.reporting import progress, show

FIXED, DRAWN = (Path(__file__).with_name(name) for name in ("fixed.csv", "drawn.csv"))


def main() -> int:
    """Run all, print what differs; 1 if anything does and is not written."""
    options = _options()
    file = DRAWN if options.drawn else FIXED
    rows = drawn_rows(range(options.workloads)) if options.drawn else fixed_rows()
    now, differs = compared(file, rows)
    print(f"{len(differs)} of {len(now)} runs end otherwise.")
    if len(differs):
        show(differs.reset_index(), digits=10)
    if options.write:
        now.to_csv(file, float_format="%.10g", lineterminator="\n")
    return int(not differs.empty and not options.write)


def compared(file: Path, rows: list[dict[str, object]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rows by run, and those of which a figure is not as in the file."""
    progress("")
    known = pd.read_csv(file, dtype={"error": str}).set_index("run")
    now = pd.DataFrame(rows).set_index("run").astype(dict.fromkeys(FIGURES, float))
    return now, moved(known, now)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ledger", description="Runs, beside what they were."
    )
    add = parser.add_argument
    add("--drawn", action="store_true", help="runs of drawn workloads")
    add("--workloads", type=int, default=WORKLOADS, help=f"drawn (default: {WORKLOADS})")
    add("--write", action="store_true", help="write the figures of today")
    options = parser.parse_args()
    if options.write and options.workloads != WORKLOADS:
        parser.error("--write takes all workloads")
    return options


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(main())
