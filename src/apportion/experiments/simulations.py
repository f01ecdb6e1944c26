"""One simulation of many, as a task for a worker, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from apportion.experiments.fitted_jobs import made_for
from apportion.experiments.machine.cells import Work
from apportion.experiments.provenance import plain
from apportion.experiments.run_records import record_of, run_of
from apportion.sim import Run, simulate
from apportion.sim.settings import STARTS, heeded_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.experiments.machine.cells import Cell, Report
    from apportion.experiments.sources import Source
    from apportion.sim.deciders import AnyDecider

_NO_FIGURES = ("fingerprint", "error")


@dataclass(frozen=True)
class Setup:
    """What all simulations of an experiment share.

    Attributes
    ----------
    sources
        Where the workloads come from, by name.
    cluster, settings
        As `apportion.simulate` takes them; the seed is not among the settings.
    resample
        Whether jobs are drawn anew for each seed.
    by_policy
        The settings of each policy where they do not share theirs, see
        `apportion.experiments.shared`.
    starts
        What a start costs where it costs some times as much, by these times.
    by
        The column of jobs by whose groups figures are kept besides, if any.
    clusters
        All clusters, `cluster` first; nothing where there is but one.
    """

    sources: Mapping[str, Source]
    cluster: Cluster
    settings: Mapping[str, Any]
    resample: bool | Literal["blocks"] = False
    by_policy: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    starts: Mapping[float, Any] = field(default_factory=dict)
    by: str | None = None
    clusters: tuple[Cluster, ...] = ()

    def on(self, named: str | None) -> Cluster:
        """Return a cluster by how it is written; None is the only one."""
        return {str(each): each for each in self.clusters}[named] if named else self.cluster

    def settings_of(self, policy: str, starts: float = 1.0) -> Mapping[str, Any]:
        """Return the settings of a policy or scheduler, by its label.

        A start costs as much as they say, or `starts` times as much.
        """
        own = self.by_policy.get(policy, self.settings)
        return own if starts == 1 else {**own, STARTS: self.starts[starts]}


@dataclass(frozen=True)
class Simulation:
    """What tells one simulation from others of the same `Setup`; small, to be sent anywhere.

    `starts` is how many times as much as the settings say a start costs; `cluster` is the one of
    several.
    """

    policy: AnyDecider
    source: str
    load: float
    seed: int
    starts: float = 1.0
    cluster: str | None = None

    @property
    def label(self) -> dict[str, Any]:
        """The first columns of its row."""
        return {
            "policy": self.policy.label,
            "workload": self.source,
            **({} if self.cluster is None else {"cluster": self.cluster}),
            "load": self.load,
            "seed": self.seed,
            **({} if self.starts == 1 else {"starts": self.starts}),
        }


def runs_of(setup: Setup) -> Work:
    """Let workers return whole runs, which are kept bit for bit."""

    def unpack(cell: Cell, record: Mapping[str, Any]) -> Run:
        policy, workload = cell.label["policy"], cell.label["workload"]
        cluster = setup.on(cell.label.get("cluster"))
        return run_of(record, policy, workload, cluster, given(cell))

    def pack(cell: Cell, run: Run) -> dict[str, Any]:
        return record_of(run, given(cell))

    def given(cell: Cell) -> Mapping[str, Any]:
        return setup.settings_of(cell.label["policy"], cell.label.get("starts", 1.0))

    return Work(_run, setup, pack, unpack)


def figures_of(setup: Setup) -> Work:
    """Let workers return the figures of the summary only."""

    def unpack(cell: Cell, record: Mapping[str, Any]) -> dict[str, Any]:
        apart = {*cell.label, *_NO_FIGURES}
        return {name: value for name, value in record.items() if name not in apart}

    return Work(_figures, setup, lambda cell, figures: figures, unpack)


def _run(task: Simulation, report: Report | None, setup: Setup) -> Run:
    """Make the workload and simulate, in a worker."""
    source = setup.sources[task.source]
    cluster = setup.on(task.cluster)
    workload = made_for(
        source, cluster, task.load, task.seed, resample=setup.resample, beside=setup.clusters
    )
    return simulate(
        *(task.policy, workload, cluster),
        seed=task.seed,
        progress=report,
        **heeded_by(task.policy, setup.settings_of(task.policy.label, task.starts)),
    )


def _figures(task: Simulation, report: Report | None, setup: Setup) -> dict[str, Any]:
    """Simulate and return plain values."""
    run = _run(task, report, setup)
    figures: dict[str, Any] = plain(run.summary())
    figures.pop("policy")
    if setup.by is not None:
        figures["groups"] = plain(run.by(setup.by).reset_index().to_dict("records"))
    return figures
