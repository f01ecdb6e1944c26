"""What the shape of a gang costs under the network presets made for Dally.

``python -m benchmarks.dally.shapes`` prints the overhead of each model for gangs of 8 to 64 GPUs:
whole machines, evenly over racks, one GPU short of even, scattered; with and without the rule that
gangs which do not divide evenly form one flat ring. Then it sets the growth with the number of
units against runs of ASTRA-sim.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from apportion.cluster import Cluster
from apportion.sim.network import TABLE1_PERCENT, canonical_shape, get_network
from benchmarks.dally.table1 import percent, show_percentages
from benchmarks.experiment import verdict
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    from apportion.sim.network import Shape

CLUSTER = Cluster.of_racks(16)
MODELS = tuple(TABLE1_PERCENT)
GANGS, QUICK_GANGS = (8, 16, 24, 32, 48, 64), (8, 16)
CLOSE = 0.10

# ASTRA-sim on the authors' inputs: % of compute with 2, 4 and 8 units on the tier.
UNITS = (2, 4, 8)
GROWTH = {
    ("MobileNetV3", "rack"): (935, 2904, 6825),
    ("ResNet18", "rack"): (113, 404, 943),
    ("BERT-large", "rack"): (14, 105, 236),
    ("MobileNetV3", "network"): (19617, 58935, 137593),
    ("ResNet18", "network"): (2776, 8385, 19612),
    ("BERT-large", "network"): (744, 2285, 5373),
}


def main() -> None:
    """Print overheads by shape and model, and the growth beside ASTRA-sim's."""
    options = _options()
    print(f"Shapes of gangs on {machine()}")
    rows = []
    for name in ("table1", "alpha_beta"):
        table = by_shape(name, QUICK_GANGS if options.quick else GANGS)
        rows.append(table.assign(network=name))
        print(f"\n{name}: overhead, % of compute; flat: unbalanced gangs are one flat ring")
        show_percentages(table)
    growth = by_units()
    print("\nGrowth with the units on a tier: % of compute with 2, 4, 8 machines or racks")
    show_percentages(growth)
    write_csv(pd.concat(rows), options.out, "dally_shapes")
    write_csv(growth, options.out, "dally_shapes_growth", bars=True)
    write_csv(pd.DataFrame(_verdicts(growth)), options.out, "dally_shapes_verdicts")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dally.shapes", description="What shapes of gangs cost."
    )
    parser.add_argument("--quick", action="store_true", help="gangs of 8 and 16 GPUs")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write csv files and pictures")
    return parser.parse_args()


def shapes_of(gpus: int) -> dict[str, Shape]:
    """Name some shapes of a gang whose GPUs are a multiple of eight."""
    machines = gpus // 8
    shapes = {
        "whole machines": [[8] * machines],
        "halves of machines": [[4] * (2 * machines)],
        "even, two racks": [[4] * machines] * 2,
        "odd, two machines": [[5, 3]] if gpus == 8 else [[8] * (machines - 1) + [7, 1]],
        "odd, three racks": [_shared(gpus, 3, place) for place in range(3)],
        "alone, two racks": [[1] * (gpus // 2)] * 2,
    }
    fitting = {name: rack for name, rack in shapes.items() if max(map(len, rack)) <= 8}
    return {name: canonical_shape(racks) for name, racks in fitting.items()}


def _shared(gpus: int, racks: int, place: int) -> list[int]:
    """GPUs in each machine of one of the racks that share a gang as evenly as they can."""
    own = gpus // racks + (place < gpus % racks)
    return [8] * (own // 8) + [own % 8] * (own % 8 > 0)


def by_shape(name: str, gangs: tuple[int, ...]) -> pd.DataFrame:
    """Overheads of every model, % of compute, one row per gang, shape and rule."""
    rows = []
    for gpus in gangs:
        for words, shape in shapes_of(gpus).items():
            for flat in (True, False):
                network = get_network(name, cluster=CLUSTER, flat_if_unbalanced=flat)
                figures = {model: percent(network, model, shape) for model in MODELS}
                rows.append({"GPUs": gpus, "shape": words, "flat": flat, **figures})
    return pd.DataFrame(rows)


def by_units() -> pd.DataFrame:
    """Overheads with 2, 4 and 8 units on a tier, % of compute, by three means."""
    preset = get_network("table1", cluster=CLUSTER)
    analytic = get_network("table1_model", cluster=CLUSTER)
    rows = []
    for (model, tier), quoted in GROWTH.items():
        for units, figure in zip(UNITS, quoted, strict=True):
            shape: Shape = ((4,) * units,) if tier == "rack" else ((2, 2),) * units
            rows.append(
                {
                    "model": model,
                    "tier": tier,
                    "units": units,
                    "ASTRA-sim": figure,
                    "table1": percent(preset, model, shape),
                    "table1_model": percent(analytic, model, shape),
                }
            )
    return pd.DataFrame(rows)


def _verdicts(growth: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the preset with 4 and 8 units; with 2 it is Table I by definition."""
    verdicts = []
    for (model, tier), rows in growth[growth["units"] > 2].groupby(["model", "tier"], sort=False):
        off = (rows["table1"] / rows["ASTRA-sim"] - 1).abs().max()
        claim = f"{model}, {tier}: table1 grows as ASTRA-sim's runs, within {CLOSE:.0%}"
        verdicts.append(verdict(claim, bool(off <= CLOSE), f"off by {off:.1%} at most"))
    return verdicts


if __name__ == "__main__":
    main()
