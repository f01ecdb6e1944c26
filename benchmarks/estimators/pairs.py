"""Errors of estimated pair throughputs, with Gavel's figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.estimators import (
    InterferenceEstimator,
    SoftImpute,
    interference_errors,
)
from apportion.estimators.estimate import estimate_normalized
from apportion.sim.generators.generate import generate_pair_throughputs
from apportion.sim.traces.oracle import read_pair_oracle
from benchmarks.estimators.simple import SIMPLE_PAIRS, simple_pairs
from benchmarks.reporting import progress, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.estimators import Imputer

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

ORACLE = "simulation_throughputs.json.gz"
REFERENCES = (8, 16, 26)
SHARES = (0.1, 0.2, 0.4, 0.8)
SEEDS, QUICK_SEEDS, SLOW_SEEDS = 20, 2, 4
NOISE = 0.05

# Gavel's estimator (commit c4fa400) on the same oracle, means of four seeds: mean absolute error,
# agreement on packing; as released, and with its index repaired.
GAVEL = {
    (26, 0.2): {"released": (0.092, 0.851), "repaired": (0.092, 0.851)},
    (16, 0.2): {"released": (0.216, 0.651), "repaired": (0.104, 0.836)},
    (8, 0.2): {"released": (0.221, 0.637), "repaired": (0.195, 0.686)},
}

PROTOCOL = """
Protocol: {types} job types x {accelerators} accelerators at scale factor 1, {source}.
References are drawn at random, {seeds} seeds (fewer for slow methods); their pairs are known. A job
of every type, references included, comes as an unknown job. Each cell (job, reference, accelerator)
is measured with the given probability; isolated throughputs are known. MAE, RMSE: normalised
throughput (beside a partner / alone) of all {cells} ordered pairs x accelerators, pairs that cannot
share (0) included; both members of a pair are unknown jobs. pack: agreement on whether the two
normalised throughputs sum to more than 1. unseen: MAE over pairs with a type that is no reference.
Model family and batch size are not used.
"""


@dataclass(frozen=True)
class Method:
    """A way to estimate, and what it is told."""

    name: str
    imputer: Imputer | None = None
    noise: float = 0.0
    slow: bool = False
    simple: str = ""


OURS = Method("mixture (default)")
OTHERS = (
    *(Method(way, simple=way) for way in SIMPLE_PAIRS),
    *(Method(f"{way}, {NOISE:.0%} noise", simple=way, noise=NOISE) for way in SIMPLE_PAIRS[1:]),
    Method(f"mixture, measurements with {NOISE:.0%} noise", noise=NOISE),
    Method("soft-impute", SoftImpute(low=0, high=1), slow=True),
)


def pairs(data: Path, out: Path | None, *, quick: bool) -> pd.DataFrame:
    """Print the protocol, our errors by references and measurements, and those of other methods."""
    truth, source, real = _truth(data)
    seeds = QUICK_SEEDS if quick else SEEDS
    types, _, accelerators = truth.shape
    print("\nPair throughputs")
    print(
        PROTOCOL.format(
            types=types, accelerators=accelerators, cells=truth.size, source=source, seeds=seeds
        )
    )
    constant = interference_errors(np.full_like(truth, truth.mean()), truth)
    print(f"Constant at the mean: MAE {constant['mae']:.3f}, RMSE {constant['rmse']:.3f}.")
    table = pd.DataFrame(
        _row(truth, OURS, references, share, seeds) for references in REFERENCES for share in SHARES
    )
    print(
        "\n1. Default estimator. With every type a reference, exact measurements tell jobs apart "
        "and nothing\nis left to guess; see table 2 for noisy ones."
    )
    show(table.drop(columns="method").round(4))
    methods = _compare(truth, seeds, real)
    print("\n2. Methods at 20 % measured")
    show(methods.round(4))
    _judge(methods)
    progress("")
    write_csv(table, out, "estimator")
    write_csv(methods, out, "estimator_methods")
    if out is not None:
        _plot(table, methods, out)
    return methods


def _truth(data: Path) -> tuple[Floats, str, bool]:
    """Normalised pair throughputs at scale factor 1: measured ones, else generated ones."""
    path = data / ORACLE
    if not path.is_file():
        print(f"skipped: data absent ({path}); generated interference instead")
        return (
            generate_pair_throughputs(seed=0).normalized(),
            "generated interference, seed 0",
            False,
        )
    oracle = read_pair_oracle(path)
    single = oracle.select([key for key in oracle.keys.tolist() if key[1] == 1])
    return single.normalized(), f"Gavel's {ORACLE}", True


def _row(
    truth: Floats, method: Method, references: int, share: float, seeds: int
) -> dict[str, Any]:
    """Mean errors of a method over the seeds."""
    progress(f"{method.name}: {references} references, {share:.0%} measured")
    figures = pd.DataFrame(_once(truth, method, references, share, seed) for seed in range(seeds))
    names = {"method": method.name, "references": references, "measured": share}
    return names | {str(figure): float(value) for figure, value in figures.mean().items()}


def _once(truth: Floats, method: Method, count: int, share: float, seed: int) -> dict[str, float]:
    """Errors of a method for one draw of references and measurements."""
    rng = np.random.default_rng(seed)
    references = np.sort(rng.permutation(len(truth))[:count])
    new = np.ones(len(truth), dtype=bool)
    new[references] = False
    unseen = new[:, None] | new[None, :]
    if method.simple:
        estimate = simple_pairs(method.simple, truth, references, share, method.noise, seed)
        return _figures(estimate, truth, unseen)
    estimator = InterferenceEstimator(method.imputer)
    estimate = estimate_normalized(truth, references, share, rng, estimator, method.noise)
    return _figures(estimate, truth, unseen)


def _figures(estimate: Floats, truth: Floats, unseen: Mask) -> dict[str, float]:
    """Errors over all pairs, and over those that `unseen` marks."""
    errors = interference_errors(estimate, truth)
    return {
        "MAE": errors["mae"],
        "RMSE": errors["rmse"],
        "pack": errors["pack_agreement"],
        "unseen": float(np.abs(estimate - truth)[unseen].mean()) if unseen.any() else np.nan,
    }


def _compare(truth: Floats, seeds: int, real: bool) -> pd.DataFrame:
    """Set the methods beside each other and, on Gavel's oracle, beside Gavel's figures."""
    rows = []
    for references in REFERENCES:
        for method in (OURS, *OTHERS):
            if not (method.slow and seeds == QUICK_SEEDS):
                times = SLOW_SEEDS if method.slow else seeds
                rows.append(_row(truth, method, references, 0.2, times))
        for state, (mae, pack) in GAVEL[references, 0.2].items() if real else ():
            names = {"method": f"Gavel as {state}", "references": references, "measured": 0.2}
            rows.append(names | {"MAE": mae, "pack": pack})
    return pd.DataFrame(rows)


def _judge(methods: pd.DataFrame) -> None:
    """Compare the mixture with the best simple way, by references."""
    print()
    for references, part in methods.groupby("references"):
        for column in ("MAE", "unseen"):
            found = dict(zip(part["method"].astype(str), part[column].astype(float), strict=True))
            ways = {way: found[way] for way in SIMPLE_PAIRS if not np.isnan(found[way])}
            if not ways:
                continue
            best = min(ways, key=ways.__getitem__)
            word = "below" if found[OURS.name] < ways[best] else "NOT below"
            print(
                f"{references} references, {column}: {OURS.name} {found[OURS.name]:.3f}, {word} "
                f"the best simple way ({best}, {ways[best]:.3f})"
            )


def _plot(table: pd.DataFrame, methods: pd.DataFrame, out: Path) -> None:
    """Draw the error against the share measured, one line per number of references."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("No plot: matplotlib is not installed (pip install apportion[plot]).")
        return
    gavel = methods[methods["method"] == "Gavel as repaired"].set_index("references")["MAE"]
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for references, rows in table.groupby("references"):
        (line,) = axes.plot(rows["measured"], rows["MAE"], marker="o", label=str(references))
        if references in gavel.index:
            axes.plot(0.2, gavel[references], marker="x", color=line.get_color())
    axes.set(ylim=(0, None), xlabel="share of cells measured", ylabel="mean absolute error")
    axes.legend(title="references (x: Gavel)", frameon=False)
    figure.savefig(out / "estimator.svg", metadata={"Date": None})
    print(f"Written: {out / 'estimator.svg'}")
