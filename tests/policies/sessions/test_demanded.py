"""The worst off job without a program, against solves from nothing."""

import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.policies import Instance, Policy, solve_instance
from apportion.policies.problem import Problem
from apportion.policies.registry import get_policy
from apportion.policies.sessions.demanded import LastDemands, meet
from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.policies.sessions.warm_jobs import WarmJobs
from apportion.policies.slowest_job import SlowestJob
from apportion.policies.solution import Solution
from apportion.policies.solving.demands import levels_of
from apportion.policies.solving.worst_off.buyers import Buyers
from apportion.policies.solving.worst_off.declared_levels import Levels
from apportion.types import Floats, Ints

POLICIES = ("makespan", "finish_time_fairness", "max_min_fairness")


class Drawn:
    """Jobs of few models that come and go, on types that are now and then drained."""

    def __init__(self, rng: np.random.Generator) -> None:
        types, models = int(rng.integers(1, 5)), int(rng.integers(2, 7))
        jobs = int(rng.integers(6, 30))
        speeds = rng.lognormal(0.0, 1.0, (models, types))
        if rng.random() < 0.3:  # many that are as fast as others
            speeds = np.round(4 * speeds) / 4 + 0.25
        if rng.random() < 0.3:  # some that cannot run
            speeds[:, 1:] *= rng.random((models, types - 1)) < 0.7
        self.scale = rng.choice([1.0, 1.0, 2.0, 4.0], jobs)
        self.speed = speeds[rng.integers(models, size=jobs)]
        self.speed = self.speed * rng.choice([np.ones(jobs), self.scale**0.9])[:, None]
        spread = rng.choice([0.0, 0.3, 2.0])
        self.steps = rng.lognormal(0.0, spread, jobs) * self.speed.max(axis=1) * 100.0
        self.weight = rng.choice([np.ones(jobs), rng.integers(1, 4, jobs)])
        self.elapsed_s = rng.uniform(0.0, 50.0, jobs)
        room = rng.dirichlet(np.full(types, 3.0)) * self.scale.sum() / rng.choice([0.3, 1, 2, 4])
        self.capacity = np.maximum(1.0, np.round(room))
        self.there = rng.permutation(jobs)[: max(2, jobs // 2)].tolist()
        self.rng = rng

    def event(self) -> tuple[Ints, Instance]:
        """Let jobs come, go and change places; drain a type or change a speed now and then."""
        rng, there = self.rng, self.there
        if rng.random() < 0.6 and len(there) > 1:
            there.pop(int(rng.integers(len(there))))
        absent = np.setdiff1d(np.arange(len(self.speed)), there)
        if rng.random() < 0.7 and absent.size:
            there.append(int(rng.choice(absent)))
        if rng.random() < 0.1:
            rng.shuffle(there)
        if rng.random() < 0.1:
            self.speed[rng.integers(len(self.speed))] *= rng.uniform(0.5, 2.0)
        capacity = self.capacity.copy()
        if rng.random() < 0.1 and capacity.size > 1:
            capacity[rng.integers(1, capacity.size)] = rng.integers(2)
        jobs = np.array(there)
        columns = {
            "steps_remaining": self.steps[jobs] * rng.uniform(0.5, 1.0, jobs.size),
            "elapsed_s": self.elapsed_s[jobs],
            "isolated_elapsed_s": self.elapsed_s[jobs] * rng.uniform(1.0, 1.2, jobs.size),
            "weight": self.weight[jobs].astype(float),
        }
        return jobs, Instance.of_jobs(self.speed[jobs], self.scale[jobs], capacity, columns=columns)


def assert_same(found: Solution, policy: Policy, told: Instance) -> None:
    """Compare with a solve from nothing."""
    expected = solve_instance(policy, told)
    assert found.gap <= 1e-9
    np.testing.assert_allclose(found.X, expected.X, atol=1e-9)
    assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    least = 1e-9 * abs(expected.objective) / told.capacity.max()
    np.testing.assert_allclose(found.prices, expected.prices, rtol=1e-6, atol=least)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", each_seed(3, 300))
def test_what_is_bought_at_prices_is_what_a_solve_from_nothing_finds(name: str, seed: int) -> None:
    drawn, policy = Drawn(np.random.default_rng(seed)), get_policy(name)
    kept = WarmJobs(policy)
    for _ in range(12):
        jobs, told = drawn.event()
        found = kept.certified(jobs, told)
        if found is not None and found.stats["solver"] == "demands":
            assert_same(found, policy, told)


@pytest.mark.parametrize("name", POLICIES)
def test_most_events_of_many_jobs_need_no_program(name: str) -> None:
    rng = np.random.default_rng(3)
    speed, policy = rng.lognormal(0.0, 0.5, (80, 3)), get_policy(name)
    kept, there, programs = WarmJobs(policy), list(range(60)), 0
    steps: Floats = rng.uniform(1e3, 2e3, 80) * speed.max(axis=1)
    for number in range(20):
        there[number] = 60 + number
        here = np.array(there)
        columns: dict[str, Floats] = {"steps_remaining": steps[here], "weight": np.ones(60)}
        columns |= {"elapsed_s": np.arange(60.0), "isolated_elapsed_s": np.arange(60.0)}
        told = Instance.of_jobs(speed[here], np.ones(60), np.full(3, 8.0), columns=columns)
        found = kept.certified(here, told)
        assert found is not None
        programs += found.stats["solver"] != "demands"
        np.testing.assert_allclose(found.X, solve_instance(policy, told).X, atol=1e-9)
        assert (found.prices > 0).all()
    assert programs <= 5


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", each_seed(2, 200))
def test_jobs_of_few_models_are_indifferent_between_types(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    types, jobs = int(rng.integers(2, 5)), int(rng.integers(10, 60))
    models = rng.lognormal(0.0, 1.0, (rng.integers(1, 4), types))
    if rng.random() < 0.3:
        models = np.round(4 * models) / 4 + 0.25
    speed, scale = models[rng.integers(len(models), size=jobs)], rng.choice([1.0, 2.0, 4.0], jobs)
    columns: dict[str, Floats] = {
        "steps_remaining": rng.lognormal(0.0, rng.choice([0.3, 0.7]), jobs) * speed.max(axis=1),
        "elapsed_s": rng.uniform(0.0, 1.0, jobs),
        "isolated_elapsed_s": rng.uniform(1.0, 2.0, jobs),
        "weight": rng.integers(1, 4, jobs).astype(float),
    }
    room = rng.dirichlet(np.full(types, 3.0)) * scale.sum() / rng.choice([1, 2, 4, 6])
    capacity, policy = np.maximum(1.0, np.round(room)), get_policy(name)
    kept, there, prices = WarmJobs(policy), list(range(jobs * 2 // 3)), 0
    for _ in range(12):
        there.pop(int(rng.integers(len(there))))
        there.append(int(rng.choice(np.setdiff1d(np.arange(jobs), there))))
        here = np.array(there)
        own = {name: numbers[here] for name, numbers in columns.items()}
        told = Instance.of_jobs(speed[here], scale[here], capacity, columns=own)
        found = kept.certified(here, told, least_prices=False)
        if found is not None and found.stats["solver"] == "demands":
            prices += 1
            expected = solve_instance(policy, told)
            assert found.gap <= 1e-9
            np.testing.assert_allclose(found.X, expected.X, atol=1e-9)
            assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    assert prices > 0 or types > 3 or seed >= 4


@pytest.mark.parametrize("seed", each_seed(3, 200))
def test_classes_that_count_several_jobs_are_those_jobs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed, scale = rng.lognormal(0.0, 0.7, (6, 3)), rng.choice([1.0, 2.0], 6)
    capacity = rng.integers(1, 12, 3).astype(float)
    one = Instance.of_jobs(speed, scale, capacity, columns={"weight": rng.choice([1.0, 2.0], 6)})
    kept = WarmClasses.of(ap.MaxMinFairness(), one)
    assert kept is not None
    count = rng.integers(0, 4, 6).astype(float)
    for _ in range(6):
        count[rng.integers(6)] = rng.integers(0, 4)
        if not count.any():
            continue
        found, there = kept.solve(count), np.flatnonzero(count)
        each = np.repeat(there, count[there].astype(int))
        columns = {"weight": one.columns["weight"][each]}
        told = Instance.of_jobs(speed[each], scale[each], capacity, columns=columns)
        expected = solve_instance(ap.MaxMinFairness(), told)
        np.testing.assert_allclose(found.X[each], expected.X, atol=1e-8)
        assert found.objective == pytest.approx(expected.objective, rel=1e-9)


@pytest.mark.parametrize("seed", each_seed(10, 200))
def test_it_does_not_matter_at_which_level_and_ties_a_walk_begins(seed: int) -> None:
    drawn, met = Drawn(np.random.default_rng(seed)), LastDemands()
    for _ in range(4):
        told = drawn.event()[1]
        levels, buyers = levels_of(ap.FinishTimeFairness(), told), Buyers.of(told)
        if levels is None or buyers is None:
            continue
        found = meet(buyers, levels, met, least=False)
        for times in (1.0 + 1e-9, 1.5, 30.0):
            if found is None or not found.prices.any():
                continue
            begin = LastDemands(short=True, level=found.bound * times)
            begin.spent.prices = begin.bought.prices = met.bought.prices
            begin.bought.ties = drawn.rng.permutation(np.array(met.bought.ties, object)).tolist()
            again = meet(buyers, levels, begin, least=False)
            assert again is not None
            np.testing.assert_allclose(again.shares, found.shares, atol=1e-10)
            assert again.bound == pytest.approx(found.bound, rel=1e-12)


def bought(speed: Floats, capacity: Floats, steps: Floats) -> tuple[Floats, Floats, float]:
    """Shares, prices and the inverse of the makespan of single-GPU jobs."""
    columns = {"steps_remaining": steps}
    told = Instance.of_jobs(speed, np.ones(len(speed)), capacity, columns=columns)
    levels, buyers = levels_of(ap.Makespan(), told), Buyers.of(told)
    assert levels is not None
    assert buyers is not None
    met = meet(buyers, levels, LastDemands(), least=True)
    assert met is not None
    return met.shares, met.prices, met.bound


def test_by_hand_what_is_demanded_costs_all_there_is() -> None:
    # Of the first type the second job has x and the first the rest, and all of the second type:
    # 2 / T = 4 x = 2 (1 - x) + 1 / 4, and with W GPUs 1 / T = (2 W[0] + W[1]) / 3.
    speed, steps = np.array([[2.0, 1.0], [4.0, 1.0]]), np.array([2.0, 2.0])
    shares, prices, level = bought(speed, np.array([1.0, 0.25]), steps)
    np.testing.assert_allclose(shares, [[0.625, 0.25], [0.375, 0.0]], atol=1e-12)
    np.testing.assert_allclose(prices, [2 / 3, 1 / 3])
    assert level == pytest.approx(0.75)


def test_by_hand_jobs_of_one_model_mix_three_types() -> None:
    # One makes 7 / 6 and the other twice as much. Shares are as near a half as that allows: the
    # first has d * (4, 2, 1) less than a quarter of each type, 21 d = 7 / 4 - 7 / 6.
    speed, steps = np.tile([4.0, 2.0, 1.0], (2, 1)), np.array([1.0, 2.0])
    told = Instance.of_jobs(speed, np.ones(2), np.full(3, 0.5), columns={"steps_remaining": steps})
    found = WarmJobs(ap.Makespan()).certified(np.arange(2), told, least_prices=False)
    assert found is not None
    assert found.stats["solver"] == "demands"
    less = np.array([4.0, 2.0, 1.0]) / 36
    np.testing.assert_allclose(found.X, [0.25 - less, 0.25 + less], atol=1e-12)
    assert found.objective == pytest.approx(6 / 7)


def test_by_hand_one_job_decides_and_the_rest_is_spent() -> None:
    # The first needs all of its time where it is fastest; the others share what is left of it.
    speed = np.array([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    shares, prices, level = bought(speed, np.array([2.0, 2.0]), np.array([20.0, 2.0, 2.0]))
    np.testing.assert_allclose(shares, [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]], atol=1e-12)
    np.testing.assert_allclose(prices, 0.0)
    assert level == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("speed", "gpus", "capacity"),
    [
        ([[2.0, 1.0], [0.0, 0.0]], [1.0, 1.0], [1.0, 1.0]),  # one that cannot run
        ([[2.0, 1.0], [1.0, 3.0]], [1.0, 1.0], [1.0, 0.0]),  # a type without GPUs
        ([[2.0, 1.0] * 6, [1.0, 3.0] * 6], [1.0, 1.0], np.ones(12)),  # many options
    ],
)
def test_what_has_no_prices_is_left_to_a_program(
    speed: list[list[float]], gpus: list[float], capacity: list[float]
) -> None:
    assert Buyers.of(Instance.of_jobs(speed, gpus, capacity)) is None


class _OfNumbers(SlowestJob):
    name = "of_numbers"

    def __init__(self, offset: float, factor: float) -> None:
        self.numbers = offset, factor

    def slowness(self, p: Problem) -> tuple[float, Floats]:
        offset, factor = self.numbers
        return offset, np.full(p.instance.jobs, factor)


def test_numbers_that_a_policy_tells_are_those_of_its_expression() -> None:
    class Written(_OfNumbers):
        def objective(self, p: Problem):  # type: ignore[no-untyped-def]
            return super().objective(p)

    told = Instance.of_jobs([[2.0, 1.0], [1.0, 3.0]], [1.0, 1.0], [1.0, 1.0])
    for offset, factor in ((0.0, 2.0), (0.5, 2.0)):
        stated, read = (levels_of(kind(offset, factor), told) for kind in (_OfNumbers, Written))
        assert isinstance(stated, Levels)
        assert isinstance(read, Levels)
        np.testing.assert_allclose(stated.factor, read.factor)
        np.testing.assert_allclose(stated.offset, read.offset)
        assert stated.maximised == read.maximised
    assert levels_of(_OfNumbers(-1.0, 2.0), told) is None
