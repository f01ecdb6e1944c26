"""The same figures as AdaptDL, the package of Pollux's authors, where it is installed."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from tests.estimators.goodput.drawn import drawn_goodput

from apportion.estimators.goodput import StepObservations, fit_step_times

adaptdl = pytest.importorskip("adaptdl.goodput", reason="needs AdaptDL (pip install adaptdl)")

GPUS = np.array([1, 2, 3, 4, 5, 8, 12, 16])
NODES = -(-GPUS // 4)


def test_goodput_and_best_batches() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        job = drawn_goodput(rng)
        if not np.isfinite(job.noise):
            continue
        limits = job.limits
        fits = limits.local_least * GPUS <= limits.largest
        theirs = adaptdl.GoodputFunction(
            tuple(map(float, astuple(job.times))), (1.0, job.noise / limits.initial), limits.initial
        )
        span = (limits.local_least, limits.local_most)
        goodput, local, steps = theirs.optimize(
            NODES[fits], GPUS[fits], limits.largest, span, accumulation=True
        )
        ours = job.best(GPUS[fits], NODES[fits], search="sampled")
        assert ours.goodput == pytest.approx(goodput, rel=1e-6)
        some = goodput > 0
        value = job.value(GPUS[fits][some], NODES[fits][some], local[some], steps[some])
        assert value == pytest.approx(goodput[some], rel=1e-6)


def test_fits_are_no_worse() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        times = drawn_goodput(rng).times
        count = int(rng.integers(1, 20))
        gpus = rng.integers(1, 17, count)
        nodes, local = -(-gpus // 4), rng.integers(8, 200, count)
        gradient_s = times.gradient_s(local) * np.exp(0.05 * rng.normal(size=count))
        step_s = np.maximum(times.step_s(gpus, nodes, local), gradient_s)
        theirs = adaptdl.fit_perf_params(nodes, gpus, local, gradient_s, step_s)
        error = adaptdl._obj_fn(theirs, nodes, gpus, local, gradient_s, step_s)
        fit = fit_step_times(StepObservations(gpus, nodes, local, gradient_s, step_s))
        assert fit.error <= error + 1e-6
