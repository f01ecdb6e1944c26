"""The best whole choice of options by jobs, found by trying all of them.

The problem, with x[j, c] in {0, 1}:

    maximise    sum_jc V[j, c] x[j, c] - sum_r price[r] max(0, held[r] - limit[r])
    subject to  sum_c x[j, c] <= 1 (or == 1),   held[r] = sum_jc U[j, c, r] x[j, c] <= capacity[r].

Everything is counted in whole numbers over one common denominator, so values that are equal are
equal and no tolerance is needed. A float counts as the fraction that it is, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Number = int | float | Fraction
Row = tuple[int | None, ...]


@dataclass(frozen=True)
class Choices:
    """Jobs x options: what each is worth, what it uses, what there is.

    Attributes
    ----------
    value : rows of V[j][c]; None bars the option.
    usage : U[j][c][r] >= 0.
    capacity : by resource; None is no hard limit.
    exactly_one : every job takes an option, else at most one.
    pinned : job -> option that it must have.
    soft : resource -> (limit, price): what is held above the limit costs the price per unit.
    """

    value: Sequence[Sequence[Number | None]]
    usage: Sequence[Sequence[Sequence[Number]]]
    capacity: Sequence[Number | None]
    exactly_one: bool = False
    pinned: Mapping[int, int] | None = None
    soft: Mapping[int, tuple[Number, Number]] | None = None

    def open_to(self, job: int) -> list[int | None]:
        """Options that the job may take, None for no option."""
        if self.pinned and job in self.pinned:
            return [self.pinned[job]]
        named = [c for c, worth in enumerate(self.value[job]) if worth is not None]
        return [*named] if self.exactly_one else [None, *named]

    def held(self, row: Row) -> list[Fraction]:
        """What a choice uses of each resource."""
        used = [Fraction(0)] * len(self.capacity)
        for job, option in enumerate(row):
            if option is not None:
                used = [u + Fraction(v) for u, v in zip(used, self.usage[job][option], strict=True)]
        return used

    def feasible(self, row: Row) -> bool:
        """Whether a choice (an option or None for each job) keeps every rule."""
        fits = all(
            c is None or u <= Fraction(c)
            for u, c in zip(self.held(row), self.capacity, strict=True)
        )
        return fits and all(option in self.open_to(job) for job, option in enumerate(row))

    def worth(self, row: Row) -> Fraction:
        """The objective of a choice, exactly."""
        total = Fraction(0)
        for job, option in enumerate(row):
            worth = None if option is None else self.value[job][option]
            total += Fraction(0 if worth is None else worth)
        held = self.held(row)
        for r, (limit, price) in (self.soft or {}).items():
            total -= Fraction(price) * max(Fraction(0), held[r] - Fraction(limit))
        return total


@dataclass(frozen=True)
class Best:
    """The optimum and the choices that reach it (the first only unless all are asked for)."""

    worth: Fraction
    rows: tuple[Row, ...]


def enumerate_best(case: Choices, *, all_rows: bool = False) -> Best | None:
    """Find the optimum by branching over jobs; None where no choice is feasible.

    A branch is left when its worth so far plus the best of each later job, without regard to
    capacities, cannot reach what is known. Jobs' options are tried in order, no option first.
    """
    value, unit = _scaled([[v or 0 for v in row] for row in case.value])
    jobs, options = len(case.value), [case.open_to(j) for j in range(len(case.value))]
    usage, capacity = _usage(case)
    soft = case.soft or {}
    top = [
        max((0 if c is None else value[j][c] for c in options[j]), default=0) for j in range(jobs)
    ]
    beyond = [sum(top[j:]) for j in range(jobs + 1)]
    known: list[tuple[Fraction, list[Row]]] = []

    def fine(held: list[int], scale: int) -> Fraction:
        over = (
            Fraction(price) * max(Fraction(0), Fraction(held[r], scale) - Fraction(limit))
            for r, (limit, price) in soft.items()
        )
        return sum(over, Fraction(0)) * unit

    def extend(row: Row, gained: int, held: list[int]) -> None:
        job, cost = len(row), fine(held, usage.scale) if soft else 0
        bound = gained + beyond[job] - cost
        if known and (bound < known[0][0] or (bound == known[0][0] and not all_rows)):
            return
        if job == jobs:
            kept = known[0][1] if known and known[0][0] == bound else []
            known[:] = [(Fraction(bound), [*kept, row])]
            return
        for option in options[job]:
            if option is None:
                extend((*row, None), gained, held)
                continue
            after = [h + u for h, u in zip(held, usage.of[job][option], strict=True)]
            if all(c is None or h <= c for h, c in zip(after, capacity, strict=True)):
                extend((*row, option), gained + value[job][option], after)

    extend((), 0, [0] * len(case.capacity))
    return Best(known[0][0] / unit, tuple(known[0][1])) if known else None


@dataclass(frozen=True)
class _Usage:
    of: list[list[list[int]]]
    scale: int


def _usage(case: Choices) -> tuple[_Usage, list[int | None]]:
    flat = [u for row in case.usage for option in row for u in option]
    limits = [Fraction(c) for c in case.capacity if c is not None]
    scale = lcm(*(Fraction(u).denominator for u in [*flat, *limits]))
    whole = [[[int(Fraction(u) * scale) for u in option] for option in row] for row in case.usage]
    return _Usage(whole, scale), [
        None if c is None else int(Fraction(c) * scale) for c in case.capacity
    ]


def _scaled(rows: Sequence[Sequence[Number]]) -> tuple[list[list[int]], int]:
    unit = lcm(*(Fraction(v).denominator for row in rows for v in row))
    return [[int(Fraction(v) * unit) for v in row] for row in rows], unit
