"""Dally's evaluation job by job: distributions, communication and tiers by model, on some racks.

``python -m benchmarks.dally.by_job`` runs each scheduler on bootstrap resamples of the batch and
prints quantiles of completion times and waits over all jobs, what part of its time a job of each
model communicates, and in which tiers GPUs were held. The paper's curves cannot be read in numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apportion as ap
from apportion.report.style import line_styles
from apportion.statistics import to_markdown
from benchmarks.dally.schedulers import SCHEDULERS
from benchmarks.experiment import Settings, drawing, parser, run_all
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

QUANTILES = (5, 25, 50, 75, 90, 95, 99)
RACKS, RESAMPLES = 4, 3
QUICK_JOBS, QUICK_RACKS = 60, 2


def main() -> None:
    """Print quantiles, communication and tiers; draw distributions."""
    first = (__doc__ or "").partition("\n")[0]
    what = parser("dally.by_job", first, f"{QUICK_JOBS} jobs on {QUICK_RACKS} racks, once")
    what.add_argument("--racks", type=int, default=RACKS, metavar="N")
    options = what.parse_args()
    shape = {"racks": options.racks, "jobs": None}
    if options.quick:
        shape = {"racks": QUICK_RACKS, "jobs": QUICK_JOBS}
    settings = [
        {"scheduler": scheduler, "seed": seed, **shape}
        for seed in range(1 if options.quick else RESAMPLES)
        for scheduler in SCHEDULERS
    ]
    runs = run_all(_work, settings, options, "dally_by_job")
    means = runs.groupby("scheduler", sort=False).mean(numeric_only=True)
    for name, start in (("completion times, h", "JCT"), ("waits, h", "wait")):
        columns = {f"{start} q{at}": f"{at} %" for at in QUANTILES}
        _told(means, columns, name, options.out)
    models = [each for each in means.columns if each.startswith("comm ")]
    columns = {each: each.removeprefix("comm ") for each in models}
    _told(means, columns, "communication of a job by model, % of its time", options.out)
    tiers = {f"in {tier} %": tier for tier in ("machine", "rack", "network")}
    _told(means, tiers, "GPU-hours by tier, %", options.out)
    _draw(means, options.out)
    print(machine())


def _work(settings: Settings, _data: Path | None) -> dict[str, float]:
    listed = ap.generate_rack_workload(arrivals="batch", jobs=settings["jobs"])
    workload = ap.resample(listed, settings["seed"])
    run = ap.simulate(
        settings["scheduler"],
        workload,
        ap.Cluster.of_racks(settings["racks"]),
        preemption_overhead_seconds=0.0,
    )
    jobs = run.jobs
    found: dict[str, float] = {}
    for name, column in (("JCT", "jct_s"), ("wait", "queueing_s")):
        hours = jobs[column] / 3600
        found |= {f"{name} q{at}": float(hours.quantile(at / 100)) for at in QUANTILES}
    ran_s = jobs["communication_s"] + jobs["compute_s"]
    part = 100 * (jobs["communication_s"] / ran_s).groupby(jobs["job_type"]).mean()
    found |= {f"comm {model}": float(value) for model, value in part.items()}
    held = jobs[["machine_s", "rack_s", "network_s"]].multiply(jobs["scale_factor"], axis=0).sum()
    for tier, value in (100 * held / held.sum()).items():
        found[f"in {str(tier).removesuffix('_s')} %"] = float(value)
    return found


def _told(means: pd.DataFrame, columns: dict[str, str], title: str, out: Path | None) -> None:
    table = means[list(columns)].rename(columns=columns).reset_index()
    print(f"\n{title}\n{to_markdown(table)}")
    write_csv(table, out, f"dally_by_job_{title.partition(',')[0].replace(' ', '_')}")


def _draw(means: pd.DataFrame, out: Path | None) -> None:
    """Draw distributions of completion times and of waits."""
    with drawing(out, "dally_by_job", 9.0, 3.6) as figure:
        if figure is None:
            return
        panels: Any = figure.subplots(1, 2, sharey=True)
        for axes, (start, label) in zip(
            panels, (("JCT", "completion time"), ("wait", "wait")), strict=True
        ):
            for scheduler, style in line_styles(list(means.index)).items():
                hours = [means.loc[scheduler, f"{start} q{at}"] for at in QUANTILES]
                axes.plot(hours, [at / 100 for at in QUANTILES], label=scheduler, **style)
            axes.set_xscale("symlog", linthresh=0.1, linscale=0.4)
            axes.set(xlabel=f"{label} (hours)", xlim=(0, None))
        panels[0].set(ylabel="part of the jobs")
        panels[1].legend(fontsize="x-small")


if __name__ == "__main__":
    main()
