"""How much faster types are than a K80, by model, and how much more they do for a dollar.

``python -m benchmarks.gavel.types`` reads the single-GPU throughputs of Gavel's artefact; without
them it takes generated ones. Prices are those that `apportion` knows, dollars per hour.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

import apportion as ap
from benchmarks.experiment import claimed, data_of, drawing, parser
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import show, write_csv

TYPES = ("v100", "p100", "k80")


def main() -> None:
    """Print speed-ups over a K80, in all and per dollar."""
    options = parser("gavel.types", "Speed-ups by type.", "the same; it takes seconds").parse_args()
    workload = draw_jobs(data_of(options), jobs=1, seed=0)
    known = pd.DataFrame(workload.throughputs).xs(1, level="scale_factor")
    speed = pd.DataFrame(known).loc[:, list(TYPES)]
    speed = speed.loc[speed.gt(0).all(axis=1)]
    cluster = ap.Cluster(dict.fromkeys(TYPES, 1))
    price = dict(zip(cluster.accelerators, cluster.prices, strict=True))
    table = pd.DataFrame(
        {f"{name} / k80": speed[name] / speed["k80"] for name in TYPES[:2]}
        | {
            f"{name} / k80, per dollar": speed[name] / price[name] / (speed["k80"] / price["k80"])
            for name in TYPES[:2]
        }
    ).sort_values("v100 / k80")
    table.insert(0, "model", table.index)
    show(table)
    gains, dollar = table["v100 / k80"], table.iloc[:, 3:].assign(k80=1.0).idxmax(axis=1)
    most = dollar.map(lambda column: str(column).partition(" ")[0])
    best = most.value_counts().reindex(list(TYPES), fill_value=0)
    claimed("gavel", "types-matter", [Figure("", float(gains.max() / gains.min()))])
    claimed("gavel", "types-dollar", [Figure(str(name), float(n)) for name, n in best.items()])
    write_csv(table, options.out, "gavel_types")
    with drawing(options.out, "gavel_types", 9.0, 5.0) as figure:
        if figure is not None:
            panels: Any = figure.subplots(1, 2, sharey=True)
            for axes, first, label in zip(
                panels, (1, 3), ("fast", "much for a dollar"), strict=True
            ):
                for place, name in enumerate(table.columns[first : first + 2]):
                    rows = [row + 0.4 * place for row in range(len(table))]
                    axes.barh(rows, table[name], height=0.4, label=TYPES[place])
                axes.axvline(1.0, color="0.4", linewidth=0.8)
                axes.set_yticks(range(len(table)), table["model"], fontsize="small")
                axes.set(xlabel=f"times as {label} as a K80")
            panels[0].legend(fontsize="small")


if __name__ == "__main__":
    main()
