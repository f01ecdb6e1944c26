"""Shapes of the throughput tensor beside one row a job and one option a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats, Ints


def combinations(speed: Floats, scale: Floats, rng: np.random.Generator) -> dict[str, Any]:
    """Every job alone, and some of the pairs."""
    jobs, types = speed.shape
    rows: list[tuple[int, ...]] = [(job,) for job in range(jobs)]
    pairs = [(a, b) for a in range(jobs) for b in range(a)]
    rows += [pair for k, pair in enumerate(pairs) if rng.random() < 0.7 or k == 0]
    members = [(row, job) for row, jobs_ in enumerate(rows) for job in jobs_]
    row, job = (np.array(column) for column in zip(*members, strict=True))
    alone = row < jobs
    share = np.where(alone[:, None], 1.0, rng.uniform(0.2, 1.0, (len(row), types)))
    speeds = speed[job] * share
    both = np.ones((len(rows), types))
    np.minimum.at(both, row, (speeds > 0).astype(float))
    speeds = speeds * both[row]
    return {
        "speed": speeds,
        "row": row,
        "job": job,
        "gpus": np.repeat(scale[[jobs_[0] for jobs_ in rows]][:, None], types, axis=1),
        "option_type": np.arange(types),
    }


def tiers(speed: Floats, scale: Floats, rng: np.random.Generator) -> dict[str, Any]:
    """Options (type, tier): machine, rack and network, ever slower."""
    jobs, types = speed.shape
    slower = np.cumprod(rng.uniform(0.3, 1.0, (jobs, types, 3)), axis=2)
    speeds = (speed[:, :, None] * slower).reshape(jobs, -1)
    own: Ints = np.arange(jobs)
    return {
        "speed": speeds,
        "row": own,
        "job": own,
        "gpus": np.repeat(scale[:, None], 3 * types, axis=1),
        "option_type": np.repeat(np.arange(types), 3),
    }


def pairs(speed: Floats, scale: Floats, rng: np.random.Generator) -> dict[str, Any]:
    """Every job alone, and every pair at the steps/s of their job types."""
    jobs, types = speed.shape
    kinds = speed[: int(rng.integers(1, min(jobs, 5) + 1))]
    kind: Ints = np.asarray(rng.integers(0, len(kinds), jobs))
    both = (kinds[:, None] > 0) & (kinds[None, :] > 0)
    both &= rng.random((len(kinds), len(kinds), 1)) < 0.8
    both &= both.transpose(1, 0, 2)
    beside = kinds[:, None] * both * rng.uniform(0.2, 1.0, (len(kinds), len(kinds), types))
    rows: list[tuple[int, ...]] = [(job,) for job in range(jobs)]
    rows += [(a, b) for b in range(jobs) for a in range(b)]
    members = [(place, one) for place, together in enumerate(rows) for one in together]
    speeds = []
    for place, one in members:
        others = [other for other in rows[place] if other != one]
        speeds.append(beside[kind[one], kind[others[0]]] if others else kinds[kind[one]])
    row, job = (np.array(column) for column in zip(*members, strict=True))
    return {
        "speed": np.array(speeds),
        "row": row,
        "job": job,
        "gpus": np.full((len(rows), types), scale[0]),
        "option_type": np.arange(types),
        "kind": kind,
        "beside": beside,
    }


def sizes(speed: Floats, capacity: Floats, rng: np.random.Generator) -> dict[str, Any]:
    """Options (type, number of GPUs): 1, 2 and 4, with diminishing returns."""
    jobs, types = speed.shape
    gains = np.cumprod(rng.uniform(1.0, 2.0, (jobs, types, 3)), axis=2)
    gpus = np.tile([1.0, 2.0, 4.0], types)
    own: Ints = np.arange(jobs)
    speeds = (speed[:, :, None] * gains).reshape(jobs, -1)
    lost = ~((speeds > 0) & (gpus <= np.repeat(capacity[:types], 3))).any(axis=1)
    speeds[lost, 3 * int(np.argmax(capacity[:types]))] = 1.0
    return {
        "speed": speeds,
        "row": own,
        "job": own,
        "gpus": np.repeat(gpus[None, :], jobs, axis=0),
        "option_type": np.repeat(np.arange(types), 3),
    }
