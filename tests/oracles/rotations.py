"""Compatibility of jobs that share links, by trying every rotation (CASSINI, sections 3.1 and F4).

A job's demand is piecewise constant and repeats with its period T_j; shifted by t_j it is
bw_j(t - t_j). On a link of capacity C, over the least common period p of its jobs:

    score = 1 - 1 / (p C) * integral_0^p max(0, sum_j bw_j(t - t_j) - C) dt.

1 is fully compatible, below 0 is possible. One shift per job holds on all its links.
Durations, rates and capacities are whole numbers or fractions; all results are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tests.oracles.whole_choices import Number

Shifts = tuple[Fraction, ...]


@dataclass(frozen=True)
class Profile:
    """Demand of one iteration: (duration, rate) in order."""

    parts: tuple[tuple[Number, Number], ...]

    @property
    def period(self) -> Fraction:
        """Time of an iteration."""
        return sum((Fraction(d) for d, _ in self.parts), Fraction(0))

    @property
    def edges(self) -> list[Fraction]:
        """Times at which a part begins."""
        ends = [
            sum((Fraction(d) for d, _ in self.parts[:i]), Fraction(0))
            for i in range(len(self.parts))
        ]
        return ends or [Fraction(0)]

    def rate(self, at: Fraction) -> Fraction:
        """Demand at a time."""
        at %= self.period
        return Fraction(
            next(r for (d, r), e in zip(self.parts, self.edges, strict=True) if e <= at < e + d)
        )


@dataclass(frozen=True)
class Link:
    """A link: its capacity and the jobs (by number) on it."""

    capacity: Number
    jobs: tuple[int, ...]


def common_period(periods: Sequence[Fraction]) -> Fraction:
    """Least common multiple of fractions."""
    unit = lcm(*(p.denominator for p in periods))
    return Fraction(lcm(*(int(p * unit) for p in periods)), unit)


def score(profiles: Sequence[Profile], shifts: Sequence[Number], capacity: Number) -> Fraction:
    """Compatibility of jobs on one link at given time shifts, integrated between breakpoints."""
    if not profiles:
        return Fraction(1)
    total = common_period([p.period for p in profiles])
    moved = [Fraction(s) for s in shifts]
    cuts = {Fraction(0), total}
    for profile, shift in zip(profiles, moved, strict=True):
        turns = range(int(total / profile.period))
        cuts |= {(e + shift + k * profile.period) % total for k in turns for e in profile.edges}
    times = sorted(cuts)
    excess = Fraction(0)
    for a, b in pairwise(times):
        demand = sum(p.rate(a - s) for p, s in zip(profiles, moved, strict=True))
        excess += (b - a) * max(Fraction(0), demand - Fraction(capacity))
    return 1 - excess / (total * Fraction(capacity))


def mean_score(
    profiles: Sequence[Profile], links: Sequence[Link], shifts: Sequence[Number]
) -> Fraction:
    """Mean over the given links (also those that carry one job) of their scores."""
    each = [
        score([profiles[j] for j in link.jobs], [shifts[j] for j in link.jobs], link.capacity)
        for link in links
    ]
    return sum(each, Fraction(0)) / len(each) if each else Fraction(1)


def fixed_jobs(jobs: int, links: Sequence[Link]) -> list[int]:
    """The least job of every connected component: its shift can be 0 without loss."""
    root = list(range(jobs))
    for link in links:
        for j in link.jobs:
            old, new = root[j], root[link.jobs[0]]
            root = [min(old, new) if r in (old, new) else r for r in root]
    return sorted(set(root))


def enumerate_shifts(
    profiles: Sequence[Profile], links: Sequence[Link], slot: Number = 1
) -> tuple[Fraction, Shifts]:
    """Best mean score over shifts that are whole slots below each job's own period.

    Edges, periods and so all excess must lie on slots: then the integral is a sum over slots.
    Branches over jobs; since rates are not negative, the excess so far only grows.
    """
    size = Fraction(slot)
    slots = [int(p.period / size) for p in profiles]
    edges = [e for p in profiles for e in [*p.edges, p.period]]
    if any((e / size).denominator > 1 for e in edges):
        raise ValueError("an edge lies between two slots")
    spans = [lcm(1, *(slots[j] for j in link.jobs)) for link in links]
    unit = lcm(
        1,
        *(Fraction(r).denominator for p in profiles for _, r in p.parts),
        *(Fraction(link.capacity).denominator for link in links),
    )
    rates = [
        [int(p.rate(k * size) * unit) for k in range(n)]
        for p, n in zip(profiles, slots, strict=True)
    ]
    weight = [
        Fraction(1) / (n * Fraction(x.capacity) * unit) for n, x in zip(spans, links, strict=True)
    ]
    fixed = set(fixed_jobs(len(profiles), links))
    best: list[tuple[Fraction, tuple[int, ...]]] = []

    def lost(held: Sequence[NDArray[np.int64]]) -> Fraction:
        over = (
            int(np.maximum(h - int(Fraction(x.capacity) * unit), 0).sum())
            for h, x in zip(held, links, strict=True)
        )
        return sum((w * o for w, o in zip(weight, over, strict=True)), Fraction(0))

    def extend(turns: tuple[int, ...], held: list[NDArray[np.int64]]) -> None:
        loss, job = lost(held), len(turns)
        if best and loss >= best[0][0]:
            return
        if job == len(profiles):
            best[:] = [(loss, turns)]
            return
        for k in range(1 if job in fixed else slots[job]):
            row = np.roll(np.array(rates[job], dtype=np.int64), k)
            after = [
                h + np.tile(row, n // slots[job]) if job in x.jobs else h
                for h, n, x in zip(held, spans, links, strict=True)
            ]
            extend((*turns, k), after)

    extend((), [np.zeros(n, dtype=np.int64) for n in spans])
    loss, turns = best[0]
    return 1 - loss / max(len(links), 1), tuple(k * size for k in turns)
