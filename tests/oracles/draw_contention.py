"""Contended job sets, links with running transfers, drawn at random. Same seed, same case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from tests.oracles.contention import Cluster, Job
from tests.oracles.shared_links import Law

LAWS = (
    Law(0, 1, Fraction(1, 4)),
    Law(0, 1, 0),
    Law(Fraction(1, 8), 1, Fraction(1, 2)),
    Law(0, Fraction(1, 2), 1),
)
JOB_SETS = (
    *("plain", "equal jobs", "one job", "one GPU each", "zero size", "zero compute", "crowded"),
    *("lockstep", "tiny", "huge", "racks", "busy links"),
)


@dataclass(frozen=True)
class JobSet:
    """A cluster and the jobs that run on it."""

    cluster: Cluster
    jobs: list[Job]


def draw_jobs(seed: int, kind: str = "plain", jobs: int = 5, iterations: int = 4) -> JobSet:
    """Draw jobs with GPUs fixed (``at_fixed``) and memory, so that a placement may also choose.

    Times and bytes are whole plus k / 1009 with a k of its own, so that events coincide only
    where they must; in "lockstep" and "equal jobs" they are whole and coincide everywhere. In
    "busy links" all jobs have a GPU on each of two servers and send much or little.
    """
    rng = np.random.default_rng([seed, *kind.encode()])
    servers, width = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    if kind == "busy links":
        servers, width = servers + 2, 4
    racks = tuple(s % 2 for s in range(servers)) if kind == "racks" else None
    names = range(1 if kind == "one job" else jobs)
    found = [_job(rng, kind, name, servers, width, iterations) for name in names]
    if kind == "equal jobs":
        found = [replace(found[0], name=j.name) for j in found]
        where = [tuple(int(g) for g in rng.permutation(servers * width)) for _ in found]
        found = [replace(j, fixed=g[: j.n]) for j, g in zip(found, where, strict=True)]
    return JobSet(Cluster((width,) * servers, Fraction(1), racks), found)


def _job(
    rng: np.random.Generator, kind: str, name: int, servers: int, width: int, iterations: int
) -> Job:
    size = {"tiny": Fraction(1, 2**20), "huge": Fraction(2**20)}.get(kind, Fraction(1))
    whole = kind in ("lockstep", "equal jobs")

    def some(low: int, high: int) -> Fraction:
        parts = 0 if whole else int(rng.integers(1, 1009))
        return (int(rng.integers(low, high)) + Fraction(parts, 1009)) * size

    n = 1 if kind == "one GPU each" else int(rng.integers(1, min(servers * width, 5) + 1))
    gpus = tuple(int(g) for g in rng.permutation(servers * width)[:n])
    if kind == "busy links":
        gpus = tuple(
            int(s) * width + int(rng.integers(width)) for s in rng.permutation(servers)[:2]
        )
    idle, silent = kind == "zero compute", kind == "zero size"
    return Job(
        name,
        Fraction(0) if whole else some(0, 20),
        len(gpus),
        Fraction(0) if idle else some(1, 6),
        Fraction(0) if idle else some(1, 9),
        Fraction(0) if silent else some(1, 80 if kind == "busy links" else 12),
        int(rng.integers(1, iterations + 1)),
        Fraction(int(rng.integers(2, 9)), 8 if kind == "crowded" else 16),
        gpus,
    )
