"""Hierarchical fairness over time: three entities of weights 1, 2 and 3 that join one by one.

``python -m benchmarks.gavel.hierarchy`` solves the policy at each event, has the round-based
mechanism realise the shares until the next, and reports what part of the effective throughput each
entity was meant to have and had. Gavel's paper shows the same over time; without the
throughputs of its artefact the generated ones serve as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism import Placer
from apportion.mechanism.round_planner import RoundPlanner
from apportion.mechanism.shares import NO_PAIRS, Shares
from apportion.policies import HierarchicalFairness
from apportion.report.style import line_styles
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from numpy.typing import NDArray

CLUSTER = {"v100": 3, "p100": 3, "k80": 3}
WEIGHTS = {"entity 1": 1.0, "entity 2": 2.0, "entity 3": 3.0}
JOBS_EACH = 6
SEEDS, QUICK_SEEDS = 10, 2
ROUNDS, QUICK_ROUNDS = 200, 50
ROUND_S = 360.0
UNAWARE: dict[str, Any] = {"heterogeneity_aware": False}


def main() -> None:
    """Print shares by number of entities, and judge them once all are there."""
    what = parser(
        "gavel.hierarchy", "Shares of entities.", f"{QUICK_SEEDS} seeds, {QUICK_ROUNDS} rounds"
    )
    what.add_argument("--sharing", action="store_true", help="what space sharing gains, instead")
    options = what.parse_args()
    print(f"Hierarchical fairness on {machine()}")
    if data_of(options) is not None and options.sharing:
        _report_sharing(options)
        return
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    settings = [
        {"seed": seed, "rounds": rounds, "entities": present}
        for seed in range(QUICK_SEEDS if options.quick else SEEDS)
        for present in range(1, len(WEIGHTS) + 1)
    ]
    runs = run_all(_work, settings, options, "gavel_hierarchy")
    table = _shares(runs)
    print(
        f"{JOBS_EACH} single-GPU jobs each on {CLUSTER}, means of {runs['seed'].nunique()} draws "
        "of job types. Parts of the effective\nthroughput, each job's relative to its equal share: "
        f"meant by the policy, and had over {rounds} rounds.\nover unaware: total of the aware "
        "policy over that of the one that takes all types for the same."
    )
    show(table)
    verdicts = _verdicts(runs)
    write_csv(runs, options.out, "gavel_hierarchy_runs")
    write_csv(table, options.out, "gavel_hierarchy")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_hierarchy_verdicts")
    _plot(runs, options.out)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Solve for the entities that are there, and run the shares in rounds."""
    present = list(WEIGHTS)[: settings["entities"]]
    workload = draw_jobs(data, jobs=JOBS_EACH * len(WEIGHTS), seed=settings["seed"])
    speed = workload.throughput_of(CLUSTER).head(JOBS_EACH * len(present))
    entity = np.repeat(present, JOBS_EACH)
    jobs = pd.DataFrame({"entity": entity, "arrival_s": np.arange(len(speed))}, index=speed.index)
    policy = HierarchicalFairness(weights={name: WEIGHTS[name] for name in present})
    unaware = HierarchicalFairness(weights=policy.weights, heterogeneity_aware=False)
    gpus = np.array(list(CLUSTER.values()), dtype=float)
    equal = speed.to_numpy() @ (gpus / gpus.sum())
    meant = ap.solve(policy, speed, workers=CLUSTER, jobs=jobs)
    other = ap.solve(unaware, speed, workers=CLUSTER, jobs=jobs)
    time = _in_rounds(meant, speed, settings["rounds"])
    had = (speed.to_numpy() * time).sum(axis=1) / equal
    level = meant.throughput.to_numpy() / equal
    figures = {"over unaware": level.sum() / float((other.throughput / equal).sum())}
    for name in present:
        own = entity == name
        figures[f"meant {name}"] = level[own].sum() / level.sum()
        figures[f"had {name}"] = had[own].sum() / had.sum()
        figures[f"spread {name}"] = level[own].max() / level[own].min() - 1
    return {name: float(value) for name, value in figures.items()}


def _report_sharing(options: argparse.Namespace) -> None:
    """Print what space sharing adds to the effective throughput, by number of entities."""
    settings = [
        {"seed": seed, "entities": present}
        for seed in range(QUICK_SEEDS if options.quick else SEEDS)
        for present in range(1, len(WEIGHTS) + 1)
    ]
    runs = run_all(_with_sharing, settings, options, "gavel_hierarchy_sharing")
    gains = runs.groupby("entities")[["over none", "unaware over aware"]]
    table = gains.agg(["mean", "min", "max"]).round(3)
    table.columns = pd.Index([", ".join(names) for names in table.columns.to_list()])
    show(table.reset_index(), digits=4)
    write_csv(runs, options.out, "gavel_hierarchy_sharing")


