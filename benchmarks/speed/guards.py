"""Guards: what may lose some speed to simplicity, but not more than this.

Jobs that repeat and water filling beside Gavel's code, a million jobs, elastic jobs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import apportion as ap
from apportion.policies import MaxMinFairness
from benchmarks.reporting import progress
from benchmarks.speed.measure import Pair, Row, cpu_seconds, in_turn
from benchmarks.speed.peers import gavel_value
from benchmarks.speed.problems import TYPES, binding_cases, binds, draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.policies import Policy
    from benchmarks.speed.measure import Settings
    from benchmarks.speed.problems import Case

__all__ = ["guards"]

_MAX_MIN = "max_min_fairness"
_ELASTIC = ("sia", "pollux", "deepboot")
_SHARE = np.array([0.4, 0.35, 0.25])
_GPUS = np.array([1, 2, 3, 4, 6, 10, 16, 25, 40, 64])


def guards(settings: Settings) -> Iterator[Row]:
    """Measure every guard."""
    yield from _beside_gavel(settings)
    yield from _million(settings)
    yield from _elastic(settings)


def _beside_gavel(settings: Settings) -> Iterator[Row]:
    """16,384 jobs that repeat, and water filling of 256 with weights, beside Gavel's code."""
    many, few = (256, 64) if settings.quick else (16384, 256)
    filling = MaxMinFairness(lexicographic=True)
    if settings.of([_MAX_MIN]):
        cases = binding_cases(
            _MAX_MIN, settings.seeds, lambda seed: draw(many, 3, settings.data, seed=seed)
        )
        pairs = tuple(_gavel(_MAX_MIN, case, _MAX_MIN, settings) for case in cases)
        yield Row("guard", f"{_MAX_MIN}, {many} x 3", pairs, times_goal=60)
        cases = [
            draw(few, 3, settings.data, seed=seed).weighted() for seed in range(settings.seeds)
        ]
        name = f"{_MAX_MIN}_lexicographic"
        pairs = tuple(_gavel(filling, case, name, settings) for case in cases)
        what = f"{_MAX_MIN}, lexicographic, {few} x 3, weights"
        yield Row("guard", what, pairs, times_goal=15)


def _gavel(policy: Policy | str, case: Case, name: str, settings: Settings) -> Pair:
    progress(f"guard: {name}, {case.scale.size} jobs")
    speed, cluster, table = case.labelled
    call = partial(ap.solve, policy, speed, workers=cluster, jobs=table)
    allocation = call()
    if not binds(name, allocation, table, cluster):
        raise RuntimeError(f"{name} on {len(table)} jobs: a type of GPU has room.")
    ours_s = in_turn({"": call}, 3, warm=False)[""]
    found = settings.gavel.solve(name, case)
    if not found:
        return Pair(ours_s, peer="Gavel")
    value = gavel_value(name, case, found["X"])
    differ = np.nan if value is None else abs(value / allocation.objective - 1)
    return Pair(ours_s, found["seconds"], f"Gavel ({found['solver']})", differ)


def _million(settings: Settings) -> Iterator[Row]:
    """Arrays of a million jobs on eight types; such sizes have no labels."""
    jobs = 4096 if settings.quick else 10**6
    for policy in settings.of([_MAX_MIN, "makespan", "finish_time_fairness"]):
        progress(f"guard: {policy}, {jobs} jobs")
        pairs = []
        for seed in range(settings.seeds):
            case = draw(jobs, 8, settings.data, seed=seed)
            workers = case.gpus.astype(int).tolist()
            columns = {name: values.to_numpy() for name, values in case.table.items()}
            call = partial(ap.solve, policy, case.speed, workers=workers, jobs=columns)
            seconds, allocation = cpu_seconds(call)
            if not (allocation.prices > 0).all():
                raise RuntimeError(f"{policy} on {jobs} jobs: prices {allocation.prices}.")
            pairs.append(Pair(seconds))
        yield Row("guard", f"{policy}, {jobs} x 8, arrays", tuple(pairs), seconds_goal=1.0)


def _elastic(settings: Settings) -> Iterator[Row]:
    """Whole decisions for 240 jobs that are all different, on 2,048 GPUs of three types."""
    jobs, gpus = (24, 205) if settings.quick else (240, 2048)
    for policy in settings.of(_ELASTIC):
        progress(f"guard: {policy}, {gpus} GPUs")
        pairs = []
        for seed in range(settings.seeds):
            speed, workers, table = _options(seed, jobs, gpus)
            call = partial(ap.solve, policy, speed, workers=workers, jobs=table)
            seconds, allocation = cpu_seconds(call)
            if allocation.gap > 1e-6:
                raise RuntimeError(f"{policy} on {jobs} jobs: a gap of {allocation.gap:.0e}.")
            pairs.append(Pair(seconds))
        what = f"{policy}, {jobs} jobs on {gpus} GPUs"
        yield Row("guard", what, tuple(pairs), seconds_goal=0.4)


def _options(seed: int, jobs: int, gpus: int) -> tuple[pd.DataFrame, dict[str, int], pd.DataFrame]:
    """Draw jobs that gain less by each further GPU, four in five of which run already."""
    rng = np.random.default_rng(seed)
    kind, held = np.repeat(np.arange(3), _GPUS.size), np.tile(_GPUS, 3)
    speed = rng.lognormal(0.0, 0.5, (jobs, 1)) * np.array([1.0, 0.6, 0.35])[kind]
    speed = speed * rng.lognormal(0.0, 0.15, (jobs, 3))[:, kind]
    speed = speed * held / (1 + rng.uniform(0.005, 0.2, (jobs, 1)) * (held - 1))
    most = rng.choice([8, 16, 32, 64], jobs, p=[0.3, 0.3, 0.2, 0.2])
    speed[held > most[:, None]] = 0.0
    labels = [(TYPES[each], int(size)) for each, size in zip(kind, held, strict=True)]
    now: list[tuple[str, int] | None] = [None] * jobs
    for job in np.flatnonzero(rng.random(jobs) < 0.8):
        now[job] = labels[rng.choice(np.flatnonzero((speed[job] > 0) & (held <= 8)))]
    options = pd.MultiIndex.from_tuples(labels, names=["accelerator", "gpus"])
    table = pd.DataFrame(speed, index=[f"job-{job}" for job in range(jobs)], columns=options)
    columns = {
        "current_option": pd.Series(now, dtype=object),
        "weight": rng.choice([1.0, 2.0], jobs) if seed % 2 else np.ones(jobs),
        "steps_remaining": rng.lognormal(8.0, 1.0, jobs),
        "reallocation_factor": rng.uniform(0.7, 1.0, jobs),
    }
    facts = pd.DataFrame(columns).set_index(table.index)
    return table, dict(zip(TYPES, np.round(gpus * _SHARE).astype(int).tolist(), strict=True)), facts
