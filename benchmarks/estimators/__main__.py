"""Errors of estimated speeds, of single jobs and of pairs, against measured ones.

``python -m benchmarks.estimators`` reads the throughput oracle of Gavel's artefact
(github.com/stanford-futuredata/gavel, below ``--data``) and the profiles of Pollux's beside it,
which are not part of apportion. Without them generated speeds take their place, and targets and
Gavel's figures are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.estimators.pairs import pairs
from benchmarks.estimators.single import MODEL, SIMPLE, single_jobs
from benchmarks.experiment import DATA, drawing
from benchmarks.reporting import machine

if TYPE_CHECKING:
    import pandas as pd

SEEDS, QUICK_SEEDS = 20, 1


def main() -> None:
    """Print the errors of every way to estimate."""
    options = _options()
    print(f"Estimated speeds on {machine()}")
    if options.part != "pairs":
        seeds = QUICK_SEEDS if options.quick else SEEDS
        _plot(single_jobs(options.data, seeds, options.out, quick=options.quick), options.out)
    if options.part != "single":
        pairs(options.data, options.out, quick=options.quick)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators")
    parser.add_argument("--part", choices=("single", "pairs"), help="one part only")
    parser.add_argument("--quick", action="store_true", help="few seeds, no slow method")
    parser.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="Gavel's data")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write csv files and plots")
    return parser.parse_args()


def _plot(table: pd.DataFrame, out: Path | None) -> None:
    """Draw the error against the cells measured, one panel per setting, one line per method."""
    groups = list(table.groupby(["source", "setting"], sort=False))
    with drawing(out, "estimator_single", width=3.2 * len(groups), height=3.4) as figure:
        if figure is None:
            return
        panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
        for axes, ((source, name), part) in zip(panels, groups, strict=True):
            for method, line in part.groupby("method", sort=False):
                plain = method in SIMPLE and method != MODEL
                style = {"linestyle": "--" if plain else "-", "marker": "o", "markersize": 3}
                axes.plot(line["measured"], line["error"], label=str(method), **style)
            axes.set_title(f"{source}\n{name}", fontsize="small")
            axes.set(xlabel="cells measured", ylim=(0, 1.0))
        panels[0].set_ylabel("mean |log error|")
        panels[0].legend(frameon=False, fontsize="x-small")


if __name__ == "__main__":
    main()
