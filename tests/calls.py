"""Python calls of what is done often: they hardly depend on the load of a machine, as seconds do.

``python -m tests.calls`` counts them anew and writes `FILE`.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FILE = Path(__file__).with_name("calls.json")


def versions() -> dict[str, str]:
    """Return what the counts hang on beside the package: Python and the libraries below it."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    named = ("cvxpy", "numpy", "pandas", "scipy")
    return {"python": python, **{name: version(name) for name in named}}


def calls_of(
    work: Callable[[], Any], called: Callable[[FrameType], Any] = lambda frame: None
) -> int:
    """Count the calls of Python functions while something is done, shown to `called` one by one."""
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event == "call":
            count += 1
            called(frame)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def twenty_jobs() -> ap.ThroughputTensor:
    """Return 20 different jobs on three types."""
    speed = np.random.default_rng(0).uniform(1, 50, (20, 3))
    jobs = [f"j{i}" for i in range(20)]
    table = pd.DataFrame(speed, index=jobs, columns=["v100", "p100", "k80"])
    return ap.ThroughputTensor.of(table, workers={"v100": 4, "p100": 4, "k80": 4})


def _solve() -> Callable[[], int]:
    tensor = twenty_jobs()

    def work() -> int:
        ap.solve("max_min_fairness", tensor)
        return 1

    return work


def _events() -> Callable[[], int]:
    speeds = twenty_jobs().values.droplevel(0).to_dict("index")

    def work() -> int:
        with ap.session("max_min_fairness", {"v100": 4, "p100": 4, "k80": 4}) as opened:
            opened.add(speeds)
            opened.solve()
            for job in list(speeds)[:10]:
                opened.remove([job])
                opened.add({job: speeds[job]})
                opened.solve()
        return 10

    return work


def _rounds() -> Callable[[], int]:
    load = ap.generate_workload(jobs=8, seed=1, jobs_per_hour=6, scale_factors="gavel")
    cluster = "v100=8,p100=8,k80=8"
    return lambda: len(ap.simulate("max_min_fairness", load, cluster).rounds)


def _leases(decider: str) -> Callable[[], int]:
    load = ap.generate_rack_workload(jobs=30, seed=1, max_scale_factor=32)
    racks = ap.Cluster.of_racks(2, machines_per_rack=4, gpus_per_machine=4)
    return lambda: ap.simulate(decider, load, racks, mechanism="leases").solves


def _decisions() -> Callable[[], int]:
    load = ap.generate_elastic_workload(jobs=2, seed=0)
    return lambda: len(ap.simulate("sia", load, "v100=16").rounds)


COUNTED: dict[str, Callable[[], Callable[[], int]]] = {
    "solve of 20 jobs": _solve,
    "event of a session": _events,
    "round": _rounds,
    "offer of leases": partial(_leases, "dally"),
    "offer of leases, gangs that move": partial(_leases, "gandiva"),
    "solve under leases": partial(_leases, "max_min_fairness"),
    "elastic decision": _decisions,
}
"""What is counted: each makes a function that does it some times, and returns how many."""


def counted(name: str) -> float:
    """Count the calls of one, once everything is loaded and remembered."""
    work = COUNTED[name]()
    times = work()
    return round(calls_of(work) / times, 1)


if __name__ == "__main__":
    found = {"versions": versions(), "calls": {name: counted(name) for name in COUNTED}}
    FILE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))
