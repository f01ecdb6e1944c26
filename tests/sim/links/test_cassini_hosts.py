"""A placement whose links suit the jobs, under any scheduler; speeds by the law of the score."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.mechanism.placements.compatible import FIGURES
from apportion.mechanism.scheduler import tier_of
from apportion.mechanism.time_shifts import LinkScores, random_score, score_of
from apportion.sim.network import PhaseNetwork, communication_profile, get_network
from apportion.sim.network.cassini import CassiniNetwork, GangLinks
from apportion.sim.network.model import pace_of
from apportion.sim.network.models.trained import table_iii_profiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.scheduler import Placement

SERVERS = ap.Cluster({"a100": 24}, gpus_per_machine=1, machines_per_rack=2)
PAIRS = ap.Cluster({"a100": 24}, gpus_per_machine=2, machines_per_rack=3)


def on_off(name: str, on: float, period: float = 1.0) -> ap.CommunicationProfile:
    return ap.CommunicationProfile(name, period, [(0.0, on, 50.0)])


PROFILES = {
    "half": on_off("half", 0.5),
    "most": on_off("most", 0.8),
    "odd": on_off("odd", 0.5, 1 / 2**0.5),
}


def test_the_random_score_is_the_mean_over_starts() -> None:
    profiles = [
        ap.CommunicationProfile("a", 1.0, [(0.0, 0.3, 50.0), (0.5, 0.2, 20.0)]),
        on_off("b", 0.6),
        on_off("c", 0.25, 0.5),
    ]
    grid = np.arange(40) / 40 + 1 / 80
    every = np.mean([score_of(profiles, 60, [0, b, c]) for b in grid for c in grid[:20]])
    assert random_score(profiles, 60) == pytest.approx(every, abs=2e-3)
    incommensurate = [on_off("a", 0.5), on_off("b", 0.5 / 2**0.5, 1 / 2**0.5)]
    assert random_score(incommensurate, 50) == pytest.approx(1 - 0.25)
    assert ap.compatibility(incommensurate, 50).score == pytest.approx(1 - 0.25)


def test_jobs_are_shifted_where_there_is_no_loop() -> None:
    scores = LinkScores(lambda model, _: PROFILES[model])
    trained = {job: ("half", 2) for job in range(5)}
    links = {"up": [0, 1], "down": [0, 1], "apart": [2, 3], "alone": [4]}
    found = scores.of_links(links, trained, dict.fromkeys(links, 50.0))
    assert found == {"up": 0.75, "down": 0.75, "apart": 1.0}
    found = scores.of_links(links, trained, dict.fromkeys(links, 50.0), shifted=False)
    assert found == {"up": 0.75, "down": 0.75, "apart": 0.75}


@pytest.mark.thorough
def test_the_hosts_decision_does_not_change() -> None:
    """As many GPUs of the same type at the same tier, in any state."""
    rng = np.random.default_rng(5)
    differ = 0
    for trial in range(30):
        cluster = (SERVERS, PAIRS)[trial % 2]
        pace = pace_of(get_network(CassiniNetwork(profiles=PROFILES), cluster=cluster))
        host, ours = (
            Placer(cluster, name, trial, pace=pace) for name in ("consolidated", "cassini")
        )
        models = rng.choice(list(PROFILES), 9).tolist()
        for job, gpus in enumerate(rng.integers(1, 6, 9).tolist()):
            gang = Gang(job, gpus, model=models[job])
            wanted, had = host.choose(gang), ours.choose(gang)
            if wanted is None or had is None:
                assert wanted is had is None
                continue
            where = [host.where(gang, wanted), ours.where(gang, had)]
            assert tier_of(where[0]) == tier_of(where[1])
            assert len(had) == gpus
            differ += where[0] != where[1]
            for placer in (host, ours):  # the same for both, so that both decide on one state
                placer.devices.hold(job, 0, had)
    assert differ > 10


def looped(placer: Placer, links: GangLinks, gang: int, where: Placement) -> bool:
    """Whether a gang would be in a part of the affinity graph with a loop, by union and find."""
    jobs_of = dict[Any, list[int]]()
    places = {other: placer.devices.placement(other) for other in placer.held if other != gang}
    for job, place in {**places, gang: where}.items():
        for link in links.links_of(place):
            jobs_of.setdefault(link, []).append(job)
    root = {node: node for link, jobs in jobs_of.items() for node in (link, *jobs)}
    closing = []

    def find(node: Any) -> Any:
        return node if root[node] == node else find(root[node])

    for link, jobs in jobs_of.items():
        for job in jobs if len(jobs) > 1 else []:
            if find(job) == find(link):
                closing.append(job)
            root[find(job)] = find(link)
    return gang in root and any(find(job) == find(gang) for job in closing)


def test_candidates_with_loops_are_discarded() -> None:
    rng = np.random.default_rng(8)
    seen = np.zeros(5, dtype=int)
    for trial in range(14):
        cluster = (SERVERS, PAIRS)[trial % 2]
        network = CassiniNetwork(profiles=PROFILES)
        pace = pace_of(get_network(network, cluster=cluster))
        placer = Placer(cluster, "cassini", trial, pace=pace)
        host = Placer(placer.devices, "consolidated", pace=pace)
        models = rng.choice(list(PROFILES), 9).tolist()
        for job, gpus in enumerate(rng.integers(2, 6, 9).tolist()):
            gang = Gang(job, gpus, model=models[job])
            first, chosen = host.choose(gang), placer.choose(gang)
            if first is None or chosen is None:
                continue
            before, now = host.where(gang, first), placer.where(gang, chosen)
            if now != before:
                assert not looped(placer, GangLinks(network, cluster), job, now)
            placer.devices.hold(job, 0, chosen)
        figures = placer.figures()
        seen += np.sum([figures[name] for name in FIGURES[1:]], axis=1)
    placements, candidates, loops, none_left, moved = seen.tolist()
    assert placements < candidates <= 10 * placements
    assert 0 < none_left + moved < placements
    assert 0 < loops < candidates


def test_a_compatible_neighbour_is_chosen() -> None:
    """Two gangs hold one server of two leaves each; one suits a third gang, the other does not."""
    pace = pace_of(get_network(CassiniNetwork(profiles=PROFILES), cluster=SERVERS))
    small = ap.Cluster({"a100": 8}, gpus_per_machine=1, machines_per_rack=2)
    for unfit in ("most", "odd"):
        placer = Placer(small, "cassini", pace=pace)
        for job, model, devices in ((0, unfit, [0, 2]), (1, "half", [4, 6])):
            placer._choice.choose(Gang(job, 2, model=model), placer.devices)
            placer.devices.hold(job, 0, devices)
        placer.give(Gang(2, 2, model="half"))
        # No leaf is whole. Over two leaves of one gang there would be a loop, and over one of each
        # a link that does not suit: but 0.7 and 1, or 0.75 and 1, beat 0.6 or 0.75 at random.
        racks = {rack for rack, _, _ in placer.devices.placement(2)}
        assert len(racks & {0, 1}) == len(racks & {2, 3}) == 1


def workload(models: list[str]) -> ap.Workload:
    table = pd.DataFrame({"job_type": models, "scale_factor": 2, "total_steps": 600.0})
    rows = pd.MultiIndex.from_product([sorted(set(models)), [2]])
    rows.names = ["job_type", "scale_factor"]
    return ap.Workload("gangs of two", table, pd.DataFrame({"a100": 1.0}, index=rows))


@pytest.mark.parametrize(
    ("decider", "mechanism"),
    [("max_min_fairness", "rounds"), ("finish_time_fairness", "leases"), ("dally", "leases")],
)
def test_every_host_takes_it(decider: str, mechanism: Any) -> None:
    jobs = workload(["half", "half", "most", "odd"])
    cluster = ap.Cluster({"a100": 6}, gpus_per_machine=1, machines_per_rack=3)
    network = CassiniNetwork(profiles=PROFILES, oversubscription=3)
    run = ap.simulate(
        decider, jobs, cluster, mechanism=mechanism, placement="cassini", network=network
    )
    assert (run.jobs["completion_s"] >= 600 - 1e-6).all()
    assert run.settings["network"] == "cassini"
    assert run.settings["placement"] == "cassini"
    counts = run.tables["candidates"]
    assert counts.index.tolist() == [2]
    assert (counts["with_loops"] <= counts["candidates"]).all()
    assert (counts["moved"] <= counts["placements"]).all()
    looped = counts["with_loops"].sum() / counts["candidates"].sum()
    assert run.summary()["looped_candidates"] == looped


def test_bad_input_is_named() -> None:
    jobs = workload(["ResNet50"])
    cases: list[tuple[Any, str | None]] = [("rounds", None), ("leases", "none")]
    for mechanism, network in cases:
        with pytest.raises(InputError, match="needs a network that knows"):
            ap.simulate(
                "max_min_fairness",
                jobs,
                SERVERS,
                mechanism=mechanism,
                placement="cassini",
                network=network,
            )
    with pytest.raises(InputError, match="no communication profile"):
        ap.simulate("fifo", workload(["nothing"]), SERVERS, network="cassini")
    with pytest.raises(InputError, match="CommunicationProfile"):
        CassiniNetwork(profiles={"a": 3})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="oversubscription"):
        CassiniNetwork(oversubscription=0.5)
    with pytest.raises(InputError, match="machine_gbps"):
        CassiniNetwork(machine_gbps=0)
    with pytest.raises(InputError, match="CassiniNetwork"):
        get_network("cassini", cluster=SERVERS, profiles=table_iii_profiles())
    with pytest.raises(InputError, match="has no rings"):
        get_network("cassini", cluster=SERVERS, flat_if_unbalanced=True)
    own = CassiniNetwork().profile("ResNet-50 (batch size 64)", 4)
    assert own == communication_profile("ResNet50", gpus=4)


EIGHT = ap.Cluster({"a100": 8}, gpus_per_machine=1, machines_per_rack=2)


def shared_links(links: GangLinks, wheres: Sequence[Placement]) -> dict[Any, list[int]]:
    jobs_of = dict[Any, list[int]]()
    for job, where in enumerate(wheres):
        for link in links.links_of(where):
            jobs_of.setdefault(link, []).append(job)
    return {link: jobs for link, jobs in jobs_of.items() if len(jobs) > 1}


def mean_score(models: Sequence[str], jobs_of: dict[Any, list[int]]) -> float:
    """Mean over the links of the compatibility of the jobs there; 1 if none is shared."""
    each = [
        ap.compatibility([PROFILES[models[job]] for job in jobs], 50.0).score
        for jobs in jobs_of.values()
    ]
    return float(np.mean(each)) if each else 1.0


def best_of_all(models: Sequence[str], links: GangLinks) -> float:
    """Best mean score of all placements of pairs over two racks each, one by one, without loops."""
    best, known = -np.inf, dict[Any, float]()
    pairs = [(a, b) for a in range(8) for b in range(a + 1, 8) if a // 2 != b // 2]
    for chosen in product(pairs, repeat=len(models)):
        if len({server for pair in chosen for server in pair}) < 2 * len(models):
            continue
        wheres = [tuple((one // 2, one % 2, 1) for one in pair) for pair in chosen]
        jobs_of = shared_links(links, wheres)
        root = {node: node for link, jobs in jobs_of.items() for node in (link, *jobs)}

        def find(node: Any, root: dict[Any, Any] = root) -> Any:
            return node if root[node] == node else find(root[node])

        loops = False
        for link, jobs in jobs_of.items():
            for job in jobs:
                loops |= find(job) == find(link)
                root[find(job)] = find(link)
        if not loops:
            key = tuple(sorted(map(tuple, jobs_of.values())))
            if key not in known:
                known[key] = mean_score(models, jobs_of)
            best = max(best, known[key])
    return best


@pytest.mark.parametrize("models", [["half", "most", "odd"], ["most", "most", "half"]])
def test_enough_whole_placements_have_the_best_of_all(models: list[str]) -> None:
    """Three pairs over four racks, a server more held: with many candidates none is better."""
    network = CassiniNetwork(profiles=PROFILES, oversubscription=2, candidates=300)
    pace = pace_of(get_network(network, cluster=EIGHT))
    placer, links = Placer(EIGHT, "cassini", 0, pace=pace), GangLinks(network, EIGHT)
    gangs = [Gang(job, 2, model=model) for job, model in enumerate(models)]
    for gang, across in zip(gangs, ([0, 2], [1, 3], [4, 6]), strict=True):
        placer.devices.hold(gang.job, 0, across)
    placer.compare(gangs)
    assert len({device for _, devices in placer.held.values() for device in devices}) == 6
    found = shared_links(links, [placer.devices.placement(gang.job) for gang in gangs])
    assert mean_score(models, found) == pytest.approx(best_of_all(models, links))


def test_a_single_candidate_is_the_hosts() -> None:
    jobs = workload(["half", "most", "odd", "half"])
    cluster = ap.Cluster({"a100": 8}, gpus_per_machine=1, machines_per_rack=2)
    network = CassiniNetwork(profiles=PROFILES, candidates=1)
    runs = [
        ap.simulate("max_min_fairness", jobs, cluster, network=network, placement=placement)
        for placement in ("cassini", "consolidated")
    ]
    assert runs[0].jobs.equals(runs[1].jobs)
    with pytest.raises(InputError, match="candidates is 0"):
        CassiniNetwork(candidates=0)


@pytest.mark.parametrize("kind", [CassiniNetwork, PhaseNetwork])
@pytest.mark.parametrize("decider", ["max_min_fairness", "dally"])
def test_iterations_are_told_over_time_and_by_model(kind: Any, decider: str) -> None:
    models = ["most", "most", "odd", "most", "half"]
    table = pd.DataFrame({"job_type": models, "scale_factor": 4, "total_steps": 600.0})
    rows = pd.MultiIndex.from_product([list(PROFILES), [4]], names=["job_type", "scale_factor"])
    jobs = ap.Workload("wide", table, pd.DataFrame({"a100": 1.0}, index=rows))
    cluster = ap.Cluster({"a100": 12}, gpus_per_machine=1, machines_per_rack=3)  # all are wider
    lost: dict[str, Any] = {"preemption_overhead_seconds": 5}
    run = ap.simulate(
        decider, jobs, cluster, network=kind(profiles=PROFILES, oversubscription=3), **lost
    )
    each, times = run.tables["iterations"], run.tables["iteration_times"]
    total = each.groupby("job")["iterations"].sum()
    np.testing.assert_allclose(total, jobs.jobs["total_steps"].loc[total.index], rtol=1e-9)
    assert (each["to_s"] - each["from_s"] >= each["iterations"] * each["iteration_s"] - 1e-6).all()
    weighted = each["iterations"] * each["iteration_s"]
    for model, own in [*each.groupby("model"), ("all", each)]:
        told, count = times.loc[model], own["iterations"]
        assert told["mean_s"] == pytest.approx(weighted[own.index].sum() / count.sum())
        for q, name in ((0.01, "p1_s"), (0.5, "p50_s"), (0.99, "p99_s")):
            cut = np.quantile(own["iteration_s"], q, weights=count, method="inverted_cdf")
            assert told[name] == pytest.approx(cut)
    if kind is PhaseNetwork:
        met = run.tables["links"]
        alone_s = 1 / jobs.throughputs["a100"].droplevel("scale_factor")
        own_s = each.groupby("job")["model"].first().map(alone_s)
        slowdown = weighted.groupby(each["job"]).sum() / total / own_s
        assert slowdown.max() > 1.01
        np.testing.assert_allclose(slowdown, met["slowdown"].loc[slowdown.index], rtol=1e-6)
        marks = (each["marks_gigabits"] * each["iterations"]).groupby(each["job"]).sum()
        np.testing.assert_allclose(marks, met["marks_gigabits"].loc[marks.index], atol=1e-9)
    again = ap.simulate(decider, jobs, cluster, network="none", **lost)
    assert "iterations" not in again.tables
