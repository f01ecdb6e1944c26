"""A decision service under load: so many events/s for so long, and how long answers take.

``python -m benchmarks.service.load`` starts ``apportion decide`` with a store, tells it of 10,000
jobs, and sends 100 messages/s for ten minutes at times of their own, whether or not the last one is
answered: jobs that come and go, speeds that are observed, and each tenth message a decision about
the job that came last. Seconds count from when a message was due to its answer, so a queue counts.
Memory is that of the service's process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.experiment import parser
from benchmarks.reporting import machine, show, write_csv

TYPES = {"v100": 4000, "p100": 4000, "k80": 4000}
ROWS = 26
"""Kinds of jobs, each with speeds of its own."""


def main() -> None:
    """Send messages, and print how long answers took."""
    asked = parser("service.load", "The decision service under load.", "a few seconds")
    asked.add_argument("--policy", default="max_min_fairness")
    asked.add_argument("--seconds", type=float, default=600.0, help="(default: %(default)s)")
    options = asked.parse_args()
    jobs, rate, length_s = (500, 50.0, 4.0) if options.quick else (10_000, 100.0, options.seconds)
    print(f"{options.policy}: {jobs} jobs, {rate:g} messages/s for {length_s:g} s, on {machine()}")
    with tempfile.TemporaryDirectory() as folder:
        found = loaded(options.policy, jobs, rate, length_s, Path(folder) / "decisions.db")
    seconds = found.groupby("op")["seconds"]
    table = seconds.quantile(np.array([0.5, 0.95, 0.99, 1.0])).unstack().mul(1000).round(2)
    table.insert(0, "answers", seconds.size())
    table.loc["all"] = [len(found), *found["seconds"].quantile([0.5, 0.95, 0.99, 1.0]) * 1000]
    show(table.set_axis(["answers", "p50 ms", "p95 ms", "p99 ms", "most ms"], axis=1).reset_index())
    memory = found["memory_mib"].dropna()
    print(f"memory: {memory.iloc[0]:.0f} MiB at the start, {memory.iloc[-1]:.0f} at the end")
    print(f"refused: {(~found['ok']).sum()}")
    write_csv(found, options.out, "service_load")


def loaded(policy: str, jobs: int, rate: float, length_s: float, store: Path) -> pd.DataFrame:
    """Return a row for each message: when it was due, and seconds until its answer."""
    rng = np.random.default_rng(0)
    command = [sys.executable, "-m", "apportion", "decide", "--policy", policy]
    cluster = ",".join(f"{name}={gpus}" for name, gpus in TYPES.items())
    process = subprocess.Popen(
        [*command, "--cluster", cluster, "--store", str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    first = {"op": "add", "jobs": {f"j{k}": drawn(rng) for k in range(jobs)}}
    for message in (first, {"op": "decide", "jobs": ["j0"]}):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
    messages = drawn_messages(rng, jobs, int(rate * length_s))
    rows: list[dict[str, Any]] = []
    start_s = time.perf_counter()

    def read() -> None:
        assert process.stdout
        for number, message in enumerate(messages):
            answer = json.loads(process.stdout.readline())
            due_s = number / rate
            took_s = time.perf_counter() - start_s - due_s
            memory = resident_mib(process.pid) if number % 100 == 0 else None
            row = {"due_s": due_s, "op": message["op"], "seconds": took_s}
            rows.append({**row, "ok": answer["ok"], "memory_mib": memory})

    reader = threading.Thread(target=read)
    reader.start()
    for number, message in enumerate(messages):
        time.sleep(max(0.0, start_s + number / rate - time.perf_counter()))
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    reader.join()
    process.stdin.close()
    process.wait(60)
    return pd.DataFrame(rows)


def drawn(rng: np.random.Generator) -> dict[str, Any]:
    """Return what is told of a job of one of some kinds."""
    speeds = np.random.default_rng(1).uniform(0.2, 5.0, size=(ROWS, len(TYPES))).round(3)
    told = dict(zip(TYPES, speeds[rng.integers(ROWS)].tolist(), strict=True))
    steps = float(rng.integers(10_000, 1_000_000))
    return {"throughputs": told, "scale_factor": int(rng.choice([1, 2, 4])), "total_steps": steps}


def drawn_messages(rng: np.random.Generator, jobs: int, count: int) -> list[dict[str, Any]]:
    """Return messages that leave about as many jobs as there were."""
    there, told = [f"j{k}" for k in range(jobs)], []
    for number in range(count):
        kind = ("add", "remove", "update")[number % 3] if number % 10 else "decide"
        job = there[rng.integers(len(there))]
        if kind == "add":
            there.append(f"n{number}")
            told.append({"op": kind, "jobs": {there[-1]: drawn(rng)}})
        elif kind == "remove":
            there.remove(job)
            told.append({"op": kind, "jobs": [job]})
        elif kind == "update":
            told.append({"op": kind, "jobs": {job: {"steps_remaining": float(number % 9_999 + 1)}}})
        else:
            told.append({"op": kind, "jobs": [there[-1]]})
    return told


def resident_mib(process: int) -> float | None:
    """Return the memory that a process holds, MiB, where the system tells."""
    try:
        told = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    line = next((each for each in told.splitlines() if each.startswith("VmRSS:")), None)
    return None if line is None else int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
