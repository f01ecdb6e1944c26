"""What estimated speeds cost on a suite of short and long workloads at three loads.

``python -m benchmarks.estimators.suite`` runs max-min fairness in rounds of six minutes on 4 + 4 +
4 GPUs. Twelve of the 26 job types are references, measurements carry 5 % noise. Jobs last minutes
(a median of 20) or hours (4) on a v100, log-normal with standard deviation 0.8; the load is what
jobs would hold on their fastest types, of all GPUs. It prints mean completion times over told, of
every way to know speeds, means of paired ratios with 95 % intervals: without names of jobs, and
with the families of their models known. ``--case gangs`` has a quarter of the jobs on 2 or 4 GPUs,
``--case ftf`` the policy finish_time_fairness. Whatever was tuned was tuned with ``--tune``, seeds
0 to 9, single GPUs and max-min fairness; what is reported are seeds 100 to 109. With ``--out``
finished runs are kept, and a next call goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.beliefs.estimated import Estimated
from apportion.sim.job_types import job_type_throughputs
from apportion.statistics import mean_interval
from benchmarks.experiment import Settings, parser, run_all, verdict
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.sim.beliefs import Beliefs

CLUSTER = "v100=4,p100=4,k80=4"
LENGTHS = {"minutes": 20 * 60.0, "hours": 4 * 3600.0}
"""Median seconds on a v100."""

SPREAD, MOST_TIMES = 0.8, 8.0
LOADS = (0.3, 0.5, 0.7)
JOBS = {"minutes": 40, "hours": 30}
GANGS = {1: 0.75, 2: 0.1, 4: 0.15}
"""Shares of jobs by GPUs: Gavel's without 8, which no type here has."""

CASES = {
    "single": ("max_min_fairness", False),
    "gangs": ("max_min_fairness", True),
    "ftf": ("finish_time_fairness", False),
}
"""Policy, and whether there are gangs."""

TUNED_ON, REPORTED = range(10), range(100, 110)
TOLD, WORTH, FAMILY_WORTH = "told", "worth", "worth, by family"
WAYS: dict[str, dict[str, Any]] = {
    "constant": {"model": "constant"},
    "log-additive": {"model": "log_additive"},
    "kappa 0": {"optimism": 0.0},
    "kappa 1": {"optimism": 1.0},
    WORTH: {"optimism": "worth"},
    "family mean": {"model": "constant", "rows": "family"},
    "log-additive, by family": {"model": "log_additive", "rows": "family"},
    "kappa 0, by family": {"optimism": 0.0, "rows": "family"},
    "kappa 1, by family": {"optimism": 1.0, "rows": "family"},
    FAMILY_WORTH: {"optimism": "worth", "rows": "family"},
}
KINDS = (TOLD, "agnostic", *WAYS)
NAMELESS = ("agnostic", "constant", "log-additive", "kappa 0", "kappa 1")
BY_FAMILY = ("family mean", "log-additive, by family", "kappa 0, by family", "kappa 1, by family")
RIVALS = {WORTH: NAMELESS, FAMILY_WORTH: (*NAMELESS, *BY_FAMILY)}
"""What each is to be no worse than: the ways that know no more."""

MOST = {"minutes": 1.06, "hours": 1.03}
CELL = ["lasts", "load"]


def main() -> None:
    """Run every way on every workload, and print completion times over told."""
    own = parser(
        "estimators.suite", "Estimated speeds on short and long jobs.", "4 jobs, 2 seeds, one load"
    )
    own.add_argument("--tune", action="store_true", help="the seeds that things are tuned on")
    own.add_argument("--case", choices=list(CASES), default="single", help="(default: single)")
    options = own.parse_args()
    seeds = TUNED_ON if options.tune else REPORTED
    seeds = seeds[:2] if options.quick else seeds
    print(f"Estimated speeds on {machine()}")
    policy, gangs = CASES[options.case]
    about = f"{CLUSTER}, {policy}, {'gangs' if gangs else 'single GPUs'}"
    print(f"{about}, seeds {seeds[0]} to {seeds[-1]}; 95 % intervals.")
    settings = [
        {
            **{"lasts": lasts, "load": load, "kind": kind, "seed": seed, "jobs": jobs},
            **({} if options.case == "single" else {"case": options.case}),
        }
        for lasts, jobs in ({name: 4 for name in JOBS} if options.quick else JOBS).items()
        for load in (list(LOADS)[:1] if options.quick else LOADS)
        for seed in seeds
        for kind in KINDS
    ]
    runs = run_all(_work, settings, options, "estimator_suite")
    hours = runs.pivot_table("mean_jct_h", [*CELL, "seed"], "kind", sort=False)[list(KINDS)]
    ratios = hours.div(hours[TOLD], axis=0)
    table = _table(ratios, hours, runs)
    show(table, digits=4)
    write_csv(runs, options.out, "estimator_suite_runs")
    write_csv(table, options.out, "estimator_suite")
    if not options.quick:
        for kind in RIVALS:
            _judge(ratios, kind)


