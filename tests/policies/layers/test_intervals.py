from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from apportion.policies import Instance
from apportion.policies.solving.demand_intervals import Bins, DemandIntervals, worth_merging

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

Floats = NDArray[np.float64]


def one_class(speeds: list[float], demand: list[float]) -> Bins:
    jobs = len(demand)
    speed, gpus = np.tile(speeds, (jobs, 1)), np.ones(jobs)
    instance = Instance.of_jobs(speed, gpus, np.full(len(speeds), 4.0))
    return DemandIntervals(instance).bins(np.array(demand))


def test_jobs_between_the_same_throughputs_are_one_row_with_their_mean() -> None:
    bins = one_class([8.0, 2.0, 4.0], [1.0, 1.5, 3.0, 3.5, 7.0, 5.0])
    np.testing.assert_array_equal(bins.bin_of, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(bins.instance.count, [2, 2, 2])
    np.testing.assert_allclose(bins.demand, [1.25, 3.25, 6.0])
    np.testing.assert_allclose(bins.part, [0.5, 0.75, 0.5, 0.75, 0.75, 0.25])


def test_a_demand_that_is_a_throughput_belongs_below_whatever_the_rounding() -> None:
    bins = one_class([2.0, 4.0], [2.0, 2.0 * (1 + 1e-12), 2.0 * (1 - 1e-12), 2.1])
    np.testing.assert_array_equal(bins.bin_of, [0, 0, 0, 1])


def test_scale_factors_are_kept_apart() -> None:
    instance = Instance.of_jobs(np.ones((3, 2)), np.array([1.0, 2.0, 1.0]), np.full(2, 4.0))
    bins = DemandIntervals(instance).bins(np.array([0.5, 0.5, 0.7]))
    np.testing.assert_array_equal(bins.bin_of, [0, 1, 0])


def test_recovery_by_hand() -> None:
    # One row of mean 3 between 2 and 4: the job that needs 2 is served by the slow type alone, the
    # one that needs 4 by the fast one alone.
    bins = one_class([2.0, 4.0], [2.0 + 1e-6, 3.0, 4.0 - 1e-6])
    X = bins.expand(np.array([[0.5, 0.5]]))
    np.testing.assert_allclose(X, np.array([[1, 0], [0.5, 0.5], [0, 1]]), atol=1e-6)


def test_what_a_row_makes_beyond_its_demand_is_shared_alike() -> None:
    bins = one_class([2.0, 4.0], [2.5, 3.0, 3.5])
    X = bins.expand(np.array([[0.0, 1.0]]))
    np.testing.assert_allclose(X, [[0, 1], [0, 1], [0, 1]])


def test_options_that_are_equally_fast_give_the_same_part_of_their_time() -> None:
    # Whatever their order: the mean of the row is of two to one on them, and so is every share.
    bins = one_class([4.0, 4.0, 2.0], [2.5, 3.5])
    X = bins.expand(np.array([[1 / 3, 1 / 6, 1 / 2]]))
    np.testing.assert_allclose(X, [[1 / 6, 1 / 12, 3 / 4], [1 / 2, 1 / 4, 1 / 4]])


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    options=st.integers(1, 5),
    jobs=st.integers(1, 12),
    spare=st.sampled_from([0.0, 0.0, 0.1, 1.0]),
)
def test_recovery_keeps_the_mean_and_meets_every_demand(
    seed: int, options: int, jobs: int, spare: float
) -> None:
    rng = np.random.default_rng(seed)
    speeds = rng.choice([0.0, 1.0, 2.0, 3.5, 7.0, 1e-6], options)
    speeds[0] = 10.0
    demand = 10.0 * rng.uniform(size=jobs) ** rng.choice([1, 8])
    bins = one_class(speeds.tolist(), demand.tolist())
    X = np.array([_some_mixture(rng, speeds, need, spare) for need in bins.demand])
    shares = bins.expand(X)
    assert shares.min() >= 0
    assert shares.sum(axis=1).max() <= 1 + 1e-12
    assert (shares @ speeds >= demand - 1e-12 * speeds.max()).all()
    mean = np.zeros_like(X)
    np.add.at(mean, bins.bin_of, shares)
    np.testing.assert_allclose(mean / bins.instance.count[:, None], X, atol=1e-12)


def _some_mixture(rng: np.random.Generator, speeds: Floats, need: float, spare: float) -> Floats:
    """Time under each option, at random, that makes at least the need."""
    x = rng.dirichlet(np.ones(speeds.size)) * rng.uniform()
    fast = int(speeds.argmax())
    made = float(speeds @ x)
    want = min(need * (1 + spare), speeds[fast])
    if made < want:  # mix with the fastest option alone
        part = (want - made) / (speeds[fast] - made)
        x = (1 - part) * x
        x[fast] += part
    elif spare == 0.0:
        x *= want / made
    return np.asarray(x, dtype=float)


def test_few_jobs_are_not_merged(bench: type[Bench]) -> None:
    few = bench.random(0, jobs=4, types=2)
    assert worth_merging(few.repeated(10).instance) is None
    assert worth_merging(few.repeated(100).instance) is not None
    assert worth_merging(bench.random(0, jobs=300, types=2).instance) is None


def test_merged_rows_hold_what_their_jobs_hold(bench: type[Bench]) -> None:
    problem = replace(bench.random(3, jobs=3, types=3).repeated(50))
    demand = problem.fastest * np.random.default_rng(0).uniform(0.01, 1, 150)
    bins = DemandIntervals(problem.instance).bins(demand)
    X = bins.instance.can_run * 0.2
    held = bins.instance.count * bins.instance.columns["scale_factor"] @ X
    shares = X[bins.bin_of]
    np.testing.assert_allclose(problem.gpus @ shares, held)
