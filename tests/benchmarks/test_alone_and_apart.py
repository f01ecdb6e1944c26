"""What the experiments of finish-time fairness and of interference work out, by enumeration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from benchmarks.elastic.finish_time import contention, on_gpus
from benchmarks.elastic.interference import WAYS, Interference, met


@pytest.mark.parametrize("seed", range(20))
def test_the_jobs_beside_one_are_those_of_a_fine_clock(seed: int) -> None:
    rng = np.random.default_rng(seed)
    begin = rng.integers(0, 50, 12)
    end = begin + rng.integers(1, 40, 12)
    ticks = np.arange(90)
    there = (begin[:, None] <= ticks) & (ticks < end[:, None])
    expected = [there[:, own].sum(axis=0).mean() for own in there]
    jobs = pd.DataFrame({"arrival_s": begin, "completion_s": end})
    np.testing.assert_allclose(contention(jobs), expected)


def test_between_whole_numbers_of_gpus_the_time_is_interpolated() -> None:
    seconds = {1: 80.0, 2: 50.0, 3: 40.0}
    for share, expected in ((0.25, 320.0), (1.0, 80.0), (1.5, 65.0), (2.0, 50.0), (2.9, 41.0)):
        assert on_gpus(share, 3, seconds.__getitem__) == pytest.approx(expected)
    assert on_gpus(7.5, 3, seconds.__getitem__) == 40.0  # no more than there are
    assert on_gpus(2.5, 2, seconds.__getitem__) == 50.0


@pytest.mark.parametrize("seed", range(50))
def test_who_meets_is_who_shares_a_machine_with_another_spread_gang(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gangs = [
        {(0, 0, int(one)) for one in rng.choice(8, rng.integers(1, 4), replace=False)}
        for _ in range(6)
    ]
    there = rng.random(6) < 0.8
    expected = [
        any(
            there[b] and a != b and len(gangs[a]) > 1 and len(gangs[b]) > 1 and gangs[a] & gangs[b]
            for b in range(6)
        )
        for a in range(6)
    ]
    assert (met(gangs, there) & there).tolist() == (np.array(expected) & there).tolist()


@pytest.mark.thorough
def test_gangs_that_are_kept_apart_lose_nothing() -> None:
    workload = ap.generate_elastic_workload(5, hours=0.1, seed=2)

    def jct_s(sizes: str, lost: float) -> pd.Series:
        how = ap.Configurations(restart_seconds=30.0, gang_sizes=sizes, network=Interference(lost))
        return ap.simulate("pollux", workload, ap.Cluster({"t4": 16}), mechanism=how).jobs["jct_s"]

    apart, anywhere = sorted(set(WAYS.values()), reverse=True)
    pd.testing.assert_series_equal(jct_s(apart, 0.5), jct_s(apart, 0.0))
    assert jct_s(anywhere, 0.5).mean() > jct_s(anywhere, 0.0).mean()
