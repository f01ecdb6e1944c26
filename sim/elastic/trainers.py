"""What elastic jobs know of themselves: their batches, and how well other GPUs would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.estimators.goodput import (
    StepObservations,
    StepTimes,
    best_batches,
    fit_step_times,
)
from apportion.resumable import Resumable
from apportion.sim.elastic.true_progress import Step, epoch_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.estimators.goodput import MeasuredApplication
    from apportion.mechanism.configurations import GangOptions
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.sim.elastic.true_progress import TrueProgress

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Batches", "Running", "Trainers"]

_Seen = tuple[tuple[float, ...], ...]
_Key = tuple[str, _Seen, int, float]


class Batches(NamedTuple):
    """Goodput in progress per second, and the batches that reach it, by option."""

    goodput: Floats
    local_batch: Ints
    accumulation: Ints


class Running(NamedTuple):
    """With which batch per GPU and how many accumulation steps a job runs, and its step."""

    local: int
    accumulation: int
    step: Step


class Trainers(Resumable):
    """Chooses batches for gangs and tells goodputs, as the agent of each job believes them.

    Progress and the noise of the gradients at the present batch are known; step times come from a
    model, fitted to the whole profile of the application, or to what the job itself has run. Of a
    job that has run nothing yet, it is believed that GPUs help in proportion.

    Parameters
    ----------
    jobs
        Progress, as steps done.
    applications
        Of each job.
    truth
        What is measured when a job runs.
    options, relative
        Options of the decision, and how fast the type of each is, relative to the one measured.
    fitted
        Whether a job knows only what it has run.

    Attributes
    ----------
    since, rates
        At which decision, on which type and GPUs each job last chose its batch, and what progress
        per second it makes with it; for `apportion.sim.elastic.ElasticSpeeds`.
    """

    kept = ("_batch", "_seen", "_running", "since", "rates")

    def __init__(
        self,
        jobs: JobTable,
        applications: Sequence[MeasuredApplication],
        truth: TrueProgress,
        options: GangOptions,
        relative: Floats,
        *,
        fitted: bool = False,
    ) -> None:
        self._jobs, self.applications, self._truth = jobs, applications, truth
        self._options, self._relative, self._fitted = options, relative, fitted
        self._batch: Floats = np.array([float(each.limits.initial) for each in applications])
        self._seen: list[dict[tuple[float, ...], tuple[float, ...]]] = [{} for _ in applications]
        self._running: dict[int, tuple[float, ...]] = {}
        self.since: dict[int, tuple[int, int, list[int]]] = {}
        self.rates: dict[int, float] = {}
        self._models: dict[tuple[str, _Seen], StepTimes] = {}
        self._rows: dict[_Key, Batches] = {}
        self._others: dict[tuple[_Key, int, int], tuple[float, int, int]] = {}
        shapes = zip(options.gpus.tolist(), options.nodes.tolist(), strict=True)
        self._place = {shape: place for place, shape in reversed([*enumerate(shapes)])}

    def goodputs(self, jobs: Sequence[int]) -> Floats:
        """Return the believed progress per second, shape (jobs, options); 0 = cannot run."""
        self._work_out(jobs)
        rows = [self._rows[self._key(job)].goodput for job in jobs]
        return np.array(rows).reshape(len(jobs), -1) * self._relative

    def batches(self, job: int, placement: Sequence[int]) -> tuple[int, int]:
        """Return batch per GPU and accumulation steps with which a job trains on machines."""
        _, local, accumulation = self._on(job, sum(placement), len(placement))
        return local, accumulation

    def goodput(self, job: int, gpus: int, nodes: int) -> float:
        """Return the believed progress per second on so many GPUs of the type measured."""
        return self._on(job, gpus, nodes)[0]

    def _on(self, job: int, gpus: int, nodes: int) -> tuple[float, int, int]:
        """Return goodput, batch per GPU and accumulation steps on so many GPUs and nodes."""
        key, place = self._key(job), self._place.get((gpus, nodes))
        if place is not None:
            self._work_out([job])
            row = self._rows[key]
            goodput, local = float(row.goodput[place]), int(row.local_batch[place])
            return goodput, local, int(row.accumulation[place])
        if (key, gpus, nodes) not in self._others:
            found = self._best([job], np.array([gpus]), np.array([nodes]))
            values = float(found[0][0, 0]), int(found[1][0, 0]), int(found[2][0, 0])
            self._others[key, gpus, nodes] = values
        return self._others[key, gpus, nodes]

    def runs_with(
        self, job: int, placement: Sequence[int], local: int, accumulation: int, step: Step
    ) -> None:
        """Take down with which batch a job runs from now on, and what it will measure."""
        gpus = float(sum(placement))
        self._batch[job] = gpus * local * (accumulation + 1)
        self._running[job] = (gpus, float(len(placement)), float(local), *step)

    def running(self, job: int) -> Running:
        """Return what was taken down last of a job."""
        gpus, _, local, *step = self._running[job]
        accumulation = round(float(self._batch[job]) / (gpus * local)) - 1
        return Running(int(local), accumulation, Step(*step))

    def mini_batch_s(self, job: int) -> float:
        """Return the seconds of a mini-batch as a job runs now; 0 if it has not run yet."""
        if job not in self._running:
            return 0.0
        _, accumulation, step = self.running(job)
        return (step.step_s + accumulation * step.gradient_s) / self._relative_of(job)

    def _relative_of(self, job: int) -> float:
        """Return how fast the type is on which a job last chose its batch."""
        kind = self.since[job][1]
        return float(self._relative[self._options.kind == kind][0])

    def observe(self, ran: GangProgress) -> None:
        """Learn from what ran."""
        if not self._fitted:
            return
        for job in ran.gangs.job[ran.worked_s > 0].tolist():
            measured = self._running[job]
            self._seen[job].setdefault(measured[:3], measured)

    def _key(self, job: int) -> _Key:
        """Return all that the beliefs of a job hang on."""
        application = self.applications[job]
        seen = tuple(self._seen[job].values())
        epoch = epoch_of(self._jobs, job, application)
        return application.name, seen, epoch, float(self._batch[job])

    def _work_out(self, jobs: Sequence[int]) -> None:
        missing = {key: job for job in jobs if (key := self._key(job)) not in self._rows}
        if not missing:
            return
        found = self._best(list(missing.values()), self._options.gpus, self._options.nodes)
        for place, key in enumerate(missing):
            self._rows[key] = Batches(*(values[place] for values in found))

    def _best(self, jobs: Sequence[int], gpus: Ints, nodes: Ints) -> Batches:
        """Return the best batches of jobs on gangs, shape (jobs, gangs)."""
        noise = [[self._noise(job)] for job in jobs]
        limits = [self.applications[job].limits for job in jobs]
        times = StepTimes.stacked([self._times(job) for job in jobs])
        found = best_batches(times, np.array(noise), limits, gpus, nodes, "sampled")
        first = np.array([[each.initial] for each in limits], dtype=float)
        goodput = found.goodput / first
        blind = np.array([self._blind(job) for job in jobs])
        goodput[blind] = np.where(goodput[blind] > 0, gpus, 0.0)
        return Batches(goodput, found.local_batch, found.accumulation)

    def _blind(self, job: int) -> bool:
        return self._fitted and not self._seen[job]

    def _noise(self, job: int) -> float:
        application = self.applications[job]
        epoch = epoch_of(self._jobs, job, application)
        return self._truth.noise(application, float(self._batch[job]), epoch)

    def _times(self, job: int) -> StepTimes:
        """Return the model of a job; jobs that have seen the same share it."""
        application = self.applications[job]
        seen = tuple(self._seen[job].values())
        key = (application.name, seen)
        if key not in self._models:
            observed = application.steps.observations()
            if seen:
                gpus, nodes, local, gradient_s, step_s = np.array(seen).T
                observed = StepObservations(gpus, nodes, local, gradient_s, step_s)
            blind = self._blind(job)
            self._models[key] = StepTimes(1.0, 0.0) if blind else fit_step_times(observed).times
        return self._models[key]
