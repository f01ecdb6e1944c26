"""How fast elastic gangs really are: goodput on the machines that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.sim.elastic.true_progress import epoch_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.elastic.trainers import Trainers
    from apportion.sim.elastic.true_progress import TrueProgress

    Floats = NDArray[np.float64]

__all__ = ["ElasticSpeeds"]


class ElasticSpeeds:
    """Progress per second, asked anew at every decision: its worth changes as jobs train.

    Parameters
    ----------
    jobs
        Progress of the jobs.
    devices
        Where gangs are.
    trainers
        Choose the batches.
    truth
        How fast steps are, and what they are worth.
    relative
        How fast each type is, relative to the one measured, shape (types,).
    """

    def __init__(
        self,
        jobs: JobTable,
        devices: Devices,
        trainers: Trainers,
        truth: TrueProgress,
        relative: Floats,
    ) -> None:
        self._jobs, self._devices, self._trainers = jobs, devices, trainers
        self._truth, self._relative = truth, relative

    def rates(self, gangs: Gangs) -> Floats:
        """Return the progress per second of every line in steps of the initial batch."""
        found = [self._rate(job) for job in gangs.job.tolist()]
        return np.array(found, dtype=float) * self._relative[gangs.option]

    def _rate(self, job: int) -> float:
        application = self._trainers.applications[job]
        placement = tuple(gpus for _, _, gpus in self._devices.placement(job))
        local, accumulation = self._trainers.batches(job, placement)
        step = self._truth.step(application, placement, local)
        self._trainers.runs_with(job, placement, local, accumulation, step)
        epoch = epoch_of(self._jobs, job, application)
        return self._truth.per_s(application, placement, local, accumulation, epoch)
