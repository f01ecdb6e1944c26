"""What is true of elastic jobs: the epoch of each, its progress, and how fast its gang is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import InputError, written
from apportion.estimators.goodput import fit_step_times, gain
from apportion.sim.engine.speeds import Speeds
from apportion.sim.links.contended_speeds import StepParts
from apportion.sim.network.own_speeds import speeds_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from apportion.estimators.goodput import MeasuredApplication, StepTimes
    from apportion.mechanism.decider import About
    from apportion.mechanism.devices import Held
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.elastic.trainers import Trainers
    from apportion.sim.network import MemoizedNetwork
    from apportion.sim.network.link_sharing import SharedCost

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)

_ROUNDING = 1e-9
"""Part of all the progress by which the end of an epoch may be missed and has come."""


class Step(NamedTuple):
    """Seconds of a gradient alone, and of one with its synchronisation."""

    gradient_s: float
    step_s: float


class TrueProgress:
    """Measured profiles, and, for placements that they do not reach, a model fitted to them."""

    def __init__(self) -> None:
        self._steps: dict[tuple[MeasuredApplication, tuple[int, ...], int], Step] = {}
        self._noises: dict[tuple[MeasuredApplication, float], Floats] = {}
        self._fitted: dict[MeasuredApplication, StepTimes] = {}

    def step(
        self, application: MeasuredApplication, placement: Sequence[int], local_batch: int
    ) -> Step:
        """Return the seconds of a step on so many GPUs on each machine."""
        key = (application, tuple(placement), local_batch)
        if key not in self._steps:
            self._steps[key] = self._looked_up(application, key[1], local_batch)
        return self._steps[key]

    def per_s(
        self,
        application: MeasuredApplication,
        placement: Sequence[int],
        local_batch: int,
        accumulation: int,
        epoch: int,
    ) -> float:
        """Return the true goodput: progress per second in steps of the initial batch."""
        step = self.step(application, placement, local_batch)
        batch = sum(placement) * local_batch * (accumulation + 1)
        first = application.training.initial_batch
        worth = float(gain(batch, first, self.noise(application, batch, epoch)))
        return worth / (step.step_s + accumulation * step.gradient_s)

    def noise(self, application: MeasuredApplication, batch: float, epoch: int) -> float:
        """Return the gradient noise scale; beyond the largest batch measured, that of this one.

        What fills the last GPU may make a batch a little larger than any that was trained with.
        """
        batches = application.training.batches
        key = (application, float(min(max(batch, batches[0]), batches[-1])))
        if key not in self._noises:
            self._noises[key] = application.training.noises(key[1])
        return float(self._noises[key][epoch])

    def _looked_up(
        self, application: MeasuredApplication, placement: tuple[int, ...], local_batch: int
    ) -> Step:
        try:
            found = application.steps.at(placement, local_batch)
        except InputError as error:
            if application.by_gpus is not None:
                raise
            if application not in self._fitted:
                logger.warning("%s A model fitted to the profile is used there.", error)
                fit = fit_step_times(application.observations())
                self._fitted[application] = fit.times
            times = self._fitted[application]
            step_s = float(times.step_s(sum(placement), len(placement), local_batch))
            return Step(float(times.gradient_s(local_batch)), step_s)
        return Step(found.step_s - found.synchronisation_s, found.step_s)


def epoch_of(jobs: JobTable, job: int, application: MeasuredApplication) -> int:
    """Return the epoch that a job is in; at the very end of one, the next."""
    done = float(jobs.total[job] - jobs.remaining[job])
    ends = application.training.progress
    epoch = int(np.searchsorted(ends, done + _ROUNDING * ends[-1], side="right"))
    return min(epoch, application.training.epochs - 1)


class ElasticSpeeds(Speeds):
    """Progress per second, anew at every decision of the policy: its worth changes as jobs train.

    In between, as when a job gives a GPU back, only those that have other GPUs have another speed.

    Parameters
    ----------
    jobs
        Progress of the jobs.
    layout
        In which machines devices are.
    trainers
        Choose the batches.
    truth
        How fast steps are, and what they are worth.
    decisions
        Counts those of the policy; None if everyone asks at decisions only.
    """

    apart = True

    def __init__(
        self,
        jobs: JobTable,
        layout: Layout,
        trainers: Trainers,
        truth: TrueProgress,
        decisions: Callable[[], int] | None = None,
    ) -> None:
        self._jobs, self._layout, self._trainers = jobs, layout, trainers
        self._truth, self._decisions = truth, decisions

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the progress per second of every line in steps of the initial batch.

        Between decisions, as when a neighbour is done, with the batches that were chosen last.
        """
        lines = [*zip(gangs.job.tolist(), gangs.at_work, strict=True)]
        for job, held in lines if there is None else ():
            if self._decisions is None or self._is_stale(job, held, self._decisions()):
                self._choose(job, held)
        found = [self._rate(job, held) for job, held in lines]
        return np.array(found, dtype=float) * self._relative(gangs)

    def _relative(self, gangs: Gangs) -> Floats:
        """Return how many times as fast as their profiles gangs are on their types."""
        return np.asarray(self._trainers.profiles.relative[gangs.job, gangs.option])

    def seconds(self, gangs: Gangs) -> tuple[Floats, Floats]:
        """Return the seconds of a step with the batches chosen last, and of its synchronisation.

        These are the part of the step that a gradient by itself would not take: what overlaps
        with it is not in them.
        """
        each_s, apart_s = np.zeros((2, gangs.job.size))
        for line, job in enumerate(gangs.job.tolist()):
            ran = self._trainers.running(job)
            each_s[line] = ran.step.step_s + ran.accumulation * ran.step.gradient_s
            apart_s[line] = max(ran.step.step_s - ran.step.gradient_s, 0.0)
        relative = self._relative(gangs)
        return each_s / relative, apart_s / relative

    def _is_stale(self, job: int, held: Held, decisions: int) -> bool:
        """Whether the policy has decided anew since, or the job works on other GPUs."""
        last = decisions, *held
        known, self._trainers.since[job] = self._trainers.since.get(job), last
        return known != last

    def _choose(self, job: int, held: Held) -> None:
        application, placement = self._trainers.profiles.on(job, held[0]), self._placement(held)
        local, accumulation = self._trainers.batches(job, held[0], placement)
        step = self._truth.step(application, placement, local)
        self._trainers.runs_with(job, placement, local, accumulation, step)
        self._trainers.rates.pop(job, None)

    def _rate(self, job: int, held: Held) -> float:
        """Return the progress per second, at the epoch in which the batch was chosen."""
        if job not in self._trainers.rates:
            application, ran = self._trainers.profiles.on(job, held[0]), self._trainers.running(job)
            epoch, placement = epoch_of(self._jobs, job, application), self._placement(held)
            self._trainers.rates[job] = self._truth.per_s(
                application, placement, ran.local, ran.accumulation, epoch
            )
        return self._trainers.rates[job]

    def _placement(self, held: Held) -> tuple[int, ...]:
        return tuple(gpus for _, _, gpus in self._layout.placement(held))


