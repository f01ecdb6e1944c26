"""`solve("placement_and_rotation", PlacedGangs(...))` against trying everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.oracles.placements import least_sum
from tests.seeds import each_seed

import apportion as ap
from apportion.errors import InfeasibleError, InputError
from apportion.mechanism.time_shifts import AffinityGraph, score_of
from apportion.sim.network import get_topology, jobs_on_links, leaf_spine
from apportion.sim.shifts import GangPlacement

if TYPE_CHECKING:
    from apportion.sim.network import Topology

SMALL = leaf_spine(
    "small",
    servers=12,
    gpus_per_server=1,
    servers_per_leaf=2,
    server_gbps=50.0,
    oversubscription=2.0,
)


def placed(given: ap.PlacedGangs, **how: Any) -> GangPlacement:
    """Solve, and tell type checkers what comes out."""
    found = ap.solve("placement_and_rotation", given, **how)
    assert isinstance(found, GangPlacement)
    return found


def drawn(seed: int) -> tuple[dict[str, ap.CommunicationProfile], dict[str, list[list[int]]]]:
    """Two to five jobs of 6 or 12 slots of .05 s, and two to four places of each on 12 servers."""
    rng = np.random.default_rng(seed)
    profiles, gangs = {}, {}
    for number in range(int(rng.integers(2, 6))):
        job, period = f"job {number}", int(rng.choice([6, 12]))
        on = int(rng.integers(2, period))
        start = int(rng.integers(0, period - on + 1))
        phase = (0.05 * start, 0.05 * on, float(rng.choice([20.0, 35.0, 50.0])))
        profiles[job] = ap.CommunicationProfile(job, 0.05 * period, [phase])
        size = int(rng.integers(2, 4))
        gangs[job] = [
            sorted(rng.choice(12, size, replace=False).tolist())
            for _ in range(int(rng.integers(2, 5)))
        ]
    return profiles, gangs


def by_trying(
    profiles: dict[str, ap.CommunicationProfile],
    gangs: dict[str, list[list[int]]],
    topology: Topology,
) -> float | None:
    demand = [
        profile.demand((np.arange(round(profile.period_s / 0.05)) + 0.5) * 0.05)
        for profile in profiles.values()
    ]
    places = [[(frozenset(each), topology.links_of(each)) for each in gangs[job]] for job in gangs]
    return least_sum(demand, places, topology.capacities)


@pytest.mark.parametrize(
    "seeds",
    [
        range(6),
        pytest.param(range(6, 40), marks=pytest.mark.thorough),
        pytest.param(range(40, 300), marks=pytest.mark.slow),
    ],
)
def test_nothing_is_better(seeds: range) -> None:
    looped = slower = 0
    for seed in seeds:
        profiles, gangs = drawn(seed)
        best = by_trying(profiles, gangs, SMALL)
        slots = round(min(profile.period_s for profile in profiles.values()) / 0.05)
        given = ap.PlacedGangs(profiles, gangs, SMALL, slots=slots, pace=0.0)
        if best is None:
            with pytest.raises(InfeasibleError, match="fit together"):
                placed(given)
            continue
        found = placed(given, time_limit_s=60)
        assert found.status == "optimal", seed
        assert found.objective == pytest.approx(best, abs=1e-9), seed
        told = by_law(profiles, found, SMALL)
        assert found.slowdowns.to_dict() == pytest.approx(told)
        assert sum(told.values()) == pytest.approx(best, abs=1e-9), seed
        slower += best > len(gangs) + 1e-9
        looped += AffinityGraph(jobs_on_links(SMALL, found.gangs.to_dict())).loops > 0
    assert slower
    assert looped


def by_law(
    profiles: dict[str, ap.CommunicationProfile], found: GangPlacement, topology: Topology
) -> dict[str, float]:
    """Slowdowns of jobs by the scores of their links, worked out anew."""
    slowdowns = dict.fromkeys(found.gangs.index, 1.0)
    for link, jobs in jobs_on_links(topology, found.gangs.to_dict()).items():
        own = [profiles[job] for job in jobs]
        score = score_of(own, topology.capacities[link], found.shifts_s[list(jobs)])
        slowdowns |= {job: max(slowdowns[job], 2 - score) for job in jobs}
    return slowdowns


THIRD = {job: ap.CommunicationProfile(job, 0.3, [(0.0, 0.1, 50.0)]) for job in "abcd"}
PLACES: dict[str, list[Any]] = {
    "a": [0, 2],
    "b": [3, 1],
    "c": [[4, 6], [4, 5]],
    "d": [[5, 7], [5, 8]],
}


@pytest.mark.thorough
@pytest.mark.parametrize("seed", each_seed(1, 3))
def test_on_a_full_cluster_nothing_is_worse_than_the_best_whole_placement(seed: int) -> None:
    """Where no server is free no gang can move by itself, so that search alone finds no other."""
    rng, sizes = np.random.default_rng(seed), (4, 3, 3, 2)
    orders = [rng.permutation(12).tolist() for _ in range(8)]
    ends = np.cumsum(sizes)
    gangs = {
        f"job {job}": [sorted(order[end - size : end]) for order in orders]
        for job, (size, end) in enumerate(zip(sizes, ends.tolist(), strict=True))
    }
    one = ap.CommunicationProfile("one", 0.6, [(0.0, 0.25, 50.0)])
    profiles = {job: one.named(job) for job in gangs}
    found = placed(ap.PlacedGangs(profiles, gangs, SMALL, slots=12), time_limit_s=1e-3)
    wholes = [
        placed(
            ap.PlacedGangs(
                profiles, {job: [each[way]] for job, each in gangs.items()}, SMALL, slots=12
            ),
            time_limit_s=1e-3,
        ).objective
        for way in range(len(orders))
    ]
    assert found.objective <= min(wholes) + 0.02


def test_labels_order_and_what_is_printed() -> None:
    found = placed(ap.PlacedGangs(THIRD, PLACES, "cassini"))
    assert found.objective == 4
    assert found.gap == 0
    assert list(found.X.index) == list("abcd")
    assert found.gangs["c"] in {(4, 5), (4, 6)}
    assert found.scores.to_dict() == pytest.approx(dict.fromkeys(found.scores.index, 1.0))
    assert "slowdown" in repr(found)
    assert "slowdown" in found._repr_html_()
    again = ap.Allocation.from_json(found.to_json())
    assert again.choice.to_dict() == found.choice.to_dict()
    places, profiles = dict(reversed(PLACES.items())), dict(reversed(THIRD.items()))
    assert placed(ap.PlacedGangs(profiles, places, "cassini")).objective == found.objective
    nobody = placed(ap.PlacedGangs({}, {}, "cassini"))
    assert nobody.gap == nobody.objective == 0


def test_a_weight_decides_who_waits() -> None:
    """All three always send; the third shares an uplink with one of the others, the light one."""
    always = {job: ap.CommunicationProfile(job, 0.2, [(0.0, 0.2, 50.0)]) for job in "abc"}
    places: dict[str, list[Any]] = {"a": [0, 4], "b": [6, 2], "c": [[1, 8], [7, 8]]}
    for heavy, gpus in (("a", (7, 8)), ("b", (1, 8))):
        found = placed(ap.PlacedGangs(always, places, "cassini", weight={heavy: 5.0}))
        assert found.gangs["c"] == gpus
        assert found.slowdowns.to_dict() == pytest.approx({"a": 2, "b": 2, "c": 2} | {heavy: 1})
        assert found.objective == pytest.approx(9)


def test_periods_that_are_nearly_equal_are_paced() -> None:
    near = {
        "a": ap.CommunicationProfile("a", 0.2, [(0.0, 0.09, 50.0)]),
        "b": ap.CommunicationProfile("b", 0.202, [(0.0, 0.09, 50.0)]),
    }
    where = {"a": [0, 2], "b": [1, 3]}
    paced = placed(ap.PlacedGangs(near, where, "cassini", slots=20))
    assert paced.periods_s.to_dict() == pytest.approx({"a": 0.202, "b": 0.202})
    assert paced.slowdowns.to_dict() == pytest.approx({"a": 1.01, "b": 1.0})
    drifting = placed(ap.PlacedGangs(near, where, "cassini", pace=0.0))
    assert drifting.periods_s["a"] == 0.2
    assert drifting.slowdowns.min() > 1.1


def test_what_cannot_be_is_refused() -> None:
    refused: tuple[tuple[dict[str, list[Any]], str], ...] = (
        ({"a": [0, 2], "b": [2, 3]}, "GPU 2 is given to both 'a' and 'b'"),
        ({"a": [0, 0]}, "GPU 0 is given to 'a' twice"),
        ({"a": [99, 1]}, "A GPU of 'cassini' is 99"),
        ({"a": []}, "The job 'a' has no place"),
        ({"a": [[]]}, "A place of job 'a' has no GPU"),
        ({"x": [1, 2]}, "The job 'x' has no CommunicationProfile"),
    )
    for gangs, words in refused:
        with pytest.raises(InputError, match=words):
            ap.PlacedGangs(THIRD, gangs, "cassini")
    with pytest.raises(InputError, match="time_limit_s is 0"):
        placed(ap.PlacedGangs(THIRD, {"a": [0, 2]}, "cassini"), time_limit_s=0)
    with pytest.raises(InputError, match="does not place gangs"):
        ap.solve("rotations", ap.PlacedGangs(THIRD, PLACES, "cassini"))
    with pytest.raises(InputError, match="tell of none"):
        ap.solve("placement_and_rotation", {"a": {"v100": 1.0}}, workers="v100=1")
    with pytest.raises(InputError, match="GPU 1 is given to both"):
        jobs_on_links(get_topology("cassini"), {"a": [0, 1], "b": [1, 2]})


def test_from_gangs_to_rotations() -> None:
    topology = get_topology("cassini")
    links = ap.SharedLinks.of_gangs(THIRD, {"a": [0, 2], "b": [1, 3]}, "cassini")
    same = ap.SharedLinks(
        THIRD, jobs_on_links(topology, {"a": [0, 2], "b": [1, 3]}), topology.capacities
    )
    assert ap.solve("rotations", links).X.equals(ap.solve("rotations", same).X)
