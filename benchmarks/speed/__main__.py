"""``python -m benchmarks.speed``: the goals on speed, met and missed, in one table.

CPU seconds of one thread, medians of several. Plain cvxpy, scipy and POP run on the same problems
in the same process; figures of Gavel's own code are cited from another machine and say so.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from benchmarks.reporting import machine, progress, show, write_csv
from benchmarks.speed.decisions import decisions
from benchmarks.speed.events import events
from benchmarks.speed.sharing import sharing
from benchmarks.speed.simulator import simulator
from benchmarks.speed.water_filling import water_filling

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.speed.harness import Row

PARTS: dict[str, Callable[[bool], list[Row]]] = {
    "decisions": decisions,
    "water_filling": water_filling,
    "sharing": sharing,
    "events": events,
    "simulator": simulator,
}


def main() -> None:
    """Measure every part, print the table, write it."""
    options = _options()
    print(f"Speed suite on {machine()}")
    rows: list[Row] = []
    for name in options.parts:
        progress(name)
        rows += PARTS[name](options.quick)
    progress("")
    table = pd.DataFrame([row.record() for row in rows])
    show(table)
    verdicts = table["verdict"].value_counts()
    print(f"\nGoals met: {verdicts.get('met', 0)}, missed: {verdicts.get('missed', 0)}.")
    if options.quick:
        print("Sizes are those of --quick: the verdicts say nothing about the goals.")
    write_csv(table, options.out, "speed")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the table as csv")
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="(default: all)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
