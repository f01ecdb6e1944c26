"""Separable values against the objectives as published, over every choice of options."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from tests.oracles import elastic_values as values
from tests.oracles.draw_whole import ELASTIC, ElasticJob, draw_elastic
from tests.oracles.elastic_values import ValueRow, power
from tests.oracles.whole_choices import Choices, Row, enumerate_best

CAPACITY = 7


def case(rows: list[ValueRow]) -> Choices:
    return Choices(rows, [[[c + 1] for c in range(len(row))] for row in rows], [CAPACITY])


def rows_within(jobs: list[ElasticJob]) -> list[Row]:
    every = product(*([None, *(c for c, g in enumerate(j.goodput) if g is not None)] for j in jobs))
    return [row for row in every if sum(c + 1 for c in row if c is not None) <= CAPACITY]


def factor(job: ElasticJob, young: str) -> Fraction:
    return values.reallocation_factor(job.age_s, job.restarts, 30, young=young)


@pytest.mark.parametrize("p", [-1.0, -0.5, 0.5, 1.0])
@pytest.mark.parametrize("kind", ELASTIC)
def test_sia(kind: str, p: float) -> None:
    """Least (p < 0) or greatest (p > 0) sum A G'^p + lambda (J - sum A) with lambda 1.1 or -1.1."""
    size = Fraction(11, 10) * (1 if p < 0 else -1)
    for seed in range(3):
        jobs = draw_elastic(seed, kind, jobs=4, options=3)
        r = [factor(j, "one below delay") for j in jobs]
        found = [values.sia(j.goodput, j.current, x, p=p) for j, x in zip(jobs, r, strict=True)]
        best = enumerate_best(case(found))
        assert best is not None

        def published(row: Row, jobs: list[ElasticJob] = jobs, r: list[Fraction] = r) -> Fraction:
            total = Fraction(0)
            for j, c, x in zip(jobs, row, r, strict=True):
                if c is None:
                    total += size
                    continue
                own = Fraction(j.goodput[c] or 0) / min(Fraction(g) for g in j.goodput if g)
                own *= 1 if c == j.current else x
                total += Fraction(10**9) if own == 0 and p < 0 else power(own, p)
            return total

        costs = [published(row) for row in rows_within(jobs)]
        assert published(best.rows[0]) == (min(costs) if p < 0 else max(costs))


@pytest.mark.parametrize("p", [-2.0, -1.0, 0.0, 1.0])
@pytest.mark.parametrize("kind", ELASTIC)
def test_pollux(kind: str, p: float) -> None:
    """The same choice has the greatest FITNESS (up to the rounding of its last power)."""
    for seed in range(3):
        jobs = draw_elastic(seed, kind, jobs=4, options=3)
        r = [factor(j, "formula") for j in jobs]
        rows = [values.pollux(j.goodput, j.current, x, p=p) for j, x in zip(jobs, r, strict=True)]
        best = enumerate_best(case(rows))
        assert best is not None

        def published(row: Row, jobs: list[ElasticJob] = jobs, r: list[Fraction] = r) -> float:
            damped = [values.damped(j.goodput, j.current, x) for j, x in zip(jobs, r, strict=True)]
            speeds = [0 if c is None else d[c] or 0 for d, c in zip(damped, row, strict=True)]
            return values.fitness(speeds, p, epsilon=Fraction(1, 1000))

        most = max(published(row) for row in rows_within(jobs))
        assert published(best.rows[0]) == pytest.approx(most, rel=1e-12)


def test_optimus_where_gains_diminish() -> None:
    """The greedy rule is optimal for t(k) = a + b / k, every job having a first GPU."""
    for seed in range(20):
        jobs = draw_elastic(seed, jobs=3)
        steps = [[Fraction(j.restarts + 1) + Fraction(60, k) for k in range(1, 5)] for j in jobs]
        left = [Fraction(j.age_s) + 1 for j in jobs]
        counts = values.optimus_greedy(steps, left, CAPACITY)
        rows = [values.optimus(t, n, 10**9) for t, n in zip(steps, left, strict=True)]
        best = enumerate_best(case(rows))
        assert best is not None
        assert case(rows).worth(tuple(k - 1 for k in counts)) == best.worth
