"""Whole choices drawn at random: plain, degenerate, permuted. Same seed, same case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from tests.oracles.dally_round import Cluster, Waiting
from tests.oracles.rotations import Link, Profile

if TYPE_CHECKING:
    from tests.oracles.whole_choices import Choices

ELASTIC = ("plain", "newcomers", "worn", "falling", "equal jobs", "barred")
LINKS = ("plain", "equal jobs", "harmonic", "loop", "always on", "silent", "full", "one job")
ROUNDS = ("plain", "ties", "full", "empty", "oversize", "one job", "blocking", "two types")


def _rng(seed: int, kind: str) -> np.random.Generator:
    return np.random.default_rng([seed, *kind.encode()])


def permuted(case: Choices, seed: int) -> tuple[Choices, list[int], list[int]]:
    """Shuffle jobs and options: the case, and which old job and option stands where."""
    rng = _rng(seed, "permuted")
    jobs = rng.permutation(len(case.value)).tolist()
    options = rng.permutation(len(case.value[0])).tolist()
    shuffled = replace(
        case,
        value=[[case.value[j][c] for c in options] for j in jobs],
        usage=[[case.usage[j][c] for c in options] for j in jobs],
        pinned={jobs.index(j): options.index(c) for j, c in (case.pinned or {}).items()},
    )
    return shuffled, jobs, options


@dataclass(frozen=True)
class ElasticJob:
    """A job of an elastic round: goodput by option (None: barred), what it holds, its past."""

    goodput: tuple[float | None, ...]
    current: int | None
    age_s: float
    restarts: int


def draw_elastic(
    seed: int, kind: str = "plain", jobs: int = 5, options: int = 4
) -> list[ElasticJob]:
    """Draw goodputs that need not be concave, with current options, ages and restarts.

    "newcomers" hold nothing at age 0, "worn" jobs have so many restarts that r is 0, "falling"
    goodput falls beyond a point.
    """
    rng = _rng(seed, kind)
    found = []
    for _ in range(jobs):
        goodput = np.cumsum(rng.integers(1, 33, options)) / 8.0
        if kind == "falling":
            goodput = goodput * np.minimum(1.0, 2.0 ** (1 - np.arange(options)))
        holds = kind != "newcomers" and rng.random() < 0.6
        current = int(rng.integers(options)) if holds else None
        age = 0.0 if kind == "newcomers" else float(rng.integers(0, 1200))
        row = [float(g) for g in goodput]
        kept = [c == current or kind != "barred" or rng.random() < 0.6 for c in range(options)]
        kept[int(rng.integers(options))] = True
        found.append(
            ElasticJob(
                tuple(g if k else None for g, k in zip(row, kept, strict=True)),
                current,
                age,
                100 if kind == "worn" else int(rng.integers(0, 5)),
            )
        )
    return found[:1] * jobs if kind == "equal jobs" else found


def draw_links(seed: int, kind: str, jobs: int = 3) -> tuple[list[Profile], list[Link]]:
    """Draw on/off profiles with whole periods, and links; a loop is two jobs on two links."""
    rng = _rng(seed, kind)
    jobs = 1 if kind == "one job" else jobs
    found = []
    for _ in range(jobs):
        period = int(rng.choice([4, 6, 8, 12] if kind != "harmonic" else [3, 6, 12]))
        on = (
            period
            if kind == "always on"
            else 0
            if kind == "silent"
            else int(rng.integers(1, period))
        )
        rate = 8 if kind == "full" else int(rng.integers(2, 9))
        lead = int(rng.integers(0, period - on + 1))
        parts = [(lead, 0), (on, rate), (period - on - lead, 0)]
        found.append(Profile(tuple((d, r) for d, r in parts if d)))
    if kind == "equal jobs":
        found = found[:1] * jobs
    if kind == "loop":
        on_link = [tuple(range(jobs)), tuple(range(min(2, jobs)))]
    elif kind == "plain" and jobs > 2:
        on_link = [(0, 1), tuple(range(1, jobs))]
    else:
        on_link = [tuple(range(jobs))]
    return found, [Link(8, who) for who in on_link]


def draw_round(seed: int, kind: str, jobs: int = 6) -> tuple[Cluster, list[Waiting]]:
    """Draw free GPUs of machines in racks and waiting jobs with timers.

    Kinds as in ``ROUNDS``: "blocking" has mixed sizes on half-full machines, where best fit is
    most often in a later job's way.
    """
    rng = _rng(seed, kind)
    types, per_machine = (2 if kind == "two types" else 1), int(rng.choice([4, 8]))
    racks, machines = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    low, high = {"full": (0, 1), "empty": (per_machine, per_machine + 1)}.get(
        kind, (0, per_machine + 1)
    )
    free = tuple(
        tuple(tuple(int(x) for x in rng.integers(low, high, machines)) for _ in range(racks))
        for _ in range(types)
    )
    sizes = {"oversize": [per_machine + 1, per_machine * machines + 1], "blocking": [1, 2, 3, 5]}
    waiting = []
    for j in range(1 if kind == "one job" else jobs):
        timers = sorted(float(x) for x in rng.choice([0, 6, 12, 24], 2))
        waiting.append(
            Waiting(
                name=j,
                gpus=int(rng.choice(sizes.get(kind, [1, 2, 3, 4, 5, 6, 8, 12]))),
                waited=float(rng.choice([0, 6, 12, 24])),
                machine_timer=timers[0],
                rack_timer=timers[1],
                priority=float(rng.integers(0, 2 if kind == "ties" else 9)) / 8,
                released=float(rng.integers(0, 3)),
                speed=tuple(_falling(rng) for _ in range(types)),
            )
        )
    return Cluster(free, per_machine, per_machine * machines), waiting


def _falling(rng: np.random.Generator) -> tuple[float, ...]:
    return tuple(sorted((float(x) for x in rng.integers(1, 9, 3)), reverse=True))
