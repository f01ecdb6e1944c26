"""Choices that no last digit decides, and that do not depend on the order of types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import sampled

import apportion as ap
from apportion.mechanism.gang_table import GangTable
from apportion.mechanism.shares import NO_PAIRS, Shares
from apportion.ties import first_of, ranks

LEVELS = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-12, 1.0, 1 / 1024, np.inf]),
)
def test_the_first_is_that_of_the_whole_order(
    keys: int, count: int, seed: int, unit: float
) -> None:
    """Of values on few levels, whose last digits mean nothing, and infinite ones."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(-2, 3, (keys, count)).astype(float)
    exact = levels
    exact[levels != 0] *= unit
    noisy = exact * (1 + 1e-12 * rng.uniform(-1, 1, exact.shape))
    by_key = sorted(range(count), key=lambda place: (*exact[:, place], place))
    assert first_of(noisy) == by_key[0]
    assert first_of(noisy) == np.lexsort([ranks(key) for key in noisy[::-1]])[0]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_candidates_follow_their_types_into_another_order(data: st.DataObject) -> None:
    rows, types = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    few = (rows, types)
    speed = rng.integers(0, 3, few).astype(float)
    target = rng.choice([0, 0.25, 0.5], few)
    received, served = rng.choice([180.0, 540.0], few), rng.choice([0.0, 360.0], rows)
    ids, place = np.sort(rng.choice(100, rows, replace=False)), rng.permutation(types)
    turned, gpus = rng.permutation(types), np.ones(rows, dtype=np.intp)

    def choices(columns: np.ndarray) -> list[list[tuple[int, int]]]:
        table = GangTable(np.ones(types, dtype=np.intp), place[columns], 1, 360.0, carry_over=True)
        table.add(ids, ids, gpus, speed[:, columns])
        table.aim(ids, Shares(target[:, columns], NO_PAIRS, np.zeros((0, types))))
        table.received_s, table.served_s = received[:, columns], served
        lists = table.by_priority(), table.to_lend(np.ones(rows, dtype=bool))
        return [list(zip(r.tolist(), columns[t].tolist(), strict=True)) for r, t in lists]

    assert choices(turned) == choices(np.arange(types))


@pytest.mark.parametrize("policy", sampled(["max_min_fairness_agnostic", "fifo", "isolated"], 3))
def test_the_order_of_types_and_types_for_nobody_change_no_completion(policy: str) -> None:
    workload = ap.generate_workload(jobs=20, seed=1, jobs_per_hour=20, scale_factors="gavel")
    pairless = replace(workload, pairs=None)
    expected = ap.simulate(policy, workload, "v100=8,p100=12,k80=16").jobs["completion_s"]
    turned = ap.simulate(policy, workload, "k80=16,v100=8,p100=12").jobs["completion_s"]
    pd.testing.assert_series_equal(turned, expected, rtol=1e-9)
    if policy == "fifo":
        more = replace(pairless, throughputs=workload.throughputs.assign(a=0.0))
        with_more = ap.simulate(policy, more, "a=5,v100=8,p100=12,k80=16").jobs["completion_s"]
        pd.testing.assert_series_equal(with_more, expected, rtol=1e-9)
