"""One lie in a run: what can be said that is not so, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.mechanism.job_table import read_only
from apportion.sim.about import AboutRun
from apportion.sim.beliefs import Told
from apportion.sim.deciders import manner_of
from apportion.sim.simulation import carried_out

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from apportion.cluster import Cluster
    from apportion.experiments.machine.cells import Report
    from apportion.sim.beliefs import Believed
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.workload import Workload
    from apportion.types import Floats


FAMILY: Mapping[str, tuple[float, ...]] = {
    "speed": (0.0, 0.5, 2.0),
    "work": (0.1, 0.5, 2.0, 10.0),
    "weight": (0.5, 2.0, 10.0),
    "gpus": (2.0,),
}
"""What is lied about, and how many times as much is said: of speeds on one type at a time."""


class Lie(NamedTuple):
    """What some jobs say that is not so.

    Attributes
    ----------
    who
        The job, or the group of which all jobs lie alike.
    jobs
        Labels.
    about, accelerator, factor
        What is told `factor` times as large; speeds are of a type, "" of anything else.
    """

    who: Hashable
    jobs: tuple[Hashable, ...]
    about: str
    accelerator: str
    factor: float

    def __str__(self) -> str:
        of = f"{self.about} on {self.accelerator}" if self.accelerator else self.about
        return f"{self.factor:g} times its {of}"


def family_of(workload: Workload, cluster: Cluster, by: str | None, *, on_links: bool) -> list[Lie]:
    """List all lies; under a network steps are of a size, and gangs are where they are."""
    jobs, types = workload.jobs, cluster.accelerators
    groups = (
        jobs.groupby(by, sort=True).groups if by else {job: [job] for job in jobs.index.tolist()}
    )
    runs = workload.throughput_of(cluster).to_numpy() > 0
    known = workload.throughputs[list(types)].to_numpy() > 0
    sizes = workload.throughputs.index.get_level_values("scale_factor").to_numpy()
    able = np.flatnonzero((known & (sizes[:, None] <= cluster.counts)).any(axis=1))
    gangs = set(workload.throughputs.index[able])
    lies = []
    for who, labels in groups.items():
        own = jobs.index.get_indexer(pd.Index(labels))
        rest = runs[own].sum(axis=1)
        for (kind, name), factor in product(enumerate(types), FAMILY["speed"]):
            told = runs[own, kind]
            if told.any() and (factor > 0 or (rest[told] > 1).all()):
                lies.append(Lie(who, tuple(labels), "speed", name, factor))
        lies += [Lie(who, tuple(labels), "weight", "", factor) for factor in FAMILY["weight"]]
        if on_links:
            continue
        lies += [Lie(who, tuple(labels), "work", "", factor) for factor in FAMILY["work"]]
        mine = jobs.iloc[own]
        for factor in FAMILY["gpus"]:
            said = zip(mine["job_type"], mine["scale_factor"] * factor, strict=True)
            if gangs.issuperset(said):
                lies.append(Lie(who, tuple(labels), "gpus", "", factor))
    return lies


@dataclass(frozen=True, eq=False)
class Situation:
    """What all runs with a lie have in common."""

    decider: Any
    workload: Workload
    cluster: Cluster
    mechanism: Any
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Said:
    """Beliefs: what jobs say of their speeds."""

    speed: Floats = field(repr=False)

    def start(self, truth: TrueState, workload: Workload, cluster: Cluster) -> Believed:
        """Tell it."""
        believed = Told().start(truth, workload, cluster)
        believed.speed = self.speed
        return believed


def lived(lie: Lie, _report: Report | None, shared: Situation) -> pd.Series:
    """Simulate with a lie; return completion times, seconds, by job.

    To say that there is more to do is to have more to do and be as many times faster than one says.
    """
    jobs, mine = shared.workload.jobs.copy(), list(lie.jobs)
    of = {"work": "total_steps", "weight": "weight", "gpus": "scale_factor"}
    changed = [of[lie.about]] if lie.about in of else []
    if lie.about == "work" and "steps_remaining" in jobs:
        changed.append("steps_remaining")
    for name in changed:
        new = jobs.loc[mine, name] * lie.factor
        jobs.loc[mine, name] = new.astype(jobs[name].dtype) if lie.about == "gpus" else new
    args = (shared.cluster, shared.mechanism, shared.settings)
    about = AboutRun.of(replace(shared.workload, jobs=jobs), *args)
    truth, told, true = about.truth, about.truth.speed.copy(), about.truth.speed.copy()
    row = np.flatnonzero(np.isin(np.array(truth.ids, dtype=object), np.array(mine, dtype=object)))
    if lie.about == "work":
        true[row] *= lie.factor
    elif lie.about == "gpus" and lie.factor > 1:
        honest = AboutRun.of(shared.workload, *args).truth.speed
        true[row] = np.where(told[row] > 0, honest[row], 0.0)
    elif lie.about == "speed":
        told[row, list(about.present.accelerators).index(lie.accelerator)] *= lie.factor
    truth.speed, about.jobs.speed = true, read_only(told)
    if manner_of(shared.decider).asks_for_speeds:
        about.beliefs = _Said(told)
    return carried_out(shared.decider, shared.mechanism, about).jobs["jct_s"]
