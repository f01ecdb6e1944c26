from __future__ import annotations

import math

import numpy as np
import pytest

import apportion as ap
from apportion.mechanism.time_shifts import AffinityGraph, best_placement, rank_placements, score_of


def random_tree(rng: np.random.Generator, links: int) -> dict[str, list[str]]:
    """Links joined without a loop: each new one has one job that is there, and new ones."""
    jobs_of, jobs = {}, ["j0"]
    for link in range(links):
        new = [f"j{len(jobs) + each}" for each in range(rng.integers(1, 4))]
        old = str(rng.choice(jobs))
        jobs += new
        jobs_of[f"l{link}"] = [str(each) for each in rng.permutation([old, *new])]
    return jobs_of


def reaches_itself(jobs_of: dict[str, list[str]]) -> bool:
    """Whether an edge joins what other edges join already, by dictionaries of sets."""
    group = {
        node: {node} for node in [*jobs_of, *(job for jobs in jobs_of.values() for job in jobs)]
    }
    for link, jobs in jobs_of.items():
        for job in jobs:
            if group[job] is group[link]:
                return True
            group[job] |= group[link]
            for node in group[job]:
                group[node] = group[job]
    return False


def test_shifts_of_a_chain_by_hand() -> None:
    graph = AffinityGraph({"l1": ("a", "b"), "l2": ("b", "c"), "alone": ("c",), "none": ()})
    assert graph.loops == 0
    assert graph.components == [("a", "b", "c")]
    assert set(graph.jobs_of) == {"l1", "l2"}
    weights = {"l1": {"a": 10.0, "b": 40.0}, "l2": {"b": 5.0, "c": 0.0}}
    shifts = graph.shifts(weights, {"a": 100.0, "b": 100.0, "c": 50.0})
    # b: 0 - 10 + 40; c: 30 - 5 + 0
    assert shifts == pytest.approx({"a": 0, "b": 30, "c": 25})


@pytest.mark.parametrize("seed", range(30))
def test_without_loops_all_relative_shifts_hold_modulo_the_gcd(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs_of = random_tree(rng, int(rng.integers(1, 8)))
    graph = AffinityGraph(jobs_of)
    assert graph.loops == 0
    periods = {job: int(rng.choice([4, 6, 9, 12, 10])) for job in graph.links_of}
    weights = {
        link: {job: float(rng.integers(0, periods[job])) for job in jobs}
        for link, jobs in jobs_of.items()
    }
    shifts = graph.shifts(weights, periods)
    for link, jobs in jobs_of.items():
        for first in jobs:
            assert 0 <= shifts[first] < periods[first]
            for second in jobs:
                wanted = weights[link][first] - weights[link][second]
                gcd = math.gcd(periods[first], periods[second])
                off = (shifts[first] - shifts[second] - wanted) % gcd
                assert min(off, gcd - off) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_loops_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [f"j{each}" for each in range(6)]
    jobs_of = {
        f"l{link}": [str(job) for job in rng.choice(jobs, int(rng.integers(2, 4)), replace=False)]
        for link in range(int(rng.integers(1, 4)))
    }
    graph = AffinityGraph(jobs_of)
    assert (graph.loops > 0) == reaches_itself(jobs_of)
    assert sorted(job for each in graph.components for job in each) == sorted(graph.links_of)


def test_two_jobs_on_two_links_are_a_loop() -> None:
    graph = AffinityGraph({"l1": ("a", "b"), "l2": ("a", "b")})
    assert graph.loops == 1
    with pytest.raises(ap.InputError, match="1 loops"):
        graph.shifts({}, {})


def test_bad_graphs_are_named() -> None:
    with pytest.raises(ap.InputError, match="'l' names the job 'a' twice"):
        AffinityGraph({"l": ("a", "a")})
    with pytest.raises(ap.InputError, match="mapping from links"):
        AffinityGraph([("a", "b")])  # type: ignore[arg-type]
    with pytest.raises(ap.InputError, match="job on link 'l'"):
        AffinityGraph({"l": "ab"})
    graph = AffinityGraph({"l": ("a", "b")})
    with pytest.raises(ap.InputError, match="link without shifts 'l'"):
        graph.shifts({}, {"a": 1, "b": 1})
    with pytest.raises(ap.InputError, match="no shift of 'b'"):
        graph.shifts({"l": {"a": 0}}, {"a": 1, "b": 1})
    with pytest.raises(ap.InputError, match="job 'b' has no period"):
        graph.shifts({"l": {"a": 0, "b": 0}}, {"a": 1})
    with pytest.raises(ap.InputError, match="period of job 'b'"):
        graph.shifts({"l": {"a": 0, "b": 0}}, {"a": 1, "b": 0})


def half(period: float = 100.0, duty: float = 0.5) -> ap.CommunicationProfile:
    return ap.CommunicationProfile("half", period, [(0.0, duty * period, 50.0)])


def test_the_placement_of_the_best_mean_score_is_chosen() -> None:
    profiles = {"a": half(), "b": half(), "c": half(duty=0.9)}
    candidates = [
        {"up": ("a", "c"), "down": ("b",)},
        {"up": ("a", "b"), "down": ("c",)},
        {"up": ("a", "b", "c"), "down": ()},
        {"up": ("a", "b"), "down": ("a", "b"), "side": ("c",)},
    ]
    ranked = rank_placements(candidates, profiles, 50)
    scores = [each.score for each in ranked]
    assert scores == pytest.approx([0.6, 1.0, 0.1, 1.0])
    assert [each.has_loops for each in ranked] == [False, False, False, True]
    best = best_placement(ranked)
    assert best is not None
    assert best.number == 1
    assert best.shifts_s == pytest.approx({"a": 0, "b": 50})
    assert ranked[3].shifts_s == {}
    assert best_placement(ranked[3:]) is None


def test_jobs_that_share_no_link_are_compatible() -> None:
    (only,) = rank_placements([{"up": ("a",), "down": ("b",)}], {"a": half(), "b": half()}, 50)
    assert (only.score, only.links, only.shifts_s) == (1.0, {}, {})


def test_shifts_of_a_placement_keep_the_score_of_every_link() -> None:
    rng = np.random.default_rng(7)
    jobs_of = random_tree(rng, 4)
    profiles = {
        job: half(float(rng.choice([100, 50])), float(rng.uniform(0.2, 0.6)))
        for job in AffinityGraph(jobs_of).links_of
    }
    (ranked,) = rank_placements([jobs_of], profiles, 50)
    for link, found in ranked.links.items():
        jobs = ranked.graph.jobs_of[link]
        shifts = [ranked.shifts_s[job] for job in jobs]
        assert score_of([profiles[job] for job in jobs], 50, shifts) == pytest.approx(found.score)


def test_jobs_and_profiles_belong_together() -> None:
    with pytest.raises(ap.InputError, match="job 'c' is on no link"):
        rank_placements([{"l": ("a",)}], {"a": half(), "c": half()}, 50)
    with pytest.raises(ap.InputError, match="job without a profile 'b'"):
        rank_placements([{"l": ("a", "b")}], {"a": half()}, 50)
    with pytest.raises(ap.InputError, match="profile of job 'a' is no"):
        rank_placements([{"l": ("a",)}], {"a": 1}, 50)  # type: ignore[dict-item]
    both = {"a": half(), "b": half()}
    with pytest.raises(ap.InputError, match="link without a capacity 'l'"):
        rank_placements([{"l": ("a", "b")}], both, {"m": 50})
    with pytest.raises(ap.InputError, match="link has no capacity"):
        rank_placements([{"l": ("a", "b")}], both, {"l": 0})
