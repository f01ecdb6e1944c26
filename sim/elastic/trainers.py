"""What elastic jobs know of themselves: their batches, and how well other GPUs would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import InputError
from apportion.estimators.goodput import StepObservations, StepTimes, best_batches, fit_step_times
from apportion.sim.elastic.speeds import Step, epoch_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.estimators.goodput import MeasuredApplication
    from apportion.mechanism.configurations import GangOptions
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.sim.elastic.profiles import Profiles
    from apportion.sim.elastic.speeds import TrueProgress
    from apportion.types import Floats, Int64s


_Seen = tuple[tuple[float, ...], ...]
_Key = tuple[Any, _Seen, int, float]


class Batches(NamedTuple):
    """Goodput in progress per second, and the batches that reach it, by option."""

    goodput: Floats
    local_batch: Int64s
    accumulation: Int64s


class Running(NamedTuple):
    """With which batch per GPU and how many accumulation steps a job runs, and its step."""

    local: int
    accumulation: int
    step: Step


class Trainers:
    """Chooses batches for gangs and tells goodputs, as the agent of each job believes them.

    Progress and the noise of the gradients at the present batch are known; step times come from a
    model, fitted to the whole profile of the application, or to what the job itself has run. Of a
    job that has run nothing yet, it is believed that GPUs help in proportion.

    Parameters
    ----------
    jobs
        Progress, as steps done.
    profiles
        What was measured of the application of each job on each type.
    truth
        What is measured when a job runs.
    options
        Options of the decision.
    fitted
        Whether a job knows only what it has run.
    one_type
        Whether the policy is told of all types what is true of the one measured; a job that runs
        chooses its batch for the type that it has.

    Attributes
    ----------
    since, rates
        At which decision, on which type and GPUs each job last chose its batch, and what progress
        per second it makes with it; for `apportion.sim.elastic.ElasticSpeeds`.
    """

    def __init__(
        self,
        jobs: JobTable,
        profiles: Profiles,
        truth: TrueProgress,
        options: GangOptions,
        *,
        fitted: bool = False,
        one_type: bool = False,
    ) -> None:
        if fitted or one_type:
            names = "'fitted'" if fitted else "'one_type' or 'virtual_nodes'"
            _check_measured(profiles.applications, names)
        self._jobs, self.profiles, self._truth = jobs, profiles, truth
        self._believed = profiles.alike() if one_type else profiles
        self.applications = applications = profiles.applications
        self._options, self._fitted = options, fitted
        self._batch: Floats = np.array([float(each.limits.initial) for each in applications])
        self._seen: list[dict[tuple[float, ...], tuple[float, ...]]] = [{} for _ in applications]
        self._running: dict[int, tuple[float, ...]] = {}
        self.since: dict[int, tuple[int, int, list[int]]] = {}
        self.rates: dict[int, float] = {}
        self._models: dict[tuple[Any, _Seen], StepTimes] = {}
        self._rows: dict[_Key, Batches] = {}
        self._others: dict[tuple[_Key, int, int], tuple[float, int, int]] = {}
        shapes = zip(options.gpus.tolist(), options.nodes.tolist(), strict=True)
        self._place = {shape: place for place, shape in reversed([*enumerate(shapes)])}

    def goodputs(self, jobs: Sequence[int]) -> Floats:
        """Return the believed progress per second, shape (jobs, options); 0 = cannot run."""
        self._work_out([(job, on) for job in jobs for on, _ in self._believed.groups(job)])
        rows = np.array([self._row(job) for job in jobs]).reshape(len(jobs), -1)
        return rows * self._believed.relative[list(jobs)][:, self._options.kind]

    def _row(self, job: int) -> Floats:
        """Return the progress per second of a job at each option, by the profile of its type."""
        (first, _), *others = self._believed.groups(job)
        row = self._rows[self._key(job, first)].goodput
        for on, types in others:
            row = np.where(types[self._options.kind], self._rows[self._key(job, on)].goodput, row)
        return row

    def batches(self, job: int, kind: int, placement: Sequence[int]) -> tuple[int, int]:
        """Return batch per GPU and accumulation steps with which a job trains on machines."""
        _, local, accumulation = self._on(job, kind, sum(placement), len(placement))
        return local, accumulation

    def goodput(self, job: int, kind: int, gpus: int, nodes: int) -> float:
        """Return the believed progress per second on so many GPUs of a type."""
        return self._on(job, kind, gpus, nodes)[0] * float(self.profiles.relative[job, kind])

    def _on(self, job: int, kind: int, gpus: int, nodes: int) -> tuple[float, int, int]:
        """Return goodput, batch per GPU and accumulation steps on so many GPUs and nodes."""
        on = self.profiles.on(job, kind)
        key, place = self._key(job, on), self._place.get((gpus, nodes))
        if place is not None:
            self._work_out([(job, on)])
            row = self._rows[key]
            goodput, local = float(row.goodput[place]), int(row.local_batch[place])
            return goodput, local, int(row.accumulation[place])
        if (key, gpus, nodes) not in self._others:
            found = self._best([(job, on)], np.array([gpus]), np.array([nodes]))
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

    def observe(self, ran: GangProgress) -> None:
        """Learn from what ran."""
        if not self._fitted:
            return
        for job in ran.gangs.job[ran.worked_s > 0].tolist():
            measured, kind = self._running[job], self.since[job][1]
            place = [bool(types[kind]) for _, types in self.profiles.groups(job)].index(True)
            self._seen[job].setdefault((place, *measured[:3]), measured)

    def _key(self, job: int, on: MeasuredApplication) -> _Key:
        """Return all that the beliefs of a job on a type hang on."""
        epoch = epoch_of(self._jobs, job, self.applications[job])
        return on, self._observed(job, on), epoch, float(self._batch[job])

    def _observed(self, job: int, on: MeasuredApplication) -> _Seen:
        """Return what a job has run on the types of a profile.

        Where it has not, what it has run on others, with times as far apart as a single GPU of
        both takes for the batch: that is what Sia measures of each type before a job begins.
        """
        seen, groups = self._seen[job], self.profiles.groups(job)
        if not seen or len(groups) == 1:
            return tuple(seen.values())
        place = [each is on for each, _ in groups].index(True)
        own = [values for (where, *_), values in seen.items() if where == place]
        if own:
            return tuple(own)
        found = []
        for (where, *_), (gpus, nodes, local, gradient_s, step_s) in seen.items():
            ratio = _alone_s(on, local) / _alone_s(groups[int(where)][0], local)
            found.append((gpus, nodes, local, gradient_s * ratio, step_s * ratio))
        return tuple(found)

    def _work_out(self, asked: Sequence[tuple[int, MeasuredApplication]]) -> None:
        missing = {
            key: (job, on) for job, on in asked if (key := self._key(job, on)) not in self._rows
        }
        if not missing:
            return
        found = self._best(list(missing.values()), self._options.gpus, self._options.nodes)
        for place, key in enumerate(missing):
            self._rows[key] = Batches(*(values[place] for values in found))

    def _best(
        self, asked: Sequence[tuple[int, MeasuredApplication]], gpus: Int64s, nodes: Int64s
    ) -> Batches:
        """Return the best batches of jobs by profiles on gangs, shape (asked, gangs)."""
        tables = [on.by_gpus for _, on in asked]
        if not any(tables):
            return self._best_modelled(asked, gpus, nodes)
        goodput = np.zeros((len(asked), gpus.size))
        local, accumulation = np.zeros((2, *goodput.shape), dtype=np.int64)
        modelled = [place for place, each in enumerate(tables) if each is None]
        if modelled:
            found = self._best_modelled([asked[place] for place in modelled], gpus, nodes)
            goodput[modelled], local[modelled], accumulation[modelled] = found
        for place, by_gpus in enumerate(tables):
            if by_gpus is not None:
                goodput[place] = by_gpus(gpus)
                local[place] = goodput[place] > 0
        return Batches(goodput, local, accumulation)

    def _best_modelled(
        self, asked: Sequence[tuple[int, MeasuredApplication]], gpus: Int64s, nodes: Int64s
    ) -> Batches:
        noise = [[self._noise(job)] for job, _ in asked]
        limits = [on.limits for _, on in asked]
        times = StepTimes.stacked([self._times(job, on) for job, on in asked])
        found = best_batches(times, np.array(noise), limits, gpus, nodes, "sampled")
        first = np.array([[each.initial] for each in limits], dtype=float)
        goodput = found.goodput / first
        blind = np.array([self._blind(job) for job, _ in asked])
        goodput[blind] = np.where(goodput[blind] > 0, gpus, 0.0)
        return Batches(goodput, found.local_batch, found.accumulation)

    def _blind(self, job: int) -> bool:
        return self._fitted and not self._seen[job]

    def _noise(self, job: int) -> float:
        application = self.applications[job]
        epoch = epoch_of(self._jobs, job, application)
        return self._truth.noise(application, float(self._batch[job]), epoch)

    def _times(self, job: int, on: MeasuredApplication) -> StepTimes:
        """Return the model of a job by a profile; jobs that have seen the same share it."""
        seen = self._observed(job, on)
        key = (on, seen)
        if key not in self._models:
            if self._blind(job):
                self._models[key] = StepTimes(1.0, 0.0)
            else:
                observed = StepObservations(*np.array(seen).T) if seen else on.observations()
                self._models[key] = fit_step_times(observed).times
        return self._models[key]


def _check_measured(applications: Sequence[MeasuredApplication], goodputs: str) -> None:
    """Refuse applications that have no profile of their own, but speeds by type.

    Raises
    ------
    InputError
        It names the first.
    """
    for each in applications:
        if each.by_gpus is not None:
            raise InputError(
                f"The speeds of {each.name!r} are told by number of GPUs; "
                f"goodputs={goodputs} is for profiles of step times, measured on one type. Leave "
                f"it out: what is told is what is true."
            )


def _alone_s(on: MeasuredApplication, local_batch: float) -> float:
    """Return the seconds of a step on one GPU, with the nearest batch that its memory holds."""
    least, most = on.limits.local_least, int(on.limits.local_most or on.limits.largest)
    return on.steps.at((1,), float(min(max(local_batch, least), most))).step_s
