"""Workloads for clusters of racks, from the published figures of Dally's evaluation.

Two lists of jobs are described: a batch of 500, and some 400 that arrive over a week. What is known
of them are the shares of GPU counts and models and, of the batch, a few quantiles and means of the
ideal completion times; the jobs themselves are drawn anew.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from scipy.stats import norm

from apportion.annotations import checked
from apportion.checks import choice, seconds, whole
from apportion.sim.generators.distributions import streams
from apportion.sim.generators.generate import MOST_JOBS
from apportion.sim.network.models.table_i import COMPUTE_S, TABLE1_COMPUTE_SCALE
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    step_s = pd.Series(COMPUTE_S) * (pd.Series(TABLE1_COMPUTE_SCALE) if compute == "scaled" else 1)
    table = pd.DataFrame(
        {
            "arrival_s": _arrivals(arrivals, count, span_s, rngs["arrivals"]),
            "job_type": names.astype(str),
            "scale_factor": _demands(demands, level),
            "total_steps": length_s / step_s[names].to_numpy(),
            "duration_s": length_s,
        }
    )
    note = f"generated: seed {seed}, {arrivals} arrivals, demands, models and lengths as in Dally"
    name, throughputs = f"racks-{arrivals}-{seed}", _throughputs(step_s, demands)
    return _without_large(Workload(name, table, throughputs, (note,)), max_scale_factor)


def _arrivals(
    kind: str, count: int, span_s: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Arrival times in seconds: given their number, those of a Poisson process are uniform."""
    seconds("span_s", span_s, strict=True)
    return np.zeros(count) if kind == "batch" else np.sort(rng.uniform(0.0, span_s, count))


def _demands(demands: Mapping[int, int], level: NDArray[np.float64]) -> NDArray[np.int64]:
    """GPUs at each level of their distribution."""
    cumulative = np.cumsum(list(demands.values())) / sum(demands.values())
    return np.array(list(demands))[np.searchsorted(cumulative[:-1], level, side="right")]


def _lengths(demand_level: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Ideal completion times in seconds, tied to the demands by a Gaussian copula."""
    own = rng.standard_normal(len(demand_level))
    score = _SIZE_AND_LENGTH * norm.ppf(demand_level) + np.sqrt(1 - _SIZE_AND_LENGTH**2) * own
    log_s = np.interp(norm.cdf(score), _IDEAL_LEVELS, np.log(_IDEAL_SECONDS))
    return np.asarray(np.exp(log_s), dtype=np.float64)


def _throughputs(seconds: pd.Series, demands: Mapping[int, int]) -> pd.DataFrame:
    """Steps/s of every model with every demand: a data-parallel step takes one compute time."""
    keys = pd.MultiIndex.from_product([seconds.index, demands], names=["job_type", "scale_factor"])
    speeds = np.repeat(1.0 / seconds.to_numpy(float), len(demands))
    return pd.DataFrame({"gpu": speeds}, index=keys)


def _without_large(workload: Workload, max_scale_factor: int | None) -> Workload:
    """Leave out jobs that demand more GPUs than the limit, if there is one."""
    if max_scale_factor is None:
        return workload
    largest = whole("max_scale_factor", max_scale_factor, 1)
    return workload.fitting({"gpu": largest})
