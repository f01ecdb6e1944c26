"""Goals S3, S4, S9 and S11: events of policies kept warm, runs on every event, links, a shell."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import apportion as ap
from apportion.policies import HierarchicalFairness, get_policy, solve_instance
from apportion.policies.core.warm_start import WarmStart
from apportion.policies.problem import Problem
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.solvers.highs import PersistentHighs
from benchmarks.speed.harness import Row, calls_of, cpu_seconds, cpu_seconds_once, two_digits
from benchmarks.speed.problems import TYPES, draw
from benchmarks.speed.simulator import beside_gavel

if TYPE_CHECKING:
    from apportion.policies import Policy
    from apportion.policies.instance import Instance
    from benchmarks.speed.problems import Case
    from benchmarks.speed.settings import Settings

__all__ = ["every_event", "links", "shell", "warm"]

SINGLY = (
    *("fifo", "shortest_job_first", "makespan", "finish_time_fairness", "max_total_throughput"),
    *("network_sensitive", "min_cost"),
)
"""Policies of which each job has its numbers in the program."""
FILLING = {
    "hierarchical_fairness": HierarchicalFairness(),
    "hierarchical_fairness, fifo within": HierarchicalFairness(inner="fifo"),
}
"""Policies that are filled level after level, of jobs of four entities."""
MOST_MULTIPLES, MOST_S, GAVEL_TIMES = 9, 0.0006, {108: 12, 1080: 45}
BOTH_HAVE = (
    *("max_min_fairness", "fifo", "makespan", "finish_time_fairness", "max_total_throughput"),
)
"""Policies of which Gavel has one of the same objective."""


def warm(settings: Settings) -> list[Row]:
    """Measure events of sessions of single jobs."""
    with threadpool_limits(1):
        return [row for policy in (*SINGLY, *FILLING) for row in _event(settings, policy)]


def every_event(settings: Settings) -> list[Row]:
    """Simulate rounds that are solved at every event, beside Gavel's simulator."""
    rows: list[Row] = []
    sizes = ((27, 30, 2.0),) if settings.quick else ((108, 80, 8.0), (1080, 250, 80.0))
    for gpus, jobs, per_hour in sizes:
        for policy in BOTH_HAVE:
            goal = GAVEL_TIMES.get(gpus)
            rows += beside_gavel(
                settings, policy, gpus, jobs, per_hour, goal, name="S4", every_event_only=True
            )
    return rows


def _event(settings: Settings, policy: str) -> list[Row]:
    """Let jobs come and go one by one, both stages; in turn with HiGHS, where nothing changes."""
    jobs, events = (40, 10) if settings.quick else (64, 200)
    case = draw(2 * jobs, len(TYPES), settings.data)
    case.columns["network_priority"] = np.linspace(0.1, 1.0, 2 * jobs)
    case.columns["entity"] = np.arange(2.0 * jobs) % 4
    asked = FILLING.get(policy) or get_policy(policy)
    coming = _one_for_another(case, jobs, events)
    seconds, unchanged, anew = _timed(asked, coming, _highs(coming[0][1]))
    calls = calls_of(partial(_timed, asked, _one_for_another(case, jobs, events)), c=True)
    what, both_s = f"{policy}, {jobs} jobs, one for another", statistics.median(seconds)
    in_ms = Row("S3", what, f"<= {1000 * MOST_S:g} ms", both_s=both_s, seconds_goal=MOST_S)
    in_ms.calls = round(calls / events)
    in_ms.note = f"{anew} of {events} events solved anew"
    beside = Row(
        *("S3", what, f"<= {MOST_MULTIPLES} x HiGHS"),
        peer="HiGHS on max-min fairness, nothing changed",
        peer_s=statistics.median(unchanged),
        both_s=both_s,
        ratio_goal=1 / MOST_MULTIPLES,
    )
    return [in_ms, beside]


def _one_for_another(case: Case, jobs: int, events: int) -> list[tuple[Any, Instance]]:
    """The jobs that are there after each event, and their problems."""
    rng, there, coming = np.random.default_rng(1), list(range(jobs)), []
    for _ in range(events):
        there.pop(int(rng.integers(len(there))))
        there.append(int(rng.choice(np.setdiff1d(np.arange(2 * jobs), there))))
        here = np.array(there)
        instance = replace(case.part(here, 0.5).instance, texts={"entity": tuple("abcd")})
        coming.append((here, instance))
    return coming


