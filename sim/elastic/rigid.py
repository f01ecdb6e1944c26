"""Jobs among elastic ones that have what their users set: GPUs and batch, or the batch alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.configurations import GangOptions
from apportion.sim.elastic.trainers import Rigid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.mechanism.machines import MachinePool
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.elastic.trainers import Trainers
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload
    from apportion.types import Bools


logger = logging.getLogger(__name__)


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
