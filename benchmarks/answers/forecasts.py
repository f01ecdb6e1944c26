"""Do forecasts hold? Jobs of the second half of logs, each foretold when it comes.

``python -m benchmarks.answers.forecasts`` lets a queue with backfilling run a log, takes the state
at the arrival of jobs drawn from its second half, foretells them from what had ended by then, and
counts for how many it is told by when they start and end with 50 and 90 %, how many of these held,
and how far off the time for 90 % is: the median in hours from the time of asking. Jobs that come
together wait for the same jobs, so that the margin of a share is Student's, 95 %, over twenty
stretches of jobs that were asked about one after another. The queue is known to the forecast, and
durations are not. Logs are Microsoft's ITP clusters, where
``../shared/data`` has them, generated ones by their seeds, and files of one's own in ITP's format
(``--logs my.csv=64``: on 64 GPUs).
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

import apportion as ap
from apportion.answers.foretelling import Foretelling
from apportion.answers.futures import foretold
from benchmarks.experiment import DATA, Settings, chosen, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from apportion.answers.history import History
    from apportion.answers.state import ClusterState

GENERATED = {"generated": 5, **{f"generated-{seed}": seed for seed in (11, 12, *range(31, 36))}}
"""Logs that are drawn, and their seeds: with 5, 11 and 12 the way to foretell was chosen."""

STRETCHES = 20
"""Of jobs asked about, for the margin."""

CLUSTERS = {"02": "gpu=128", "06": "gpu=96", "10": "gpu=32", **dict.fromkeys(GENERATED, "gpu=160")}
POLICY = "easy"
WANTED = [f"{what}_{at}" for what in ("start", "end") for at in ("50", "90")]


def log_of(name: str, folder: Path, jobs: int | None) -> ap.Workload | None:
    """Read or draw a log as jobs that take as long as it says, wherever they run."""
    if name in GENERATED:
        read = ap.generate_workload(
            jobs=jobs or 1500, jobs_per_hour=6.0, scale_factors="gavel", seed=GENERATED[name]
        )
    else:
        path = folder / "microsoft_itp" / f"cluster{name}.csv.gz"
        path = Path(name.partition("=")[0]) if "=" in name else path
        if not path.exists():
            return None
        read = ap.read_workload(path, limit=jobs)
    table = read.to_frame()
    duration_s = table["total_steps"] / table["v100_steps_per_s"]
    names = [f"job{number:05d}" for number in range(len(table))]
    told = table[["arrival_s", "scale_factor"]].assign(job_type="any", total_steps=duration_s)
    gangs = sorted(told["scale_factor"].unique().tolist())
    index = pd.MultiIndex.from_tuples([("any", gang) for gang in gangs])
    index.names = ["job_type", "scale_factor"]
    speeds = pd.DataFrame({"gpu": 1.0}, index=index)
    return ap.Workload(name, told.set_axis(names), speeds).fitting(cluster_of(name))


def cluster_of(name: str) -> str:
    """Return the GPUs on which a log runs."""
    return CLUSTERS.get(name) or f"gpu={int(name.partition('=')[2])}"


def state_at(now_s: float, jobs: pd.DataFrame) -> dict[str, Any]:
    """Return who runs and waits, as ``squeue --json`` would."""
    here = jobs[(jobs["arrival_s"] <= now_s) & (jobs["completion_s"] > now_s)]
    entries: list[dict[str, Any]] = []
    for job, row in here.iterrows():
        runs = row["start_s"] < now_s
        entries.append(
            {
                "job_id": job,
                "job_state": "RUNNING" if runs else "PENDING",
                "submit_time": row["arrival_s"],
                "start_time": row["start_s"] if runs else None,
                "gpus": int(row["scale_factor"]),
            }
        )
    return {"now": now_s, "jobs": entries}


@cache
def replayed(name: str, limit: int | None) -> tuple[ap.Workload, pd.DataFrame]:
    """Return a log, and its jobs with when each started and ended in the queue."""
    log = log_of(name, DATA.parent, limit)
    assert log is not None
    ran = ap.simulate(POLICY, log, cluster_of(name), preemption_overhead_seconds=0.0).jobs
    return log, log.jobs.join(ran[["start_s", "completion_s"]])


class Remembering(Foretelling):
    """Foretells each state once: jobs that are asked about share earlier moments."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._told: dict[Any, Any] = {}

    def __call__(self, state: ClusterState, history: History, count: int) -> Any:
        """Return starts and ends, also those that were foretold before."""
        times = state.jobs[["submit_s", "start_s"]].to_numpy().tobytes()
        key = state.now_s, count, times
        if key not in self._told:
            self._told[key] = super().__call__(state, history, count)
        return self._told[key]


