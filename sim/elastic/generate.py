"""A generated elastic workload: synthetic applications, no data needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from apportion.checks import seconds, whole
from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredTraining,
    ModelledSteps,
    StepTimes,
)
from apportion.sim.elastic_workload import ElasticWorkload
from apportion.sim.generators.distributions import MOST_JOBS, streams

if TYPE_CHECKING:
    from collections.abc import Mapping

_STREAMS = ("arrivals", "applications", "gpus")


class _Synthetic(NamedTuple):
    """An application: its steps, batches, noise from the first to the last epoch, and length."""

    times: StepTimes
    limits: BatchLimits
    noise: tuple[float, float]
    epochs: int
    gpu_hours: float
    share: float
    restart_s: tuple[float, float]


SYNTHETIC_APPLICATIONS: Mapping[str, _Synthetic] = {
    "small_vision": _Synthetic(
        StepTimes(0.03, 4e-4, 0.06, 2e-3, 0.015, 1e-3, 1.8),
        BatchLimits(128, 4096, 32, 1024),
        *((300.0, 6000.0), 40, 0.4, 0.55, (24.0, 3.0)),
    ),
    "speech": _Synthetic(
        StepTimes(0.15, 1.2e-2, 0.25, 4e-3, 0.06, 2e-3, 2.0),
        BatchLimits(20, 640, 10, 80),
        *((60.0, 900.0), 30, 1.5, 0.2, (18.0, 1.0)),
    ),
    "language": _Synthetic(
        StepTimes(0.05, 3.5e-2, 0.6, 1e-2, 0.2, 5e-3, 1.5),
        BatchLimits(12, 384, 4, 12),
        *((150.0, 1500.0), 10, 3.0, 0.15, (103.0, 5.0)),
    ),
    "large_vision": _Synthetic(
        StepTimes(0.08, 2.6e-3, 0.12, 3e-3, 0.04, 1e-3, 2.5),
        BatchLimits(200, 12800, 20, 200),
        *((1500.0, 30000.0), 60, 24.0, 0.1, (35.0, 3.0)),
    ),
}
"""Synthetic applications: shapes and sizes like those of published ones, measured nowhere."""


def synthetic_application(name: str) -> MeasuredApplication:
    """Return a synthetic application; its noise grows from epoch to epoch in proportion.

    Its progress is what one GPU makes in its GPU-hours with the initial batch, without pauses.
    """
    made = SYNTHETIC_APPLICATIONS[name]
    limits, (first, last) = made.limits, made.noise
    local_most = int(limits.local_most or limits.largest)
    steps = -(-limits.initial // local_most)
    step_s = float(made.times.step_s(1, 1, -(-limits.initial // steps), steps - 1))
    total = made.gpu_hours * 3600 / step_s
    noise = np.geomspace(first, last, made.epochs)
    table = pd.DataFrame(
        {
            "progress": total * np.arange(1, made.epochs + 1) / made.epochs,
            "grad_sqr": 1.0,
            "grad_var": noise / limits.initial,
        }
    )
    training = MeasuredTraining(name, {limits.initial: table, limits.largest: table})
    return MeasuredApplication(name, ModelledSteps(name, made.times, local_most), training, limits)


def generate_elastic_workload(
    jobs: int = 40, *, hours: float = 4.0, seed: int = 0, name: str = "elastic"
) -> ElasticWorkload:
    """Generate elastic jobs of synthetic applications that arrive as a Poisson process.

    What they train is in `SYNTHETIC_APPLICATIONS`: step times, batches and gradient noise of shapes
    like those of published applications, but measured nowhere. Many are short and few long. For
    comparisons of systems, read measured profiles with
    `apportion.sim.traces.pollux.read_pollux_workload`.

    Parameters
    ----------
    jobs
        How many.
    hours
        Within which they arrive, at uniform times.
    seed
        Of all random numbers: same seed, same workload.
    name
        Of the workload.

    Raises
    ------
    InputError
        For fewer than one job, or hours that are not > 0.
    """
    count = whole("jobs", jobs, 1, MOST_JOBS)
    length_s = 3600 * seconds("hours", hours, strict=True)
    rng = streams(_STREAMS, seed)
    known = list(SYNTHETIC_APPLICATIONS)
    share = np.array([each.share for each in SYNTHETIC_APPLICATIONS.values()])
    drawn = rng["applications"].choice(len(known), size=count, p=share / share.sum())
    gpus = 2 ** rng["gpus"].integers(0, 4, size=count)
    applications = {each: synthetic_application(each) for each in known}
    names = [known[place] for place in drawn]
    batches = [_users_batch(applications[n], int(k)) for n, k in zip(names, gpus, strict=True)]
    table = pd.DataFrame(
        {
            "arrival_s": np.sort(rng["arrivals"].random(count)) * length_s,
            "application": names,
            "gpus": gpus,
            "batch": batches,
        },
        index=pd.RangeIndex(count),
    )
    restart_s = {each: SYNTHETIC_APPLICATIONS[each].restart_s for each in known}
    return ElasticWorkload(name, table, applications, restart_s=restart_s, measured_on="t4")


def _users_batch(application: MeasuredApplication, gpus: int) -> int:
    """Return the initial batch, or what fills the GPUs half."""
    limits = application.limits
    half = gpus * int(limits.local_most or limits.largest) // 2
    return int(min(max(limits.initial, half, gpus * limits.local_least), limits.largest))
