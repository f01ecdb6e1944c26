"""The fixed runs, every policy and scheduler under each mechanism; and the figures of any run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

import apportion as ap
from apportion.elastic import DiurnalRate, generate_requests
from apportion.policies import BUILT_IN
from apportion.sim import generate_rack_workload
from benchmarks.reporting import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd

FIGURES = ("mean_jct_s", "makespan_s")
"""What is compared of a run; see `figures`."""
_SAME = 1e-8
"""Relative difference up to which figures are equal: the order of a sum does not count."""

_TYPES = "v100=4,p100=4,k80=8"
_RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
_SHARED = ap.Cluster({"v100": 64}, gpus_per_machine=4)
_LINKS = ap.Cluster({"a100": 12}, gpus_per_machine=1, machines_per_rack=2)
_ELASTIC = ("sia", "pollux", "deepboot", "optimus", "lyra")
_GATES = ("always", "at_most_1", "ada_dual", "at_most_2")


def fixed_runs() -> Iterator[tuple[str, Callable[[], ap.Run]]]:
    """Give the name of every run and what makes it."""
    kept = set(_ELASTIC) | {"allox", "dally_round", "network_sensitive", "rotations"}
    for policy in BUILT_IN:
        if policy.name not in kept:
            yield f"rounds, {policy.name}", partial(ap.simulate, policy.name, _jobs(), _TYPES)
    yield "rounds, allox", partial(ap.simulate, "allox", _jobs(gangs=False), _TYPES)
    paid: dict[str, Any] = {"preemption_overhead_seconds": 45.0}
    for name in ("max_min_fairness", "max_min_fairness_space_sharing", "shortest_job_first"):
        yield f"rounds with overhead, {name}", partial(ap.simulate, name, _jobs(), _TYPES, **paid)
    for name in ("max_min_fairness", "fifo", "makespan"):
        yield f"exact, {name}", partial(ap.simulate, name, _jobs(), _TYPES, mechanism="exact")
    schedulers, rules = (ap.scheduler_table(by)["name"] for by in ("leases", "configurations"))
    for name in [*schedulers, "max_min_fairness", "network_sensitive", "dally_round"]:
        yield f"leases, {name}", partial(ap.simulate, name, _gangs(), _RACKS, mechanism=ap.Leases())
    for gate in _GATES:
        yield (
            f"iterations, {gate}",
            partial(ap.simulate, "ada_srsf", _sending(), _SHARED, gate=gate),
        )
    for network in ("phases", "phases_unshifted"):
        run = partial(ap.simulate, "max_min_fairness", _talking(), _LINKS, network=network)
        yield f"links, {network}", run
    for name in [*_ELASTIC, *rules]:
        yield f"elastic, {name}", partial(ap.simulate, name, _elastic(), "v100=8")
    served: dict[str, Any] = {
        "serving": ap.Serving(generate_requests(DiurnalRate(0.1, 0.5), length_s=7200.0))
    }
    yield "requests, deepboot", partial(ap.simulate, "deepboot", _elastic(), "v100=8", **served)


def fixed_rows() -> list[dict[str, Any]]:
    """Return the figures of every fixed run."""
    rows = []
    for name, run in fixed_runs():
        progress(name)
        rows.append({"run": name, **figures(run())})
    return rows


def figures(run: ap.Run) -> dict[str, float]:
    """Return the mean completion time and the end."""
    ends = run.jobs["jct_s"].mean(), run.jobs["completion_s"].max()
    return dict(zip(FIGURES, map(float, ends), strict=True))


def moved(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of which a figure differs, with the figures before; both by run."""
    was = before.reindex(now.index)
    same = np.isclose(now[[*FIGURES]], was[[*FIGURES]], rtol=_SAME, atol=0, equal_nan=True)
    differs = ~same.all(axis=1) | ~now.index.isin(before.index)
    return now[differs].join(was[differs].add_suffix("_before"))


@cache
def _jobs(*, gangs: bool = True) -> ap.Workload:
    """Draw jobs of a few rounds each, with weights, deadlines and two entities."""
    sizes: Any = {1: 0.6, 2: 0.3, 4: 0.1} if gangs else "single"
    drawn = ap.generate_workload(
        jobs=14, jobs_per_hour=40, scale_factors=sizes, weights="gavel", deadlines={50.0: 1.0}
    )
    jobs = drawn.jobs.assign(
        total_steps=drawn.jobs["total_steps"] * 0.03,
        entity=np.where(np.arange(len(drawn)) % 3 == 0, "red", "blue"),
    )
    return replace(drawn, jobs=jobs)


@cache
def _gangs() -> ap.Workload:
    """Draw gangs that communicate, for racks."""
    drawn = generate_rack_workload(jobs=24, max_scale_factor=16)
    return replace(drawn, jobs=drawn.jobs.assign(total_steps=drawn.jobs["total_steps"] * 0.3))


@cache
def _sending() -> ap.Workload:
    """Draw gangs whose all-reduces contend."""
    return ap.generate_contended_workload(scale=0.02)


@cache
def _talking() -> ap.Workload:
    """Draw jobs whose phases share links."""
    return ap.generate_communicating_workload(8)


@cache
def _elastic() -> ap.ElasticWorkload:
    """Draw elastic jobs."""
    return ap.generate_elastic_workload(6, hours=1.0)
