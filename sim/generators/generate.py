"""Generated workloads: arrivals, job types, GPU counts, durations, weights, deadlines.

Every job type presses on a few resources of a GPU (arithmetic, memory bandwidth, the host that
feeds it) and suffers from what others press on them. Beside a partner it slows down by

    1 + sum over resources of (its sensitivity x the partner's pressure),

times a little noise: of low rank, as measurements are. Pairs that need more memory than the GPU has
cannot share. Pressure and memory grow with the batch size; a slower GPU is pressed harder. The
figures are drawn at random around plausible ones: they are not measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import choice, whole
from apportion.checks import seed as check_seed
from apportion.estimators import family_of
from apportion.pairs import PairThroughputs
from apportion.sim.generators.distributions import (
    DEADLINES,
    MOST_JOBS,
    SCALE_FACTORS,
    WEIGHTS,
    draw_arrivals,
    draw_durations,
    draw_shares,
    streams,
)
from apportion.sim.job_types import draw_job_types, job_type_throughputs, job_types
from apportion.sim.workload import Workload
from apportion.sim.workload_tables import find_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.types import Floats


_RESOURCES = 3
_PRESSURE = (0.05, 0.75)
"""Pressure on a resource and sensitivity to it are uniform in this range, per model family."""
_MEMORY = (0.1, 0.5)
"""Part of the GPU's memory that a family needs at its smallest batch size."""
_LARGEST_BATCH = 1.6
"""Pressure and memory at a family's largest batch size, relative to its smallest."""
_JITTER = 0.2
"""Standard deviation of the logarithm of a job type's demands around its family's."""
_NOISE = 0.05
"""Standard deviation of the logarithm of the slow-down."""


@checked
def generate_pair_throughputs(
    seed: int = 0,
    accelerators: Sequence[str] | None = None,
    *,
    scale_factors: Iterable[int] = (1,),
    mixed_scale_factors: bool = False,
) -> PairThroughputs:
    """Draw how much the job types of generated workloads slow each other down.

    Parameters
    ----------
    seed
        Same seed, same throughputs.
    accelerators
        Accelerator types, out of those that `job_type_throughputs` knows; all by default.
    scale_factors
        GPUs per job; above one, only distributed job types have keys.
    mixed_scale_factors
        Whether jobs with different numbers of GPUs may share too.

    Raises
    ------
    InputError
        For an accelerator that the table of job types does not know, and a seed below zero.
    """
    check_seed(seed)
    table = job_type_throughputs(scale_factors, accelerators)
    alone = table.to_numpy()
    types = table.index.get_level_values(0)
    pressure, sensitivity, memory = _demands(types, np.random.default_rng(seed))
    # The slower the GPU is for a job, relative to its fastest, the busier the job keeps it.
    busier = (alone.max(axis=1, keepdims=True) / alone) ** 0.25
    slowdown = 1.0 + np.einsum("ar,br,bj->abj", sensitivity, pressure, busier)
    # A generator of its own, so that other accelerators or gangs leave the demands as they are.
    noise = np.random.default_rng([seed, 1]).normal(0.0, _NOISE, slowdown.shape)
    share = np.minimum(np.exp(noise) / slowdown, 1.0)
    fits = memory[:, None] + memory[None, :] <= 1.0
    gangs = table.index.get_level_values(1).to_numpy()
    if not mixed_scale_factors:
        fits &= gangs[:, None] == gangs[None, :]
    own = share * alone[:, None, :] * fits[:, :, None]
    index = pd.MultiIndex.from_tuples(table.index.tolist())
    return PairThroughputs(own, alone, index, tuple(table.columns.astype(str)))