def draw(lasts: str, load: float, jobs: int, seed: int, *, gangs: bool = False) -> ap.Workload:
    """Generate a workload of the suite; it needs no data."""
    drawn = ap.generate_workload(jobs=jobs, seed=seed, jobs_per_hour=1.0)
    table = drawn.jobs.copy()
    if gangs:
        sizes = np.random.default_rng([seed, 2]).choice(
            list(GANGS), size=jobs, p=list(GANGS.values())
        )
        throughputs = job_type_throughputs(list(GANGS))
        runs = pd.MultiIndex.from_arrays([table["job_type"], sizes]).isin(
            throughputs[throughputs.gt(0).any(axis=1)].index
        )
        table["scale_factor"] = np.where(runs, sizes, 1)
        drawn = ap.Workload(drawn.name, table, throughputs, drawn.notes)
    logs = SPREAD * np.random.default_rng([seed, 1]).standard_normal(jobs)
    times = np.exp(np.clip(logs, -np.log(MOST_TIMES), np.log(MOST_TIMES)))
    keys = list(zip(table["job_type"], table["scale_factor"], strict=True))
    speed = drawn.throughputs.loc[keys]
    table["duration_s"] = LENGTHS[lasts] * times
    table["total_steps"] = table["duration_s"].to_numpy() * speed["v100"].to_numpy()
    fastest_s = table["total_steps"].to_numpy() / speed.max(axis=1).to_numpy()
    held_s = (fastest_s * table["scale_factor"].to_numpy()).mean()
    per_s = load * ap.Cluster.of(CLUSTER).counts.sum() / held_s
    table["arrival_s"] = table["arrival_s"] / 3600.0 / per_s
    name = f"jobs of {lasts} at {load:.0%}"
    return ap.Workload(name, table, drawn.throughputs, drawn.notes, drawn.pairs)


def knowledge(kind: str, seed: int) -> Beliefs:
    """Return a way to know speeds by its name."""
    if kind == TOLD:
        return Told()
    return Agnostic() if kind == "agnostic" else Estimated(12, seed=seed, **WAYS[kind])


def _work(settings: Settings, _data: Path | None) -> dict[str, float]:
    """Simulate with one kind of knowledge; return the mean completion time, hours."""
    policy, gangs = CASES[settings.get("case", "single")]
    asked = (settings[name] for name in ("lasts", "load", "jobs", "seed"))
    beliefs = knowledge(settings["kind"], settings["seed"])
    run = ap.simulate(
        policy, draw(*asked, gangs=gangs), CLUSTER, beliefs=beliefs, preemption_overhead_seconds=0.0
    )
    hours = float(run.jobs["jct_s"].mean()) / 3600
    return {"mean_jct_h": hours, "solves": float(run.solves)}


def _table(ratios: pd.DataFrame, hours: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per way, a column per workload: the mean ratio and half of its interval."""
    table = pd.DataFrame({"kind": KINDS})
    for (lasts, load), part in ratios.groupby(CELL, sort=False):
        texts = [f"{hours[TOLD].loc[part.index].mean():.2f} h"]
        for kind in KINDS[1:]:
            mean = mean_interval(part[kind])
            texts.append(f"{mean.estimate:.3f} +-{mean.high - mean.estimate:.3f}")
        table[f"{lasts}, {load:.0%}"] = texts
    table["solves"] = runs.groupby("kind")["solves"].mean()[list(KINDS)].round().to_numpy()
    return table


def _judge(ratios: pd.DataFrame, kind: str) -> None:
    """Compare with the targets, and with the best of the ways that know no more."""
    for (lasts, load), part in ratios.groupby(CELL, sort=False):
        mean, where = part.mean(), f"{kind}, jobs of {lasts} at {load:.0%}"
        most = MOST[str(lasts)]
        verdict(f"{where}: at most {most} of told", mean[kind] <= most, f"{mean[kind]:.3f}")
        best = min(RIVALS[kind], key=mean.__getitem__)
        apart = mean_interval(part[kind] - part[best])
        verdict(
            f"{where}: not worse than the best simple way, {best}",
            bool(mean[kind] <= mean[best]),
            f"{mean[kind]:.3f} against {mean[best]:.3f}, {apart.estimate:+.3f} "
            f"[{apart.low:+.3f}, {apart.high:+.3f}]",
        )


if __name__ == "__main__":
    main()
