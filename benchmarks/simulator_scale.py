"""Rounds per second of the simulator, inside and outside the policy, on growing clusters.

``python -m benchmarks.simulator_scale`` runs whole traces with consolidated placement: generated
ones on 108 to 10,800 GPUs at the same load for each GPU, those of Microsoft's ITP clusters 02 and
06 where they are, and with ``--philly`` one of the size of Philly's, 82,000 jobs in 109 days on
2,500 GPUs, which takes minutes. With ``--out`` an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

import apportion as ap
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, progress, show, write_csv

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

POLICIES = ("max_min_fairness", "isolated")

# Jobs, GPUs and jobs per hour.
SIZES = ((300, 108, 8.0), (2000, 1080, 80.0), (20_000, 10_800, 800.0))
QUICK_SIZES = ((60, 36, 4.0), (120, 72, 8.0))
# Rounds per second of Gavel's own simulator, all in, max-min fairness (300 and 2,000 jobs, one
# thread of another machine).
GAVEL = {108: 400.0, 1080: 61.0}
ITP_GPUS = {"02": 128, "06": 96}
PHILLY = {"jobs": 82_000, "gpus": 2500, "days": 109.0}
PHILLY_RESOLVE_SECONDS = (0.0, 1920.0)


def main() -> None:
    """Run every trace and print how fast."""
    options = _options()
    print(f"Simulator at scale on {machine()}")
    runs = run_all(_work, _settings(options), options, "simulator_scale")
    print(
        "Whole traces; seconds are of the wall clock. outside: rounds per second without the time\n"
        "in the policy. MB: most memory of the process up to then. Gavel: all in, its own\n"
        "simulator on another machine, for jobs drawn alike."
    )
    show(runs)
    write_csv(runs, options.out, "simulator_scale")


def _options() -> argparse.Namespace:
    what = parser("simulator_scale", "Rounds per second on growing clusters.", "two small clusters")
    what.add_argument("--philly", action="store_true", help="82,000 jobs on 2,500 GPUs too")
    what.add_argument("--gpus", type=int, metavar="N", help="no cluster with more GPUs")
    return what.parse_args()


def _settings(options: argparse.Namespace) -> list[Settings]:
    """List the runs, those on small clusters first."""
    sizes = QUICK_SIZES if options.quick else SIZES
    settings: list[Settings] = [
        {"trace": "generated", "policy": policy, "jobs": jobs, "GPUs": gpus, "load": load}
        for jobs, gpus, load in sizes
        for policy in POLICIES[: 1 if options.quick else None]
        if options.gpus is None or gpus <= options.gpus
    ]
    itp = options.data.parent / "microsoft_itp"
    if not options.quick and itp.is_dir():
        settings += [
            {"trace": f"ITP {name}", "policy": POLICIES[0], "GPUs": gpus, "file": str(file)}
            for name, gpus in ITP_GPUS.items()
            if (file := itp / f"cluster{name}.csv.gz").is_file()
        ]
    elif not options.quick:
        print(f"skipped: the ITP traces are absent ({itp})")
    if options.philly:
        settings += [
            {
                "trace": "as Philly",
                "policy": POLICIES[0],
                "jobs": PHILLY["jobs"],
                "GPUs": PHILLY["gpus"],
                "days": PHILLY["days"],
                "resolve_s": resolve_s,
            }
            for resolve_s in PHILLY_RESOLVE_SECONDS
        ]
    return settings


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Simulate one trace; return rounds, their speed, and the time and number of the solves."""
    workload, cluster = _workload(settings)
    run = ap.simulate(
        settings["policy"],
        workload,
        cluster,
        resolve_seconds=settings.get("resolve_s", 0.0),
        progress=lambda share, done: progress(
            f"{settings['trace']}, {settings['GPUs']:,} GPUs: {share:.1%}, {done:,} jobs done"
        ),
        preemption_overhead_seconds=0.0,
    )
    rounds = len(run.rounds)
    like_gavel = settings["trace"] == "generated" and settings["policy"] == POLICIES[0]
    return {
        "jobs": len(run.jobs),
        "rounds": rounds,
        "active": run.rounds["active_jobs"].mean(),
        "outside": rounds / (run.wall_seconds - run.policy_seconds),
        "all in": rounds / run.wall_seconds,
        "Gavel": GAVEL.get(settings["GPUs"]) if like_gavel else None,
        "solves": run.solves,
        "policy s": run.policy_seconds,
        "all s": run.wall_seconds,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _workload(settings: Settings) -> tuple[ap.Workload, ap.Cluster]:
    """Draw or read the jobs of a run, and make its cluster."""
    gpus = settings["GPUs"]
    if "file" in settings:
        return ap.read_workload(settings["file"]), ap.Cluster({"v100": gpus})
    if "days" in settings:
        workload = ap.generate_workload(
            jobs=settings["jobs"],
            arrivals="diurnal",
            days=settings["days"],
            scale_factors="philly",
            durations="philly",
        )
        return workload, ap.Cluster({"v100": gpus})
    workload = ap.generate_workload(
        jobs=settings["jobs"], jobs_per_hour=settings["load"], scale_factors="gavel"
    )
    return workload, ap.Cluster(dict.fromkeys(("v100", "p100", "k80"), gpus // 3))


if __name__ == "__main__":
    main()
