"""Rotations as a program reach the score that trying every rotation reaches."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.oracles.rotations import Link, Profile, enumerate_shifts, mean_score
from tests.policies.whole.posed import demands

import apportion as ap
from apportion.errors import InputError
from apportion.policies import Resource, solve, solve_instance
from apportion.policies.rotations import Rotations, rotation_problem


def assert_best(profiles: list[Profile], links: list[Link]) -> None:
    best, _ = enumerate_shifts(profiles, links)
    problem = rotation_problem(demands(profiles, links), [float(x.capacity) for x in links])
    found = solve_instance(*problem)
    shifts = [Fraction(int(row.argmax())) for row in found.X]
    assert (found.X.sum(axis=1) == 1).all()
    assert mean_score(profiles, links, shifts) == best
    assert 1 - found.objective == pytest.approx(float(best), abs=1e-9)
    assert all(s < p.period for s, p in zip(shifts, profiles, strict=True))


def test_weights_of_links_say_which_is_served() -> None:
    """Two slots; the second job is on both links, and whenever it sends so does another job.

    Both send in one slot of two, which is a score of 1/2 for the link of less weight.
    """
    on, none = np.array([1.0, 0.0]), np.zeros(2)
    jobs = [np.array([on, none]), np.array([on, on]), np.array([none, on]), np.zeros((2, 3))]
    for weight, shift in (([3.0, 1.0], 1), ([1.0, 3.0], 0)):
        policy, instance = rotation_problem(jobs, [1.0, 1.0], weight=weight)
        assert solve_instance(policy, instance).objective == pytest.approx(0.0, abs=1e-12)
        assert instance.pinned.tolist() == [True, False, False, True]
        pins = {"current_option": np.array([0.0, -1, 1, 0]), "pinned": np.array([1.0, 0, 1, 1])}
        found = solve_instance(policy, instance.with_columns({**instance.columns, **pins}))
        assert found.objective == pytest.approx(0.25 / 2)
        assert found.X[1].argmax() == shift


def test_a_profile_of_ones_own_period_is_repeated() -> None:
    profiles = [Profile(((2, 8), (2, 0))), Profile(((3, 8), (3, 0)))]
    assert_best(profiles, [Link(8, (0, 1))])


def test_what_poses_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="slots over the common periods"):
        rotation_problem([np.ones((1, n)) for n in (997, 991)], [1.0])
    _, instance = rotation_problem([np.ones((1, 3))], [1.0])
    with pytest.raises(InputError, match="slot of a link with a weight"):
        solve_instance(Rotations({"link 7 slot 0": 1.0}), instance)


def test_options_that_hold_gpus_and_load_no_link_are_refused_up_front() -> None:
    jobs = ap.generate_elastic_workload(jobs=3, hours=0.05, seed=3)
    for gpus in ("v100=2", "v100=8,k80=4"):
        with pytest.raises(InputError, match="give the links"):
            ap.simulate("rotations", jobs, gpus)


def test_with_labels() -> None:
    """Each rotation is a type with room for all jobs, each slot of the link a soft resource."""
    rotations, jobs = ["at 0", "at 1"], ["a", "b"]
    speed = pd.DataFrame(1.0, index=jobs, columns=rotations)
    sends = np.array([[1.0, 0.0], [0.0, 1.0]])  # by rotation and slot: each sends in one of two
    slots = [
        Resource(f"slot {t}", None, pd.DataFrame([sends[:, t]] * 2, jobs, rotations))
        for t in range(2)
    ]
    given: dict[str, Any] = {"workers": dict.fromkeys(rotations, 2), "resources": slots}
    now = {"current_option": {"a": "at 1", "b": None}, "pinned": {"a": True, "b": False}}
    found = solve("rotations", speed, jobs=now, **given)
    assert found.objective == 0
    assert found.choice.to_dict() == {"a": "at 1", "b": "at 0"}
    both = {"current_option": "at 1", "pinned": True}
    for weight in (1.0, 3.0):
        policy = Rotations({"slot 1": weight})
        assert solve(policy, speed, jobs=both, **given).objective == pytest.approx(weight)


def test_units_and_orders_change_nothing() -> None:
    rng = np.random.default_rng(5)
    demand = [rng.integers(0, 9, (2, n)).astype(float) for n in (4, 6, 4, 3)]
    best = solve_instance(*rotation_problem(demand, [9.0, 7.0])).objective
    assert best > 0
    for unit in (1e-9, 1e9):
        scaled = rotation_problem([each * unit for each in demand], [9.0 * unit, 7.0 * unit])
        assert solve_instance(*scaled).objective == pytest.approx(best, rel=1e-9)
    order = [2, 0, 3, 1]
    other = rotation_problem([demand[j][::-1] for j in order], [7.0, 9.0])
    assert solve_instance(*other).objective == pytest.approx(best, rel=1e-9)
    turned = [np.roll(each, j, axis=1) for j, each in enumerate(demand)]
    again = solve_instance(*rotation_problem(turned, [9.0, 7.0]))
    assert again.objective == pytest.approx(best, rel=1e-9)
