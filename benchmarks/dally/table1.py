"""Dally's Table I: what communication costs six models within a machine, a rack, and over racks.

``python -m benchmarks.dally.table1`` prints the table beside the preset made of it, the analytic
model with the authors' figures, and a run of ASTRA-sim on the authors' own inputs; then what
becomes of it with compute times as they are, the authors' calibration done anew, whether skew
tells a model's sensitivity, and what a call costs. Every verdict says by which criterion.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import root_scalar
from scipy.stats import spearmanr

from apportion.cluster import TIERS, Cluster
from apportion.mechanism.orders import LeastAttainedService, MostSlowedFirst
from apportion.sim.network import (
    TABLE1_PERCENT,
    AnalyticNetwork,
    canonical_shape,
    get_network,
    model_profiles,
)
from apportion.sim.network.analytic import REFERENCE_SHAPES
from apportion.sim.network.models.table_i import TABLE1_COMPUTE_SCALE, scaled_profiles
from apportion.sim.network.registry import TABLE1_INTERCONNECT
from benchmarks.experiment import claimed, verdict
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from apportion.sim.network import ModelProfile, NetworkModel, Shape

CLUSTER = Cluster.of_racks(16)
MODELS = tuple(TABLE1_PERCENT)

# ASTRA-sim 1.0, analytical backend, on the authors' workload files and parameters, % of compute.
ASTRA_SIM = {
    "VGG11": (0, 6, 6.4),
    "AlexNet": (0, 13, 107),
    "MobileNetV3": (36, 935, 19600),
    "ResNet18": (4, 113, 2757),
    "ResNet50": (12, 12, 38.7),
    "BERT-large": (9, 14, 725),
}
# The same over racks, with compute times as they are in the files.
ASTRA_SIM_UNSCALED = dict(zip(MODELS, (0.09, 0.39, 34.6, 0.17, 0.06, 0.001), strict=True))
# Largest tensor over all tensors of a model in the authors' workload files.
SKEW = dict(zip(MODELS, (0.77, 0.62, 0.41, 0.20, 0.09, 0.03), strict=True))


def main() -> None:
    """Print the table side by side, judge it, and time the calls."""
    options = _options()
    print(f"Dally's Table I on {machine()}")
    table = side_by_side()
    print("Overhead of 8 GPUs, % of compute")
    show_percentages(table)
    verdicts = [*_verdicts(table), _skew_verdict(), _turns_verdict()]
    unscaled = _unscaled()
    print("\nOver racks, with compute times as in the files, % of compute")
    show_percentages(unscaled)
    calibrated = _calibrated()
    print(
        "\nOne compute scale per model, so that one machine is as in the table; then % of compute."
        "\nResNet50 is left out: its overhead there is a delay in the authors' file."
    )
    show_percentages(calibrated)
    cost = _cost(2_000 if options.quick else 50_000)
    print("\nMicroseconds of a call")
    show(cost)
    for name, rows in (
        ("dally_table1", table),
        ("dally_table1_verdicts", pd.DataFrame(verdicts)),
        ("dally_table1_unscaled", unscaled),
        ("dally_table1_calibrated", calibrated),
        ("dally_table1_cost", cost),
    ):
        write_csv(rows, options.out, name, bars=name == "dally_table1")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dally.table1", description="Dally's Table I."
    )
    parser.add_argument("--quick", action="store_true", help="time fewer calls")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write csv files and pictures")
    return parser.parse_args()


def side_by_side() -> pd.DataFrame:
    """Give every figure of the table by every means, % of compute, one row per model and tier."""
    preset = get_network("table1", cluster=CLUSTER)
    analytic = get_network("table1_model", cluster=CLUSTER)
    rows = [
        {
            "model": model,
            "tier": TIERS[tier],
            "paper": TABLE1_PERCENT[model][tier],
            "preset": percent(preset, model, shape),
            "analytic": percent(analytic, model, shape),
            "ASTRA-sim": ASTRA_SIM[model][tier],
        }
        for model in MODELS
        for tier, shape in enumerate(REFERENCE_SHAPES)
    ]
    return pd.DataFrame(rows)


def show_percentages(table: pd.DataFrame) -> None:
    """Print a table, figures to three digits, or to the whole number where that is more."""
    figures = table.select_dtypes("number").map(
        lambda value: round(value) if abs(value) >= 100 else float(f"{value:.3g}")
    )
    show(table.assign(**{str(column): figures[column] for column in figures}), 9)


def percent(network: NetworkModel, model: str, shape: Shape) -> float:
    """Overhead of a gang in percent of its compute."""
    return 100 * network.overhead(model, shape)


def _verdicts(table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the preset and the analytic model against the paper's figures."""
    error = (table["preset"] / table["paper"] - 1).abs().max()
    verdicts = [verdict("the preset is Table I", bool(error < 1e-9), f"off by {error:.1g} at most")]
    racks = table[table["tier"] == "network"].set_index("model")
    over = [Figure(str(name), row["analytic"] / row["paper"]) for name, row in racks.iterrows()]
    bert = [each for each in over if each.case.startswith("BERT")]
    verdicts.append(claimed("dally", "table1", [each for each in over if each not in bert]))
    verdicts.append(claimed("dally", "table1-bert", bert))
    ranks = [
        Figure(str(tier), float(spearmanr(rows["paper"], rows["analytic"]).statistic))
        for tier, rows in table.groupby("tier", sort=False)
    ]
    verdicts.append(claimed("dally", "table1-order", ranks))
    rising = table.pivot(index="model", columns="tier", values="analytic")[list(TIERS)]
    holds = bool((rising.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None))
    verdicts.append(verdict("no model runs faster on a wider tier", holds, "analytic model"))
    return verdicts


