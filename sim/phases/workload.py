"""Gangs that train the models of CASSINI's evaluation, and arrive at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import hashable, listed, number, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, unknown_name
from apportion.sim.drawn.generate import MOST_JOBS
from apportion.sim.network import COMMUNICATING_MODELS, communication_profile
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

GPUS = tuple(range(2, 7))
SECONDS = (600.0, 5400.0)


def generate_communicating_workload(
    jobs: int = 60,
    *,
    jobs_per_hour: float = 6.5,
    models: Iterable[str] | None = None,
    gpus: Iterable[int] = GPUS,
    gbps: float = 50.0,
    accelerator: str = "a100",
    seed: int = 0,
) -> Workload:
    """Draw gangs of 2 to 6 GPUs that run 10 to 90 minutes alone, evenly, with Poisson arrivals.

    At the default rate they want 24 GPUs about 0.9 of the time, as the Poisson trace of CASSINI's
    evaluation wants 0.8 to 1 of them (Rajasekaran et al., NSDI 2024, section 5.1, which does not
    say how many GPUs its jobs have, nor for how long they run).

    Parameters
    ----------
    jobs
        How many.
    jobs_per_hour
        Rate of their arrivals.
    models
        That are trained, evenly drawn; those of `COMMUNICATING_MODELS` by default.
    gpus
        Sizes of gangs, evenly drawn. How long an iteration takes depends on it.
    gbps
        At which they send if nobody is in their way.
    accelerator
        Name of the type.
    seed
        Seed.

    Raises
    ------
    InputError
        For an unknown model, and a number that is out of range.
    """
    whole("jobs", jobs, 1, MOST_JOBS)
    number("jobs_per_hour", jobs_per_hour, strict=True)
    number("gbps", gbps, strict=True)
    rows = _rows(models, gpus)
    rng = np.random.default_rng(check_seed(seed))
    periods = {
        (model, size): communication_profile(model, gbps=gbps, gpus=size).period_s
        for model, size in rows
    }
    drawn = [rows[place] for place in rng.integers(len(rows), size=jobs)]
    alone_s = rng.uniform(*SECONDS, jobs)
    table = pd.DataFrame(
        {
            "job_type": [model for model, _ in drawn],
            "scale_factor": [size for _, size in drawn],
            "total_steps": np.maximum(np.round(alone_s / [periods[each] for each in drawn]), 1.0),
            "arrival_s": np.cumsum(rng.exponential(3600 / jobs_per_hour, jobs)),
        }
    )
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({accelerator: [1 / periods[each] for each in rows]}, index=index)
    count = len({model for model, _ in rows})
    notes = (f"jobs drawn evenly from {count} models with communication profiles",)
    return Workload("communicating", table, speeds, notes)


def _rows(models: Iterable[str] | None, gpus: Iterable[int]) -> list[tuple[str, int]]:
    """Check models and sizes, and return each with each."""
    known = list(COMMUNICATING_MODELS) if models is None else list(hashable("model", models))
    for model in known:
        if model not in COMMUNICATING_MODELS:
            raise unknown_name("communicating model", model, COMMUNICATING_MODELS)
    sizes = sorted({whole("A number of gpus", each, 2) for each in listed("gpus", gpus)})
    if not known or not sizes:
        raise InputError("models or gpus is empty; give one at least.")
    return [(model, size) for model in known for size in sizes]
