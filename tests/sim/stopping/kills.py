"""Runs in processes of their own that are killed at random times and started again, to their end.

``python tests/sim/stopping/kills.py KIND KILLS [SEED]`` prints what it found; `KINDS` are the
kinds. Every process draws other hashes, loads all modules anew, and says when its work begins,
from which its time to live counts. States are written every .2 s.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import apportion as ap
from apportion.cli import main as command
from apportion.experiments import simulations
from apportion.sim.engine.snapshot import Snapshots

COMMANDS = {
    "compare": "compare --policies fifo,finish_time_fairness,max_min_fairness --cluster "
    "v100=8,k80=8 --generate-jobs 60 --jobs-per-hour 12 --jobs 1",
    "sweep": "sweep --policies fifo,max_min_fairness --cluster v100=8,k80=8 --generate-jobs 40 "
    "--jobs-per-hour 12 --seeds 0,1 --jobs 1",
}
CLOCKS = ("policy_seconds", "wall_seconds")


def _racked(jobs: int, decider: Any, **more: Any) -> ap.Run:
    crowd = ap.generate_rack_workload(jobs=jobs, seed=5, max_scale_factor=16, arrivals="poisson")
    crowd = replace(crowd, jobs=crowd.jobs.assign(arrival_s=crowd.jobs["arrival_s"] * 0.1))
    racks = ap.Cluster.of_racks(2, machines_per_rack=4, gpus_per_machine=4)
    return ap.simulate(decider, crowd, racks, mechanism="leases", **more)


def _on_racks_of_types(jobs: int, decider: Any, **more: Any) -> ap.Run:
    crowd = ap.generate_workload(jobs=jobs, seed=6, scale_factors="gavel", jobs_per_hour=12)
    racks = ap.Cluster.of_racks({"v100": 2, "k80": 1}, machines_per_rack=2, gpus_per_machine=4)
    free = ap.Leases(network="none", seconds=600.0)
    return ap.simulate(decider, crowd, racks, mechanism=free, **more)


def _crowded(jobs: int, decider: Any, **more: Any) -> ap.Run:
    crowd = ap.generate_workload(jobs=jobs, seed=3, scale_factors="gavel", jobs_per_hour=12)
    return ap.simulate(decider, crowd, "v100=8,p100=8,k80=8", **more)


def _in_pairs(**more: Any) -> ap.Run:
    crowd = ap.generate_workload(jobs=40, seed=2, jobs_per_hour=20)
    crowd = replace(crowd, pairs=ap.generate_pair_throughputs(1))
    decider = "max_min_fairness_space_sharing"
    return ap.simulate(decider, crowd, "v100=4,k80=4", learn_pairs=True, **more)


def _iterated(scale: float, **more: Any) -> ap.Run:
    crowd = ap.generate_contended_workload(seed=1, scale=scale)
    cluster = ap.Cluster({"v100": 64}, gpus_per_machine=4)
    return ap.simulate("ada_srsf", crowd, cluster, **more)


KINDS = {
    "rounds": partial(_crowded, 150, "max_min_fairness", placement="random", seed=4),
    "exact": partial(_crowded, 150, "max_min_fairness", mechanism="exact"),
    "dally": partial(_racked, 150, ap.get_scheduler("dally", history_s=20000.0)),
    "leases": partial(_racked, 40, "max_min_fairness", placement="random", seed=4),
    "types": partial(_on_racks_of_types, 80, "themis"),
    "shared types": partial(_on_racks_of_types, 40, "max_min_fairness"),
    "pairs": _in_pairs,
    "iterations": partial(_iterated, 0.1),
    **dict.fromkeys(COMMANDS),
}


def work(kind: str, out: Path) -> None:
    """Run a kind in this process, to its files; say when it begins and where it goes on."""
    resume = Snapshots.resume

    def told(snapshots: Snapshots, parts: Any) -> Any:
        found = resume(snapshots, parts)
        if found is not None:
            print("went on", flush=True)
        return found

    setattr(Snapshots, resume.__name__, told)
    print("begun", flush=True)
    if kind in COMMANDS:
        often = partial(ap.simulate, snapshot_seconds=0.2)
        setattr(simulations, ap.simulate.__name__, often)
        sys.exit(command([*COMMANDS[kind].split(), "--out", str(out)]))
    run = KINDS[kind](snapshot=out / "state.json", snapshot_seconds=0.2)  # type: ignore[misc]
    for name, table in {"jobs": run.jobs, "rounds": run.rounds, **run.tables}.items():
        # Floats are written with as many digits as tell them from all others.
        table.to_csv(out / f"{name}.csv")
    (out / "solves.txt").write_text(f"{run.solves} {run.settings}")


class Life(NamedTuple):
    """How a process ended: what it said, the seconds of its work, its status."""

    said: str
    seconds: float
    status: int


def process(kind: str, out: Path, lives_s: float | None) -> Life:
    """Start a process on its way, and kill it some seconds after its work has begun."""
    words = [sys.executable, __file__, "work", kind, str(out)]
    hashes = {**os.environ, "PYTHONHASHSEED": "random", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=hashes
    ) as child:
        assert child.stdout is not None
        first, begun = child.stdout.readline(), time.monotonic()
        if lives_s is not None:
            threading.Timer(lives_s, child.send_signal, [signal.SIGKILL]).start()
        said = first + child.stdout.read()
    return Life(said, time.monotonic() - begun, child.returncode)


def _without_clocks(file: Path) -> Any:
    """Return what a file says, but for what clocks have measured and in which order it came."""
    if file.suffix in (".html", ".gz"):
        return None if file.suffix == ".html" else file.read_bytes()
    if file.name == "run.json":
        record = json.loads(file.read_text())
        record["summary"] = [
            {name: value for name, value in row.items() if name not in CLOCKS}
            for row in record.get("summary", [])
        ]
        return record
    if file.name == "runs.jsonl":
        return sorted(json.loads(line)["fingerprint"] for line in file.read_text().splitlines())
    if file.name in ("summary.csv", "runs.csv", "groups.csv"):
        head, *rows = (line.split(",") for line in file.read_text().splitlines())
        kept = [k for k, name in enumerate(head) if not name.startswith(CLOCKS)]
        return [[row[k] for k in kept] for row in (head, *rows)]
    return file.read_bytes()


def files(out: Path) -> dict[str, Any]:
    """Return all files under a folder by name, and what they say."""
    found = (file for file in sorted(out.rglob("*")) if file.is_file())
    return {str(file.relative_to(out)): _without_clocks(file) for file in found}


def killed(kind: str, kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Kill a kind so often; return what differs from the files of one that was left alone."""
    rng, whole = np.random.default_rng(seed), folder / "whole"
    whole.mkdir()
    alone = process(kind, whole, None)
    assert alone.status == 0, alone.said
    expected, wrong, number = files(whole), [], 0
    done = went_on = 0
    while done < kills:
        out, number = folder / str(number), number + 1
        out.mkdir()
        while True:
            lives_s = rng.uniform(0.0, 0.7) * alone.seconds if done < kills else None
            life = process(kind, out, lives_s)
            went_on += life.said.count("went on")
            if life.status != -signal.SIGKILL:
                break
            done += 1
        if life.status != 0:
            wrong.append(f"{out.name}: {life.said}")
        found = files(out)
        differ = [name for name in expected | found if found.get(name) != expected.get(name)]
        wrong += [f"{out.name}: {name}" for name in differ]
        if not differ:
            shutil.rmtree(out)
    return {"whole_s": alone.seconds, "ends": number, "went_on": went_on, "wrong": wrong}


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2], Path(sys.argv[3]))
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        kind, kills, seed = sys.argv[1], int(sys.argv[2]), int((sys.argv[3:] or ["0"])[0])
        begun = time.monotonic()
        result = killed(kind, kills, seed, Path(name))
        print(
            f"{kind}: {kills} kills over {result['ends']} outputs, {result['went_on']} went on from"
            f" a state, {len(result['wrong'])} wrong; {result['whole_s']:.1f} s of work alone, "
            f"{time.monotonic() - begun:.0f} s in all"
        )
        print(*result["wrong"], sep="\n")
