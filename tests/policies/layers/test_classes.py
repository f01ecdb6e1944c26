from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.seeds import sampled

from apportion.policies import (
    BUILT_IN,
    FIFO,
    Makespan,
    MaxMinFairness,
    Policy,
    solve_instance,
)
from apportion.policies.core.classes import group_rows
from apportion.policies.core.own_problems import check_stated, counts_as_jobs

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

GROUPED = [
    policy
    for policy in BUILT_IN
    if "tells_identical_jobs_apart" not in policy.traits
    and not {"entity", "order", "deadline_s"} & set(policy.columns)
    and not policy.integral  # `tests/policies/whole` compares those
]


def test_equal_rows_are_found_in_order_of_appearance() -> None:
    rows = np.array([[3.0, 1.0], [2.0, 0.0], [3.0, 1.0], [2.0, -0.0], [1.0, 3.0]])
    first, class_of = group_rows(rows)
    np.testing.assert_array_equal(first, [0, 1, 4])
    np.testing.assert_array_equal(class_of, [0, 1, 0, 1, 2])


def test_rows_that_differ_in_the_last_bit_are_apart() -> None:
    rows = np.array([[1.0], [np.nextafter(1.0, 2.0)], [1.0]])
    np.testing.assert_array_equal(group_rows(rows)[1], [0, 1, 0])


def test_classes_equal_a_plain_search() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (500, 4)).astype(float)
    first, class_of = group_rows(rows)
    seen: list[tuple[float, ...]] = []
    for row in map(tuple, rows.tolist()):
        if row not in seen:
            seen.append(row)
    assert [tuple(row) for row in rows[first].tolist()] == seen
    assert class_of.tolist() == [seen.index(tuple(row)) for row in rows.tolist()]


@pytest.mark.parametrize("policy", sampled(GROUPED, 2), ids=lambda policy: policy.name)
def test_grouping_changes_nothing(policy: type[Policy], bench: type[Bench]) -> None:
    instance = bench.random(2, jobs=5, types=3).repeated(4).instance
    grouped = solve_instance(policy(), instance)
    single = solve_instance(policy(), instance, group=False)
    assert grouped.stats["classes"] == 5
    assert single.stats["classes"] == 20
    assert grouped.objective == pytest.approx(single.objective, rel=1e-7)
    np.testing.assert_allclose(grouped.X, single.X, atol=1e-5)
    np.testing.assert_allclose(grouped.prices, single.prices, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("policy", sampled(GROUPED, 3), ids=lambda policy: policy.name)
def test_what_comes_along_keeps_what_is_asked_of_policies_of_ones_own(
    policy: type[Policy], bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns are listed, and it counts each class as its jobs."""
    monkeypatch.setattr(policy, "_built_in", False)
    for seed in range(2):
        instance = bench.random(seed, jobs=3, types=2).instance
        check_stated(policy(), instance)
        assert counts_as_jobs(policy(), instance)


@pytest.mark.parametrize("policy", [MaxMinFairness, Makespan], ids=lambda policy: policy.name)
def test_two_thousand_jobs_of_few_types(policy: type[Policy], bench: type[Bench]) -> None:
    problem = bench.random(3, jobs=25, types=3).repeated(80)
    problem = bench(
        problem.speed, problem.gpus, problem.capacity * 40, problem.prices, problem.columns
    )
    grouped = solve_instance(policy(), problem.instance)
    single = solve_instance(policy(), problem.instance, group=False, second_stage=False)
    assert grouped.stats["jobs"] == 2000
    assert grouped.stats["classes"] == 25
    assert grouped.objective == pytest.approx(single.objective, rel=1e-6)
    assert grouped.gap <= 1e-6
    assert (problem.gpus @ grouped.X <= problem.capacity * (1 + 1e-9)).all()


def test_a_column_that_the_policy_reads_keeps_jobs_apart(bench: type[Bench]) -> None:
    problem = bench.random(4, jobs=1, types=2).repeated(6)
    problem = problem.with_columns(order=np.arange(6.0))
    assert solve_instance(FIFO(), problem.instance).stats["classes"] == 6
    assert solve_instance(MaxMinFairness(), problem.instance).stats["classes"] == 1
