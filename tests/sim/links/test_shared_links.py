"""`solve("rotations", SharedLinks(...))` against every rotation, by labels and in any order."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracles.draw_whole import LINKS, draw_links
from tests.oracles.rotations import enumerate_shifts, mean_score

import apportion as ap
from apportion.sim.links import LinkShifts
from apportion.sim.network import get_topology, jobs_on_links

if TYPE_CHECKING:
    from tests.oracles.rotations import Link, Profile


def labelled(profiles: list[Profile], links: list[Link]) -> dict[str, Any]:
    """Name jobs and links of the oracle; a slot divides every period."""
    names = [f"job {number}" for number in range(len(profiles))]
    given = [
        ap.CommunicationProfile.in_turn(name, [(float(d), float(r)) for d, r in each.parts])
        for name, each in zip(names, profiles, strict=True)
    ]
    return {
        "profiles": dict(zip(names, given, strict=True)),
        "jobs_of": {f"link {k}": [names[j] for j in link.jobs] for k, link in enumerate(links)},
        "capacities": {f"link {k}": float(link.capacity) for k, link in enumerate(links)},
        "slots": lcm(*(int(each.period) for each in profiles)),
    }


def shifted(links: ap.SharedLinks, **how: Any) -> LinkShifts:
    """Solve, and tell type checkers what comes out."""
    found = ap.solve("rotations", links, **how)
    assert isinstance(found, LinkShifts)
    return found


@pytest.mark.parametrize("seeds", [1, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", LINKS)
def test_no_rotation_is_better(kind: str, seeds: int) -> None:
    for seed in range(seeds):
        profiles, links = draw_links(seed, kind)
        given = labelled(profiles, links)
        found = shifted(ap.SharedLinks(**given))
        shared = [link for link in links if len(link.jobs) > 1]
        best = enumerate_shifts(profiles, shared)[0] if shared else Fraction(1)
        assert found.status == "optimal"
        assert 1 - found.objective == pytest.approx(float(best), abs=1e-9)
        shifts = [Fraction(shift).limit_denominator(1000) for shift in found.shifts_s]
        assert list(found.shifts_s.index) == list(given["profiles"])
        assert not shared or mean_score(profiles, shared, shifts) == best
        if shared:
            assert found.scores.mean() == pytest.approx(float(best), abs=1e-9)
            none = [Fraction(0)] * len(profiles)
            before = mean_score(profiles, shared, none)
            assert found.unshifted_scores.mean() == pytest.approx(float(before), abs=1e-9)


THIRD = {job: ap.CommunicationProfile(job, 0.3, [(0.0, 0.1, 50.0)]) for job in "abc"}
RING = {"first": ["a", "b"], "second": ["b", "c"], "third": ["c", "a"]}


def test_labels_order_and_what_is_printed() -> None:
    found = shifted(ap.SharedLinks(THIRD, RING, 50.0, slots=12))
    assert found.scores.to_dict() == pytest.approx(dict.fromkeys(RING, 1.0))
    assert found.unshifted_scores.to_dict() == pytest.approx(dict.fromkeys(RING, 2 / 3))
    assert sorted(found.shifts_s.round(9)) == [0.0, 0.1, 0.2]
    assert (found.choice * 0.025).to_dict() == pytest.approx(found.shifts_s.to_dict())
    assert found.throughput.to_dict() == pytest.approx(dict.fromkeys("abc", 1 / 0.3))
    assert "nan" not in repr(found).lower()
    assert "unshifted" in repr(found)
    assert ap.Allocation.from_json(found.to_json()).choice.to_dict() == found.choice.to_dict()
    turned = {link: RING[link][::-1] for link in reversed(RING)}
    other = ap.SharedLinks(dict(reversed(THIRD.items())), turned, dict.fromkeys(RING, 50), slots=12)
    again = shifted(other)
    assert again.objective == found.objective == 0
    assert list(again.shifts_s.index) == ["c", "b", "a"]


def test_links_of_a_topology_and_jobs_without_any() -> None:
    servers = get_topology("cassini_two_gpus")
    gangs = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6]}
    links = ap.SharedLinks(THIRD, jobs_on_links(servers, gangs), servers.capacities)
    found = shifted(links)
    assert list(found.scores) == pytest.approx([1.0])
    assert found.shifts_s["c"] == 0
    nobody = shifted(ap.SharedLinks({}, {}, 50.0))
    assert nobody.X.empty
    assert nobody.gap == nobody.objective == 0
    alone = shifted(ap.SharedLinks(THIRD, {"a link": ["a"]}, 1.0))
    assert alone.scores.empty
    assert not alone.shifts_s.any()


def test_slots_that_are_too_coarse_are_told() -> None:
    """Halves of a period: there a turn looks better, and lets the jobs meet that did not."""
    late = {
        "a": ap.CommunicationProfile("a", 0.3, [(0.0, 0.11, 50.0)]),
        "b": ap.CommunicationProfile("b", 0.3, [(0.11, 0.07, 50.0)]),
    }
    found = shifted(ap.SharedLinks(late, {"ab": ["a", "b"]}, 45.0, slots=2))
    assert found.scores.mean() < found.unshifted_scores.mean()
    assert "too coarse" in found.message
    fine = shifted(ap.SharedLinks(late, {"ab": ["a", "b"]}, 45.0, slots=30))
    assert fine.scores.mean() >= fine.unshifted_scores.mean()
    assert not fine.message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"profiles": {"a": 3}}, "profile of job 'a' is 3; it must be a CommunicationProfile"),
        ({"jobs_of": {"x": ["a", "z"]}}, "job 'z' has no CommunicationProfile"),
        ({"jobs_of": {"x": ["a", "a"]}}, "link 'x' names the job 'a' twice"),
        ({"jobs_of": ["a"]}, "must be a mapping from links to their jobs"),
        ({"capacities": {"first": 1.0}}, "link without a capacity 'second'"),
        ({"capacities": 0.0}, "capacities is 0.0; it must be a number > 0"),
        ({"capacities": {**dict.fromkeys(RING, 1.0), "first": -1}}, "link has no capacity"),
        ({"slots": 0}, "slots is 0"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], words: str) -> None:
    whole: dict[str, Any] = {"profiles": THIRD, "jobs_of": RING, "capacities": 50.0}
    with pytest.raises(ap.InputError, match=words):
        ap.SharedLinks(**{**whole, **given})


def test_what_does_not_go_together_is_refused() -> None:
    links = ap.SharedLinks(THIRD, RING, 50.0)
    with pytest.raises(ap.InputError, match="shares out GPUs; jobs on shared links"):
        ap.solve("max_min_fairness", links)
    with pytest.raises(ap.InputError, match="workers= goes with throughputs"):
        ap.solve("rotations", links, workers="v100=3")
    with pytest.raises(ap.InputError, match="weighs slots"):
        ap.solve(ap.Rotations({"link 0 slot 0": 2.0}), links)
    with pytest.raises(ap.InputError, match="give the links, "):
        ap.solve("rotations", {"a": {"v100": 1.0}}, workers="v100=3")
    with pytest.raises(ap.InputError, match="SharedLinks"):
        ap.solve("rotations", THIRD)
    odd = {**THIRD, "c": ap.CommunicationProfile("c", 0.41, [(0.0, 0.1, 50.0)])}
    with pytest.raises(ap.InputError, match="period of job 'c' is"):
        shifted(ap.SharedLinks(odd, RING, 50.0))
