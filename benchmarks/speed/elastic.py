"""Goal S13: whole decisions on 2,048 GPUs of three types for 240 jobs that are all different."""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies import Instance, get_policy, solve_instance
from benchmarks.speed.harness import Row, cpu_seconds_once

if TYPE_CHECKING:
    from benchmarks.speed.settings import Settings

__all__ = ["elastic"]

_POLICIES = ("sia", "pollux", "deepboot")
_SHARE = np.array([0.4, 0.35, 0.25])
_GPUS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 16.0, 25.0, 40.0, 64.0])


def elastic(settings: Settings) -> list[Row]:
    """Decide for draws of six seeds; the goals are on the median and on the worst."""
    jobs, gpus, seeds = (24, 205, 2) if settings.quick else (240, 2048, 6)
    rows = []
    for name in _POLICIES:
        policy, seconds, gap = get_policy(name), [], 0.0
        for seed in range(seeds):
            instance = _drawn(seed, jobs, gpus)
            spent, solution = cpu_seconds_once(partial(solve_instance, policy, instance))
            seconds.append(spent)
            gap = max(gap, solution.gap)
        what = f"{name}, {gpus} GPUs, {jobs} jobs"
        rows += [
            Row(
                *("S13", f"{what}, {which}", f"<= {limit_s:g} s"),
                both_s=float(of(seconds)),
                seconds_goal=limit_s,
                gap=gap,
            )
            for which, of, limit_s in (("median", statistics.median, 0.3), ("worst", max, 0.6))
        ]
    return rows


def _drawn(seed: int, jobs: int, gpus: int) -> Instance:
    """Draw jobs that gain less by each further GPU, four in five of which run already."""
    rng = np.random.default_rng(seed)
    kind, held = np.repeat(np.arange(3), _GPUS.size), np.tile(_GPUS, 3)
    speed = rng.lognormal(0.0, 0.5, (jobs, 1)) * np.array([1.0, 0.6, 0.35])[kind]
    speed = speed * rng.lognormal(0.0, 0.15, (jobs, 3))[:, kind]
    speed = speed * held / (1 + rng.uniform(0.005, 0.2, (jobs, 1)) * (held - 1))
    most = rng.choice([8, 16, 32, 64], jobs, p=[0.3, 0.3, 0.2, 0.2])
    speed[held > most[:, None]] = 0.0
    now = np.full(jobs, -1.0)
    for job in np.flatnonzero(rng.random(jobs) < 0.8):
        now[job] = rng.choice(np.flatnonzero((speed[job] > 0) & (held <= 8)))
    columns = {
        "current_option": now,
        "weight": rng.choice([1.0, 2.0], jobs) if seed % 2 else np.ones(jobs),
        "steps_remaining": rng.lognormal(8.0, 1.0, jobs),
        "reallocation_factor": rng.uniform(0.7, 1.0, jobs),
    }
    capacity = np.round(gpus * _SHARE)
    return Instance.of_options(speed, held, capacity, option_accelerator=kind, columns=columns)