def _demands(types: pd.Index, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Pressure and sensitivity (keys, resources) and memory (keys,) of each key's job type."""
    kinds = types.unique()
    families = pd.Index([family_of(name) for name in kinds])
    family, names = pd.factorize(families)
    shape = (len(names), _RESOURCES)
    pressure, sensitivity = rng.uniform(*_PRESSURE, (2, *shape))[:, family]
    memory = rng.uniform(*_MEMORY, len(names))[family]
    jitter = np.exp(rng.normal(0.0, _JITTER, (2, *pressure.shape)))
    # Job types are listed by growing batch size within their family.
    by_family = pd.Series(family).groupby(family)
    rank = by_family.cumcount() / (by_family.transform("size") - 1).clip(lower=1)
    growth = _LARGEST_BATCH ** rank.to_numpy()
    key = kinds.get_indexer(types)
    pressure = pressure * jitter[0] * growth[:, None]
    return pressure[key], (sensitivity * jitter[1])[key], (memory * growth)[key]


_STREAMS = ("arrivals", "scale_factors", "job_types", "durations", "weights", "deadlines")


@checked
def generate_workload(
    *,
    jobs: int = 100,
    seed: int = 0,
    jobs_per_hour: float | None = None,
    arrivals: str = "poisson",
    days: float | None = None,
    scale_factors: str | Mapping[float, float] = "single",
    durations: str = "gavel",
    weights: str | Mapping[float, float] = "equal",
    deadlines: str | Mapping[float, float] = "none",
    accelerators: Sequence[str] | None = None,
    reference: str = "v100",
) -> Workload:
    """Draw a workload from published distributions.

    Arrivals, GPU counts, job types, durations, weights and deadlines come from random streams of
    their own: a change to one option leaves the others as they were (the job types of those jobs
    excepted that get another number of GPUs), and more jobs leave the first ones as they were
    (not with diurnal arrivals, which a number of days has to hold).

    A workload of the size of Philly's processed trace: ``jobs=82_000, arrivals="diurnal",
    days=109, scale_factors="philly", durations="philly"``.

    Parameters
    ----------
    jobs
        Number of jobs.
    seed
        Same seed, same workload.
    jobs_per_hour
        Rate of the arrivals, the first at time 0. Without one, the default, all jobs are there at
        time 0: a batch. Diurnal arrivals need one, or `days`.
    arrivals
        ``poisson``: independent gaps at `jobs_per_hour`; or ``diurnal``: more by day than by night
        and on weekdays than on weekends, see `distributions.draw_arrivals`.
    days
        Days over which the jobs arrive, for diurnal arrivals, instead of `jobs_per_hour`.
    scale_factors
        GPUs per job: ``single``, ``gavel``, ``philly``, or shares such as ``{1: 0.5, 8: 0.5}``.
    durations
        ``gavel`` or ``philly``, see `distributions.draw_durations`; seconds on the reference
        accelerator, from which ``total_steps`` follows.
    weights
        ``equal``, ``gavel`` (one job in five has weight 5), or shares.
    deadlines
        ``none``, ``gavel`` (1.2, 2 or 10 times the duration, a third of the jobs each), or shares
        of multiples of the duration.
    accelerators
        Types for which the workload has throughputs: v100, p100 and k80 by default.
    reference
        Accelerator type of the durations.

    Raises
    ------
    InputError
        For an unknown name, or a number out of range.
    """
    count = whole("jobs", jobs, 1, MOST_JOBS)
    rngs = streams(_STREAMS, seed)
    choice("reference accelerator", reference, job_types().columns)
    gangs = draw_shares(
        *("scale_factors", scale_factors, SCALE_FACTORS, count, rngs["scale_factors"]),
        whole_values=True,
    )
    speeds = job_type_throughputs(gangs)
    scale_factor = pd.Series(gangs).astype(np.int64)
    table = pd.DataFrame(
        {
            "arrival_s": draw_arrivals(arrivals, count, jobs_per_hour, days, rngs["arrivals"]),
            "job_type": draw_job_types(scale_factor, speeds, reference, rngs["job_types"]),
            "scale_factor": scale_factor,
            "weight": draw_shares("weights", weights, WEIGHTS, count, rngs["weights"]),
            "duration_s": draw_durations(durations, count, rngs["durations"]),
        }
    )
    speed = speeds[reference].to_numpy()[find_rows(table, speeds)]
    slack = draw_shares("deadlines", deadlines, DEADLINES, count, rngs["deadlines"])
    table.insert(3, "total_steps", table["duration_s"] * speed)
    if not np.isnan(slack).all():
        table["deadline_s"] = slack * table["duration_s"]
    coming = _in_words(arrivals, jobs_per_hour, days)
    note = f"generated: seed {seed}, {coming}, durations {durations!r} on {reference}"
    throughputs = job_type_throughputs(gangs, accelerators)
    sizes = np.unique(gangs).tolist()
    pairs = generate_pair_throughputs(seed, accelerators, scale_factors=sizes)
    return Workload(f"generated-{seed}", table, throughputs, (note,), pairs)


def _in_words(arrivals: str, jobs_per_hour: float | None, days: float | None) -> str:
    if days:
        return f"{arrivals} arrivals over {days:g} days"
    return f"{arrivals} arrivals, {jobs_per_hour:g} jobs/h" if jobs_per_hour else "all jobs at 0 s"
