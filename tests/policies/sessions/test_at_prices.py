"""Jobs served at prices of several types, against the program that they need no longer."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from tests.seeds import each_seed

from apportion.policies import Instance, solve_instance
from apportion.policies.problem import Problem
from apportion.policies.registry import get_policy
from apportion.policies.sessions.at_best import all_at_their_best, favours_speed
from apportion.policies.sessions.served import LastWalk, served, served_at_prices
from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.policies.sessions.warm_jobs import WarmJobs
from apportion.policies.solving.demands import Gains, SpeedProblem, read_off
from apportion.policies.solving.ratio import affine_in
from apportion.policies.solving.solvers.price_walk import Tie
from apportion.policies.total_throughput import WeightedThroughput
from apportion.types import Floats

POLICIES = ("fifo", "shortest_job_first", "network_sensitive", "max_total_throughput")


def drawn(rng: np.random.Generator, jobs: int, types: int) -> Instance:
    """Draw gangs that are as fast, or nearly, or not at all able on some types; little room."""
    speed = rng.choice([rng.uniform(0.1, 10.0, (jobs, types)), rng.integers(1, 4, (jobs, types))])
    speed = speed * (rng.random(speed.shape) < rng.choice([1.0, 0.8]))
    speed[np.arange(jobs), rng.integers(0, types, jobs)] += 1.0
    gpus = rng.choice([1, 2, 4, 8], jobs)
    room = rng.integers(1, max(2, int(gpus.sum() * rng.choice([0.2, 0.6, 1.5]) / types)), types)
    columns = {
        "order": rng.permutation(jobs).astype(float),
        "steps_remaining": rng.uniform(1.0, 1e5, jobs),
        "network_priority": rng.choice([1.0, 0.5, 0.0], jobs),
    }
    return Instance.of_jobs(speed, gpus, room.astype(float), columns=columns)


def best(adds: Floats, told: Instance) -> float:
    """The most that shares of time can add, by scipy."""
    jobs, types = adds.shape
    time = np.repeat(np.eye(jobs), types, axis=1)
    held = np.tile(np.eye(types), jobs) * told.gpus.ravel()
    limits = np.append(np.ones(jobs), told.capacity)
    upper = [(0, None if speed > 0 else 0) for speed in told.throughput.ravel()]
    rows = np.vstack([time, held])
    found = linprog(-adds.ravel(), A_ub=rows, b_ub=limits, bounds=upper)
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize("seed", each_seed(10, 400))
def test_with_room_for_all_no_walk_is_needed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tight = drawn(rng, int(rng.integers(1, 30)), int(rng.integers(2, 6)))
    capacity = tight.capacity + rng.integers(0, 2) * tight.columns["scale_factor"].sum()
    told = replace(tight, capacity=capacity)
    for name in POLICIES:
        gains = read_off(get_policy(name), told).gains
        assert gains is not None
        found, walked = all_at_their_best(get_policy(name), told), served_at_prices(told, gains)
        if found is not None and walked is not None:
            np.testing.assert_array_equal(found.X, walked.X)
            assert found.objective == walked.objective
            np.testing.assert_allclose(found.prices, walked.prices, rtol=1e-12)
        if found is not None:
            np.testing.assert_array_equal(found.X.sum(axis=1), 1.0)
            most = best(gains.slope[:, None] * told.throughput, told) + gains.constant
            assert found.objective == pytest.approx(most, rel=1e-9)
        elif (capacity >= told.columns["scale_factor"].sum()).all():
            fast = np.sort(told.throughput, axis=1)
            assert (fast[:, -1] == fast[:, -2]).any()


@pytest.mark.parametrize("slope", [np.nan, np.inf, -1.0])
def test_gains_that_are_no_gains_do_not_favour_speed(slope: float) -> None:
    told = Instance.of_jobs([[2.0, 1.0], [1.0, 3.0]], [1, 1], [4.0, 4.0])
    read = read_off(get_policy("max_total_throughput"), told)
    assert favours_speed(read)
    gains = Gains(np.array([slope, 2.0]), 0.0, maximised=True)
    assert not favours_speed(read._replace(gains=gains))
    assert favours_speed(read._replace(gains=Gains(-np.ones(2), 0.0, maximised=False)))
    assert not favours_speed(read._replace(gains=None))
    found = served(told, gains)
    if slope == -1.0:  # at prices, the job that makes it worse has no time
        assert found is not None
        np.testing.assert_array_equal(found.X, [[0.0, 0.0], [0.0, 1.0]])
    else:
        assert found is None


@pytest.mark.parametrize("seed", each_seed(10, 1000))
def test_what_prices_give_is_the_only_optimum_of_the_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    told = drawn(rng, int(rng.integers(1, 30)), int(rng.integers(2, 6)))
    for name in POLICIES:
        policy = get_policy(name)
        gains = read_off(policy, told).gains
        assert gains is not None
        from_nothing = served_at_prices(told, gains)
        near = rng.uniform(0.0, 3.0, told.capacity.size)
        elsewhere = served_at_prices(told, gains, None, LastWalk(near), least=False)
        for found in (from_nothing, elsewhere):
            if found is None:
                continue
            program = solve_instance(policy, told)
            np.testing.assert_allclose(found.X, program.X, atol=1e-9)
            assert found.objective == pytest.approx(program.objective, rel=1e-9)
            assert found.gap <= 1e-10
            most = best(gains.slope[:, None] * told.throughput, told)
            assert found.objective == pytest.approx(most + gains.constant, rel=1e-9)
        if from_nothing is not None:
            np.testing.assert_allclose(from_nothing.prices, program.prices, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["fifo", "shortest_job_first"])
def test_most_events_of_orders_need_no_program(name: str) -> None:
    rng = np.random.default_rng(1)
    told, policy, speed = drawn(rng, 60, 3), get_policy(name), rng.uniform(0.1, 10.0, (60, 3))
    kept, asked, there = WarmJobs(policy), 0, list(range(40))
    for number in range(20):
        there[number] = 40 + number
        here = np.array(there)
        columns = {key: values[here] for key, values in told.columns.items()}
        jobs = speed[here], told.gpus[here, 0], told.capacity
        instance = Instance.of_jobs(*jobs, columns=columns)
        found = kept.certified(here, instance, least_prices=False)
        assert found is not None
        np.testing.assert_allclose(found.X, solve_instance(policy, instance).X, atol=1e-9)
        asked += found.stats["solver"] != "prices"
    assert asked <= 5


@pytest.mark.parametrize("types", [1, 3])
def test_a_thousand_jobs_in_order_need_no_program(types: int) -> None:
    rng = np.random.default_rng(2)
    speed, gpus = rng.uniform(1.0, 10.0, (1000, types)), rng.choice([1, 2, 4, 8], 1000)
    columns = {"order": rng.permutation(1000).astype(float)}
    told = Instance.of_jobs(speed, gpus, np.full(types, 150.0), columns=columns)
    kept, numbers = WarmJobs(get_policy("fifo")), np.arange(1000)
    for _ in range(3):  # a walk from nothing is too long for one solve
        kept.certified(numbers, told, least_prices=False)
    found = kept.certified(numbers, told, least_prices=False)
    assert found is not None
    assert found.stats["solver"] == ("order" if types == 1 else "prices")
    np.testing.assert_allclose(found.X, solve_instance(get_policy("fifo"), told).X, atol=1e-9)


def test_a_thousand_jobs_that_need_a_program_are_solved_anew() -> None:
    rng = np.random.default_rng(3)
    speed = rng.uniform(1.0, 10.0, (1000, 2))
    columns = {"steps_remaining": rng.uniform(1.0, 1e5, 1000)}
    jobs = speed, rng.choice([1, 2, 4], 1000), np.full(2, 150.0)
    told = Instance.of_jobs(*jobs, columns=columns)
    for name in ("max_min_fairness", "makespan"):
        assert WarmJobs(get_policy(name)).certified(np.arange(1000), told) is None


def test_by_hand_a_job_is_split_where_a_type_is_full() -> None:
    told = Instance.of_jobs(np.array([[4.0, 1.0], [3.0, 1.5]]), [1, 2], [2.0, 8.0])
    found = served(told, Gains(np.array([1.0, 1.0]), 0.5, maximised=True))
    assert found is not None  # the first fills one GPU of type 0, the other half a time of it
    np.testing.assert_allclose(found.X, [[1.0, 0.0], [0.5, 0.5]], atol=1e-12)
    np.testing.assert_allclose(found.prices, [0.75, 0.0], atol=1e-12)
    assert found.objective == pytest.approx(6.75)


def test_by_hand_jobs_that_are_alike_share_evenly() -> None:
    told = Instance.of_jobs(np.array([[2.0, 1.0], [2.0, 1.0], [1.0, 0.9]]), np.ones(3), [1.5, 2.0])
    found = served(told, Gains(np.ones(3), 0.0, maximised=True))
    assert found is not None  # both have three quarters of a time where it is worth more to them
    np.testing.assert_allclose(found.X, [[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]], atol=1e-12)
    np.testing.assert_allclose(found.prices, [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(solve_instance(get_policy("max_total_throughput"), told).X, found.X)


@pytest.mark.parametrize(
    ("speed", "slope", "gpus"),
    [
        ([[2.0, 1.0], [4.0, 2.0]], [2.0, 1.0], [1.0, 0.5]),  # two that only add alike
        ([[2.0, 2.0], [1.0, 0.5]], [1.0, 1.0], [9.0, 9.0]),  # two options alike
        ([[2.0, 1.0], [1.0, 0.5]], [0.0, 1.0], [1.0, 1.0]),  # one that adds nothing
        ([[2.0, 1.0], [1.0, 0.5]], [1.0, 1.0], [1.0, 0.0]),  # a type without GPUs
        ([[2.0, 1.0], [1e-8, 5e-9]], [1.0, 1.0], [1.0, 1.0]),  # one that hardly adds anything
    ],
)
def test_where_other_choices_count_there_are_no_prices(
    speed: list[list[float]], slope: list[float], gpus: list[float]
) -> None:
    told = Instance.of_jobs(np.array(speed), np.ones(2), np.array(gpus))
    gains = Gains(np.array(slope), 0.0, maximised=True)
    assert served_at_prices(told, gains, least=False) is None


@pytest.mark.parametrize("seed", each_seed(10, 300))
def test_wrong_ties_lead_to_the_same_shares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    told = drawn(rng, int(rng.integers(1, 20)), int(rng.integers(2, 5)))
    jobs, options = told.throughput.shape
    gains = read_off(get_policy("network_sensitive"), told).gains
    assert gains is not None
    known = served_at_prices(told, gains, least=False)
    if known is None:
        return
    for _ in range(5):
        ends = rng.permuted(np.tile(np.arange(options + 1), (jobs, 1)), axis=1)[:, :2]
        who = rng.permutation(jobs)[: int(rng.integers(1, options + 1))]
        ties = [Tie(int(job), *map(int, ends[job])) for job in who]
        last = LastWalk(known.prices * rng.choice([1.0, rng.uniform(0.0, 2.0)]), ties)
        found = served_at_prices(told, gains, np.arange(jobs), last, least=False)
        assert found is not None
        np.testing.assert_allclose(found.X, known.X, atol=1e-11)
        assert last.prices is not None
        np.testing.assert_allclose(last.prices, found.prices)


@pytest.mark.parametrize("name", [*POLICIES, "least_mean_completion"])
def test_the_gain_of_a_policy_is_what_its_objective_says(name: str) -> None:
    told = drawn(np.random.default_rng(3), 12, 3)
    told = told.with_columns({**told.columns, "count": np.arange(1.0, 13.0)})
    policy = get_policy(name)
    gains = read_off(policy, told).gains
    assert gains is not None
    p = SpeedProblem(told)
    slopes = affine_in(policy.objective(p).args[0], p.throughput)
    assert slopes is not None
    np.testing.assert_allclose(gains.slope, slopes[0][0], rtol=1e-14)
    assert gains.maximised
    assert gains.constant == slopes[1] == 0.0


class _Told(WeightedThroughput):
    """A gain that is given."""

    name = "told"

    def __init__(self, gain: Floats) -> None:
        self._gain = gain

    def gain(self, p: Problem) -> Floats:
        return self._gain


class _More(_Told):
    """There is more to the objective."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(super().objective(p).args[0] + 0.5)


