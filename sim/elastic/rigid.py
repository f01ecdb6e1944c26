"""Jobs among elastic ones that have what their users set: GPUs and batch, or the batch alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import InputError, written
from apportion.estimators.goodput import gain
from apportion.mechanism.configurations import GangOptions
from apportion.sim.elastic.trainers import Trainers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.estimators.goodput import MeasuredApplication
    from apportion.mechanism.machines import MachinePool
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload
    from apportion.types import Bools, Floats, Ints


logger = logging.getLogger(__name__)


class Rigid(NamedTuple):
    """What a user has set: GPUs, None for any number, and the batch."""

    gpus: int | None
    batch: int

    def on(self, profile: MeasuredApplication, gpus: int) -> tuple[int, int]:
        """Return batch per GPU and accumulation steps by a profile; 0 where it cannot be."""
        try:
            return profile.split(self.batch, gpus)
        except InputError:
            return 0, 0


def rigid_jobs(decider: AnyDecider, workload: ElasticWorkload, order: pd.Index) -> dict[int, Rigid]:
    """Return what users have set, by place of the job in an order of their ids.

    All jobs are rigid for a rule that knows no others. Of who is not, only a batch that is kept.

    Raises
    ------
    InputError
        For a batch that cannot be trained on as many GPUs; the job is named.
    """
    jobs, found = workload.jobs.loc[order], {}
    every = getattr(decider, "all_rigid", False)
    for place, (job, row) in enumerate(jobs.iterrows()):
        rigid = every or bool(row.get("rigid", False))
        if rigid or bool(row.get("keeps_batch", False)):
            gpus = int(row["gpus"])
            found[place] = own = Rigid(gpus if rigid else None, int(row["batch"]))
            application = workload.applications[row["application"]]
            if not any(own.on(each, gpus)[0] for each in application.on_types.values()):
                try:
                    application.split(own.batch, gpus)
                except InputError as error:
                    raise InputError(f"Job {written(job)}: {error}") from error
    return found


def options_for(
    pools: Sequence[MachinePool], sizes: str, rigid: Mapping[int, Rigid]
) -> tuple[GangOptions, Bools]:
    """List the options on machines, those that only rigid jobs have among them.

    Returns
    -------
    GangOptions, Bools
        The options, and whether each is one of all jobs.

    Raises
    ------
    InputError
        As `GangOptions.of`; and for a rigid job that no type has the GPUs for.
    """
    common = GangOptions.of(pools, sizes)
    every = GangOptions.of(pools, "every")
    own = {job.gpus for job in rigid.values() if job.gpus is not None}
    most = int(every.gpus.max(initial=0))
    if max(own, default=0) > most:
        raise InputError(
            f"A job holds {max(own)} GPUs, and no type has more than {most}. Leave it out, or give "
            f"a larger cluster."
        )
    known = set(zip(common.kind.tolist(), common.gpus.tolist(), strict=True))
    listed = zip(every.kind.tolist(), every.gpus.tolist(), strict=True)
    shared = np.array([each in known for each in listed], dtype=bool)
    keep = shared | np.isin(every.gpus, list(own))
    return GangOptions(every.kind[keep], every.gpus[keep], every.nodes[keep]), shared[keep]


def check_options(
    workload: Workload, trainers: Trainers, options: GangOptions, names: Sequence[str]
) -> None:
    """Refuse jobs that can run with no number of GPUs; tell of types on which no job can.

    Raises
    ------
    InputError
        It names the job.
    """
    used = np.zeros(len(names), dtype=bool)
    for place, job in enumerate(workload.jobs.index):
        runs = (trainers.goodputs([place]) > 0).any(axis=0)
        used[options.kind[runs]] = True
        if not runs.any():
            raise InputError(
                f"Job {written(job)} can train with none of the gangs of the cluster: they have "
                f"not the GPUs that its speeds are told for, or not the memory for its least batch."
            )
    for name, runs_here in zip(names, used.tolist(), strict=True):
        if not runs_here:
            logger.warning("No job has a speed on %s, whose GPUs train nothing.", name)


class WithRigid(Trainers):
    """Trainers of jobs of which some are rigid, or keep their batch; see `Trainers` for the others.

    Parameters
    ----------
    rigid
        What users have set, by job.
    shared
        Which options jobs have that are not rigid, shape (options,).

    Attributes
    ----------
    rigid
        Whether each job is rigid, shape (jobs,).
    """

    def __init__(
        self, *args: Any, rigid: Mapping[int, Rigid], shared: Bools, **others: Any
    ) -> None:
        super().__init__(*args, **others)
        self._rigid, self._shared = rigid, shared
        self._splits: dict[tuple[MeasuredApplication, int, int], tuple[int, int]] = {}
        self.rigid = np.zeros(len(self.applications), dtype=bool)
        self.rigid[[job for job, own in rigid.items() if own.gpus is not None]] = True

    def goodputs(self, jobs: Sequence[int]) -> Floats:
        """Return the believed progress per second, shape (jobs, options); 0 = cannot run."""
        table = super().goodputs(jobs) * self._shared
        for row, job in enumerate(jobs):
            if job in self._rigid:
                table[row] = self._row_of_rigid(job) * (self._shared | self.rigid[job])
        return table

    def batches(self, job: int, kind: int, placement: Sequence[int]) -> tuple[int, int]:
        """Return batch per GPU and accumulation steps with which a job trains on machines."""
        if job in self._rigid:
            on = self.profiles.on(job, kind)
            return on.split(self._rigid[job].batch, sum(placement))
        return super().batches(job, kind, placement)

    def goodput(self, job: int, kind: int, gpus: int, nodes: int) -> float:
        """Return the believed progress per second on so many GPUs of a type."""
        if job in self._rigid:
            on = self.profiles.on(job, kind)
            speed = self._of_rigid(job, on, np.array([gpus]), np.array([nodes]))
            return float(speed[0] * self.profiles.relative[job, kind])
        return super().goodput(job, kind, gpus, nodes)

    def _row_of_rigid(self, job: int) -> Floats:
        """Return the progress per second of a rigid job at each option."""
        options, row = self._options, np.zeros(self._options.count)
        for on, types in self._believed.groups(job):
            here = types[options.kind]
            row[here] = self._of_rigid(job, on, options.gpus[here], options.nodes[here])
        return np.asarray(row * self._believed.relative[job, options.kind])

    def _of_rigid(self, job: int, on: MeasuredApplication, gpus: Ints, nodes: Ints) -> Floats:
        """Return the progress per second with what a user has set on gangs; 0 where it cannot run.

        Rigid jobs run on their own GPUs only.
        """
        own = self._rigid[job]
        split = np.array([self._split(on, own, each) for each in gpus.tolist()], dtype=np.intp)
        local, accumulation = split.reshape(-1, 2).T
        mine = (local > 0) & (True if own.gpus is None else gpus == own.gpus)
        if on.by_gpus is not None:
            return np.asarray(on.by_gpus(gpus) * mine)
        if self._blind(job):
            return np.where(mine, gpus.astype(float), 0.0)
        local = np.maximum(local, 1)
        times = self._times(job, on)
        step_s = times.step_s(gpus, nodes, local)
        each_s = step_s + accumulation * times.gradient_s(local)
        batch = gpus * local * (accumulation + 1)
        worth = gain(batch, on.limits.initial, self._noise(job))
        return np.asarray(np.where(mine, worth / each_s, 0.0))

    def _split(self, on: MeasuredApplication, own: Rigid, gpus: int) -> tuple[int, int]:
        key = (on, own.batch, gpus)
        if key not in self._splits:
            self._splits[key] = own.on(on, gpus)
        return self._splits[key]
