"""Room for everyone: the answer without a solver, against that of the solvers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from tests.seeds import each_seed

from apportion.names import POLICY_NAMES
from apportion.policies import Instance, solve_instance
from apportion.policies.registry import get_policy
from apportion.policies.sessions.at_best import all_at_their_best
from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.policies.sessions.warm_jobs import WarmJobs


def drawn(rng: np.random.Generator) -> Instance:
    """Draw gangs, some of them as fast on two types, and hardly more room than they need."""
    jobs, types = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    speed = rng.choice([rng.uniform(0.1, 10.0, (jobs, types)), rng.integers(0, 9, (jobs, types))])
    speed = speed * (rng.random(speed.shape) < rng.choice([1.0, 0.8]))
    speed[np.arange(jobs), rng.integers(0, types, jobs)] += 1.0
    gpus = rng.choice([1.0, 2.0, 4.0], jobs)
    needed = np.bincount(speed.argmax(axis=1), gpus, types)
    capacity = needed + rng.choice([0.0, 0.0, 1.0, 5.0, -1.0], types, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    columns = {
        "order": rng.permutation(jobs).astype(float),
        "steps_remaining": rng.uniform(1.0, 1e5, jobs),
        "steps_total": np.full(jobs, 1e5),
        "elapsed_s": rng.choice([0.0, 1.0, 1e5], jobs) * rng.random(jobs),
        "isolated_elapsed_s": rng.uniform(0.0, 1e4, jobs),
        "entity_used_s": rng.uniform(0.0, 1e4, jobs),
        "waited_s": rng.uniform(0.0, 1e4, jobs),
        "network_priority": rng.choice([1.0, 0.5, 0.0], jobs),
        "weight": rng.choice([1.0, 3.0], jobs),
        "deadline_s": rng.uniform(1e5, 1e6, jobs),
        "entity": rng.integers(0, 2, jobs).astype(float),
    }
    texts = {"entity": ("a", "b")}
    prices = np.linspace(1.0, 3.0, types)
    at = Instance.of_jobs(
        speed, gpus, np.maximum(capacity, 1.0), columns=columns, prices=prices, texts=texts
    )
    if rng.random() < 0.3:  # one more resource, of which jobs hold parts
        own = rng.choice([0.0, 0.25, 1 / 3], (jobs, types, 1))
        usage = np.concatenate([at.usage.toarray().reshape(jobs, types, types), own], axis=2)
        most = float(own[np.arange(jobs), speed.argmax(axis=1), 0].sum())
        at = replace(
            at,
            own_usage=sparse.csr_array(usage.reshape(jobs, -1)),
            capacity=np.append(at.capacity, max(most, 0.1)),
            prices=np.append(prices, 0.0),
            types=types,
        )
    return at


@pytest.mark.parametrize("seed", each_seed(8, 400))
def test_with_room_for_everyone_each_runs_where_it_is_fastest_and_nothing_has_a_price(
    seed: int,
) -> None:
    at = drawn(np.random.default_rng(seed))
    for name in POLICY_NAMES:
        policy = get_policy(name)
        if policy.space_sharing or policy.integral:
            continue
        found = all_at_their_best(policy, at)
        if found is None:
            continue
        solved = solve_instance(policy, at)
        np.testing.assert_allclose(found.X, solved.X, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(found.objective, solved.objective, rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(found.prices, solved.prices, atol=1e-9, err_msg=name)
        assert found.gap == 0


def test_it_is_the_answer_of_most_drawn_problems_and_of_none_without_room() -> None:
    policy, kinds = get_policy("finish_time_fairness"), set()
    for seed in range(60):
        at = drawn(np.random.default_rng(seed))
        best = at.throughput == at.throughput.max(axis=1, keepdims=True)
        held = np.einsum("jo,jor->r", best, at.usage.toarray().reshape(at.jobs, at.options, -1))
        room = bool((best.sum(axis=1) == 1).all() and (held <= at.capacity + 1e-12).all())
        found = all_at_their_best(policy, at)
        if found is not None or np.abs(held - at.capacity).min() > 1e-9:
            assert (found is not None) == room
        warm = WarmJobs(policy).with_room_for_all(at)
        if room and found is not None:
            assert warm is not None
            assert warm.stats["solver"] == "all at their best"
        kinds.add(room)
    assert kinds == {False, True}


def test_where_a_job_is_as_fast_on_two_types_the_choice_among_optima_is_left_to_the_solvers() -> (
    None
):
    at = Instance.of_jobs([[2.0, 2.0]], [1.0], [1.0, 1.0])
    assert all_at_their_best(get_policy("max_min_fairness"), at) is None


def test_more_throughput_must_not_be_worse() -> None:
    speed = [[3.0, 1.0], [1.0, 4.0]]
    at = Instance.of_jobs(speed, [1.0, 1.0], [1.0, 1.0], prices=[1.0, 2.0])
    assert all_at_their_best(get_policy("max_total_throughput"), at) is not None
    for name in ("min_cost", "min_cost_slos"):
        deadlines = at.with_columns(
            {
                **at.columns,
                "deadline_s": np.full(2, 1e9),
                "steps_remaining": np.ones(2),
                "elapsed_s": np.zeros(2),
            }
        )
        assert all_at_their_best(get_policy(name), deadlines) is None


@pytest.mark.parametrize("name", ["max_min_fairness", "max_total_throughput"])
@pytest.mark.parametrize("seed", each_seed(4, 200))
def test_classes_run_at_their_best_while_there_is_room_for_all_of_their_jobs(
    seed: int, name: str
) -> None:
    rng, policy = np.random.default_rng(seed), get_policy(name)
    classes = int(rng.integers(2, 8))
    speed = rng.uniform(1.0, 10.0, (classes, 3))
    speed[0, :2] = 11.0  # as fast on two types: while one is there a solver chooses
    weight, gpus = rng.choice([1.0, 3.0], classes), rng.choice([1.0, 2.0], classes)
    capacity = rng.integers(2, 10, 3).astype(float)
    columns = {"weight": weight, "count": np.ones(classes)}
    warm = WarmClasses.of(policy, Instance.of_jobs(speed, gpus, capacity, columns=columns))
    assert warm is not None
    for _ in range(8):
        count = rng.integers(0, 4, classes) * rng.integers(0, 2, classes)
        count[1] += 1
        of = np.repeat(np.arange(classes), count)
        jobs = Instance.of_jobs(speed[of], gpus[of], capacity, columns={"weight": weight[of]})
        found, alone = warm.solve(count.astype(float)), solve_instance(policy, jobs)
        held = np.bincount(speed[of].argmax(axis=1), gpus[of], 3)
        room = count[0] == 0 and bool((held <= capacity).all())
        assert (found.stats["solver"] == "all at their best") == room
        np.testing.assert_allclose(found.X[of], alone.X, atol=1e-7)
        np.testing.assert_allclose(found.objective, alone.objective, rtol=1e-9)
        np.testing.assert_allclose(found.prices, alone.prices, atol=1e-7)
