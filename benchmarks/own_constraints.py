"""What it costs to keep a constraint of one's own in each round, beside keeping it on average.

``python -m benchmarks.own_constraints`` runs max-min fairness with each constraint of the table on
the same jobs in three ways: kept in each round; on average, with GPUs that shares leave idle lent
to whoever can run there; and on average, with these left idle. The latter's mean completion time
is what the others are compared with. Above: part of the time in which what is held is above the
cap, and the most of it, worked out from the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd

import apportion as ap
from apportion.statistics import paired
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "v100=8,p100=8,k80=8"
WATTS = {"v100": 300.0, "p100": 250.0, "k80": 150.0}
CAPS_W = {"2,500 W": (2500.0,), "2,500 and 4,500 W by the hour": (2500.0, 4500.0)}
QUOTA, MOST = 4, 2
CONSTRAINTS = (*CAPS_W, f"{QUOTA} GPUs of each type a user", f"{MOST} jobs a user")
WAYS = ("each round", "average", "average, idle left")


@dataclass(frozen=True)
class Bounded(ap.Policy):
    """Max-min fairness under one of the constraints."""

    columns = ("weight", "user", "now_s")
    what: str = CONSTRAINTS[0]
    averaged: bool = False

    def objective(self, p: ap.Problem) -> cp.Maximize:
        """State the least normalised throughput."""
        level = p.scale_factor / p.weight / p.equal_share_throughput
        return cp.Maximize(cp.min(cp.multiply(level, p.throughput)))

    def constraints(self, p: ap.Problem) -> list[Any]:
        """State what is held is no more than allowed."""
        users = np.arange(len(p.texts("user")))[:, None] == p.column("user")
        types = np.eye(len(p.accelerators))[p.accelerator]
        held = cp.multiply(p.count[:, None] * p.gpus, p.X) @ types
        bound: Any
        if self.what in CAPS_W:
            watts = np.array([WATTS[name] for name in p.accelerators])
            bound = cp.sum(held @ watts) <= self.cap(p.now_s)
        elif self.what == CONSTRAINTS[2]:
            bound = users @ held <= QUOTA
        else:
            bound = (users * p.count) @ p.time <= MOST
        return [p.on_average(bound) if self.averaged else bound]

    def cap(self, now_s: float) -> float:
        """Return the cap of the hour, watts."""
        caps = CAPS_W[self.what]
        return caps[int(now_s // 3600) % len(caps)]

    def next_change_s(self, now_s: float) -> float:
        """Return the next hour, if the cap depends on it."""
        return (now_s // 3600 + 1) * 3600 if len(CAPS_W.get(self.what, ())) > 1 else float("inf")


@dataclass(frozen=True)
class BoundedIdle(Bounded):
    """The same, nothing lent."""

    traits = frozenset({"leaves_gpus_idle"})


def main() -> None:
    """Run all and print a row for each constraint and way."""
    options = parser(
        "own_constraints", "What it costs to keep a constraint in each round.", "one small workload"
    ).parse_args()
    jobs, seeds = (12, 1) if options.quick else (60, 6)
    print(f"Constraints of one's own, {jobs} jobs on {CLUSTER}, seeds {seeds}, on {machine()}")
    settings: list[Settings] = [
        {"constraint": what, "kept": way, "jobs": jobs, "seed": seed}
        for what in CONSTRAINTS
        for way in WAYS
        for seed in range(seeds)
    ]
    runs = run_all(_work, settings, options, "own_constraints")
    show(_compared(runs))
    write_csv(runs, options.out, "own_constraints")


def _compared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each way, with its ratio to the last one."""
    rows = []
    for what, way in dict.fromkeys(zip(runs["constraint"], runs["kept"], strict=True)):
        same = runs[runs["constraint"] == what]
        some, last = same[same["kept"] == way], same[same["kept"] == WAYS[-1]]
        hours = [each.set_index("seed")["mean JCT h"] for each in (some, last)]
        ratio = paired(*hours, ratio=True)
        rows.append(
            {
                "constraint": what,
                "kept": way,
                "mean JCT h": some["mean JCT h"].mean(),
                "ratio": ratio.estimate,
                "low": ratio.low,
                "high": ratio.high,
                "time above": some["time above"].mean(),
                "most above": some["most above"].max(),
            }
        )
    return pd.DataFrame(rows)


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Simulate one, and look by how much what is held is above."""
    load = ap.generate_workload(
        jobs=settings["jobs"], seed=settings["seed"], jobs_per_hour=6, scale_factors="gavel"
    )
    users = np.random.default_rng(settings["seed"]).choice(["ann", "bob", "eve"], len(load.jobs))
    small = load.jobs["scale_factor"].clip(upper=QUOTA)
    load = ap.Workload(
        load.name, load.jobs.assign(user=users, scale_factor=small), load.throughputs
    )
    what, way = settings["constraint"], settings["kept"]
    kind = BoundedIdle if way == WAYS[-1] else Bounded
    policy = kind(what, averaged=way != WAYS[0])
    run = ap.simulate(policy, load, CLUSTER, preemption_overhead_seconds=0.0)
    above = _above(run, policy)
    return {"mean JCT h": run.summary()["mean_jct_s"] / 3600, **above}


def _above(run: ap.Run, policy: Bounded) -> dict[str, float]:
    """Return for what part of the time what is held is above the cap, and the most of it over 1."""
    stays = run.schedule.merge(run.jobs[["user"]], left_on="job", right_index=True)
    gpus = stays["devices"].map(len).to_numpy(float)
    end_s = float(stays["end_s"].max())
    times = np.unique([*stays["start_s"], *stays["end_s"], *np.arange(0, end_s, 3600.0)])
    there = (stays["start_s"].to_numpy() <= times[:-1, None]) & (
        times[:-1, None] < stays["end_s"].to_numpy()
    )
    if policy.what in CAPS_W:
        held = there @ (gpus * stays["accelerator"].map(WATTS).to_numpy(float))
        used = held / [policy.cap(now_s) for now_s in times[:-1]]
    else:
        quotas = policy.what == CONSTRAINTS[2]
        whose = stays["user"] + (stays["accelerator"] if quotas else "")
        groups = pd.get_dummies(whose).to_numpy(float)
        held = there @ (groups * (gpus[:, None] if quotas else 1.0))
        used = held.max(axis=1) / (QUOTA if quotas else MOST)
    over = used > 1 + 1e-9
    lengths = np.diff(times)
    return {
        "time above": float(lengths[over].sum() / lengths.sum()),
        "most above": max(float(used.max()) - 1, 0.0),
    }


if __name__ == "__main__":
    main()
