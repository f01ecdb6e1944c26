"""Runs that earlier commits can do as well, timed: ``python past_process.py HOW DECIDER JOBS``.

It imports nothing but apportion, whichever is first on the path.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable

GPUS = {"fleet": 1080, "crowd": 10_800}
"""GPUs of three types, for runs in rounds."""


def measured(how: str, decider: str, jobs: int) -> dict[str, Any]:
    """Time a run: the lesser CPU seconds of two, its Python calls, and its decisions."""
    run = _run(how, decider, jobs)
    seconds, decisions = [], 0
    for _ in range(2):
        started = time.process_time()
        decisions = run().solves
        seconds.append(time.process_time() - started)
        if seconds[0] > _LONG_S:
            break
    calls = _calls_of(run) if how == "leases" else None
    return {"seconds": min(seconds), "calls": calls, "decisions": decisions}


_LONG_S = 8.0
"""What takes longer runs once."""


def _run(how: str, decider: str, jobs: int) -> Callable[[], Any]:
    """Draw the jobs, and return what runs them."""
    if how in GPUS:
        each = GPUS[how] // 3
        hourly = 80 * GPUS[how] // GPUS["fleet"]
        load = ap.generate_workload(jobs=jobs, seed=1, jobs_per_hour=hourly, scale_factors="gavel")
        cluster: Any = {"v100": each, "p100": each, "k80": each}
        return lambda: ap.simulate(decider, load, cluster, preemption_overhead_seconds=0.0)
    load = ap.generate_rack_workload(jobs=jobs, seed=1, max_scale_factor=32)
    racks = 8 * max(jobs // 375, 1) if how == "grown" else 8
    cluster = ap.Cluster.of_racks(racks, machines_per_rack=4, gpus_per_machine=4)
    mechanism = "rounds" if how == "rounds" else "leases"
    return lambda: ap.simulate(decider, load, cluster, mechanism=mechanism)


def _calls_of(run: Callable[[], Any]) -> int:
    count = 0

    def profile(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


if __name__ == "__main__":
    how, decider, jobs = sys.argv[1:]
    print(json.dumps(measured(how, decider, int(jobs))))
