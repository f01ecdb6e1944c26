"""Jobs that may hold any number of GPUs, with what is true of their applications."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from apportion.annotations import explained
from apportion.checks import file_path, is_truth, label, mapping, number, seconds, whole
from apportion.cluster import ACCELERATORS, Cluster, speed_ratios
from apportion.errors import InputError, unknown_name, written
from apportion.sim.elastic_files import USERS_CHOICE, save_elastic
from apportion.table_checks import (
    as_floats,
    check_numbers,
    check_unique,
    from_the_first,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import pandas as pd

    from apportion.estimators.goodput.application import MeasuredApplication
    from apportion.sim.elastic_tables import SpeedsByGpus
    from apportion.sim.workload import Workload

ELASTIC_COLUMNS = {
    "arrival_s": "when the job arrives, seconds from the start of the workload",
    "application": "what it trains, a key into the applications",
    "gpus": "GPUs that it holds if it is rigid",
    "batch": "samples per step that it trains with if it is rigid or keeps its batch",
}
"""Columns of the jobs of an `ElasticWorkload`.

Beside them may stand ``total_steps``, steps of the initial batch until the job is done (by default
all of its application), ``weight``, a number > 0, ``rigid``, whether a job has those GPUs and that
batch at any time that it runs, and ``keeps_batch``, whether it has that batch on any number of
GPUs; further columns of `apportion.JOB_COLUMNS`, and of one's own.
"""


@dataclass(frozen=True, eq=False, repr=False)
class ElasticWorkload:
    """Elastic jobs: from start to end of their application, on any number of GPUs.

    Parameters
    ----------
    name
        For tables and plots.
    jobs
        One row per job, columns of `ELASTIC_COLUMNS`; kept sorted by arrival.
    applications
        What was measured of each application.
    relative_speed
        How fast each accelerator type is, relative to the one on which applications were measured;
        where it is not told, see `speed_on`.
    restart_s
        Seconds of a restart, and of the forming of another ring, by application; where it is not
        told, the scheduler has its own.
    notes
        What a reader of results must know.
    measured_on
        The accelerator type on which applications were measured, if that is known.

    Raises
    ------
    InputError
        For a missing column, a value out of range, or an application that is not known.
    """

    name: str
    jobs: pd.DataFrame
    applications: Mapping[str, MeasuredApplication]
    relative_speed: Mapping[str, float] = field(default_factory=dict)
    restart_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measured_on: str | None = None

    elastic: ClassVar[Literal[True]] = True
    """Whether jobs may have any number of GPUs."""

    @explained
    def __post_init__(self) -> None:
        label("name of a workload", self.name)
        jobs = table("The jobs", self.jobs)
        for column in ELASTIC_COLUMNS:
            if column not in jobs.columns:
                raise InputError(f"The elastic jobs have no column {column!r}.")
        check_unique("job", jobs.index)
        for column, least in (("arrival_s", 0), ("gpus", 1), ("batch", 1)):
            check_numbers("job", jobs[column], least, whole=column != "arrival_s")
        for job, steps in jobs.get("total_steps", {}).items():
            number(f"total_steps of job {written(job)}", steps, strict=True)
        for column in [name for name in USERS_CHOICE if name in jobs]:
            if not all(is_truth(each) for each in jobs[column]):
                raise InputError(
                    f"The column {column!r} of the elastic jobs must be True or False."
                )
        for job, application in jobs["application"].items():
            if application not in self.applications:
                what = f"application of job {written(job)}"
                raise unknown_name(what, application, self.applications)
        for name, speed in self.relative_speed.items():
            number(f"The relative speed of {name!r}", speed, strict=True)
        if self.measured_on is not None:
            label("measured_on", self.measured_on)
        for name, both in self.restart_s.items():
            for each in both:
                seconds(f"A restart of {name!r}", each)
        arrival_s = from_the_first("The elastic jobs", as_floats(jobs["arrival_s"]))
        ordered = jobs.assign(arrival_s=arrival_s).sort_values("arrival_s", kind="stable")
        object.__setattr__(self, "jobs", ordered.rename_axis("job"))
        object.__setattr__(self, "notes", tuple(self.notes))

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        trained = ", ".join(sorted(set(self.jobs["application"])))
        return f"<ElasticWorkload {self.name}: {len(self)} jobs, which train {trained}>"

    def speed_on(self, accelerator: str) -> float:
        """How fast a type is relative to the one on which applications were measured.

        As `relative_speed` says; else the ratio of the bandwidths of their memories, if both are
        among `apportion.accelerators` (`apportion.sim.modelled_speeds` says why); else 1.
        """
        if accelerator in self.relative_speed:
            return float(self.relative_speed[accelerator])
        if self.measured_on in ACCELERATORS and accelerator in ACCELERATORS:
            return speed_ratios(accelerator, str(self.measured_on))[0]
        return 1.0

    def on(
        self,
        cluster: Cluster | Mapping[str, int] | str,
        speed: Mapping[str, float] | None = None,
    ) -> ElasticWorkload:
        """Return these jobs with a speed on every type of a cluster, and notes of the modelled.

        Parameters
        ----------
        cluster
            Only its types count.
        speed
            Times as fast as the type on which applications were measured, by type: in place of
            `relative_speed` and of the model, e.g. ``{"a100": 4.0}``.

        Raises
        ------
        InputError
            For a factor that is no positive number, or of a type that the cluster does not have.
        """
        wanted = Cluster.of(cluster).accelerators
        given = mapping("speed", {} if speed is None else speed, 'a mapping such as {"a100": 2.3}')
        for name, factor in given.items():
            if name not in wanted:
                raise unknown_name("accelerator in speed", name, wanted)
            number(f"The speed of {name!r}", factor, strict=True)
        told = {**self.relative_speed, **given}
        new = {name: self.speed_on(name) for name in wanted if name not in told}
        modelled = {name: factor for name, factor in new.items() if factor != 1}
        if not given and not modelled:
            return self
        notes = [
            f"speeds on {name}: {factor:g} times those that were measured, as given"
            for name, factor in given.items()
        ]
        notes += [
            f"speeds on {name} are modelled, not measured: {factor:.2g} times those on "
            f"{self.measured_on}, by bandwidth of their data sheets"
            for name, factor in modelled.items()
        ]
        return replace(self, relative_speed={**told, **new}, notes=(*self.notes, *notes))

    def rigid(
        self, accelerators: str | Iterable[str], gpus_per_node: int | Mapping[str, int] = 4
    ) -> Workload:
        """Return the same jobs with the GPUs and batches that their users set.

        Parameters
        ----------
        accelerators
            Name of the type on which the applications were measured; or several, each as fast as
            its profiles, or `relative_speed`, say.
        gpus_per_node
            GPUs of a node, by type where they differ: a gang has as many whole nodes as it fills,
            and the rest on one more.

        Returns
        -------
        Workload
            Steps and steps/s as the profiles have them, without pauses; for every policy. On
            placements that a profile does not reach they are those of a model fitted to it, as in
            a simulation, and a warning is logged.
        """
        from apportion.sim.elastic.as_rigid import as_rigid  # a package of who uses this

        names = [accelerators] if isinstance(accelerators, str) else list(accelerators)
        if not isinstance(gpus_per_node, dict):
            gpus_per_node = dict.fromkeys(names, whole("gpus_per_node", gpus_per_node, 1))
        return as_rigid(self, {name: gpus_per_node[name] for name in names})

    def in_steps(self, cluster: Cluster) -> Workload:
        """Return jobs whose steps are progress, in steps of their initial batch, as a run counts.

        Their gangs and speeds are those that their users set, as far as the largest type of a
        cluster goes: what finish-time fairness compares with is the rigid job in an isolated 1/n
        share.
        """
        from apportion.sim.elastic.as_rigid import progress_of

        most = max(cluster.gpus.values())
        jobs = self.jobs.assign(gpus=np.minimum(self.jobs["gpus"], most))
        rigid = replace(self, jobs=jobs).rigid(cluster.accelerators, cluster.machine_sizes)
        progress = progress_of(self)
        keys = list(zip(rigid.jobs["job_type"], rigid.jobs["scale_factor"], strict=True))
        gain = dict(zip(keys, progress / rigid.jobs["total_steps"].to_numpy(), strict=True))
        own = rigid.throughputs
        throughputs = own.mul([gain[key] for key in own.index], axis=0)
        table = rigid.jobs.assign(total_steps=progress)
        note = "steps are progress: those of the initial batch that get a job as far"
        return replace(rigid, jobs=table, throughputs=throughputs, notes=(note,))

    def describe(self, cluster: Cluster | Mapping[str, int] | str | None = None) -> pd.DataFrame:
        """Summarise the jobs as their users set them: sizes, arrivals, durations and load.

        As `Workload.describe`; without a cluster on the type that was measured, or those told.
        """
        if cluster is None:
            told = {name for each in self.applications.values() for name in each.told_types}
            return self.rigid(sorted(told) or "measured").describe()
        where = Cluster.of(cluster)
        most = int(where.counts.max())
        jobs = self.jobs.assign(gpus=np.minimum(self.jobs["gpus"], most))
        rigid = replace(self, jobs=jobs).rigid(where.accelerators, where.machine_sizes)
        return rigid.describe(where)

    @classmethod
    def from_table(
        cls,
        jobs: pd.DataFrame | str | Path,
        speeds: SpeedsByGpus,
        *,
        name: str | None = None,
        gpus: Mapping[str, int] | None = None,
    ) -> ElasticWorkload:
        """Make elastic jobs of speeds that users have, without batches and gradients.

        Parameters
        ----------
        jobs
            A table or csv, a row per job: arrival_s, application, total_steps; perhaps ``gpus``,
            those of a rigid job (by default the fewest with which it runs), and other columns of
            jobs. The index, or a column job, has the ids.
        speeds
            Steps/s (or samples/s, if steps are samples): a table or csv with columns application
            and gpus, and one for each type, empty or 0 where it cannot run; or a callable
            ``(application, accelerator, gpus) -> steps/s``.
        name
            Of the workload; that of the file by default, else ``"own"``.
        gpus
            The most GPUs of a type that a callable is asked about, by type.

        Raises
        ------
        InputError
            For missing columns, speeds that are none, and a callable without `gpus`.
        """
        from apportion.sim.elastic_tables import elastic_from_table

        return elastic_from_table(jobs, speeds, name, gpus)

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write the jobs to ``<name>.csv`` and the applications next to it.

        `apportion.read_elastic_workload` reads the pair back.

        Parameters
        ----------
        path
            File of the jobs, ending in ``.csv`` or ``.csv.gz``.

        Returns
        -------
        tuple of Path
            The file of the jobs, and that of the applications (``<name>.applications.json``).

        Raises
        ------
        InputError
            If the file ends otherwise, or cannot be written.
        """
        return save_elastic(file_path("The file", path), self)
