from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from tests.estimators.goodput.drawn import drawn_goodput

from apportion import InputError
from apportion.estimators.goodput import BatchLimits, Goodput, StepTimes

TIMES = StepTimes(0.1, 0.01, alpha_n=0.4, beta_n=0.02, alpha_r=0.2, beta_r=0.01, gamma=2.0)


def by_definition(job: Goodput, gpus: int, nodes: int, local: int, steps: int) -> float:
    """Goodput written from the formulas, one number at a time."""
    alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma = map(float, astuple(job.times))
    gradient = alpha_c + beta_c * local
    wait = 0.0
    if gpus > 1:
        constant, slope = (alpha_n, beta_n) if nodes > 1 else (alpha_r, beta_r)
        wait = constant + slope * (gpus - 2)
    norm: float = (gradient**gamma + wait**gamma) ** (1 / gamma)
    batch = gpus * local * (steps + 1)
    first = job.limits.initial
    worth = 1.0 if math.isinf(job.noise) else (job.noise + first) / (job.noise + batch)
    return batch / (steps * gradient + norm) * worth


def best_by_enumeration(job: Goodput, gpus: int, nodes: int) -> float:
    """Best over every whole batch per GPU and number of accumulation steps."""
    limits = job.limits
    assert limits.local_most is not None
    if limits.local_least * gpus > limits.largest:
        return 0.0
    most = max(math.ceil(limits.largest / (gpus * limits.local_most)) - 1, int(gpus == 1))
    found = [0.0]
    for steps in range((most if limits.accumulates else 0) + 1):
        top = math.ceil(limits.largest / (gpus * (steps + 1)))
        for local in range(limits.local_least, min(limits.local_most, top) + 1):
            batch = gpus * local * (steps + 1)
            single = gpus == 1 and steps == 0 and batch > limits.initial
            if batch >= limits.initial and not single:
                found.append(by_definition(job, gpus, nodes, local, steps))
    return max(found)


def test_best_batch_without_overlap_is_a_square_root() -> None:
    """At gamma 1 and no accumulation, the best batch is sqrt(a phi / b)."""
    times = StepTimes(0.05, 2e-4, alpha_r=0.15, beta_r=0.01, alpha_n=0.4, beta_n=0.02)
    job = Goodput(times, 5000.0, BatchLimits(32, 100_000))
    for gpus, nodes in ((2, 1), (4, 1), (8, 2), (16, 4)):
        waits = 0.05 + float(times.synchronisation_s(gpus, nodes))
        best = math.sqrt(waits * 5000.0 / (2e-4 / gpus))
        found = job.best(gpus, nodes)
        assert found.accumulation == 0
        assert abs(float(found.local_batch) - best / gpus) <= 1
        near = job.value(gpus, nodes, found.local_batch + np.array([-1, 0, 1]))
        assert near.argmax() == 1
        assert found.goodput == pytest.approx(near[1])


@pytest.mark.parametrize("accumulates", [True, False])
def test_exact_search_equals_enumeration(accumulates: bool) -> None:
    rng = np.random.default_rng(7)
    gangs = [(1, 1), (2, 1), (2, 2), (3, 1), (7, 2), (16, 4), (64, 16)]
    all_gpus, all_nodes = np.array(gangs).T
    for _ in range(60):
        job = drawn_goodput(rng, accumulates=accumulates)
        found = job.best(all_gpus, all_nodes)
        sampled = job.best(all_gpus, all_nodes, search="sampled")
        for column, (gpus, nodes) in enumerate(gangs):
            expected = best_by_enumeration(job, gpus, nodes)
            assert found.goodput[column] == pytest.approx(expected, rel=1e-11)
            if expected:
                local, steps = int(found.local_batch[column]), int(found.accumulation[column])
                assert by_definition(job, gpus, nodes, local, steps) == pytest.approx(expected)
                assert job.value(gpus, nodes, local, steps) == pytest.approx(expected)
            assert sampled.goodput[column] <= expected * (1 + 1e-9)


def test_more_accumulation_never_shortens_a_step_of_one_batch() -> None:
    rng = np.random.default_rng(3)
    steps = np.arange(12)
    for _ in range(50):
        times = drawn_goodput(rng).times
        step_s = times.step_s(4, 1, rng.uniform(1, 500) / (steps + 1), steps)
        assert np.all(np.diff(step_s) >= -1e-12 * step_s[1:])


def test_mistakes_are_named() -> None:
    job = Goodput(TIMES, 100.0, BatchLimits(8, 512, 2, 64))
    for local, steps in ((65, 0), (1, 4), (8, -1)):
        with pytest.raises(InputError, match=rf"A batch of {local} samples .* from 2 to 64"):
            job.value(2, 1, local, steps)
    with pytest.raises(InputError, match="below the initial one of 8"):
        job.value(2, 1, 3)
    with pytest.raises(InputError, match="2 GPUs on 3 nodes"):
        job.best(2, 3)
    with pytest.raises(InputError, match=r"1.5 GPUs"):
        job.best(1.5, 1)
    with pytest.raises(InputError, match="initial batch of 9 samples is beyond"):
        BatchLimits(9, 8)
    with pytest.raises(InputError, match="least batch per GPU of 9"):
        BatchLimits(8, 64, 9, 8)
    with pytest.raises(InputError, match=r"gamma .* from 1 to 10"):
        StepTimes(1, 1, gamma=0.5)
    with pytest.raises(InputError, match=r"alpha_n .* >= 0"):
        StepTimes(1, 1, alpha_n=-1)
    with pytest.raises(InputError, match="both 0"):
        StepTimes(0, 0)
    with pytest.raises(InputError, match="noise scale is nan"):
        Goodput(TIMES, math.nan, BatchLimits(8, 512))
