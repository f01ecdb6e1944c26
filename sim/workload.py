"""The workload: what a simulation is run on, whether generated, read from a trace, or your own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pandas as pd

from apportion.annotations import check_fields, checked
from apportion.checks import file_path, label, whole
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name
from apportion.sim.describe import describe_workload
from apportion.sim.recorded_types import on_types
from apportion.sim.workload_tables import (
    checked_jobs,
    checked_throughputs,
    save_tables,
    throughput_rows,
)
from apportion.statistics.typeset import as_html

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.pairs import PairThroughputs


@dataclass(frozen=True, eq=False, repr=False)
class Workload:
    """Jobs, and how fast each kind of job runs on each accelerator type.

    Parameters
    ----------
    name
        Name of the workload, for tables and plots.
    jobs
        One row per job, columns of `apportion.JOB_COLUMNS`; ``job_type`` and ``total_steps`` must
        be there. ``arrival_s`` is 0, ``scale_factor`` and ``weight`` are 1 where left out. Kept
        sorted by arrival (jobs that arrive together stay in order), the index named ``job``.
    throughputs
        Steps/s of the whole gang, rows (job_type, scale_factor), one column per accelerator type;
        0 where the job cannot run.
    notes
        What a reader of the results must know, e.g. that job types were drawn at random.
    pairs
        Steps/s of jobs that share GPUs, for policies with space sharing.
    unconsolidated
        Steps/s of gangs whose GPUs sit in different machines, in the form of `throughputs`; 0
        where that was not measured.
    job_types_drawn
        Whether the trace told no job types, and they were drawn at random.

    Raises
    ------
    InputError
        For a jobs table or throughputs out of range, or a job without throughputs.
    """

    name: str
    jobs: pd.DataFrame
    throughputs: pd.DataFrame
    notes: tuple[str, ...] = ()
    pairs: PairThroughputs | None = None
    unconsolidated: pd.DataFrame | None = None
    job_types_drawn: bool = False

    elastic: ClassVar[Literal[False]] = False
    """Whether jobs may have any number of GPUs."""

    def __post_init__(self) -> None:
        check_fields(self)
        label("name of a workload", self.name)
        jobs = checked_jobs(self.jobs)
        throughputs = checked_throughputs(self.throughputs)
        throughput_rows(jobs, throughputs)
        object.__setattr__(self, "jobs", jobs)
        object.__setattr__(self, "throughputs", throughputs)
        object.__setattr__(self, "notes", tuple(self.notes))
        if self.unconsolidated is not None:
            object.__setattr__(self, "unconsolidated", checked_throughputs(self.unconsolidated))

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        kinds, types = self.jobs["job_type"].nunique(), ", ".join(self.throughputs.columns)
        return f"<Workload {self.name}: {len(self)} jobs of {kinds} types, on {types}>"

    def _repr_html_(self) -> str:
        return as_html(repr(self).strip("<>"), self.jobs)

    def in_steps(self, cluster: Cluster) -> Workload:
        """Return jobs whose gangs, steps and speeds are known, as a run counts them."""
        return self.on(cluster)

    def on(
        self,
        cluster: Cluster | Mapping[str, int] | str,
        speed: Mapping[str, float] | None = None,
    ) -> Workload:
        """Return these jobs with throughputs on every type of a cluster.

        Those that are not known are modelled from the data sheets of `apportion.accelerators`;
        a note says so, with the range that they lie in
        (`apportion.sim.modelled_speeds.with_modelled_speeds`). What simulations and
        comparisons do by themselves. A duration of a log holds on the type on which it was
        recorded: on that of the cluster where the log names none and the cluster has but one.

        Parameters
        ----------
        cluster
            Only its types count.
        speed
            Times as fast as a v100, by type: in place of the model, e.g. ``{"a100": 2.3}``. Types
            that the log names may be among them. Where the throughputs know no v100 it is modelled.

        Raises
        ------
        InputError
            For a factor that is no positive number, of a type that neither the cluster nor the
            log has, or of a v100 itself other than 1; and for jobs of a log that ran on a type of
            which no speed is known, where types must be compared.
        """
        return on_types(self, Cluster.of(cluster), speed)

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Accelerator types whose throughputs are known."""
        return tuple(self.throughputs.columns)

    def throughput_of(self, cluster: Cluster | Mapping[str, int] | str) -> pd.DataFrame:
        """Steps/s of every job on every type of a cluster.

        Returns
        -------
        DataFrame
            Jobs x the cluster's accelerators, in the cluster's order; 0 where the job cannot run,
            may not (``runs_on``), or needs more GPUs than the cluster has of that type.

        Raises
        ------
        InputError
            For a type without throughputs, or a job that can run on no type of the cluster.
        """
        cluster = Cluster.of(cluster)
        known, types = self.on(cluster), list(cluster.accelerators)
        for name in types:
            if name not in known.accelerators:
                known_not = unknown_name("accelerator in the throughputs", name, known.accelerators)
                raise InputError(f"{known_not} speed= (--speed {name}=2) tells it, times a v100.")
        told = known.throughputs.to_numpy(dtype=float)[:, [*map(known.accelerators.index, types)]]
        steps_per_s = told[throughput_rows(self.jobs, known.throughputs)]
        runs = (steps_per_s > 0) & self.may_run(cluster)
        fits = self.jobs["scale_factor"].to_numpy()[:, None] <= cluster.counts
        stuck = ~(runs & fits).any(axis=1)
        if stuck.any():
            first, ids = int(stuck.argmax()), self.jobs.index.tolist()
            raise _cannot_run(ids[first], self.jobs.iloc[first], cluster, runs[first])
        return pd.DataFrame(np.where(runs & fits, steps_per_s, 0.0), self.jobs.index, types)

    def fitting(self, cluster: Cluster | Mapping[str, int] | str) -> Workload:
        """Leave out jobs that hold more GPUs than a cluster has of any one type; a note says so.

        Raises
        ------
        InputError
            If no job is left.
        """
        cluster = Cluster.of(cluster)
        room = np.where(self.may_run(cluster), cluster.counts, 0).max(axis=1)
        fits = self.jobs["scale_factor"] <= room
        if fits.all():
            return self
        large = self.jobs.loc[~fits, "scale_factor"]
        if not fits.any():
            raise InputError(
                f"No job of {self.name!r} fits the cluster {cluster}: the smallest needs "
                f"{large.min()} GPUs of one type."
            )
        note = (
            f"{len(large)} jobs left out: they need up to {large.max()} GPUs of one type, and "
            f"{cluster} has no more than {cluster.counts.max()}"
        )
        return replace(self, jobs=self.jobs[fits], notes=(*self.notes, note))

    def may_run(self, cluster: Cluster) -> NDArray[np.bool_]:
        """Whether jobs may run on the types of a cluster, jobs x types, as ``runs_on`` says."""
        types = np.array(cluster.accelerators, dtype=object)
        if "runs_on" not in self.jobs:
            return np.ones((len(self.jobs), types.size), dtype=bool)
        only = self.jobs["runs_on"].to_numpy(dtype=object)[:, None] == types
        found: NDArray[np.bool_] = only | ~only.any(axis=1, keepdims=True)
        return found

    def split_ratio(self, cluster: Cluster) -> NDArray[np.float64]:
        """Speed of each job's gang when split over machines, relative to when it is not.

        Returns
        -------
        ndarray
            Shape (jobs, types of the cluster); 1 where either speed is not known.

        Raises
        ------
        InputError
            If the workload has no unconsolidated throughputs.
        """
        if self.unconsolidated is None:
            raise InputError(
                f"The workload {self.name!r} has no throughputs of gangs that are split over "
                f"machines; read it with a Gavel oracle as throughputs, or set unconsolidated."
            )
        types = list(cluster.accelerators)
        keys = pd.MultiIndex.from_frame(self.jobs[["job_type", "scale_factor"]])
        apart = self.unconsolidated.reindex(index=keys, columns=types).to_numpy(dtype=float)
        whole = self._speeds()[types].to_numpy()
        known = (apart > 0) & (whole > 0)
        ratio: NDArray[np.float64] = np.divide(apart, whole, out=np.ones_like(whole), where=known)
        return ratio

    @checked
    def head(self, count: int) -> Workload:
        """Return the workload of the first `count` jobs to arrive, at least one."""
        whole("The number of jobs", count, 1)
        return replace(self, jobs=self.jobs.head(count))

    @checked
    def describe(
        self,
        cluster: Cluster | Mapping[str, int] | str | None = None,
        reference: str | None = None,
    ) -> pd.DataFrame:
        """Summarise the jobs: sizes, arrivals, durations, load and job types.

        Parameters
        ----------
        cluster
            Adds the offered load as a share of these GPUs; only its types count.
        reference
            Accelerator type on which durations are given; each job's fastest type by default.

        Returns
        -------
        DataFrame
            Indexed by measure, columns ``value`` and ``unit``; see `describe_workload`.
        """
        if cluster is None:
            return describe_workload(self.jobs, self._speeds(), reference=reference)
        cluster = Cluster.of(cluster)
        known = self.on(cluster)
        steps_per_s = known.throughput_of(cluster)
        return describe_workload(known.jobs, steps_per_s, cluster.total_gpus, reference)

    def to_frame(self) -> pd.DataFrame:
        """Jobs table with the steps/s of every job in a column ``<accelerator>_steps_per_s``."""
        return self.jobs.join(self._speeds().add_suffix("_steps_per_s"))

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write the jobs to ``<name>.csv`` and the throughputs next to it.

        `apportion.read_workload` reads the pair back. Notes stand as ``#`` lines above the jobs.

        Parameters
        ----------
        path
            File of the jobs, ending in ``.csv`` or ``.csv.gz``.

        Returns
        -------
        tuple of Path
            The file of the jobs, and that of the throughputs (``<name>.throughputs.csv``).

        Raises
        ------
        InputError
            If the file ends otherwise.
        """
        return save_tables(file_path("The file", path), self.jobs, self.throughputs, self.notes)

    def _speeds(self) -> pd.DataFrame:
        """Steps/s of every job, jobs x accelerators."""
        rows = throughput_rows(self.jobs, self.throughputs)
        return self.throughputs.iloc[rows].set_axis(self.jobs.index, axis=0)


def _cannot_run(
    job: object, row: pd.Series, cluster: Cluster, runs: NDArray[np.bool_]
) -> InputError:
    """Say why one job can run on no type of the cluster."""
    what = f"Job {job!r} ({row['job_type']!r}, scale factor {row['scale_factor']})"
    if not runs.any():
        return InputError(
            f"{what} runs on no accelerator of the cluster {cluster}: its throughput is 0 there."
        )
    where = ", ".join(np.array(cluster.accelerators)[runs])
    return InputError(
        f"{what} needs more GPUs than the cluster {cluster} has of any type that it runs on "
        f"({where}). Such jobs are left out by Workload.fitting(cluster), or too_large='drop'."
    )
