"""Goodput and speed-ups of many jobs on many configurations of GPUs, and their power mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.checks import as_float, choice
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.goodput.best_batch import SEARCHES, best_batches
from apportion.estimators.goodput.goodput import Goodput, checked_gangs
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
