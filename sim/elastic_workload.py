"""Jobs that may hold any number of GPUs, with what is true of their applications."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pandas as pd

from apportion.annotations import explained
from apportion.checks import file_path, is_truth, label, mapping, number, seconds, whole
from apportion.cluster import ACCELERATORS, Cluster, speed_ratios
from apportion.errors import InputError, unknown_name, written
from apportion.sim.elastic_files import save_elastic
from apportion.sim.workload import Workload
from apportion.table_checks import as_floats, check_unique, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from apportion.estimators.goodput.application import MeasuredApplication
    from apportion.sim.elastic.true_progress import TrueProgress

__all__ = ["ELASTIC_COLUMNS", "ElasticWorkload", "packed"]

ELASTIC_COLUMNS = {
    "arrival_s": "when the job arrives, seconds from the start of the workload",
    "application": "what it trains, a key into the applications",
    "gpus": "GPUs that it holds if it is rigid",
    "batch": "samples per step that it trains with if it is rigid",
}
"""Columns of the jobs of an `ElasticWorkload`.

Beside them may stand ``weight``, a number > 0, and ``rigid``, whether a job has those GPUs and that
batch at any time that it runs; further columns of `apportion.JOB_COLUMNS`, and of one's own.
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
            values = as_floats(jobs[column])
            wrong = ~((values >= least) & np.isfinite(values))
            if column != "arrival_s":
                wrong |= values % 1 != 0
            if wrong.any():
                job = jobs.index.tolist()[int(np.argmax(wrong))]
                raise InputError(
                    f"{column} of job {written(job)} is {written(jobs[column][wrong].iloc[0])}; it "
                    f"must be a {'' if column == 'arrival_s' else 'whole '}number >= {least}."
                )
        if "rigid" in jobs.columns and not all(is_truth(each) for each in jobs["rigid"]):
            raise InputError("The column 'rigid' of the elastic jobs must be True or False.")
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
        ordered = jobs.sort_values("arrival_s", kind="stable").rename_axis("job")
        object.__setattr__(self, "jobs", ordered)
        object.__setattr__(self, "notes", tuple(self.notes))

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        trained = ", ".join(sorted(set(self.jobs["application"])))
        return f"<ElasticWorkload {self.name}: {len(self)} jobs, which train {trained}>"

    def speed_on(self, accelerator: str) -> float:
        """How fast a type is relative to the one on which applications were measured.

        As `relative_speed` says; else the ratio of the bandwidths of their memories, if both are
        among `apportion.accelerators` (`apportion.sim.drawn.modelled_speeds` says why); else 1.
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

    def rigid(self, accelerators: str | Iterable[str], gpus_per_node: int = 4) -> Workload:
        """Return the same jobs with the GPUs and batches that their users set.

        Parameters
        ----------
        accelerators
            Name of the type on which the applications were measured; or several, each as fast as
            `relative_speed` says.
        gpus_per_node
            GPUs of a node: a gang has as many whole nodes as it fills, and the rest on one more.

        Returns
        -------
        Workload
            Steps and steps/s as the profiles have them, without pauses; for every policy. On
            placements that a profile does not reach they are those of a model fitted to it, as in
            a simulation, and a warning is logged.
        """
        from apportion.sim.elastic.true_progress import TrueProgress  # a package of who uses this

        whole("gpus_per_node", gpus_per_node, 1)
        steps, job_types, speeds, truth = [], [], {}, TrueProgress()
        for job, row in self.jobs.iterrows():
            application = self.applications[row["application"]]
            try:
                count, speed = self._of_job(application, row, gpus_per_node, truth)
            except InputError as error:
                raise InputError(f"Job {written(job)}: {error}") from error
            steps.append(count)
            job_types.append(f"{row['application']} (batch size {row['batch']})")
            speeds[job_types[-1], int(row["gpus"])] = speed
        columns = {
            "arrival_s": self.jobs["arrival_s"],
            "job_type": job_types,
            "scale_factor": self.jobs["gpus"].astype(np.int64),
            "total_steps": steps,
        }
        of_elastic = {*ELASTIC_COLUMNS, "rigid"}
        columns |= {str(name): self.jobs[name] for name in self.jobs if name not in of_elastic}
        index = pd.MultiIndex.from_tuples(list(speeds), names=["job_type", "scale_factor"])
        measured = np.array(list(speeds.values()))
        names = [accelerators] if isinstance(accelerators, str) else list(accelerators)
        by_type = {name: measured * self.speed_on(name) for name in names}
        note = "jobs are rigid: GPUs and batches are those that their users set"
        jobs = pd.DataFrame(columns, index=self.jobs.index)
        throughputs = pd.DataFrame(by_type, index=index)
        return Workload(self.name, jobs, throughputs, notes=(*self.notes, note))

    def in_steps(self, cluster: Cluster) -> Workload:
        """Return jobs whose steps are progress, in steps of their initial batch, as a run counts.

        Their gangs and speeds are those that their users set, as far as the largest type of a
        cluster goes: what finish-time fairness compares with is the rigid job in an isolated 1/n
        share.
        """
        most = max(cluster.gpus.values())
        machine = max(int(cluster.machines(name).max(initial=1)) for name in cluster.accelerators)
        jobs = self.jobs.assign(gpus=np.minimum(self.jobs["gpus"], most))
        rigid = replace(self, jobs=jobs).rigid(cluster.accelerators, machine)
        progress = np.array(
            [float(self.applications[name].training.progress[-1]) for name in jobs["application"]]
        )
        keys = list(zip(rigid.jobs["job_type"], rigid.jobs["scale_factor"], strict=True))
        gain = dict(zip(keys, progress / rigid.jobs["total_steps"].to_numpy(), strict=True))
        own = rigid.throughputs
        throughputs = own.mul([gain[key] for key in own.index], axis=0)
        table = rigid.jobs.assign(total_steps=progress)
        note = "steps are progress: those of the initial batch that get a job as far"
        return replace(rigid, jobs=table, throughputs=throughputs, notes=(note,))

    def describe(self, cluster: Cluster | Mapping[str, int] | str | None = None) -> pd.DataFrame:
        """Summarise the jobs as their users set them: sizes, arrivals, durations and load.

        Parameters and result are those of `Workload.describe`; without a cluster durations are
        those on the type that was measured.
        """
        if cluster is None:
            return self.rigid("measured").describe()
        where = Cluster.of(cluster)
        most = int(where.counts.max())
        jobs = self.jobs.assign(gpus=np.minimum(self.jobs["gpus"], most))
        rigid = replace(self, jobs=jobs).rigid(where.accelerators, where.largest_machine)
        return rigid.describe(where)

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

    @staticmethod
    def _of_job(
        application: MeasuredApplication, row: pd.Series, gpus_per_node: int, truth: TrueProgress
    ) -> tuple[float, float]:
        """Return steps from start to end, and steps per second."""
        gpus = int(row["gpus"])
        local, accumulation = application.split(int(row["batch"]), gpus)
        count = application.training.steps(gpus * local * (accumulation + 1))
        step = truth.step(application, packed(gpus, gpus_per_node), local)
        return count, 1.0 / (step.step_s + accumulation * step.gradient_s)


def packed(gpus: int, gpus_per_node: int) -> tuple[int, ...]:
    """Return the GPUs on each node of a gang on as few nodes as possible."""
    full, rest = divmod(gpus, gpus_per_node)
    return (gpus_per_node,) * full + ((rest,) if rest else ())