def _skew_verdict() -> dict[str, str]:
    """Judge the paper's claim that skew does not tell which models the network slows down."""
    racks = [TABLE1_PERCENT[model][2] for model in MODELS]
    rho = float(spearmanr([SKEW[model] for model in MODELS], racks).statistic)
    return claimed("dally", "skew", [Figure("network", abs(rho))])


def _turns_verdict() -> dict[str, str]:
    """Judge whose turn it is of three gangs that did the same work, each at another tier."""
    places = []
    for percentages in TABLE1_PERCENT.values():
        compute_s = np.full(3, 3600.0)
        run_s = compute_s * (1 + np.array(percentages) / 100)
        told: Any = SimpleNamespace(
            job=np.arange(3), run_s=run_s, compute_s=compute_s, scale_factor=np.full(3, 8)
        )
        slowed, served = (
            order.keys(0.0, told)[0] for order in (MostSlowedFirst(), LeastAttainedService())
        )
        places.append([1 + (slowed < slowed[2]).sum(), 1 + (served > served[2]).sum()])
    first, last = np.max(places, axis=0)
    figures = [Figure("Dally", float(first)), Figure("2DAS, from the end", float(last))]
    return claimed("dally", "priority", figures)


def _unscaled() -> pd.DataFrame:
    """Overheads over racks if compute took as long as the workload files say."""
    authors = AnalyticNetwork("unscaled", TABLE1_INTERCONNECT, model_profiles())
    physical = get_network("alpha_beta", cluster=CLUSTER)
    shape = REFERENCE_SHAPES[2]
    rows = [
        {
            "model": model,
            "ASTRA-sim": ASTRA_SIM_UNSCALED[model],
            "analytic": percent(authors, model, shape),
            "alpha_beta": percent(physical, model, shape),
        }
        for model in MODELS
    ]
    return pd.DataFrame(rows)


def _compute_scale(profile: ModelProfile, overhead: float) -> float:
    """Find what to multiply compute times by so that a gang in one machine has an overhead."""

    def excess(log_scale: float) -> float:
        scaled = {profile.name: profile.scaled(math.exp(log_scale))}
        network = AnalyticNetwork("calibration", TABLE1_INTERCONNECT, scaled)
        return network.overhead(profile.name, REFERENCE_SHAPES[0]) - overhead

    bracket = (math.log(1e-9), math.log(1e9))
    return math.exp(root_scalar(excess, bracket=bracket, method="brentq").root)


def _calibrated() -> pd.DataFrame:
    """Repeat the authors' calibration with derived profiles, and what it predicts."""
    rows = []
    for model, scaled in scaled_profiles().items():
        if model == "ResNet50":
            continue
        profile = scaled.scaled(1 / TABLE1_COMPUTE_SCALE[model])
        paper = TABLE1_PERCENT[model]
        scale = _compute_scale(profile, paper[0] / 100)
        profiles = {model: profile.scaled(scale)}
        network = AnalyticNetwork("calibrated", TABLE1_INTERCONNECT, profiles)
        row = {"model": model, "authors' scale": TABLE1_COMPUTE_SCALE[model], "scale": scale}
        for tier in (1, 2):
            row[f"{TIERS[tier]}, paper"] = paper[tier]
            row[TIERS[tier]] = percent(network, model, REFERENCE_SHAPES[tier])
        rows.append(row)
    return pd.DataFrame(rows)


def _cost(calls: int) -> pd.DataFrame:
    """Time the first call for a model and shape, and later ones."""
    shapes = [canonical_shape([[8] * k, [k]]) for k in range(1, 9)]
    rows = []
    for name in ("table1", "alpha_beta"):
        network = get_network(name, cluster=CLUSTER)
        network.overhead("VGG11", ((2,),))  # derives the profiles
        asked = [(model, shape) for shape in shapes for model in MODELS]
        cold = _microseconds(network, asked)
        warm = _microseconds(network, asked * (calls // len(asked)))
        rows.append({"network": name, "first": cold, "later": warm, "first calls": len(asked)})
    return pd.DataFrame(rows)


def _microseconds(network: NetworkModel, asked: list[tuple[str, Shape]]) -> float:
    """CPU time of a call, mean over calls one after the other."""
    begun = time.process_time()
    for model, shape in asked:
        network.overhead(model, shape)
    return 1e6 * (time.process_time() - begun) / len(asked)


if __name__ == "__main__":
    main()
