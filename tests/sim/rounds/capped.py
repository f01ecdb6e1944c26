"""Policies with constraints of their own over what is held, and who judges a schedule by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["AtMost", "PowerCap", "Quotas", "TypePower", "drawn", "excess"]


@dataclass(frozen=True)
class _Fair(ap.Policy):
    """The least time, of each job's fastest, as large as can be."""

    def objective(self, p: ap.Problem) -> cp.Maximize:
        return cp.Maximize(cp.min(cp.multiply(1 / p.fastest_throughput, p.throughput)))


@dataclass(frozen=True)
class PowerCap(_Fair):
    """Watts by job, the cap another one after each period."""

    name = "power_cap"
    columns = ("power_w", "now_s")
    caps: tuple[float, ...] = (1e9,)
    period_s: float = 3600.0

    def cap(self, now_s: float) -> float:
        return self.caps[int(now_s // self.period_s) % len(self.caps)]

    def next_change_s(self, now_s: float) -> float:
        later = (now_s // self.period_s + 1) * self.period_s
        return later if len(self.caps) > 1 else float("inf")

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        watts: Any = p.column("power_w") @ cp.sum(p.X, axis=1)  # whoever forgets the counts
        return [(watts <= self.cap(p.now_s)).set_label("power")]


@dataclass(frozen=True)
class TypePower(_Fair):
    """Watts by type of the GPUs that are held; half of the cap at most by gangs of one GPU."""

    name = "type_power"
    columns = ()
    watts: tuple[tuple[str, float], ...] = ()
    cap: float = 1e9

    def constraints(self, p: ap.Problem) -> list[Any]:
        each = np.array([dict(self.watts)[p.accelerators[k]] for k in p.accelerator])
        held = cp.multiply(p.count[:, None] * p.gpus, p.X) @ each
        single = (p.scale_factor == 1).astype(float)
        return [cp.sum(held) <= self.cap, self.cap >= 2 * single @ held]


@dataclass(frozen=True)
class Quotas(_Fair):
    """GPUs of each type that each entity may hold; a floor on the time of each job besides."""

    name = "quotas"
    columns = ("entity",)
    quotas: tuple[tuple[str, str, float], ...] = ()

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        names = p.texts("entity")
        member = (np.arange(len(names))[:, None] == p.column("entity")) * p.count
        of_type = np.eye(len(p.accelerators))[p.accelerator]
        known = {(who, kind): most for who, kind, most in self.quotas}
        most = np.array([[known[who, kind] for kind in p.accelerators] for who in names])
        held = member @ cp.multiply(p.gpus, p.X) @ of_type
        floor = (p.time >= 1e-3).set_label("floor")
        return [(held <= most).set_label("quota"), floor, p.time <= 0.9]


@dataclass(frozen=True)
class AtMost(_Fair):
    """At most so many jobs of each user at once, and nobody ever on some type."""

    name = "at_most"
    columns = ("user",)
    jobs: int = 1
    barred: str = ""

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        users = len(p.texts("user"))
        mine = (np.arange(users)[:, None] == p.column("user")) * p.count
        never = [k for k, kind in enumerate(p.accelerator) if p.accelerators[kind] == self.barred]
        return [mine @ p.time <= self.jobs, *(p.X[:, k] == 0 for k in never)]


def drawn(
    seed: int, jobs: int = 7, gangs: tuple[int, ...] = (1, 1, 1, 2, 2, 4)
) -> tuple[ap.Workload, ap.Cluster]:
    """Gangs that come within two hours, on racks of two types."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 5, (jobs, 2)) * [1.0, rng.uniform(1, 3)]
    speed[rng.random(jobs) < 0.2, 1] = 0.0
    table = {
        "job_type": [f"m{k}" for k in range(jobs)],
        "scale_factor": rng.choice(gangs, jobs),
        "arrival_s": np.sort(rng.uniform(0, 2 * 3600, jobs)).round(rng.choice([0, 3])),
        "total_steps": speed.max(axis=1) * rng.uniform(600, 9000, jobs),
        "entity": rng.choice(["red", "blue", "green"], jobs),
        "user": rng.choice(["ann", "bob", "eve"], jobs),
        "power_w": rng.uniform(50, 400, jobs).round(1),
    }
    index = pd.MultiIndex.from_arrays([table["job_type"], table["scale_factor"]])
    index.names = ["job_type", "scale_factor"]
    throughputs = pd.DataFrame(speed, index, ["a", "b"])
    load = ap.Workload(
        "drawn", pd.DataFrame(table, index=[f"j{k}" for k in range(jobs)]), throughputs
    )
    machines = int(rng.integers(1, 3))
    return load, ap.Cluster.of_racks(
        {"a": 1, "b": 1}, machines_per_rack=machines, gpus_per_machine=4
    )


def excess(
    run: ap.Run,
    held: Callable[[pd.Series, str], float],
    cap: Callable[[float], float] | float,
    changes: Iterable[float] = (),
) -> float:
    """Return by how much a schedule is above a cap at the worst instant.

    Worked out from the stays and the jobs table alone: whenever anybody comes to devices, or the
    cap is another one.
    """
    stays = run.schedule
    of_stays = zip(stays["job"].tolist(), stays["accelerator"].tolist(), strict=True)
    units = np.array([held(run.jobs.loc[job], kind) for job, kind in of_stays])
    start_s, end_s = stays["start_s"].to_numpy(), stays["end_s"].to_numpy()
    times = np.unique([*start_s, *changes])
    worst = -np.inf
    for now_s in times:
        there = (start_s <= now_s) & (now_s < end_s)
        worst = max(worst, units[there].sum() - (cap(now_s) if callable(cap) else cap))
    return float(worst)
