"""Workloads of evaluations: the 160 jobs of Wang et al., and gangs of CASSINI's models."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import choice, hashable, listed, number, seconds, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, unknown_name
from apportion.sim.generators.generate import MOST_JOBS
from apportion.sim.network import COMMUNICATING_MODELS, communication_profile
from apportion.sim.network.models.trained import TABLE_III, V100_FLOPS
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


GANGS: Mapping[int, int] = MappingProxyType({1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2})
"""Jobs by the GPUs that they want."""


def generate_contended_workload(
    *,
    seed: int = 0,
    scale: float = 1.0,
    accelerator: str = "v100",
    slot_s: float = 0.0,
    batch: int | Mapping[str, int] | None = None,
    peak_flops: float = V100_FLOPS,
) -> Workload:
    """Draw the 160 jobs of section 5: iterations from 1000 to 6000, arrivals over 1200 s.

    The models are those of Table III, drawn evenly. The authors' own draw is not published.

    Parameters
    ----------
    seed
        Seed.
    scale
        Factor to iterations and arrivals; their code has 0.01.
    accelerator
        Name of the type.
    slot_s
        Seconds of a slot at whose start jobs arrive, as those of a second in the text; 0 for any
        time.
    batch
        Batch size of a worker in place of that of Table III, of all jobs or by model: passes take
        as much longer (Equations 3 and 4), what is sent does not change.
    peak_flops
        Peak FLOP/s of the type, by which passes are shorter; by default those of Table III's.

    Raises
    ------
    InputError
        If the scale is not above 0, a slot has less than 0 seconds, a batch less than one sample,
        or a batch is given for another model.
    """
    batches = batch if isinstance(batch, Mapping) else dict.fromkeys(TABLE_III, batch)
    for model in batches:
        choice("model in batch", model, TABLE_III)
    passes_s = {
        name: sum(row.passes_s(batches.get(name), peak_flops)) for name, row in TABLE_III.items()
    }
    seconds("slot_s", slot_s)
    scale = number("scale", scale, strict=True)
    rng = np.random.default_rng(check_seed(seed))
    gpus = rng.permutation(np.repeat(list(GANGS), list(GANGS.values())))
    iterations = np.maximum(np.rint(rng.integers(1000, 6001, gpus.size) * scale), 1.0)
    models = rng.choice(list(TABLE_III), gpus.size)
    arrival_s = np.sort(rng.uniform(0.0, 1200.0 * scale, gpus.size))
    if slot_s:
        arrival_s = np.floor(arrival_s / slot_s) * slot_s
    jobs = pd.DataFrame(
        {
            "job_type": models,
            "scale_factor": gpus,
            "total_steps": iterations,
            "arrival_s": arrival_s,
        }
    )
    rows = [(name, size) for name in TABLE_III for size in GANGS]
    speeds = [1 / passes_s[name] for name, _ in rows]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    throughputs = pd.DataFrame({accelerator: speeds}, index=index)
    notes = ("jobs drawn by the description in Wang et al., section 5",)
    return Workload("contended", jobs, throughputs, notes)
