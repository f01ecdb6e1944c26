"""``python -m benchmarks.speed``: the goals on speed, met and missed, in one table.

CPU seconds of one thread, medians of several, on problems of Gavel's mix of jobs whose capacities
bind. Plain cvxpy, scipy and POP, and with ``--gavel DIR`` Gavel's own policies and simulator, run
on the same problems in the same run: ratios count, seconds depend on the machine and its load.
With ``--out DIR`` parts that are done already are not measured again.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from benchmarks.experiment import data_of, parser, run_all
from benchmarks.readme import PAGES, block_of, with_block
from benchmarks.reporting import machine, show, write_csv
from benchmarks.speed.approximate import approximate
from benchmarks.speed.decisions import decisions, million
from benchmarks.speed.elastic import elastic
from benchmarks.speed.events import events
from benchmarks.speed.gavel import Gavel
from benchmarks.speed.goals import goals
from benchmarks.speed.harness import Row
from benchmarks.speed.markdown import beside_kept, markdown
from benchmarks.speed.past import grown, leases, many
from benchmarks.speed.settings import Settings
from benchmarks.speed.sharing import sharing
from benchmarks.speed.simulator import simulator
from benchmarks.speed.small import small
from benchmarks.speed.warm import every_event, links, shell, warm
from benchmarks.speed.water_filling import water_filling

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

PARTS: dict[str, Callable[[Settings], list[Row]]] = {
    "small": small,
    "decisions": decisions,
    "million": million,
    "water_filling": water_filling,
    "sharing": sharing,
    "elastic": elastic,
    "events": events,
    "simulator": simulator,
    "warm": warm,
    "every_event": every_event,
    "links": links,
    "shell": shell,
    "leases": leases,
    "many": many,
    "grown": grown,
    "approximate": approximate,
}


def main() -> None:
    """Measure every part that is not done yet, print the goals and the table, write them."""
    options = _options()
    print(f"Speed suite on {machine()}")
    data_of(options)
    gavel = None if options.gavel is None else str(options.gavel)
    settings = [{"part": part, "quick": options.quick, "gavel": gavel} for part in options.parts]
    measured = run_all(_measured, settings, options, "speed")
    rows = [Row(**row) for part in measured["rows"] for row in json.loads(part)]
    table = pd.DataFrame([row.record() for row in rows])
    blocks = {"speed goals": goals(rows), "speed": markdown(rows)}
    print(f"\n{blocks['speed goals']}\n")
    if options.markdown or options.write:
        print(blocks["speed"])
    else:
        show(table)
    if options.write:
        page = PAGES["speed"]
        for name, text in blocks.items():
            written = page.read_text(encoding="utf-8")
            text = beside_kept(block_of(written, name), text)
            page.write_text(with_block(written, name, text), "utf-8")
    print("\nVerdicts: first stage / both stages / as called, as far as they were timed.")
    if options.quick:
        print("Sizes are those of --quick: the verdicts say nothing about the goals.")
    write_csv(table, options.out, "speed")


def _measured(asked: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Measure a part: its rows as a text, by which a later call knows what it has found."""
    gavel = None if asked["gavel"] is None else Path(asked["gavel"])
    rows = PARTS[asked["part"]](Settings(asked["quick"], data, Gavel(gavel)))
    return {"rows": json.dumps([asdict(row) for row in rows], default=float)}


def _options() -> argparse.Namespace:
    options = parser("speed", "The goals on speed, met and missed.", "small sizes")
    options.add_argument("--gavel", type=Path, metavar="DIR", help="a checkout of Gavel's code")
    options.add_argument("--markdown", action="store_true", help="print the table as markdown")
    options.add_argument(
        "--write", action="store_true", help="write both into benchmarks/speed/README.md as well"
    )
    options.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="(default: all)"
    )
    return options.parse_args()


if __name__ == "__main__":
    main()
