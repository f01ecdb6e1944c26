"""What estimated instead of known pair throughputs cost: mean completion time with space sharing.

``python -m benchmarks.estimators.effect`` repeats Gavel's end-to-end experiment: 4 + 4 + 4 GPUs,
0.65 single-GPU jobs per hour, the mean over jobs 300-500. Estimates come from 16 reference job
types and a share of each new job's pairs with them. ``--loads 0.6 0.7 0.8`` goes along the curve of
the paper instead: without sharing, with the oracle, and with estimates from a fifth of the pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apportion as ap
from apportion.estimators import estimate_pairs
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all, verdict
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

CLUSTER = "v100=4,p100=4,k80=4"
JOBS_PER_HOUR = 0.65
REFERENCES = 16
SHARES = (0.1, 0.2, 0.4, 0.8)
APART, ORACLE = "without sharing", "sharing, oracle"
ESTIMATED, LEARNT = "sharing, estimated", "sharing, estimated and learnt"
CONSTANT = "sharing, a constant and learnt"
CURVE = [(APART, 0.0), (ORACLE, 0.0), (LEARNT, 0.2)]
KEPT_BY_CONSTANT = 0.8
"""Normalised throughput of every pair, where nothing is estimated."""
# Gavel's simulator, hours, 16 references, 20 % measured, its index corrected, one seed.
GAVEL = {(APART, 0.0): 19.58, (ORACLE, 0.0): 15.97, (LEARNT, 0.2): 16.78}


def main() -> None:
    """Run every kind of knowledge, and print mean completion times beside Gavel's."""
    what = parser("estimators.effect", "Estimated pairs, end to end.", "60 jobs")
    what.add_argument("--loads", type=float, nargs="+", metavar="R", help="jobs an hour, the curve")
    what.add_argument("--seeds", type=int, default=3, metavar="N")
    options = what.parse_args()
    first, last, jobs = (20, 40, 60) if options.quick else (300, 500, 600)
    seeds = [0] if options.quick else list(range(options.seeds))
    shares = [0.2] if options.quick else list(SHARES)
    print(f"Effect of estimates on {machine()}")
    loads = options.loads or [JOBS_PER_HOUR]
    print(f"Jobs {first}-{last} of {jobs}, seeds {seeds}, {CLUSTER}, {loads} jobs/h.")
    data = data_of(options)
    known = [(APART, 0.0), (ORACLE, 0.0)]
    known.append((CONSTANT, 0.0))
    told = [(kind, share) for share in shares for kind in (ESTIMATED, LEARNT)]
    settings = [
        {"kind": kind, "share": share, "seed": seed, "load": load}
        | {"first": first, "last": last, "jobs": jobs}
        for load in loads
        for kind, share in (CURVE if options.loads else known + told)
        for seed in seeds
    ]
    runs = run_all(_work, settings, options, "estimator_effect")
    if options.loads:
        _along_the_curve(runs, options.out, judged=data is not None and not options.quick)
        return
    table = runs.groupby(["kind", "share"], sort=False)["mean_jct_h"].agg(["mean", "min", "max"])
    table["Gavel"] = [GAVEL.get((str(kind), float(share))) for kind, share in table.index]
    show(table.reset_index(), digits=4)
    write_csv(runs, options.out, "estimator_effect_runs")
    write_csv(table.reset_index(), options.out, "estimator_effect")
    if data is not None and not options.quick:
        _judge(table["mean"])
    _plot(table["mean"], options.out)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Simulate with one kind of knowledge of pairs; return the mean over the window, hours."""
    seed, kind = settings["seed"], settings["kind"]
    load = draw_jobs(data, jobs=settings["jobs"], seed=seed, jobs_per_hour=settings["load"])
    estimates = None
    if kind in (ESTIMATED, LEARNT, CONSTANT):
        if load.pairs is None:
            raise ap.InputError(f"The workload {load.name!r} has no pair throughputs.")
        single = load.pairs.select([key for key in load.pairs.keys if key[1] == 1])
        if kind == CONSTANT:
            runs = single.alone > 0
            own = KEPT_BY_CONSTANT * single.alone[:, None] * (runs[:, None] & runs[None, :])
            estimates = ap.PairThroughputs(own, single.alone, single.keys, single.accelerators)
        else:
            estimates = estimate_pairs(single, REFERENCES, settings["share"], seed)
    run = ap.simulate(
        "max_min_fairness" if kind == APART else "max_min_fairness_space_sharing",
        load,
        CLUSTER,
        resolve_seconds=1920.0,
        pair_estimates=estimates,
        learn_pairs=kind in (LEARNT, CONSTANT),
        preemption_overhead_seconds=0.0,
    )
    window = run.jobs["jct_s"].iloc[settings["first"] : settings["last"]]
    return {"mean_jct_h": float(window.mean()) / 3600}


def _along_the_curve(runs: pd.DataFrame, out: Path | None, *, judged: bool) -> None:
    """Print and draw completion times by load, and judge what estimates gain and cost."""
    hours = runs.pivot_table(index="load", columns="kind", values="mean_jct_h", sort=False)
    table = hours[[kind for kind, _ in CURVE]].reset_index()
    show(table, digits=4)
    write_csv(runs, out, "estimator_curve_runs")
    write_csv(table, out, "estimator_curve")
    if judged:
        for name, one, other in (
            ("estimator", APART, LEARNT),
            ("estimator-oracle", LEARNT, ORACLE),
        ):
            ratio = hours[one] / hours[other]
            claimed("gavel", name, [Figure(f"{load:g}", float(r)) for load, r in ratio.items()])
    with drawing(out, "estimator_curve") as figure:
        if figure is not None:
            axes = figure.subplots()
            for kind, _ in CURVE:
                axes.plot(hours.index, hours[kind], "o-", label=kind)
            axes.set(xlabel="jobs an hour", ylabel="mean completion time (hours)")
            axes.set_ylim(bottom=0)
            figure.legend(loc="outside lower center", ncols=2, fontsize="small")


def _judge(mean: pd.Series) -> None:
    """Compare with the paper's claim: estimated space sharing comes close to the oracle's."""
    apart, oracle = mean[(APART, 0.0)], mean[(ORACLE, 0.0)]
    # A constant with the same learning, by job, is the best simple way.
    constant = mean[(CONSTANT, 0.0)]
    told = mean[(LEARNT, 0.2)]
    kept = (apart - told) / (apart - oracle)
    verdict(
        f"{LEARNT}: keeps at least half of what sharing gains with the oracle",
        bool(apart > oracle and kept >= 0.5),
        f"{apart:.2f} h apart, {oracle:.2f} h with the oracle, {told:.2f} h with estimates",
    )
    verdict(
        f"{LEARNT}: gains more than a constant does with the same learning",
        bool(told < constant),
        f"{told:.2f} h with estimates, {constant:.2f} h with {KEPT_BY_CONSTANT} for every pair",
    )


def _plot(mean: pd.Series, out: Path | None) -> None:
    with drawing(out, "estimator_effect") as figure:
        if figure is None:
            return
        axes = figure.subplots()
        for kind in (ESTIMATED, LEARNT):
            line = mean.loc[kind]
            axes.plot([100 * share for share in line.index], line.to_numpy(), "o-", label=kind)
        for kind, style in ((APART, ":"), (ORACLE, "--"), (CONSTANT, "-.")):
            axes.axhline(mean[(kind, 0.0)], color="0.4", linestyle=style, label=kind)
        axes.set(xlabel="pairs measured (%)", ylabel="mean completion time (hours)")
        axes.set_ylim(0, 1.1 * float(mean.max()))
        figure.legend(loc="outside lower center", ncols=2, fontsize="small")


if __name__ == "__main__":
    main()