def _with_sharing(settings: Settings, data: Path | None) -> dict[str, float]:
    """Return total effective throughput with space sharing over that without."""
    present = list(WEIGHTS)[: settings["entities"]]
    workload = draw_jobs(data, jobs=JOBS_EACH * len(WEIGHTS), seed=settings["seed"])
    speed = workload.throughput_of(CLUSTER).head(JOBS_EACH * len(present))
    columns = {"entity": np.repeat(present, JOBS_EACH), "arrival_s": np.arange(len(speed))}
    jobs = pd.DataFrame(columns | {"job_type": workload.jobs["job_type"].iloc[: len(speed)]})
    jobs.index = speed.index
    weights = {name: WEIGHTS[name] for name in present}
    gpus = np.array(list(CLUSTER.values()), dtype=float)
    equal = speed.to_numpy() @ (gpus / gpus.sum())
    total, ways = {}, {"none": {}, "both": {"space_sharing": True}, "unaware": UNAWARE}
    for name, how in ways.items():
        pairs = workload.pairs if "space_sharing" in how else None
        policy = HierarchicalFairness(weights=weights, **how)
        found = ap.solve(policy, speed, workers=CLUSTER, jobs=jobs, pairs=pairs)
        total[name] = float((found.throughput.to_numpy() / equal).sum())
    over = total["unaware"] / total["none"]
    return {"over none": total["both"] / total["none"], "unaware over aware": over}


def _in_rounds(allocation: ap.Allocation, speed: pd.DataFrame, rounds: int) -> NDArray[np.float64]:
    """Share of time that each job ran on each type over some rounds, shape (jobs, types)."""
    cluster = ap.Cluster.of(CLUSTER)
    placer = Placer(cluster, "consolidated", 0)
    planner = RoundPlanner(placer, ROUND_S, work_conserving=False)
    shares = np.minimum(allocation.X[list(cluster.accelerators)].to_numpy(), 1.0)
    jobs, table = np.arange(len(shares)), planner.table
    table.add(jobs, jobs, np.ones_like(jobs), (shares > 0).astype(float))
    table.aim(jobs, Shares(shares, NO_PAIRS, np.zeros((0, shares.shape[1]))))
    ran = np.zeros_like(shares)
    for _ in range(rounds):
        planner.plan()
        ran[planner.rows, planner.options] += 1.0
        table.book(planner.rows, planner.options, np.full(planner.rows.size, ROUND_S))
    had = pd.DataFrame(ran / rounds, columns=cluster.accelerators)
    return had[list(speed.columns)].to_numpy()


def _shares(runs: pd.DataFrame) -> pd.DataFrame:
    """Average over the seeds: a row for each number of entities and entity."""
    rows: list[dict[str, Any]] = []
    for present, group in runs.groupby("entities"):
        names = list(WEIGHTS)[: int(str(present))]
        total = sum(WEIGHTS[name] for name in names)
        for name in names:
            rows.append(
                {
                    "entities": present,
                    "entity": name,
                    "weight": WEIGHTS[name],
                    "by weight": WEIGHTS[name] / total,
                    "meant": group[f"meant {name}"].mean(),
                    "had": group[f"had {name}"].mean(),
                    "over unaware": group["over unaware"].mean(),
                }
            )
    return pd.DataFrame(rows)


def _verdicts(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the shares of every draw when all entities are there."""
    rows = runs[runs["entities"] == len(WEIGHTS)]
    total = sum(WEIGHTS.values())
    verdicts = []
    for kind in ("meant", "had"):
        off = max(
            float((rows[f"{kind} {name}"] / (weight / total) - 1).abs().max())
            for name, weight in WEIGHTS.items()
        )
        verdicts.append(claimed("gavel", f"hierarchy-{kind}", [Figure(kind, 100 * off)]))
    spread = max(float(rows[f"spread {name}"].max()) for name in WEIGHTS)
    print(f"jobs of an entity are at most {spread:.2%} apart")
    means = runs.groupby("entities")["over unaware"].mean()
    gains = [Figure(f"{present} entities", float(gain)) for present, gain in means.items()]
    gains.append(Figure("least of 3", float(rows["over unaware"].min())))
    return [*verdicts, claimed("gavel", "hierarchy-aware", gains)]


def _plot(runs: pd.DataFrame, out: Path | None) -> None:
    """Draw the shares of the first draw while the entities join: meant as lines, had as areas."""
    with drawing(out, "gavel_hierarchy") as figure:
        if figure is None:
            return
        axes = figure.subplots()
        rows = runs[runs["seed"] == 0].sort_values("entities")
        edges = np.arange(len(rows) + 1) * rows["rounds"].iloc[0]
        below = np.zeros(len(rows))
        for name, style in line_styles(list(WEIGHTS)).items():
            had = rows[f"had {name}"].fillna(0.0).to_numpy()
            meant = rows[f"meant {name}"].fillna(0.0).to_numpy()
            height = np.append(below + had, below[-1] + had[-1])
            base = np.append(below, below[-1])
            colour = style["color"]
            label = f"{name}, weight {WEIGHTS[name]:g}"
            axes.fill_between(
                edges, base, height, step="post", color=colour, alpha=0.35, label=label
            )
            line = np.append(below + meant, below[-1] + meant[-1])
            axes.step(edges, line, where="post", color=colour)
            below = below + had
        axes.set(
            xlabel="rounds; an entity joins at each step",
            ylabel="part of the effective throughput",
            ylim=(0, 1.02),
            xlim=(0, edges[-1]),
            title="Parts had over rounds (areas) and meant (lines)",
        )
        axes.legend(loc="lower left", fontsize="small", framealpha=0.8, frameon=True)


if __name__ == "__main__":
    main()