class ElasticSteps:
    """What elastic gangs do in a step, see `apportion.sim.links.contended_speeds.Steps`.

    Profiles say how long the synchronisation of a step takes on several machines, alone there, and
    not how many bytes it sends: it is taken to last ``a + b M``. So M is that of the machines that
    were measured, whatever their network.

    Parameters
    ----------
    speeds
        Progress and seconds of steps of gangs that share with nobody.
    law
        a and b.
    """

    def __init__(self, speeds: ElasticSpeeds, law: SharedCost) -> None:
        self._speeds, self._law = speeds, law

    def parts(self, gangs: Gangs, there: Bools | None = None) -> StepParts:
        """Return what the steps of every line consist of."""
        rate = self._speeds.rates(gangs, there)
        each_s, apart_s = self._speeds.seconds(gangs)
        startup_s = np.minimum(apart_s, self._law.startup_s)
        size = (apart_s - startup_s) / self._law.s_per_byte
        return StepParts(rate, rate * each_s, each_s - apart_s, startup_s, size)


def elastic_speeds(free: ElasticSpeeds, network: MemoizedNetwork | None, about: About) -> Speeds:
    """Return speeds that depend on neighbours, if the network does.

    Parameters
    ----------
    free
        Speeds of gangs that are alone.
    network
        Where they run.
    about
        Jobs and devices.

    Raises
    ------
    InputError
        For a network that has to know what rigid jobs train.
    """
    if network is None:
        return free
    if not (hasattr(network.model, "speeds") or hasattr(network.model, "rates")):
        raise InputError(
            f"network={written(network.name)} does not know elastic jobs, whose profiles say how "
            f"long they synchronise; it must be 'contention', 'cassini', 'phases', one of their "
            f"variants, 'none', a ContentionNetwork or CassiniNetwork with figures of one's own, "
            f"or a network that makes its speeds itself."
        )
    return speeds_on(network, free, about)
