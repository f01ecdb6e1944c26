"""What strategy-proofness costs: throughput of the partial allocation mechanism against others.

``python -m benchmarks.gavel.strategy_proof`` solves random instances with 4 to 32 jobs under
``strategy_proof``, ``nash_welfare`` and ``max_min_fairness``, and looks for lies that pay: one job
reports false throughputs, and what it then has is judged by the true ones. Gavel's paper gives no
figures; the theorem behind the mechanism says that nobody keeps less than 1/e of what Nash
welfare gives (Cole, Gkatzelis, Goel, EC 2013).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.errors import SolveError
from apportion.report.style import line_styles
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all, verdict
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

POLICIES = ("max_min_fairness", "nash_welfare", "strategy_proof")
SIZES, QUICK_SIZES = (4, 8, 16, 32), (4, 6)
SEEDS, QUICK_SEEDS = 10, 1
LIES, MOST_JOBS_WITH_LIES = 8, 8
PAYS = 0.005  # more than the tolerance of the solvers through a dozen solves


def main() -> None:
    """Solve the instances, print means and the best lie, and judge both."""
    options = parser(
        "gavel.strategy_proof", "Cost of strategy-proofness.", "one seed, up to 6 jobs"
    ).parse_args()
    print(f"Cost of strategy-proofness on {machine()}")
    data_of(options)
    settings = [
        {"jobs": jobs, "seed": seed, "policy": policy}
        for jobs in (QUICK_SIZES if options.quick else SIZES)
        for seed in range(QUICK_SEEDS if options.quick else SEEDS)
        for policy in POLICIES
    ]
    runs = run_all(_work, settings, options, "gavel_strategy_proof")
    table = _means(runs)
    print(
        "Throughputs relative to the equal share, single-GPU jobs, as many GPUs as a quarter of "
        "the jobs of each of three\ntypes; means over draws. of Nash: mean over what nash_welfare "
        f"gives; least kept: of any job. lie %: most that one of\n{LIES} lies of a job gained."
    )
    show(table)
    verdicts = _verdicts(table)
    write_csv(runs, options.out, "gavel_strategy_proof_runs")
    write_csv(table, options.out, "gavel_strategy_proof")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_strategy_proof_verdicts")
    _plot(table, options.out)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Solve one instance, or count it as failed where no solver could."""
    try:
        return _figures(settings, data) | {"failed": 0.0}
    except SolveError:
        names = ("mean", "least", "of Nash", "least kept", "GPUs used", "lie %")
        return dict.fromkeys(names, np.nan) | {"failed": 1.0}


def _figures(settings: Settings, data: Path | None) -> dict[str, float]:
    """Solve one instance, and again with one job lying."""
    count, seed = settings["jobs"], settings["seed"]
    gpus = {name: count // 4 for name in ("v100", "p100", "k80")}
    true = draw_jobs(data, jobs=count, seed=seed).throughput_of(gpus)
    equal = true.to_numpy().mean(axis=1)
    allocation = ap.solve(settings["policy"], true, workers=gpus)
    level = allocation.throughput.to_numpy() / equal
    nash = ap.solve("nash_welfare", true, workers=gpus).throughput.to_numpy() / equal
    figures = {
        "mean": float(level.mean()),
        "least": float(level.min()),
        "of Nash": float(level.mean() / nash.mean()),
        "least kept": float((level / nash).min()),
        "GPUs used": float(allocation.X.to_numpy().sum() / sum(gpus.values())),
    }
    if count <= MOST_JOBS_WITH_LIES:
        rng = np.random.default_rng(seed)
        lied = [_with_a_lie(settings["policy"], true, gpus, rng) for _ in range(LIES)]
        gain = max(lied) / float(allocation.throughput.iloc[0]) - 1
        figures["lie %"] = round(100 * gain, 4)
    return figures


def _with_a_lie(
    policy: str, true: pd.DataFrame, gpus: dict[str, int], rng: np.random.Generator
) -> float:
    """Steps/s that the first job truly makes when it reports random multiples of its speeds."""
    told = true.copy()
    told.iloc[0] = true.iloc[0] * np.exp(rng.uniform(-1.0, 1.0, len(gpus)))
    share = ap.solve(policy, told, workers=gpus).X.iloc[0]
    return float((share.to_numpy() * true.iloc[0].to_numpy()).sum())


def _means(runs: pd.DataFrame) -> pd.DataFrame:
    """Average over the draws; of what a job keeps the least, of what lies gain the most."""
    rows: list[dict[str, Any]] = []
    for (jobs, policy), group in runs.groupby(["jobs", "policy"], sort=False):
        row: dict[str, Any] = {"jobs": jobs, "policy": policy}
        row |= {name: group[name].mean() for name in ("mean", "least", "of Nash", "GPUs used")}
        row |= {"least kept": group["least kept"].min(), "lie %": group["lie %"].max()}
        row["failed"] = group["failed"].sum()
        rows.append(row)
    return pd.DataFrame(rows)


def _verdicts(table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the theorem, the price, and that lying does not pay."""
    proof = table[table["policy"] == "strategy_proof"]
    kept, price = proof["least kept"].min(), proof["of Nash"]
    gains = table.groupby("policy")["lie %"].max()
    others = max(gains[name] for name in POLICIES[:2])
    failed = int(table["failed"].sum())
    return [
        verdict("every instance is solved", failed == 0, f"{failed} are not"),
        claimed("gavel", "strategy-proof-kept", [Figure("", float(kept))]),
        verdict(
            "strategy-proofness costs throughput at every size",
            bool((price < 1).all()),
            f"{100 * (1 - price.max()):.0f}% to {100 * (1 - price.min()):.0f}% less than Nash",
        ),
        claimed("gavel", "strategy-proof", [Figure("", float(gains["strategy_proof"]))]),
        verdict("lies pay under the others", bool(others > 100 * PAYS), f"up to {others:+.1f}%"),
    ]


def _plot(table: pd.DataFrame, out: Path | None) -> None:
    """Draw mean throughput against the number of jobs."""
    with drawing(out, "gavel_strategy_proof") as figure:
        if figure is None:
            return
        axes = figure.subplots()
        for policy, style in line_styles(POLICIES).items():
            rows = table[table["policy"] == policy]
            axes.plot(rows["jobs"], rows["mean"], marker="o", ms=4, label=policy, **style)
        axes.set(
            xlabel="jobs",
            ylabel="mean throughput / equal share",
            ylim=(0, None),
            title="What strategy-proofness costs",
        )
        axes.legend()


if __name__ == "__main__":
    main()
