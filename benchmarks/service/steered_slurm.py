"""A real Slurm whose jobs are started as a decision service says, and what was predicted.

``timeout 1500 unshare -n bash benchmarks/service/steered_slurm.sh FOLDER PYTHON`` runs it. Jobs
come as a Poisson stream, hold GPUs and sleep; their seconds stand in their comment, as a forecast
would. Steered, jobs are submitted on hold; a bridge reads ``squeue``, tells the service who came
and who is done, asks it to decide, and releases those that it starts. Shortest jobs come first
there; nobody is stopped. The table has mean JCT beside what `apportion.simulate` says of the jobs.

What the way costs is measured before, each way on jobs of its own that take all GPUs one after the
other: by how much a job is longer than its seconds (``longer``), and how long after its end the
next one starts (``gap``). A simulated job holds its GPUs for both, and its end is that of the
record, before the gap.
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


STARTS, STARTS_S = 30, 2.0
"""Jobs that take all GPUs one after the other, and their seconds."""


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


_ORDER = {"age_weight": 1000.0, "max_age_s": 86_400.0}
_ORDER |= {f"{each}_weight": 0.0 for each in ("fair_share", "job_size", "partition")}
WAYS: dict[str, Any] = {
    "fcfs": "fcfs",
    "slurm": ap.get_scheduler("slurm", **_ORDER, gpus_per_reservation=GPUS),
    "slurm_nodes": ap.get_scheduler("slurm", **{**_ORDER, "job_size_weight": 100.0}),
    "steered": ShortestStays(),
}
"""What decides in the simulation; a job's size counts only where it may take several machines."""


def drawn(seed: int) -> pd.DataFrame:
    """Return the jobs: when they come, their GPUs and seconds."""
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(MEAN_S, JOBS)).round(2)
    gpus = rng.choice([1, 1, 1, 2, 4], JOBS)
    seconds = np.clip(rng.lognormal(1.6, 0.9, JOBS), 2, 40).round(0)
    return pd.DataFrame({"arrival_s": arrival_s, "gpus": gpus, "seconds": seconds})


def main() -> None:
    """Run jobs one way, or print the table of all ways."""
    if sys.argv[1] == "table":
        _table(Path(sys.argv[2]))
        return
    part, way, seed = sys.argv[1:]
    one_by_one = pd.DataFrame({"arrival_s": [0.0] * STARTS, "gpus": GPUS, "seconds": STARTS_S})
    jobs = one_by_one if part == "starts" else drawn(int(seed))
    service = DecisionService(ShortestStays(), {"a100": GPUS}) if way == "steered" else None
    bridge = None if service is None else Bridge(service)
    start_s = time.time()
    for arrival_s, gpus, seconds in jobs.to_numpy().tolist():
        while (left_s := start_s + arrival_s - time.time()) > 0:
            if bridge is not None:
                bridge.step()
            time.sleep(max(0.0, min(left_s, 0.1)))
        submit(int(gpus), seconds, held=bridge is not None, machines=way == "slurm_nodes")
    while any(each["state"] in ("PENDING", "RUNNING", "COMPLETING") for each in queued().values()):
        if bridge is not None:
            bridge.step()
        time.sleep(0.1)
    print(f"{way}, {part}: {len(jobs)} jobs in {time.time() - start_s:.0f} s", flush=True)


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


def submit(gpus: int, seconds: float, *, held: bool, machines: bool) -> None:
    """Submit a job that sleeps, on GPUs of one machine or on machines of one GPU."""
    asks = [f"-N{gpus}", "--gres=gpu:a100:1"] if machines else [f"--gres=gpu:a100:{gpus}"]
    words = ["sbatch", "-Q", "-o", "/dev/null", *asks, "-t1"]
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


def predicted(way: str, jobs: pd.DataFrame, longer_s: float, gap_s: float) -> float:
    """Return the mean JCT that a simulation of the jobs says, s, as they were submitted."""
    arrival_s = jobs["submitted_s"] - jobs["submitted_s"].min()
    table = pd.DataFrame({"arrival_s": arrival_s, "scale_factor": jobs["gpus"]})
    table = table.assign(job_type="sleeps", total_steps=jobs["seconds"], time_limit_s=60.0)
    types = pd.MultiIndex.from_tuples([("sleeps", int(each)) for each in sorted(set(jobs["gpus"]))])
    workload = ap.Workload("slurm", table, pd.DataFrame({"a100": 1.0}, index=types))
    held_s = longer_s + gap_s
    run = ap.simulate(WAYS[way], workload, {"a100": GPUS}, preemption_overhead_seconds=held_s)
    return float(run.jobs["jct_s"].mean()) - gap_s


def _table(folder: Path) -> None:
    """Print measured and predicted means of the runs that are there."""
    rows = []
    for done in sorted(folder.glob("*/*/jobs/done"), key=str):
        way, seed = done.parent.parent.name, done.parent.parent.parent.name
        first = completed(done.parent.parent / "starts" / "jobcomp.txt")
        longer_s = float((first["end_s"] - first["start_s"]).mean()) - STARTS_S
        gap_s = (first["start_s"].max() - first["end_s"].min()) / (STARTS - 1)
        gap_s -= (longer_s + STARTS_S) * (STARTS - 2) / (STARTS - 1)
        jobs = drawn(int(seed)).join(completed(done.parent / "jobcomp.txt"))
        jct_s = (jobs["end_s"] - jobs["submitted_s"]).mean()
        told_s = predicted(way, jobs, longer_s, gap_s)
        row = {"seed": int(seed), "way": way, "jobs": len(jobs), "longer s": longer_s}
        row |= {"gap s": gap_s, "mean JCT s": jct_s, "predicted s": told_s}
        late_s = (jobs["end_s"] - jobs["start_s"] - jobs["seconds"]).mean()
        rows.append({**row, "over predicted": jct_s / told_s, "a job longer by s": late_s})
    show(pd.DataFrame(rows).round(3))


if __name__ == "__main__":
    main()
