"""The result of one simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError
from apportion.mechanisms.start_costs import MEASURED
from apportion.sim.inference.tables import serving_figures
from apportion.sim.metrics import by_group, makespan_s, measured_jobs, summarise
from apportion.sim.schedule_files import save_batsim, save_schedule
from apportion.statistics.typeset import as_html

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.sim.floors import Floor

ALONE_ON_GPUS = ("rounds", "exact", "leases", "queue")
"""Mechanisms by which no two jobs have a GPU at the same time, unless a policy lets them."""


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """What a policy has done with a workload on a cluster.

    Parameters
    ----------
    policy
        Name of the policy.
    workload
        Name of the workload.
    cluster
        The cluster.
    jobs
        One row per job: times in seconds, GPU-seconds, cost in US dollars, preemptions and the
        seconds on each accelerator type.
    rounds
        One row per round, or per interval between events for the ideal mechanism.
    settings
        The arguments of the simulation.
    policy_seconds, wall_seconds
        Real time spent in the policy and in all, seconds.
    solves
        How often the policy was solved.
    uncertified
        How many of these were not certified to be as good as was asked for.
    tables
        Further tables by name, such as the delay timers over time of a lease-based scheduler.
        ``"schedule"`` is the one of `schedule`.
    on_average
        Labels of constraints of the policy's own that were kept on average, and not in each round.
    """

    policy: str
    workload: str
    cluster: Cluster
    jobs: pd.DataFrame
    rounds: pd.DataFrame
    settings: dict[str, Any]
    policy_seconds: float
    wall_seconds: float
    solves: int
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    uncertified: int = 0
    on_average: tuple[str, ...] = ()

    @property
    def schedule(self) -> pd.DataFrame:
        """Who ran where: one row for each uninterrupted stay of a job on the same devices.

        Columns ``job``, ``accelerator``, ``machines`` and ``devices`` (tuples of numbers, counted
        from 0 within their type, devices machine by machine), ``start_s`` and ``end_s``. Jobs that
        share devices have a row each. `apportion.check_schedule` checks a run by it.

        Raises
        ------
        InputError
            If the run has none, as nobody holds devices under ``mechanism="exact"``.
        """
        if "schedule" not in self.tables:
            mechanism = self.settings.get("mechanism")
            raise InputError(f"A run by the mechanism {mechanism!r} has no schedule of devices.")
        return self.tables["schedule"]

    @property
    def prices(self) -> pd.DataFrame:
        """What one more GPU of each type was worth to the policy, each time it was asked.

        One row per solve: ``time_s``, for how many ``jobs``, and a column for each accelerator
        type of the cluster that has GPUs, the dual value of its capacity in the unit of the
        policy's objective (``apportion.policy_table``), as `apportion.Allocation.prices` are; whole
        decisions have those of their relaxation. Further columns are of other resources that the
        problem knows, such as gangs of a tier by place. A price is that of the problem that was
        solved: of the jobs that were there, at what was left of them.

        Raises
        ------
        InputError
            If none were kept (``record_prices=True`` of `apportion.simulate`), and for policies
            that have none: jobs served in order, isolated shares.
        """
        table = self.tables.get("prices")
        if table is None:
            raise InputError(
                f"The run of {self.policy!r} kept no prices; simulate(..., record_prices=True) "
                f"does."
            )
        if len(table) and table.drop(columns=["time_s", "jobs"]).isna().all(axis=None):
            raise InputError(
                f"The policy {self.policy!r} has no prices: what it decides is no optimum of a "
                f"program with capacities here, but stated, or an order of the jobs."
            )
        return table

    def save_schedule(self, path: str | Path) -> Path:
        """Write the schedule as csv, gzipped csv or parquet, as the name ends; return where it is.

        `apportion.read_schedule` reads it.

        Raises
        ------
        InputError
            If the run has no schedule, for another ending, or if the file cannot be written.
        """
        return save_schedule(self.schedule, path)

    def save_batsim(self, path: str | Path) -> Path:
        """Write the schedule as a jobs file of Batsim, one row per stay; return where it is.

        evalys draws it: ``evalys.jobset.JobSet.from_csv(path).plot()``. The columns are in
        `apportion.sim.schedule_files.batsim_jobs` and in ``docs/reference/data_formats.md``.

        Raises
        ------
        InputError
            If the run has no schedule, or the file cannot be written.
        """
        return save_batsim(self, path)

    @property
    def measured(self) -> pd.DataFrame:
        """The rows of `jobs` that figures are of: all, or those with a true ``measured``."""
        return measured_jobs(self.jobs)

    @property
    def received(self) -> pd.DataFrame:
        """Seconds that each job ran on each accelerator type (jobs x accelerators)."""
        names = self.cluster.accelerators
        return self.jobs[[f"{name}_s" for name in names]].set_axis(list(names), axis=1)

    def summary(self) -> dict[str, Any]:
        """Return the figures of the run, one row of a comparison.

        Runs that serve requests have those of `apportion.sim.inference.tables` besides, runs
        with solves that were not certified ``uncertified_solves``, and runs of policies with
        constraints that single rounds need not keep ``kept_on_average``.
        """
        serving = {}
        if "gpu_states" in self.tables:
            serving = serving_figures(self.jobs, self.tables, self.cluster.total_gpus)
        return {
            "policy": self.policy,
            "jobs": len(self.jobs),
            **summarise(self.jobs, self.rounds, self.cluster),
            **self._on_links(),
            **serving,
            "rounds": len(self.rounds),
            "policy_seconds": self.policy_seconds,
            "wall_seconds": self.wall_seconds,
            **({"uncertified_solves": self.uncertified} if self.uncertified else {}),
            **({"kept_on_average": ", ".join(self.on_average)} if self.on_average else {}),
        }

    def by(self, column: str) -> pd.DataFrame:
        """Return what each group of jobs had: those of a user, an entity, a partition.

        Parameters
        ----------
        column
            Of `jobs`, ``"user"``: one row for each value of it.

        Returns
        -------
        DataFrame
            Share of the GPU-seconds, waits, completion times, fairness, deadlines, and Jain's index
            of the shares; see `apportion.sim.metrics.by_group`.

        Raises
        ------
        InputError
            For a column that there is not.
        """
        return by_group(self.jobs, column)

    def above_floor(self, floor: Floor) -> dict[str, float]:
        """Return by how much of a floor the run is above it: 0.05 is 5 % of it.

        Parameters
        ----------
        floor
            `apportion.floor` of the workload that was run, and of its cluster.

        Returns
        -------
        dict
            ``mean_jct``, ``makespan`` and ``ftf_max``, of all jobs. NaN for the last under a
            network, which slows down the jobs that fairness compares with.

        Raises
        ------
        InputError
            For a run in which jobs may have a GPU at the same time, which no floor is below.
        """
        mechanism = self.settings.get("mechanism")
        if mechanism not in ALONE_ON_GPUS or self.policy == "as_recorded":
            what = "as_recorded" if self.policy == "as_recorded" else f"mechanism {mechanism!r}"
            raise InputError(f"No floor is known for runs by {what}.")
        alone = self.settings.get("network") in (None, "none")
        return {
            "mean_jct": float(self.jobs["jct_s"].mean()) / floor.mean_jct_s - 1,
            "makespan": makespan_s(self.jobs) / floor.makespan_s - 1,
            "ftf_max": float(self.jobs["ftf"].max()) / floor.ftf_max - 1 if alone else math.nan,
        }

    def _on_links(self) -> dict[str, float]:
        """Return the mean time of an iteration over that alone, and how many candidates loop."""
        found = {}
        if "links" in self.tables:
            found["iteration_slowdown"] = float(self.tables["links"]["slowdown"].mean())
        if "candidates" in self.tables:
            counts = self.tables["candidates"].sum()
            found["looped_candidates"] = float(counts["with_loops"] / counts["candidates"])
        return found

    def _remarks(self) -> str:
        charged = self.settings.get("preemption_overhead_seconds") == MEASURED
        doubt = f", {self.uncertified} of {self.solves} solves not certified"
        return ", starts cost what was measured" * charged + doubt * bool(self.uncertified)

    def __repr__(self) -> str:
        figures = self.summary()
        return (
            f"<Run of {self.policy} on {self.workload} ({len(self.jobs)} jobs, {self.cluster}): "
            f"mean JCT {figures['mean_jct_s'] / 3600:.2f} h, "
            f"makespan {figures['makespan_s'] / 3600:.2f} h, "
            f"utilization {figures['utilization']:.1%}, max FTF {figures['ftf_max']:.2f}, "
            f"{figures['rounds']} rounds{self._remarks()}>"
        )

    def _repr_html_(self) -> str:
        head = f"{self.policy} on {self.workload}: {len(self.jobs)} jobs, {self.cluster}"
        figures = self.summary()
        shown = {
            "mean JCT, h": figures["mean_jct_s"] / 3600,
            "p95 JCT, h": figures["p95_jct_s"] / 3600,
            "makespan, h": figures["makespan_s"] / 3600,
            "busy, %": 100 * figures["utilization"],
            "max FTF": figures["ftf_max"],
            "preempted": figures["preemptions"],
        }
        return as_html(head + self._remarks(), [shown])
