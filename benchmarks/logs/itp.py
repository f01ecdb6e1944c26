"""Microsoft's ITP clusters replayed: who waits how long, and what a replay costs.

``python -m benchmarks.logs.itp`` reads the jobs of clusters 02, 06 and 10 and runs them under batch
schedulers and Gavel's ``fifo``, and the first 3,000 jobs of cluster 02 once more, which is what the
goal on CPU seconds is about. The csv has when jobs were submitted, how long they took and on how
many GPUs: neither how many GPUs a cluster had, which is chosen here, nor when a job started, so
that there is no row ``as_recorded``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import apportion as ap
from apportion.errors import InputError
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

GPUS = {"02": 128, "06": 96, "10": 16}
"""So many that the load is 67, 90 and 32 %, and the largest gang has room."""
DECIDERS = ("fcfs", "easy", "conservative", "fifo")
GOAL_JOBS, GOAL_S, GOAL_OF = 3000, 10.0, ("fcfs", "easy", "fifo")


def main() -> None:
    """Replay all and print a row for each cluster and who decides."""
    options = parser("logs.itp", "ITP clusters replayed.", "60 jobs of one cluster").parse_args()
    folder = options.data.resolve().parent / "microsoft_itp"
    files = {cluster: folder / f"cluster{cluster}.csv.gz" for cluster in GPUS}
    missing = [str(file) for file in files.values() if not file.is_file()]
    if missing:
        print(f"skipped: the ITP traces are absent ({', '.join(missing)})")
        return
    replays = [("10", 60)] if options.quick else [*dict.fromkeys(GPUS).items(), ("02", GOAL_JOBS)]
    settings: list[Settings] = [
        {"cluster": cluster, "first": first, "decider": decider, "file": str(files[cluster])}
        for cluster, first in replays
        for decider in DECIDERS
    ]
    print(f"ITP clusters on {machine()}")
    runs = run_all(_work, settings, options, "itp").drop(columns=["file", "first"])
    show(runs, 4)
    print(f"as_recorded: none ({_why_not_recorded(files['10'])})")
    for decider in GOAL_OF:
        some = runs[(runs["jobs"] == GOAL_JOBS) & (runs["decider"] == decider)]
        for seconds in some["CPU s"]:
            met = "met" if seconds < GOAL_S else "not met"
            print(f"{met}: {GOAL_JOBS:,} jobs of {decider} in {GOAL_S:g} CPU s ({seconds:.1f})")
    write_csv(runs, options.out, "itp")


def _why_not_recorded(file: str | Path) -> str:
    """Return what a replay of the log's own starts is refused with."""
    try:
        ap.simulate("as_recorded", ap.read_workload(file), "v100=16")
    except InputError as error:
        return str(error)
    raise AssertionError(f"{file} tells when jobs started")


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Replay one log under one of those who decide."""
    workload = ap.read_workload(settings["file"], limit=settings["first"])
    gpus = GPUS[settings["cluster"]]
    measures = workload.describe({"v100": gpus}, reference="v100")["value"]
    ap.simulate(
        settings["decider"], workload.head(2), {"v100": gpus}, preemption_overhead_seconds=0.0
    )  # imports what it needs
    before_s = time.process_time()
    run = ap.simulate(
        settings["decider"], workload, {"v100": gpus}, preemption_overhead_seconds=0.0
    )
    cpu_s = time.process_time() - before_s
    summary = run.summary()
    return {
        "jobs": len(run.jobs),
        "GPUs": gpus,
        "load": measures["offered load of the cluster"],
        "mean wait h": round(summary["queueing_s"] / 3600, 6),
        "mean JCT h": summary["mean_jct_s"] / 3600,
        "makespan h": summary["makespan_s"] / 3600,
        "preemptions": summary["preemptions"],
        "CPU s": cpu_s,
    }


if __name__ == "__main__":
    main()
