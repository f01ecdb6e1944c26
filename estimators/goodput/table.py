"""Goodput and speed-ups of jobs on many configurations of GPUs, and speeds as users have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.annotations import explained
from apportion.checks import as_float, choice, mapping, number, whole
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.goodput.best_batch import SEARCHES, best_batches
from apportion.estimators.goodput.goodput import Goodput, checked_gangs
from apportion.estimators.goodput.measured_steps import StepSeconds
from apportion.estimators.goodput.step_times import StepTimes

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from apportion.estimators.goodput.best_batch import BatchSearch
    from apportion.types import Floats, Int64s


class GangConfiguration(NamedTuple):
    """GPUs of one type that a job may hold: how many, on how many nodes, of which type."""

    gpus: int
    nodes: int = 1
    accelerator: str = ""


@dataclass(frozen=True)
class GoodputTable:
    """Goodput of every job on every configuration, with the batches that reach it.

    Parameters
    ----------
    jobs, configurations
        Labels of rows and columns.
    goodput
        Samples/s that are worth one of the initial batch, shape (jobs, configurations); 0 where a
        job cannot run.
    local_batch, accumulation
        Samples per GPU and gradient, and accumulation steps; 0 where a job cannot run.
    """

    jobs: tuple[Hashable, ...]
    configurations: tuple[GangConfiguration, ...]
    goodput: Floats
    local_batch: Int64s
    accumulation: Int64s

    def speedups(self, reference: Floats) -> Floats:
        """Goodput relative to a reference of each job, shape (jobs, configurations).

        Parameters
        ----------
        reference
            Goodput of each job, e.g. that of its fair share, from another table; shape (jobs,).

        Raises
        ------
        InputError
            Naming the first job whose reference is not > 0.
        """
        per_job = np.asarray(reference, dtype=np.float64)
        wrong = ~((per_job > 0) & np.isfinite(per_job))
        if per_job.shape != (len(self.jobs),) or wrong.any():
            job = self.jobs[int(np.argmax(wrong))] if wrong.any() else None
            where = (
                f"of job {written(job)} is {per_job[wrong][0]:g}" if wrong.any() else "is missing"
            )
            raise InputError(
                f"The goodput that speed-ups are relative to {where}; every job needs one > 0."
            )
        return np.asarray(self.goodput / per_job[:, None])

    def over_least(self) -> Floats:
        """Goodput relative to the least that the job has anywhere; 0 where it cannot run (Sia).

        Raises
        ------
        InputError
            Naming the first job that can run nowhere.
        """
        runs = self.goodput > 0
        if not runs.any(axis=1).all():
            job = self.jobs[int(np.argmin(runs.any(axis=1)))]
            raise InputError(f"Job {written(job)} can run on none of the configurations.")
        return self.speedups(np.where(runs, self.goodput, np.inf).min(axis=1))

    def to_frame(self) -> pd.DataFrame:
        """Goodput as a DataFrame, columns (accelerator, gpus, nodes)."""
        keys = [(each.accelerator, each.gpus, each.nodes) for each in self.configurations]
        columns = pd.MultiIndex.from_tuples(keys, names=["accelerator", "gpus", "nodes"])
        index = pd.Index(list(self.jobs), name="job", tupleize_cols=False)
        return pd.DataFrame(self.goodput, index=index, columns=columns)


def goodput_table(
    jobs: Mapping[Any, Mapping[str, Goodput] | Goodput],
    configurations: Sequence[GangConfiguration],
    search: BatchSearch = "exact",
) -> GoodputTable:
    """Best goodput of every job on every configuration.

    Parameters
    ----------
    jobs
        Goodput of each job by accelerator type; a `Goodput` alone is that of every type. A type
        that a job lacks is one on which it cannot run; `bootstrapped` fills in types never tried.
    configurations
        Columns of the table.
    search
        How to look for the best batches, see `best_batches`.

    Raises
    ------
    InputError
        For configurations that are none or stand twice, and jobs without any of their types.
    """
    choice("search", search, SEARCHES)
    columns = tuple(GangConfiguration(*each) for each in configurations)
    if len(set(columns)) != len(columns):
        twice = next(each for each in columns if columns.count(each) > 1)
        raise InputError(f"The configuration {twice} stands twice.")
    gpus, nodes = checked_gangs(
        [each.gpus for each in columns] or np.empty(0), [each.nodes for each in columns] or 1
    )
    labels = tuple(jobs)
    shape = (len(labels), len(columns))
    goodput, local, steps = np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for name in dict.fromkeys(each.accelerator for each in columns):
        here = np.array([each.accelerator == name for each in columns])
        known = {row: _of_type(job, jobs[job], name, columns) for row, job in enumerate(labels)}
        models = {row: model for row, model in known.items() if model is not None}
        if models:
            cells = np.ix_(np.array(list(models)), np.flatnonzero(here))
            found = _best(list(models.values()), gpus[here], nodes[here], search)
            goodput[cells], local[cells], steps[cells] = found
    return GoodputTable(labels, columns, goodput, local, steps)


def _best(
    models: Sequence[Goodput], gpus: Int64s, nodes: Int64s, search: BatchSearch
) -> tuple[Floats, Int64s, Int64s]:
    times = StepTimes.stacked(model.times for model in models)
    noise = np.array([[model.noise] for model in models], dtype=np.float64)
    return best_batches(times, noise, [model.limits for model in models], gpus, nodes, search)


def _of_type(
    job: Hashable,
    models: Mapping[str, Goodput] | Goodput,
    accelerator: str,
    columns: Sequence[GangConfiguration],
) -> Goodput | None:
    """Return the goodput of a job on one type; None where it cannot run."""
    if isinstance(models, Goodput):
        return models
    types = {each.accelerator for each in columns}
    if not types & set(models):
        raise unknown_name(f"accelerator of job {written(job)}", next(iter(models), ""), types)
    return models.get(accelerator)


def fitness(speedups: ArrayLike, p: float = -1.0) -> float:
    r"""Power mean of speed-ups, :math:`(\frac{1}{J} \sum_j s_j^p)^{1/p}` (Pollux's FITNESS).

    Parameters
    ----------
    speedups
        Of each job, >= 0, at least one.
    p
        At most 1: 1 is the plain mean, 0 the geometric one, -1 the harmonic one, and minus infinity
        the worst job's speed-up.

    Returns
    -------
    float
        0 where a job has no speed-up and p <= 0.

    Raises
    ------
    InputError
        For p above 1, which would reward giving everything to whoever is fastest already, and for
        speed-ups that are no numbers >= 0.
    """
    power = as_float(p)
    if not power <= 1:
        raise InputError(
            f"p is {written(p)}; it must be a number <= 1: above 1, FITNESS grows by taking GPUs "
            f"from the jobs that are worst off."
        )
    values = np.asarray(speedups, dtype=np.float64).ravel()
    if not values.size or not np.all((values >= 0) & np.isfinite(values)):
        raise InputError("FITNESS needs at least one speed-up, all of them numbers >= 0.")
    least, most = float(values.min()), float(values.max())
    if power == -np.inf or least == most or (least == 0 and power <= 0):
        return least
    if power == 0:
        return float(np.exp(np.mean(np.log(values))))
    # Relative to the largest term: powers of speed-ups overflow under a p far below 0.
    scale = least if power < 0 else most
    return float(scale * np.mean((values / scale) ** power) ** (1.0 / power))


class GpuSpeeds:
    """Steps/s of one application on one accelerator type, by number of GPUs.

    These are told, so that they are both what is true and what a job believes. Whoever has samples
    per second counts samples as steps. Between the numbers of GPUs that are told speeds are
    interpolated linearly; with fewer or more a job cannot run.

    Parameters
    ----------
    name
        Of the application, for errors.
    speeds
        Steps/s by number of GPUs; 0 where it cannot run with that number.

    Raises
    ------
    InputError
        For a number of GPUs that is not whole and above 0, a speed below 0, or no speed above 0.
    """

    @explained
    def __init__(self, name: str, speeds: Mapping[int, float]) -> None:
        self.name = name
        told = mapping(f"The speeds of {name!r}", speeds, "such as {1: 120.0, 2: 230.0}")
        whose = f"of {name!r}"
        known = {
            whole(f"The number of GPUs {whose}", gpus, 1, integral=True): number(
                f"The steps/s {whose} with {gpus} GPUs", speed
            )
            for gpus, speed in told.items()
        }
        if not any(known.values()):
            raise InputError(f"The application {name!r} has no speed above 0 with any GPUs.")
        self._gpus = np.array(sorted(known), dtype=np.int64)
        self._speeds: Floats = np.array([known[gpus] for gpus in sorted(known)], dtype=float)

    def plain(self) -> dict[str, Any]:
        """Return the steps/s by number of GPUs as they were told, as JSON has them."""
        told = zip(self._gpus.tolist(), self._speeds.tolist(), strict=True)
        return {"speeds": {str(gpus): speed for gpus, speed in told}}

    def by_gpus(self, gpus: Int64s) -> Floats:
        """Return the steps/s with numbers of GPUs; 0 = cannot run."""
        found = np.interp(gpus, self._gpus, self._speeds, left=0.0, right=0.0)
        # Between a number with which it runs and one with which it does not nothing is known.
        above = np.searchsorted(self._gpus, gpus).clip(max=self._gpus.size - 1)
        below = np.searchsorted(self._gpus, gpus, side="right").clip(min=1) - 1
        runs = (self._speeds[above] > 0) & (self._speeds[below] > 0)
        return np.where(runs, found, 0.0)

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        """Return the seconds of a step; how GPUs lie in machines and the batch do not count.

        Raises
        ------
        InputError
            For a number of GPUs with which the application cannot run.
        """
        gpus = sum(placement)
        speed = float(self.by_gpus(np.array([gpus]))[0])
        if not speed:
            raise InputError(
                f"{self.name!r} has no speed with {gpus} GPUs; known: "
                f"{', '.join(map(str, self._gpus[self._speeds > 0]))}."
            )
        return StepSeconds(1.0 / speed, 0.0, measured=gpus in self._gpus)
