"""What a transfer costs by its size, by those that share its node, and by the algorithm.

``python -m benchmarks.ada_srsf.costs``: Equations 2 and 5 of Wang et al. with the constants of
10 Gb Ethernet, its Table I, and iterations of the four models of its Table III alone and with
others on the same nodes. Curves of the model, not measurements. With ``--data``, the folder
``offline/network_contention`` of its released code, both equations are fitted to what was measured
there on 1 Gb Ethernet.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.sim.links import ETHERNET_10G
from apportion.sim.network import all_reduce_cost
from apportion.sim.network.collectives import ALL_REDUCES
from apportion.sim.network.models.trained import TABLE_III
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

if TYPE_CHECKING:
    from apportion.types import Floats

MEGABYTES = (1, 10, 50, 100, 250, 500)
SHARING = (1, 2, 3, 4, 8)
NODES = (2, 4, 8, 16)
ALPHA_S, GAMMA_S = ETHERNET_10G.startup_s / 2, 0.0


def rows(heads: list[str], lines: list[list[object]]) -> None:
    """Print a table."""
    print("\n| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for line in lines:
        cells = [f"{each:.4g}" if isinstance(each, float) else str(each) for each in line]
        print("| " + " | ".join(cells) + " |")


def seconds(megabytes: float, sharing: int) -> float:
    """Return a + k b M + (k - 1) eta M: Equation 5."""
    law, size = ETHERNET_10G, megabytes * 1e6
    each = sharing * law.s_per_byte + (sharing - 1) * law.penalty_s_per_byte
    return law.startup_s + each * size


def main() -> None:
    """Print the tables."""
    what = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what.add_argument("--quick", action="store_true", help="the same; it takes a second")
    what.add_argument("--data", type=Path, help="measured points of the released code")
    add_out(what)
    given = what.parse_args()
    with kept(given.out, "ada_srsf_costs"):
        tables()
        if given.data is not None:
            fitted(given.data)


AGGREGATES = ("avg_avg", "avg_max", "max_avg", "max_max")
"""Files of the released code, which says no more of them than these names."""

MOST_AT_ONCE = 8


def fitted(folder: Path) -> None:
    """Fit Equation 2 to transfers alone, and Equation 5 to up to eight at once."""
    size, seconds = _points(folder / "alpha-beta.csv", 1, 1)[1:]
    b, a = np.polyfit(size, seconds, 1)
    left = seconds - a - b * size
    explained = 1 - float((left**2).sum() / ((seconds - seconds.mean()) ** 2).sum())
    print(f"\n1 Gb Ethernet: a = {a:.4g} s, b = {b:.4g} s a byte")
    claimed("ada_srsf", "cost-size", [Figure("", explained)])
    figures = []
    for name in AGGREGATES:
        jobs, size, seconds = _points(folder / f"results_{name}.csv", 2, MOST_AT_ONCE)
        beside = (jobs - 1) * size
        eta = float((seconds - a - jobs * b * size) @ beside / (beside @ beside))
        figures.append(Figure(name, eta / float(b)))
    claimed("ada_srsf", "cost-sharing", figures)


def _points(file: Path, least: int, most: int) -> tuple[Floats, Floats, Floats]:
    """Read how many transfers ran at once, their bytes and their seconds."""
    table = pd.read_csv(file)
    table = table[table["job_num"].between(least, most)]
    jobs, size, took = (table[name].to_numpy(float) for name in table.columns[:3])
    return jobs, size, took / 1e6


def tables() -> None:
    """Print costs by size and sharing, by algorithm and nodes, and iterations by model."""
    print("Seconds of a transfer, by size and by how many share its busiest node")
    shared = [f"{k} share" for k in SHARING]
    by_size = [[f"{size} MB", *(seconds(size, k) for k in SHARING)] for size in MEGABYTES]
    rows(["size", *shared], list(map(list, by_size)))
    print("\nSeconds of an all-reduce of 100 MB among N nodes")
    by_nodes: list[list[object]] = []
    for name in ALL_REDUCES:
        constants = {"alpha_s": ALPHA_S, "beta_s": ETHERNET_10G.s_per_byte, "gamma_s": GAMMA_S}
        costs = [all_reduce_cost(name, nodes, **constants).seconds(1e8) for nodes in NODES]
        by_nodes.append([name, *costs])
    rows(["algorithm", *(f"{nodes} nodes" for nodes in NODES)], by_nodes)
    print("\nSeconds of an iteration over several nodes, and the part in which a GPU computes")
    by_model: list[list[object]] = []
    for name, row in TABLE_III.items():
        compute_s = sum(row.passes_s())
        whole_s = [compute_s + seconds(row.megabytes, k) for k in SHARING]
        by_model.append([name, *whole_s, f"{100 * compute_s / whole_s[0]:.1f} %"])
    rows(["model", *shared, "computes, alone"], by_model)


if __name__ == "__main__":
    main()
