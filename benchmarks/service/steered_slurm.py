"""A real Slurm whose jobs are started as a decision service says, and what was predicted.

``timeout 1500 unshare -n bash benchmarks/service/steered_slurm.sh FOLDER PYTHON`` runs it. Jobs
come as a Poisson stream, hold GPUs and sleep; their seconds stand in their comment, as a forecast
would. Steered, jobs are submitted on hold; a bridge reads ``squeue``, tells the service who came
and who is done, asks it to decide, and releases those that it starts. Shortest jobs come first
there; nobody is stopped. The table has mean JCT beside what `apportion.simulate` says of the jobs,
with the cost of a start that was measured before, on jobs that came one after the other.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.service import DecisionService
from benchmarks.reporting import show

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS, GPUS = 100, 8
MEAN_S = 1.6
"""Seconds between arrivals: some 1.2 times what the GPUs can do, so that a queue grows."""


STARTS = 20
"""Jobs that take all GPUs one after the other, by which it is measured what a start costs."""


@dataclass(frozen=True)
class ShortestStays(ap.QueueScheduler):
    """The shortest job first; who runs is not stopped."""

    name = "shortest_stays"

    def queue(self, jobs: Any, now_s: float) -> Iterator[Any]:
        """Yield jobs with the types they may run on, the first first."""
        active = jobs.active
        waits = jobs.held_s[active].sum(axis=1) <= 0
        length_s = jobs.total[active] / jobs.speed[active].max(axis=1)
        for place in np.lexsort((active, length_s.round(6), waits)):
            yield active[place], [0]


def drawn() -> pd.DataFrame:
    """Return the jobs: when they come, their GPUs and seconds."""
    rng = np.random.default_rng(31)
    arrival_s = np.cumsum(rng.exponential(MEAN_S, JOBS)).round(2)
    gpus = rng.choice([1, 1, 1, 2, 4], JOBS)
    seconds = np.clip(rng.lognormal(1.6, 0.9, JOBS), 2, 40).round(0)
    return pd.DataFrame({"arrival_s": arrival_s, "gpus": gpus, "seconds": seconds})


def main() -> None:
    """Run the jobs one way, or print the table of all ways."""
    way, where = sys.argv[1], Path(sys.argv[2])
    if way == "table":
        _table(where)
        return
    if way == "overhead":
        for _ in range(STARTS):
            submit(GPUS, 1.0, held=False)
        while any(each["state"] != "COMPLETED" for each in queued().values()):
            time.sleep(0.2)
        return
    jobs = drawn()
    service = DecisionService(ShortestStays(), {"a100": GPUS}) if way == "steered" else None
    bridge = None if service is None else Bridge(service)
    start_s = time.time()
    for arrival_s, gpus, seconds in jobs.to_numpy().tolist():
        while (left_s := start_s + arrival_s - time.time()) > 0:
            if bridge is not None:
                bridge.step()
            time.sleep(min(left_s, 0.1))
        submit(int(gpus), seconds, held=bridge is not None)
    while any(each["state"] in ("PENDING", "RUNNING", "COMPLETING") for each in queued().values()):
        if bridge is not None:
            bridge.step()
        time.sleep(0.1)
    print(f"{way}: {JOBS} jobs in {time.time() - start_s:.0f} s")


class Bridge:
    """Between ``squeue`` and a decision service: who came, who is done, who may start."""

    def __init__(self, service: DecisionService) -> None:
        self.service, self.known, self.begun_s = service, set[str](), time.time()

    def step(self) -> None:
        """Tell what has changed, and start whom the service starts."""
        here = {job: each for job, each in queued().items() if each["state"] != "COMPLETED"}
        came, gone = here.keys() - self.known, self.known - here.keys()
        if not came and not gone:
            return
        told = {
            job: {
                "throughputs": {"a100": 1.0},
                "scale_factor": here[job]["gpus"],
                "total_steps": here[job]["seconds"],
            }
            for job in sorted(came, key=int)
        }
        at_s = time.time() - self.begun_s
        if gone:
            self._ask({"op": "remove", "jobs": sorted(gone, key=int), "at_s": at_s})
        if told:
            self._ask({"op": "add", "jobs": told, "at_s": at_s})
        self.known = set(here)
        if here:
            started = self._ask({"op": "decide", "at_s": at_s})["decision"]["started"]
            for job in started:
                command("scontrol", "release", job)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = self.service.answer(message)
        if not answer["ok"]:
            raise RuntimeError(answer["error"])
        return answer


def command(*words: str) -> str:
    """Run a command of Slurm; return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def submit(gpus: int, seconds: float, *, held: bool) -> None:
    """Submit a job that sleeps."""
    words = ["sbatch", "-Q", "-o", "/dev/null", f"--gres=gpu:a100:{gpus}", "-t1"]
    words += [f"--comment={seconds:g}", *(["--hold"] if held else [])]
    command(*words, "--wrap", f"sleep {seconds:g}")


