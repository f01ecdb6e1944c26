"""``python -m benchmarks.speed``: the goals on speed, met and missed, in one table.

CPU seconds of one thread, medians of several, on problems of Gavel's mix of jobs whose capacities
bind. Plain cvxpy, scipy and POP, and with ``--gavel DIR`` Gavel's own policies and simulator, run
on the same problems in the same run: ratios count, seconds depend on the machine and its load.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from benchmarks.experiment import DATA, data_of
from benchmarks.readme import PAGES, with_block
from benchmarks.reporting import machine, progress, show, write_csv
from benchmarks.speed.approximate import approximate
from benchmarks.speed.decisions import decisions
from benchmarks.speed.elastic import elastic
from benchmarks.speed.events import events
from benchmarks.speed.gavel import Gavel
from benchmarks.speed.markdown import markdown
from benchmarks.speed.past import past
from benchmarks.speed.settings import Settings
from benchmarks.speed.sharing import sharing
from benchmarks.speed.simulator import simulator
from benchmarks.speed.small import small
from benchmarks.speed.warm import every_event, links, warm
from benchmarks.speed.water_filling import water_filling

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.speed.harness import Row

PARTS: dict[str, Callable[[Settings], list[Row]]] = {
    "small": small,
    "decisions": decisions,
    "water_filling": water_filling,
    "sharing": sharing,
    "elastic": elastic,
    "events": events,
    "simulator": simulator,
    "warm": warm,
    "every_event": every_event,
    "links": links,
    "past": past,
    "approximate": approximate,
}


def main() -> None:
    """Measure every part, print the table, write it."""
    options = _options()
    print(f"Speed suite on {machine()}")
    earlier = {"leases": options.leases_past, "fleet": options.rounds_past}
    settings = Settings(
        options.quick,
        data_of(options),
        Gavel(options.gavel),
        {how: folder for how, folder in earlier.items() if folder is not None},
    )
    rows: list[Row] = []
    for name in options.parts:
        progress(name)
        rows += PARTS[name](settings)
    progress("")
    table = pd.DataFrame([row.record() for row in rows])
    text = markdown(rows)
    if options.markdown or options.write:
        print(text)
    else:
        show(table)
    if options.write:
        page = PAGES["speed"]
        page.write_text(with_block(page.read_text(encoding="utf-8"), "speed", text), "utf-8")
    print("\nVerdicts: first stage / both stages / as called, as far as they were timed.")
    if options.quick:
        print("Sizes are those of --quick: the verdicts say nothing about the goals.")
    write_csv(table, options.out, "speed")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="Gavel's data")
    parser.add_argument("--gavel", type=Path, metavar="DIR", help="a checkout of Gavel's code")
    parser.add_argument("--leases-past", type=Path, metavar="DIR", help="a checkout of 53cc48d")
    parser.add_argument("--rounds-past", type=Path, metavar="DIR", help="a checkout of 53568d1")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the table as csv")
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    parser.add_argument(
        "--write", action="store_true", help="write it into benchmarks/speed/README.md as well"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="(default: all)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
