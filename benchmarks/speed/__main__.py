"""``python -m benchmarks.speed [d1 d2 d3 d5 guards]``: how fast the library is at its door.

CPU seconds of one thread, as users call it, on five binding instances of Gavel's mix of jobs each;
both sides in turn, medians. With ``--gavel DIR`` Gavel's own policies and simulator stand beside
it. Ratios count: seconds depend on the machine and its load.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.experiment import DATA, data_of
from benchmarks.readme import PAGES, block_of, with_block
from benchmarks.reporting import machine, progress, write_csv
from benchmarks.speed.events import events
from benchmarks.speed.gavel import Gavel
from benchmarks.speed.guards import guards
from benchmarks.speed.measure import Row, Settings, beside_kept, markdown
from benchmarks.speed.simulator import simulator
from benchmarks.speed.solves import large, small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "d1": small,
    "d2": large,
    "d3": events,
    "d5": simulator,
    "guards": guards,
}


def main() -> None:
    """Measure the parts that are named, print a line for each problem, write them."""
    options = _options()
    print(f"Speed on {machine()}")
    policies = tuple(options.policies)
    seeds = 1 if options.quick else options.seeds
    settings = Settings(options.quick, data_of(options), Gavel(options.gavel), policies, seeds)
    rows: list[Row] = []
    with threadpool_limits(1):
        for part in PARTS if "all" in options.parts else options.parts:
            for row in PARTS[part](settings):
                progress("")
                rows.append(row)
                print(markdown([row], head=len(rows) == 1), flush=True)
                if options.write:
                    _write(row)
    if options.quick:
        print("\nSizes are those of --quick: the verdicts say nothing about the goals.")
    write_csv(pd.DataFrame([row.record() for row in rows]), options.out, "speed")


def _write(row: Row) -> None:
    """Put a row into the page, in the place of the one of the same problem."""
    page = PAGES["speed"]
    text = page.read_text(encoding="utf-8")
    table = beside_kept(block_of(text, "speed"), markdown([row]))
    page.write_text(with_block(text, "speed", table), "utf-8")


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    every = [*PARTS, "all"]
    options.add_argument("parts", nargs="*", choices=every, default="all", help="(default: all)")
    options.add_argument("--quick", action="store_true", help="one seed of small sizes")
    options.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="Gavel's data")
    options.add_argument("--gavel", type=Path, metavar="DIR", help="a checkout of Gavel's code")
    options.add_argument("--out", type=Path, metavar="DIR", help="write a csv file")
    options.add_argument("--seeds", type=int, default=5, metavar="N", help="instances of each")
    options.add_argument("--policies", nargs="+", default=[], metavar="NAME", help="only these")
    options.add_argument(
        "--write", action="store_true", help="write the rows into benchmarks/speed/README.md"
    )
    return options.parse_args()


if __name__ == "__main__":
    main()