def queued() -> dict[str, dict[str, Any]]:
    """Return who is in the queue, by id."""
    found = {}
    for line in command("squeue", "-h", "-t", "all", "-o", "%i|%T|%b|%k").splitlines():
        job, state, gres, comment = line.split("|")
        found[job] = {"state": state, "gpus": int(gres.split(":")[-1]), "seconds": float(comment)}
    return found


def completed(path: Path) -> pd.DataFrame:
    """Return submission, start and end of jobs in order, s, by the record of Slurm."""
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        told = dict(word.split("=", 1) for word in line.split() if "=" in word)
        rows[int(told["JobId"])] = {
            name: pd.Timestamp(told[field]).timestamp()
            for name, field in (
                ("submitted_s", "SubmitTime"),
                ("start_s", "StartTime"),
                ("end_s", "EndTime"),
            )
        }
    return pd.DataFrame.from_dict(rows, orient="index").sort_index().reset_index(drop=True)


def predicted(way: str, jobs: pd.DataFrame, overhead_s: float) -> float:
    """Return the mean JCT that a simulation of the jobs says, s, as they were submitted."""
    arrival_s = jobs["submitted_s"] - jobs["submitted_s"].min()
    table = pd.DataFrame({"arrival_s": arrival_s, "scale_factor": jobs["gpus"]})
    table = table.assign(job_type="sleeps", total_steps=jobs["seconds"], time_limit_s=60.0)
    types = pd.MultiIndex.from_tuples([("sleeps", int(each)) for each in sorted(set(jobs["gpus"]))])
    workload = ap.Workload("slurm", table, pd.DataFrame({"a100": 1.0}, index=types))
    decider: Any = {"fcfs": "fcfs", "slurm": "easy", "steered": ShortestStays()}[way]
    run = ap.simulate(decider, workload, {"a100": GPUS}, preemption_overhead_seconds=overhead_s)
    return float(run.jobs["jct_s"].mean())


def _table(folder: Path) -> None:
    """Print measured and predicted means."""
    one_by_one, rows = completed(folder / "overhead" / "jobcomp.txt"), []
    overhead_s = (one_by_one["end_s"].max() - one_by_one["start_s"].min()) / STARTS - 1.0
    print(f"from the end of one job to the start of the next: {overhead_s:.2f} s beside its second")
    for way in ("fcfs", "slurm", "steered"):
        jobs = drawn().join(completed(folder / way / "jobcomp.txt"))
        jct_s = (jobs["end_s"] - jobs["submitted_s"]).mean()
        late_s = (jobs["end_s"] - jobs["start_s"] - jobs["seconds"]).mean()
        told_s = predicted(way, jobs, overhead_s)
        row = {"way": way, "jobs": len(jobs), "mean JCT s": jct_s, "predicted s": told_s}
        rows.append({**row, "over predicted": jct_s / told_s, "a job longer by s": late_s})
    show(pd.DataFrame(rows).round(3))


if __name__ == "__main__":
    main()
