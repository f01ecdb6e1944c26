"""Small simulations drawn at random: every policy in rounds, every scheduler under leases."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.pairs import PairThroughputs
from apportion.policies import BUILT_IN
from apportion.sim.generators.presets import RACK_MODELS
from apportion.sim.network import BY_SHAPE

if TYPE_CHECKING:
    from apportion.sim import Run

SCHEDULERS: list[str] = ap.scheduler_table("leases")["name"].tolist()
POLICIES = [
    *(policy.name for policy in BUILT_IN),
    *("gandiva_packing", "max_min_fairness_space_sharing", "makespan_space_sharing"),
    *(
        f"{policy.name}_agnostic"
        for policy in BUILT_IN
        if "heterogeneity_aware" in inspect.signature(policy).parameters
    ),
]
SINGLE_GPU = ("allox",)
"""Policies that serve jobs with one GPU only."""


@dataclass(frozen=True)
class Case:
    """What is simulated."""

    decider: str
    workload: ap.Workload
    cluster: ap.Cluster
    settings: dict[str, Any]

    def run(self, **changes: Any) -> Run:
        changed = replace(self, **changes)
        return ap.simulate(changed.decider, changed.workload, changed.cluster, **changed.settings)

    def shuffled(self, rng: np.random.Generator) -> Case:
        """The same with jobs and types in another order, and a type without GPUs."""
        jobs = self.workload.jobs.iloc[rng.permutation(len(self.workload))]
        names = [*self.cluster.accelerators, "absent"]
        gpus = {names[k]: self.cluster.gpus.get(names[k], 0) for k in rng.permutation(len(names))}
        known = self.workload.throughputs.assign(absent=rng.lognormal(1, 2))
        columns = known.columns[rng.permutation(known.shape[1])]
        prices = {**self.cluster.prices_per_gpu_hour, "absent": 0.1}
        return replace(
            self,
            workload=replace(self.workload, jobs=jobs, throughputs=known[columns]),
            cluster=replace(self.cluster, gpus=gpus, prices_per_gpu_hour=prices),
        )

    def with_unused_type(self) -> Case:
        """The same with GPUs of a type on which no job can run."""
        known = self.workload.throughputs.assign(unused=0.0)
        prices = {**self.cluster.prices_per_gpu_hour, "unused": 0.1}
        cluster = replace(
            self.cluster, gpus={"unused": 5, **self.cluster.gpus}, prices_per_gpu_hour=prices
        )
        workload = replace(self.workload, throughputs=known, pairs=None)
        return replace(self, workload=workload, cluster=cluster)

    def swapped(self) -> tuple[Case, dict[Any, Any]]:
        """The same where jobs that are equal have each other's names, and who has whose."""
        jobs = self.workload.jobs
        other: dict[Any, Any] = {}
        for rows in jobs.fillna(-1.0).groupby(jobs.columns.tolist()).groups.values():
            other |= dict(zip(rows, rows[::-1], strict=True))
        renamed = jobs.rename(index=other)
        return replace(self, workload=replace(self.workload, jobs=renamed)), other


def draw(decider: str, rng: np.random.Generator, most_jobs: int = 12) -> Case:
    """Draw a case for a policy or a scheduler; jobs come in kinds, so many of them are equal."""
    drawn = _on_racks if decider in SCHEDULERS else _on_types
    return drawn(decider, rng, int(rng.integers(1, most_jobs + 1)))


def _jobs(rng: np.random.Generator, kinds: pd.DataFrame, count: int, gap_s: float) -> pd.DataFrame:
    """Jobs of some kinds that come at few moments, under names in no order."""
    kind = rng.integers(0, len(kinds), count)
    names = [f"job-{k}" for k in rng.choice(99, count, replace=False)]
    arrival_s = np.floor(rng.integers(0, 4, count) * gap_s)
    return kinds.iloc[kind].assign(arrival_s=arrival_s).set_axis(names)


