"""Shifts for all links at once, against all rotations and against Algorithm 1."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.time_shifts import AffinityGraph, rank_placements
from apportion.sim.phases import joint_shifts, mean_score

Profile = ap.CommunicationProfile


def on_off(name: str, on: float, period: float = 1.0, gbps: float = 50.0) -> Profile:
    return Profile(name, period, [(0.0, on, gbps)])


@pytest.mark.thorough
def test_a_loop_against_all_rotations() -> None:
    """Three jobs in a ring of three links, on slots that hold all edges."""
    rng = np.random.default_rng(3)
    ring = {"ab": ["a", "b"], "bc": ["b", "c"], "ca": ["c", "a"]}
    capacities = dict.fromkeys(ring, 50.0)
    for trial in range(6):
        periods = [1.0, 1.0, 1.0] if trial % 2 else [0.5, 1.0, 1.0]
        sends = rng.integers(1, [round(8 * p) for p in periods]) / 8
        pairs = zip("abc", sends, periods, strict=True)
        profiles = {name: on_off(name, on, period) for name, on, period in pairs}
        graph = AffinityGraph(ring)
        found = joint_shifts(ring, profiles, capacities, slots=int(8 * min(periods)))
        turns = [np.arange(round(8 * p)) / 8 for p in periods[1:]]
        best = max(
            mean_score(graph, profiles, capacities, {"a": 0.0, "b": b, "c": c})
            for b, c in product(*turns)
        )
        assert found.proved
        assert found.score == pytest.approx(best)
        assert mean_score(graph, profiles, capacities, found.shifts_s) == pytest.approx(best)
        assert found.unshifted_score <= found.score


def test_two_links_with_the_same_jobs_are_a_loop_that_is_none() -> None:
    links = {"up": ["a", "b"], "down": ["b", "a"], "alone": ["a"]}
    profiles = {name: on_off(name, 0.5) for name in "ab"}
    assert AffinityGraph(links).loops == 1
    found = joint_shifts(links, profiles, dict.fromkeys(links, 50.0), slots=4)
    assert (found.score, found.unshifted_score, found.proved) == (1.0, 0.5, True)
    assert found.shifts_s == {"a": 0.0, "b": 0.5}


def test_without_loops_it_is_as_good_as_link_by_link() -> None:
    chain = {"ab": ["a", "b"], "bc": ["b", "c"], "de": ["d", "e"]}
    capacities = dict.fromkeys(chain, 50.0)
    profiles = {n: on_off(n, k / 8) for n, k in zip("abcde", (3, 5, 2, 6, 4), strict=True)}
    found = joint_shifts(chain, profiles, capacities, slots=8)
    ranked = rank_placements([chain], profiles, capacities)[0]
    assert found.score == pytest.approx(ranked.score)


def test_nothing_is_shared_or_crowded() -> None:
    profiles = {name: on_off(name, 0.5, gbps=20.0) for name in "ab"}
    found = joint_shifts({"ab": ["a", "b"]}, profiles, {"ab": 50.0})
    assert (found.score, found.proved, found.shifts_s) == (1.0, True, {"a": 0.0, "b": 0.0})
    assert joint_shifts({"a": ["a"]}, {}, {}).shifts_s == {}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"slots": 0}, "slots"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"capacities": {}}, "link without a capacity"),
        ({"profiles": {"a": on_off("a", 0.5)}}, "'b' has no"),
        ({"profiles": {"a": on_off("a", 0.5), "b": on_off("b", 0.5, 1.03)}}, "whole number"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {
        "jobs_of": {"ab": ["a", "b"]},
        "profiles": {name: on_off(name, 0.5) for name in "ab"},
        "capacities": {"ab": 50.0},
    }
    with pytest.raises(InputError, match=told):
        joint_shifts(**{**given, **change})