def test_an_objective_of_ones_own_counts_and_not_the_gain_alone() -> None:
    told = Instance.of_jobs(np.array([[4.0, 1.0], [3.0, 1.5]]), [1, 2], [2.0, 8.0])
    for policy, constant in ((_Told, 0.0), (_More, 0.5)):
        gains = read_off(policy(np.ones(2)), told).gains
        assert gains is not None
        assert gains.constant == constant
        with pytest.raises(ValueError, match="shape mismatch"):
            read_off(policy(np.ones(3)), told)


@pytest.mark.parametrize("seed", each_seed(4, 500))
def test_classes_are_served_as_their_jobs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    types, policy = int(rng.integers(1, 5)), get_policy("max_total_throughput")
    one = drawn(rng, int(rng.integers(2, 9)), types)
    warm = WarmClasses.of(policy, one)
    assert warm is not None
    for _ in range(4):
        count = rng.integers(0, 5, one.jobs).astype(float)
        found = warm.solve(count)
        each = np.repeat(np.arange(one.jobs), count.astype(int))
        if found.stats and found.stats["solver"] in ("prices", "order"):
            told = Instance.of_jobs(one.throughput[each], one.gpus[each, 0], one.capacity)
            expected = solve_instance(policy, told)
            np.testing.assert_allclose(found.X[each], expected.X, atol=1e-9)
            assert found.objective == pytest.approx(expected.objective, rel=1e-9)
            np.testing.assert_allclose(found.prices, expected.prices, rtol=1e-6, atol=1e-8)


def test_rounds_under_total_throughput_need_no_program() -> None:
    rng = np.random.default_rng(0)
    one = Instance.of_jobs(
        rng.uniform(1.0, 9.0, (12, 3)), rng.choice([1, 2, 4], 12), np.full(3, 8.0)
    )
    warm = WarmClasses.of(get_policy("max_total_throughput"), one)
    assert warm is not None
    counts = rng.integers(0, 3, (20, 12)).astype(float)
    solvers = [warm.solve(count, least_prices=False).stats["solver"] for count in counts]
    assert solvers.count("prices") >= 18