def _timed(
    policy: Policy, coming: list[tuple[Any, Instance]], highs: PersistentHighs | None = None
) -> tuple[list[float], list[float], int]:
    """CPU seconds of each event, and of HiGHS after every tenth; how many were solved anew."""
    start = WarmStart()
    seconds, unchanged, anew = list[float](), list[float](), 0
    for number, (_, instance) in enumerate(coming):
        started = time.process_time()
        start.path = "cold start"
        solve_instance(policy, instance, start=start)
        anew += start.path == "cold start"
        seconds.append(time.process_time() - started)
        if number % 10 == 9 and highs:
            unchanged += [cpu_seconds_once(highs.solve)[0] for _ in range(10)]
    return seconds, unchanged, anew


def _highs(instance: Instance) -> PersistentHighs:
    """The program of max-min fairness, solved: a unit of how fast the machine is at the time."""
    policy, p = get_policy("max_min_fairness"), Problem(instance)
    highs = PersistentHighs(Compiled.of(p, policy.objective(p)).program, presolve=False)
    highs.solve()
    return highs


def links(settings: Settings) -> list[Row]:
    """Simulate iterations on contended links: events a second of whole runs."""
    if settings.quick:
        return _growth(0.001, (1, 2))
    goal, workload = 0.3e6, ap.generate_contended_workload(scale=0.1)
    what: dict[str, Any] = {"gate": "at_most_1", "gpu_memory_gb": 32.0}
    seconds, run = cpu_seconds(partial(_on_links, workload, 64, what), 3)
    events = float(run.tables["engine"]["events"].item())
    row = Row(
        *("S11", f"srsf_1 x at_most_1, {events:,.0f} events", f">= {goal:,.0f}/s"),
        called_s=seconds,
        seconds_goal=events / goal,
        note=f"{events / seconds:,.0f} events/s",
    )
    return [row, *_growth(0.01, (1, 2, 4, 8))]


def _growth(scale: float, times: tuple[int, ...]) -> list[Row]:
    """Copies of a workload on as many copies of its cluster."""
    drawn = ap.generate_contended_workload(scale=scale)
    rows: list[Row] = []
    for copies in times:
        jobs = pd.concat([drawn.jobs] * copies).sort_values("arrival_s", kind="stable")
        workload = replace(drawn, jobs=jobs.reset_index(drop=True))
        what = {"gate": "at_most_1", "gpu_memory_gb": 32.0}
        seconds, _ = cpu_seconds(partial(_on_links, workload, 64 * copies, what), 1)
        power = float(np.log2(seconds / rows[-1].called_s)) if rows else np.nan
        row = Row(
            *("S11", f"srsf_1, {len(jobs)} jobs on {64 * copies} GPUs", "jobs^1.1"),
            called_s=seconds,
            exponent=power,
            exponent_goal=1.1,
            note=f"exponent {power:.2f}",
        )
        rows.append(row)
    return rows


def _on_links(workload: ap.Workload, gpus: int, settings: dict[str, Any]) -> ap.Run:
    cluster = ap.Cluster({"v100": gpus}, gpus_per_machine=4)
    return ap.simulate("srsf_1", workload, cluster, preemption_overhead_seconds=0.0, **settings)


def shell(_: Settings) -> list[Row]:
    """Solve two jobs from a shell: CPU seconds of the process, imports included."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "speeds.csv"
        file.write_text("job,v100,k80\na,40,10\nb,12,4\n", encoding="utf-8")
        program = "import sys; from apportion.cli import from_shell; sys.exit(from_shell())"
        called_s = _in_process(program, "solve", str(file), "--cluster", "v100=1,k80=1")
    what = "apportion solve, two jobs, from a shell"
    alone_s = _in_process("import cvxpy")
    row = Row(
        *("S9", what, "<= .7 s"),
        peer="import cvxpy alone, with all solvers that are installed",
        peer_s=alone_s,
        called_s=called_s,
        seconds_goal=0.7,
        floor=f"import cvxpy alone {two_digits(alone_s)} s",
    )
    return [row]


def _in_process(program: str, *words: str) -> float:
    """Least CPU seconds of a Python process of three."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", program, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(sum(after[:2]) - sum(before[:2]))
    return min(seconds)
