"""Workloads of papers' evaluations: models by gangs on one accelerator type, drawn anew.

Dally: jobs that are trained data-parallel on a cluster of racks. What is known of them are the
shares of GPU counts and models and, of the batch, a few quantiles and means of the ideal completion
times. CASSINI: gangs of its models. Wang et al.: their 160 jobs. The authors' own draws of the
latter two are not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from scipy.stats import norm

from apportion.annotations import checked
from apportion.checks import choice, hashable, listed, number, seconds, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, unknown_name
from apportion.sim.generators.distributions import MOST_JOBS, pick, streams
from apportion.sim.network import COMMUNICATING_MODELS, communication_profile
from apportion.sim.network.models.table_i import COMPUTE_S, TABLE1_COMPUTE_SCALE
from apportion.sim.network.models.trained import TABLE_III, V100_FLOPS
from apportion.sim.workload import Workload
from apportion.sim.workload_tables import THROUGHPUT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

WEEK_S = 604_800.0
"""Seconds of a week, over which the published Poisson list arrives."""

RACK_DEMANDS: Mapping[str, Mapping[int, int]] = MappingProxyType(
    {
        "batch": {1: 270, 2: 13, 4: 52, 8: 109, 16: 42, 32: 11, 40: 1, 48: 1, 56: 1},
        "poisson": {2: 41, 3: 1, 4: 96, 8: 190, 16: 56, 32: 23, 40: 2, 48: 1, 56: 1},
    }
)
"""Jobs by the GPUs that they demand, in either list; their sums are the jobs of the list."""

RACK_MODELS: Mapping[str, int] = MappingProxyType(
    {
        "MobileNetV3": 125,
        "BERT-large": 125,
        "ResNet50": 125,
        "AlexNet": 53,
        "ResNet18": 38,
        "VGG11": 34,
    }
)
"""Jobs of the batch by model."""

# Level and seconds of the ideal completion time in the batch; between them its logarithm is linear
# in the level. All but the one at 0.75 are published. That one makes the mean the published
# 52,714 s; without it, it would be 5 % more.
_IDEAL_LEVELS = (0.0, 0.5, 0.75, 0.95, 1.0)
_IDEAL_SECONDS = (479.0, 14_369.0, 52_200.0, 203_053.0, 761_516.0)

# Correlation of the normal scores of GPU count and ideal completion time: larger jobs are shorter,
# so that the batch holds the published 4.70e7 GPU-seconds. Independent, it would hold 1.34e8.
_SIZE_AND_LENGTH = -0.64

_COMPUTE = ("profiled", "scaled")
_STREAMS = ("arrivals", "demands", "models", "lengths")


@checked
def generate_rack_workload(
    *,
    arrivals: Literal["batch", "poisson"] = "batch",
    jobs: int | None = None,
    seed: int = 0,
    span_s: float = WEEK_S,
    compute: Literal["profiled", "scaled"] = "profiled",
    max_scale_factor: int | None = None,
) -> Workload:
    """Draw data-parallel jobs of six models for a cluster of racks.

    A step is an iteration of the whole gang. Every GPU works on a batch of its own, so that a step
    takes the compute time of one iteration however many GPUs there are; communication that is not
    hidden comes on top, by the network model of the simulation. The throughputs have the single
    accelerator type ``gpu``.

    Published are the shares of demands (of either list) and models, and of the batch the quantiles
    0, 0.5, 0.95 and 1 of the ideal completion time, its mean and the GPU-seconds in all. Fitted to
    the last two are a quantile at 0.75 and a negative rank correlation of demand and length. For
    Poisson arrivals no lengths are published; they are drawn in the same way.

    Parameters
    ----------
    arrivals
        ``"batch"``: all at time 0; ``"poisson"``: over `span_s`, and no job with a single GPU.
    jobs
        Number of jobs; as published (500, 411) where left out.
    seed
        Same seed, same workload.
    span_s
        Seconds over which the jobs of a Poisson process arrive, given how many there are.
    compute
        Compute time of an iteration: ``"profiled"``, or ``"scaled"`` down as for Dally's Table I
        (see `apportion.sim.network.models`). It changes the number of steps, and neither lengths
        nor the results of a simulation: network models tell communication relative to compute.
    max_scale_factor
        Leave out the drawn jobs that demand more GPUs; a note says how many.

    Raises
    ------
    InputError
        For an unknown name, a number out of range, or no job left.

    Notes
    -----
    Source: Dally (evaluation; the workload files of its simulator).
    """
    choice("arrivals", arrivals, RACK_DEMANDS)
    choice("compute time", compute, _COMPUTE)
    demands, models = RACK_DEMANDS[arrivals], pd.Series(RACK_MODELS)
    count = whole("jobs", sum(demands.values()) if jobs is None else jobs, 1, MOST_JOBS)
    rngs = streams(_STREAMS, seed)
    level = rngs["demands"].random(count)
    length_s = _lengths(level, rngs["lengths"])
    names = rngs["models"].choice(models.index, size=count, p=models / models.sum())
    seconds("span_s", span_s, strict=True)
    arrival_s = np.zeros(count)
    if arrivals == "poisson":  # given their number, arrival times of a Poisson process are uniform
        arrival_s = np.sort(rngs["arrivals"].uniform(0.0, span_s, count))
    step_s = pd.Series(COMPUTE_S) * (pd.Series(TABLE1_COMPUTE_SCALE) if compute == "scaled" else 1)
    table = pd.DataFrame(
        {
            "arrival_s": arrival_s,
            "job_type": names.astype(str),
            "scale_factor": pick(demands, level).astype(np.int64),
            "total_steps": length_s / step_s[names].to_numpy(),
            "duration_s": length_s,
        }
    )
    note = f"generated: seed {seed}, {arrivals} arrivals, demands, models and lengths as in Dally"
    steps_s = {(model, gpus): step_s[model] for model in step_s.index for gpus in demands}
    workload = Workload(f"racks-{arrivals}-{seed}", table, _throughputs("gpu", steps_s), (note,))
    if max_scale_factor is None:
        return workload
    return workload.fitting({"gpu": whole("max_scale_factor", max_scale_factor, 1)})


def _lengths(demand_level: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Ideal completion times in seconds, tied to the demands by a Gaussian copula."""
    own = rng.standard_normal(len(demand_level))
    score = _SIZE_AND_LENGTH * norm.ppf(demand_level) + np.sqrt(1 - _SIZE_AND_LENGTH**2) * own
    log_s = np.interp(norm.cdf(score), _IDEAL_LEVELS, np.log(_IDEAL_SECONDS))
    return np.asarray(np.exp(log_s), dtype=np.float64)


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
    speeds = _throughputs(accelerator, periods)
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
    steps_s = {(name, size): passes_s[name] for name in TABLE_III for size in GANGS}
    throughputs = _throughputs(accelerator, steps_s)
    notes = ("jobs drawn by the description in Wang et al., section 5",)
    return Workload("contended", jobs, throughputs, notes)


def _throughputs(accelerator: str, step_s: Mapping[tuple[str, int], float]) -> pd.DataFrame:
    """Return steps/s by model and number of GPUs, from the seconds of a step."""
    index = pd.MultiIndex.from_tuples([*step_s], names=THROUGHPUT_KEYS)
    return pd.DataFrame({accelerator: 1.0 / np.array([*step_s.values()])}, index=index)