def _on_types(decider: str, rng: np.random.Generator, count: int) -> Case:
    names = ["v100", "k80", "p100"][: rng.integers(1, 4)]
    gpus = {name: int(rng.integers(1, 7)) for name in names}
    single = decider.removesuffix("_agnostic") in SINGLE_GPU
    largest = 1 if single else max(gpus.values())
    kinds = pd.DataFrame({"job_type": [f"m{k}" for k in range(int(rng.integers(1, 5)))]})
    sizes = np.minimum(rng.choice([1, 1, 2, 3, 4], len(kinds)), largest)
    speed = rng.lognormal(0, rng.choice([0.0, 0.5, 2.0]), (len(kinds), len(names)))
    large = sizes[:, None] > np.array(list(gpus.values()))
    speed *= (rng.random(speed.shape) < 0.8) | (speed == speed.max(axis=1, keepdims=True)) | large
    speed[(large | (speed == 0)).all(axis=1)] = 1.0
    round_s = float(rng.choice([100.0, 360.0]))
    kinds = kinds.assign(
        scale_factor=sizes,
        total_steps=speed.max(axis=1) * np.round(round_s * rng.uniform(0.2, 12, len(kinds)), 3),
        weight=rng.choice([1.0, 1.0, 3.0], len(kinds)),
        entity=rng.choice(["red", "blue"], len(kinds)),
        deadline_s=1e7,
    )
    index = pd.MultiIndex.from_frame(kinds[["job_type", "scale_factor"]])
    apart = speed[:, None, :] * rng.uniform(0.3, 1.0, (len(kinds), len(kinds), len(names)))
    fits = (speed[:, None] > 0) & (speed[None] > 0) & (sizes[:, None] == sizes)[:, :, None]
    pairs = PairThroughputs(np.where(fits, apart, 0.0), speed, index, accelerators=tuple(names))
    jobs = _jobs(rng, kinds, count, round_s * rng.choice([0.3, 1.0, 2.5]))
    settings = {
        "round_seconds": round_s,
        "preemption_overhead_seconds": float(rng.choice([0.0, 20.0])),
        "resolve_seconds": float(rng.choice([0.0, 0.0, 700.0])),
        "placement": str(rng.choice(["consolidated", "first_fit", "random"])),
        "leases": bool(rng.random() < 0.8),
        "carry_over": bool(rng.random() < 0.5),
    }
    workload = ap.Workload("drawn", jobs, pd.DataFrame(speed, index, names), pairs=pairs)
    prices = dict(zip(names, rng.uniform(0.5, 3, len(names)).tolist(), strict=True))
    cluster = ap.Cluster(gpus, gpus_per_machine=int(rng.integers(1, 5)), prices_per_gpu_hour=prices)
    return Case(decider, workload, cluster, settings)


def _on_racks(decider: str, rng: np.random.Generator, count: int) -> Case:
    cluster = ap.Cluster.of_racks(
        int(rng.integers(1, 3)),
        machines_per_rack=int(rng.integers(1, 4)),
        gpus_per_machine=int(rng.integers(1, 6)),
    )
    lease_s = float(rng.choice([600.0, 3600.0]))
    kinds = pd.DataFrame({"job_type": rng.choice(list(RACK_MODELS), int(rng.integers(1, 5)))})
    kinds["scale_factor"] = rng.integers(1, cluster.total_gpus + 1, len(kinds))
    kinds = kinds.drop_duplicates()
    speed = rng.lognormal(0, 1, len(kinds))
    kinds["total_steps"] = speed * np.round(lease_s * rng.uniform(0.1, 4, len(kinds)), 3)
    index = pd.MultiIndex.from_frame(kinds[["job_type", "scale_factor"]])
    jobs = _jobs(rng, kinds, count, lease_s * rng.choice([0.3, 1.0]))
    workload = ap.Workload("drawn", jobs, pd.DataFrame({"gpu": speed}, index))
    settings = {
        "network": str(rng.choice(list(BY_SHAPE))),
        "lease_seconds": lease_s,
        "checkpoint_seconds_per_gpu": float(rng.choice([0.0, 1.0])),
    }
    return Case(decider, workload, cluster, settings)