@cache
def foretells(name: str) -> Foretelling:
    """Return what makes the futures of a log, and keeps those of earlier moments."""
    horizon_s, settings = 6 * 3600.0, {"preemption_overhead_seconds": 0.0}
    return Remembering(POLICY, ap.Cluster.of(cluster_of(name)), horizon_s, 0, settings)


def asked_of(settings: Settings, _data: Path | None) -> dict[str, float]:
    """Return of one job when it started and ended, and the times foretold as it came."""
    name = settings["log"]
    log, jobs = replayed(name, settings["limit"])
    job = jobs.index[settings["row"]]
    now_s = float(jobs["arrival_s"].iloc[settings["row"]])
    ended = jobs[jobs["completion_s"] <= now_s]
    recorded = ended.drop(columns=["start_s", "completion_s"]).assign(
        recorded_start_s=ended["start_s"], recorded_end_s=ended["completion_s"]
    )
    history = ap.Workload("history", recorded, log.throughputs)
    state = state_at(now_s, jobs)
    found = foretold(foretells(name), state, history, futures=settings["futures"]).table()
    told = found.loc[job, WANTED].astype(float).to_dict()
    came = jobs.loc[job, ["start_s", "completion_s"]].astype(float).to_dict()
    return {"now_s": now_s, **{str(name): value for name, value in {**told, **came}.items()}}


def asked_about(log: ap.Workload, asked: int) -> list[int]:
    """Draw rows of the second half of a log, in the order of arrival."""
    half = len(log.jobs) // 2
    rows = np.arange(half, len(log.jobs))
    drawn = np.random.default_rng(0).choice(rows, min(asked, rows.size), replace=False)
    return sorted(int(row) for row in drawn)


def margin(held: pd.Series[bool]) -> float:
    """Return the half width of Student's interval, 95 %, of a share of jobs in their order."""
    stretches = [part.mean() for part in np.array_split(held.to_numpy(float), STRETCHES)]
    spread = np.std(stretches, ddof=1) / len(stretches) ** 0.5
    return float(stats.t.ppf(0.975, len(stretches) - 1) * spread)


def covered(table: pd.DataFrame) -> dict[str, float]:
    """Return for how many jobs times are told, and how many started and ended by them."""
    found: dict[str, float] = {"jobs": len(table)}
    for what, came in (("start", "start_s"), ("end", "completion_s")):
        for at in ("50", "90"):
            told = table.dropna(subset=f"{what}_{at}")
            held = told[came] <= told[f"{what}_{at}"] + 1
            found[f"{what}s_told_{at}"] = len(told)
            found[f"{what}s_by_{at}"] = float(held.mean()) if len(told) else float("nan")
            enough = len(told) >= 2 * STRETCHES
            found[f"{what}s_by_{at}_pm"] = margin(held) if enough else float("nan")
        ahead_s = table[f"{what}_90"] - table["now_s"]
        found[f"hours_to_{what}_90"] = float(ahead_s.median() / 3600)
    return found


def main() -> None:
    """Foretell jobs of all logs, and print how many came by the times that were told."""
    options = parser("answers.forecasts", __doc__ or "", "a few jobs of a short generated log")
    options.add_argument("--logs", default=",".join(CLUSTERS), metavar="A,B,...")
    options.add_argument("--asked", type=int, default=100, metavar="N", help="jobs of each log")
    args = options.parse_args()
    names = args.logs.split(",")
    chosen("log", [name for name in names if "=" not in name], list(CLUSTERS))
    limit, asked, futures = (120, 5, 20) if args.quick else (None, args.asked, 50)
    rows = []
    for name in ["generated"] if args.quick else names:
        log = log_of(name, DATA.parent, limit)
        if log is None:
            print(f"skipped: no log of {name} in {DATA.parent / 'microsoft_itp'}")
            continue
        began_s = time.process_time()
        settings: list[Settings] = [
            {"log": name, "row": row, "limit": limit, "futures": futures}
            for row in asked_about(log, asked)
        ]
        table = run_all(asked_of, settings, args, f"answers_forecasts_{Path(name).stem}")
        cpu_s = time.process_time() - began_s
        rows.append({"log": Path(name).stem, **covered(table), "cpu_s": cpu_s})
        print(rows[-1], flush=True)
    if rows:
        show(pd.DataFrame(rows))
        print(machine())
        write_csv(pd.DataFrame(rows), args.out, "answers_forecasts")


if __name__ == "__main__":
    main()
