"""Jobs served in an order, against the program that they need no longer."""

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies import FIFO, Instance, solve_instance
from apportion.policies.registry import get_policy
from apportion.policies.sessions.served import served_in_order
from apportion.policies.sessions.warm_jobs import WarmJobs
from apportion.policies.solving.demands import Gains, read_off

POLICIES = ("fifo", "shortest_job_first", "network_sensitive", "max_total_throughput")


def drawn(rng: np.random.Generator, jobs: int) -> Instance:
    """Draw gangs on one type, some alike, with much, little or just enough room."""
    speed = rng.choice([rng.uniform(0.1, 10.0, jobs), rng.integers(1, 4, jobs)], axis=0)
    gpus = rng.choice([1, 2, 4, 8], jobs)
    room = rng.choice(
        [int(gpus.sum()), int(gpus[: jobs // 2].sum()) or 1, int(rng.integers(1, 33))]
    )
    columns = {
        "order": rng.permutation(jobs).astype(float),
        "steps_remaining": rng.uniform(1.0, 1e5, jobs),
        "network_priority": rng.choice([1.0, 0.5, 0.0], jobs),
    }
    return Instance.of_jobs(speed[:, None], gpus, np.array([float(room)]), columns=columns)


@pytest.mark.parametrize("seed", each_seed(15, 1000))
def test_the_order_is_the_optimum_of_the_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    told = drawn(rng, int(rng.integers(1, 24)))
    for name in POLICIES:
        policy = get_policy(name)
        gains = read_off(policy, told).gains
        assert gains is not None
        found = served_in_order(told, gains)
        if found is None:
            assert name != "fifo"  # its jobs have a place each
            continue
        program = solve_instance(policy, told)
        np.testing.assert_allclose(found.X, program.X, atol=1e-9)
        assert found.objective == pytest.approx(program.objective, rel=1e-9)
        np.testing.assert_allclose(found.prices, program.prices, rtol=1e-6, atol=1e-9)
        assert found.gap <= 1e-12
        kept = WarmJobs(policy).certified(np.arange(told.jobs), told)
        assert kept is not None
        assert kept.stats["solver"] in ("order", "all at their best")
        assert kept.X.tolist() == found.X.tolist()


def test_what_is_to_be_small_is_served_in_order_too() -> None:
    told = Instance.of_jobs(np.array([[2.0], [5.0]]), np.array([1, 1]), np.array([1.0]))
    found = served_in_order(told, Gains(np.array([-1.0, -1.0]), 7.0, maximised=False))
    assert found is not None
    assert found.X.tolist() == [[0.0], [1.0]]
    assert (found.objective, found.prices.tolist(), found.gap) == (2.0, [2.0], 0.0)


@pytest.mark.parametrize(
    ("speed", "slope"),
    [
        ([[1.0], [1.0], [1.0]], [3.0, 2.0, 2.0]),  # two alike where GPUs end
        ([[1.0], [1.0], [1.0]], [3.0, 0.0, 1.0]),  # one that adds nothing
        ([[1.0], [0.0], [1.0]], [3.0, 2.0, 1.0]),  # one that cannot run
        ([[1.0, 1.0]] * 3, [3.0, 2.0, 1.0]),  # two types
    ],
)
def test_where_other_choices_count_there_is_no_order(
    speed: list[list[float]], slope: list[float]
) -> None:
    types = len(speed[0])
    told = Instance.of_jobs(np.array(speed), np.ones(3), np.full(types, 2.0))
    assert served_in_order(told, Gains(np.array(slope), 0.0, maximised=True)) is None
    columns = {"order": np.arange(3.0)}
    told = Instance.of_jobs(np.array(speed), np.ones(3), np.full(types, 2.0), columns=columns)
    ran = (np.array(speed) > 0).any(axis=1)
    if ran.all():
        kept = WarmJobs(FIFO()).certified(np.arange(3), told)
        assert kept is not None
        np.testing.assert_allclose(kept.X, solve_instance(FIFO(), told).X, atol=1e-9)
