"""What estimated instead of known speeds of single jobs cost: mean completion time over told.

``python -m benchmarks.estimators.speeds`` runs max-min fairness on 4 + 4 + 4 GPUs, 0.65 single-GPU
jobs per hour. No job is recognised; 12 job types are references, measurements carry 5 % noise.
With ``--leases`` in leases of an hour instead of rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.beliefs.estimated import Estimated
from apportion.statistics import mean_interval
from benchmarks.estimators.believed import Watched
from benchmarks.experiment import Settings, data_of, drawing, parser, run_all, verdict
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.sim.beliefs import Beliefs

CLUSTER = "v100=4,p100=4,k80=4"
JOBS_PER_HOUR = 0.65
REFERENCES, NOISE = 12, 0.05
TOLD, AGNOSTIC = "told", "agnostic"
HOPEFUL, EXPECTED = "estimated, kappa 1", "estimated, kappa 0"
ESTIMATES: dict[str, dict[str, Any]] = {
    HOPEFUL: {"optimism": 1.0},
    EXPECTED: {"optimism": 0.0},
}
KINDS = (TOLD, *ESTIMATES, AGNOSTIC)
MOST = {HOPEFUL: 1.03, EXPECTED: 1.09}
LEAST_AGNOSTIC = 1.3


def main() -> None:
    """Run every kind of knowledge on the same jobs, and print completion times over told."""
    own = parser("estimators.speeds", "Estimated speeds, end to end.", "12 jobs")
    own.add_argument("--leases", action="store_true", help="in leases of an hour, not in rounds")
    options = own.parse_args()
    jobs, seeds = (12, 2) if options.quick else (100, 5)
    print(f"Effect of estimated speeds on {machine()}")
    print(f"{jobs} jobs, {seeds} seeds, {CLUSTER}, {JOBS_PER_HOUR} jobs/h, max_min_fairness,")
    print(f"{REFERENCES} references, {NOISE:.0%} noise; mean and 95 % interval of paired ratios.")
    data = data_of(options)
    settings = [
        {"kind": kind, "seed": seed, "jobs": jobs} for kind in KINDS for seed in range(seeds)
    ]
    name = "estimator_speeds"
    if options.leases:
        name += "_leases"
        settings = [each | {"leases": True} for each in settings]
    runs = run_all(_work, settings, options, name)
    hours = runs.pivot_table("mean_jct_h", "seed", "kind")[list(KINDS)]
    solves = runs.groupby("kind")["solves"].mean()
    ratios = hours.div(hours[TOLD], axis=0)
    table = pd.DataFrame([_line(kind, hours, ratios) for kind in KINDS])
    table["solves"] = [round(solves[kind]) for kind in KINDS]
    show(table, digits=4)
    write_csv(runs, options.out, f"{name}_runs")
    write_csv(table, options.out, name)
    if not options.quick:
        _judge(ratios)
    if not options.leases:
        _plot(data, 12 if options.quick else 40, options.out)


def knowledge(kind: str, seed: int) -> Beliefs:
    """Return a kind of knowledge by its name."""
    if kind == TOLD:
        return Told()
    if kind == AGNOSTIC:
        return Agnostic()
    return Estimated(REFERENCES, noise=NOISE, seed=seed, **ESTIMATES[kind])


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Simulate with one kind of knowledge; return the mean completion time, hours."""
    load = _jobs(settings["jobs"], settings["seed"], data)
    beliefs = knowledge(settings["kind"], settings["seed"])
    if settings.get("leases"):
        racks = dict.fromkeys(ap.Cluster.of(CLUSTER).accelerators, 1)
        cluster = ap.Cluster.of_racks(racks, machines_per_rack=1, gpus_per_machine=4)
        leases = ap.Leases(network="none")
        run = ap.simulate("max_min_fairness", load, cluster, mechanism=leases, beliefs=beliefs)
    else:
        run = ap.simulate(
            "max_min_fairness", load, CLUSTER, beliefs=beliefs, preemption_overhead_seconds=0.0
        )
    return {"mean_jct_h": float(run.jobs["jct_s"].mean()) / 3600, "solves": float(run.solves)}


def _jobs(jobs: int, seed: int, data: Path | None) -> ap.Workload:
    return draw_jobs(data, jobs=jobs, seed=seed, jobs_per_hour=JOBS_PER_HOUR)


def _line(kind: str, hours: pd.DataFrame, ratios: pd.DataFrame) -> dict[str, Any]:
    """Mean of a kind, of its ratio to told, and the interval of the latter by Student's t."""
    ratio = mean_interval(ratios[kind])
    figures = {"hours": hours[kind].mean(), "over told": ratio.estimate}
    return {"kind": kind, **figures, "low": ratio.low, "high": ratio.high}


def _judge(ratios: pd.DataFrame) -> None:
    """Compare with the targets."""
    mean = ratios.mean()
    for kind, most in MOST.items():
        verdict(f"{kind}: at most {most} of told", bool(mean[kind] <= most), f"{mean[kind]:.3f}")
    evidence = f"{mean[AGNOSTIC]:.3f}"
    verdict(
        f"agnostic: at least {LEAST_AGNOSTIC}", bool(mean[AGNOSTIC] >= LEAST_AGNOSTIC), evidence
    )


def _plot(data: Path | None, jobs: int, out: Path | None) -> None:
    """Draw how far off what was told is: over time in one run, and by cells measured."""
    with drawing(out, "estimator_speeds", width=9.0) as figure:
        if figure is None:
            return
        by_time, by_cells = figure.subplots(1, 2, width_ratios=(2, 1), sharey=True)
        load = _jobs(jobs, 0, data)
        for kind in (*ESTIMATES, AGNOSTIC):
            watched = Watched(knowledge(kind, 0))
            run = ap.simulate(
                "max_min_fairness", load, CLUSTER, beliefs=watched, preemption_overhead_seconds=0.0
            )
            errors = watched.errors(run)
            line = errors.groupby("day")["error"].mean()
            by_time.plot(line.index + 0.5, line.to_numpy(), label=kind)
            line = errors.groupby("cells")["error"].mean()
            by_cells.plot(line.index, line.to_numpy(), "o-", label=kind)
        by_time.set(xlabel="days", ylabel="mean |log told / true|, each job's scale removed")
        by_time.set_ylim(0, 1.0)  # room for the names
        by_time.set_title("active jobs over time", fontsize="small")
        by_cells.set(xlabel="types measured, of 3", xticks=range(4))
        by_cells.set_title("by what was measured", fontsize="small")
        by_time.legend(fontsize="x-small", loc="upper center", ncols=2)


if __name__ == "__main__":
    main()
