from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from tests.estimators.goodput.drawn import drawn_goodput

from apportion import InputError
from apportion.estimators.goodput import StepObservations, StepTimes, fit_step_times


def observed(
    times: StepTimes, gangs: list[tuple[int, int, int]], noise: float = 0.0, seed: int = 0
) -> StepObservations:
    rng = np.random.default_rng(seed)
    gpus, nodes, local = np.array(gangs).T
    gradient_s = times.gradient_s(local) * np.exp(noise * rng.normal(size=len(gangs)))
    step_s = times.step_s(gpus, nodes, local) * np.exp(noise * rng.normal(size=len(gangs)))
    return StepObservations(gpus, nodes, local, gradient_s, np.maximum(step_s, gradient_s))


EVERYWHERE = [
    (gpus, nodes, local)
    for gpus, nodes in ((1, 1), (2, 1), (4, 1), (2, 2), (8, 2), (16, 4))
    for local in (16, 64, 256)
]


LOWEST, HIGHEST = [*[1e-8] * 6, 1.0], [*[np.inf] * 6, 10.0]


def error_by_definition(values: np.ndarray, seen: StepObservations) -> float:
    times = StepTimes(*values)
    step_s = times.step_s(seen.gpus, seen.nodes, seen.local_batch)
    first = np.log(times.gradient_s(seen.local_batch)) - np.log(seen.gradient_s)
    second = np.log(step_s) - np.log(seen.step_s)
    ratios = (values[3] / values[2]) ** 2 + (values[5] / values[4]) ** 2
    squares = np.sqrt(np.mean(first**2)) + np.sqrt(np.mean(second**2))
    return float(squares + 1e-3 * (values[6] - 1) ** 2 + 1e-2 * ratios)


def test_no_step_away_from_a_fit_is_better_by_the_definition() -> None:
    rng = np.random.default_rng(2)
    for seed in range(5):
        seen = observed(drawn_goodput(rng).times, EVERYWHERE, 0.1, seed)
        fit = fit_step_times(seen)
        values = np.array(astuple(fit.times), dtype=float)
        assert fit.error == pytest.approx(error_by_definition(values, seen), rel=1e-6)
        for place in range(7):
            for factor in (0.99, 1.01):
                moved = values.copy()
                moved[place] = np.clip(factor * moved[place], LOWEST[place], HIGHEST[place])
                assert error_by_definition(moved, seen) >= fit.error * (1 - 1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        (0.15, 0.012, 0.25, 0.004, 0.06, 0.002, 2.0),
        (0.05, 0.035, 0.6, 0.01, 0.2, 0.005, 1.5),
        (0.03, 0.0004, 0.06, 0.002, 0.015, 0.001, 1.8),
    ],
)
def test_exact_steps_give_the_very_parameters(parameters: tuple[float, ...]) -> None:
    fit = fit_step_times(observed(StepTimes(*parameters), EVERYWHERE))
    np.testing.assert_allclose(astuple(fit.times), parameters, rtol=1e-5)


@pytest.mark.parametrize(
    ("gangs", "pinned"),
    [
        ([(1, 1, 8)], "alpha_c alpha_n beta_n alpha_r beta_r gamma"),
        ([(1, 1, 8), (1, 1, 16)], "alpha_n beta_n alpha_r beta_r gamma"),
        ([(1, 1, 8), (2, 1, 16)], "alpha_n beta_n beta_r"),
        ([(1, 1, 8), (4, 1, 16)], "alpha_n beta_n"),
        ([(1, 1, 8), (2, 2, 16)], "alpha_r beta_r beta_n"),
        ([(1, 1, 8), (4, 2, 16)], "alpha_r beta_r"),
        ([(2, 1, 8), (8, 2, 8)], "alpha_c"),
    ],
)
def test_what_was_never_seen_is_pinned(gangs: list[tuple[int, int, int]], pinned: str) -> None:
    times = StepTimes(0.1, 0.01, 0.5, 0.03, 0.3, 0.02, 1.5)
    seen = observed(times, gangs)
    fit = fit_step_times(seen)
    assert set(fit.pinned) == set(pinned.split())
    values = dict(zip(StepTimes.__dataclass_fields__, map(float, astuple(fit.times)), strict=True))
    for name in set(fit.pinned) - {"alpha_c", "gamma"}:
        floor = 1.1 * values[f"{name[:-1]}r"] if name.endswith("n") else 1e-8
        several = any(nodes > 1 for _, nodes, _ in gangs)
        assert values[name] == pytest.approx(1e-8 if several else max(1e-8, floor))
    if "alpha_c" in fit.pinned:
        assert values["alpha_c"] == pytest.approx(float(np.mean(np.asarray(seen.gradient_s))) / 2)
    if not any(nodes > 1 for _, nodes, _ in gangs):
        assert values["alpha_n"] >= 1.1 * values["alpha_r"]
        assert values["beta_n"] >= 1.1 * values["beta_r"]


_ILL_POSED = """
import numpy as np
from dataclasses import astuple
from apportion.elastic import StepObservations, fit_step_times
rng = np.random.default_rng(0)
for number in range(16):
    count = int(rng.integers(1, 9 if number % 2 else 60))
    gpus = rng.choice([1, 4, 8], count)
    nodes = np.where(gpus > 1, rng.integers(1, 3, count), 1)
    local = rng.choice([32, 33], count)
    gradient = (300 + local) // 10 / 1000
    step = gradient + (gpus > 1) * rng.integers(1, 4, count) * nodes / 64
    fit = fit_step_times(StepObservations(gpus, nodes, local, gradient, step))
    print(*(float(each).hex() for each in astuple(fit.times)), fit.error.hex())
"""


@pytest.mark.thorough
@pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels of x86 processors")
def test_every_processor_fits_the_same_parameters() -> None:
    chosen: Any = np.show_config("dicts")
    found = " ".join(chosen["SIMD Extensions"].get("found", []))
    printed = [
        subprocess.run(
            [sys.executable, "-c", _ILL_POSED],
            env={**os.environ, "OMP_NUM_THREADS": "1", **kernels},
            check=True,
            capture_output=True,
        ).stdout
        for kernels in (
            {},  # those of this processor
            {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": found},
        )
    ]
    assert printed[0].count(b"\n") == 16
    assert printed[0] == printed[1]


def test_measured_steps_are_checked() -> None:
    with pytest.raises(InputError, match="one length"):
        StepObservations([1, 2], [1], [1], [1], [1])
    with pytest.raises(InputError, match="at least one long"):
        StepObservations([], [], [], [], [])
    with pytest.raises(InputError, match="step_s of measured step 1 is -1"):
        StepObservations([1, 1], [1, 1], [8, 8], [1, 1], [1, -1])
    with pytest.raises(InputError, match="1 GPUs on 2 nodes"):
        StepObservations([1], [2], [8], [1], [1])
