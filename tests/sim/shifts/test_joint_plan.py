"""Shifts of gangs in loops, against every way to shift them, and what runs make of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.devices import Devices
from apportion.mechanism.scheduler import Gangs
from apportion.mechanism.time_shifts import AffinityGraph
from apportion.sim.engine import Speeds
from apportion.sim.network import PhaseNetwork, get_network
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.model import network_beside
from apportion.sim.phases import mean_score
from apportion.sim.phases.phase_speeds import CompatibleSpeeds, PhaseSpeeds
from apportion.sim.shifts import joint_plan
from apportion.sim.shifts.joint_plan import JointPlans

pytestmark = pytest.mark.usefixtures("free_starts")

SERVERS = ap.Cluster({"a100": 8}, gpus_per_machine=1, machines_per_rack=2)


def on_off(name: str, on: float, period: float = 1.2) -> ap.CommunicationProfile:
    return ap.CommunicationProfile(name, period, [(0.0, on * period, 50.0)])


PROFILES = {
    "third": on_off("third", 1 / 3),
    "half": on_off("half", 0.5),
    "most": on_off("most", 0.75),
    "slow": on_off("slow", 0.25, 2.4),
    "odd": on_off("odd", 0.5, 2**0.5),
}


def loops(rng: np.random.Generator, names: list[str]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    jobs = int(rng.integers(2, 4))
    links = {link: [link, (link + 1) % jobs] for link in range(jobs)}
    if jobs == 2:
        links[1] = [0, 1]
    trained = {job: (names[int(rng.integers(len(names)))], 2) for job in range(jobs)}
    return links, trained


@pytest.mark.thorough
def test_as_good_as_every_way_to_shift_by_slots() -> None:
    rng = np.random.default_rng(2)
    for _ in range(8):
        links, trained = loops(rng, ["third", "half", "most", "slow"])
        profiles = {job: PROFILES[name] for job, (name, _) in trained.items()}
        caps = dict.fromkeys(links, 50.0)
        plans = JointPlans(lambda model, _: PROFILES[model])
        graph, found = AffinityGraph(links), plans.shifts(links, trained, caps)
        reached = mean_score(graph, profiles, caps, found)
        turns = [np.arange(0, profiles[job].period_s - 1e-9, 0.3) for job in profiles]
        every = [
            mean_score(graph, profiles, caps, dict(enumerate((0.0, *others))))
            for others in product(*turns[1:])
        ]
        assert reached >= max(every) - 1e-6
        scores = plans.scores(links, trained, caps)
        assert np.mean(list(scores.values())) == pytest.approx(reached)
        assert plans.shifts(links, trained, caps) == found


def test_descent_never_loses_by_shifts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the program is not solved: many jobs, or periods without a common multiple."""
    monkeypatch.setattr(joint_plan, "MOST_SOLVED", 0)
    rng = np.random.default_rng(3)
    gains = []
    for _ in range(10):
        links, trained = loops(rng, list(PROFILES))
        profiles = {job: PROFILES[name] for job, (name, _) in trained.items()}
        caps = dict.fromkeys(links, 50.0)
        found = JointPlans(lambda model, _: PROFILES[model]).shifts(links, trained, caps)
        graph = AffinityGraph(links)
        none = mean_score(graph, profiles, caps, dict.fromkeys(profiles, 0.0))
        gains.append(mean_score(graph, profiles, caps, found) - none)
    assert min(gains) >= -1e-9
    assert max(gains) > 0.1


@pytest.mark.parametrize("kind", [CassiniNetwork, PhaseNetwork])
def test_gangs_in_a_loop_are_shifted(kind: Any) -> None:
    """Two gangs over the same two racks share both uplinks: a loop of two links."""
    each = np.arange(2)
    across = [(0, [0, 2]), (0, [1, 3])]
    gangs = Gangs(each, each, np.zeros(2, dtype=int), np.full(2, 2), devices=across)
    layout = Devices.of(SERVERS).layout

    class Free(Speeds):
        def rates(self, gangs: Gangs, there: Any = None) -> Any:
            return np.full(gangs.job.size, 10.0)

    rates = {}
    for loops in ("random", "links", "jobs"):
        model = kind(profiles=PROFILES, loops=loops)
        made: Any = PhaseSpeeds if kind is PhaseNetwork else CompatibleSpeeds
        speeds = made(Free(), ["half", "half"], model, SERVERS, layout)
        rates[loops] = speeds.rates(gangs)
    assert rates["links"] == pytest.approx([10, 10])
    assert rates["jobs"] == pytest.approx([10, 10])
    assert (rates["random"] < 9).all()


@pytest.mark.parametrize("mechanism", ["rounds", "leases"])
def test_a_run_keeps_candidates_with_loops(mechanism: Any) -> None:
    """Three gangs of three servers in two racks of five: every candidate has a loop."""
    jobs = pd.DataFrame({"job_type": ["third"] * 3, "scale_factor": 3, "total_steps": 1200.0})
    rows = pd.MultiIndex.from_tuples([("third", 3)], names=["job_type", "scale_factor"])
    load = ap.Workload("loops", jobs, pd.DataFrame({"a100": 1 / 1.2}, index=rows))
    cluster = ap.Cluster({"a100": 10}, gpus_per_machine=1, machines_per_rack=5)
    options: dict[str, Any] = {"checkpoint_seconds_per_gpu": 0} if mechanism == "leases" else {}
    ends = {}
    for placement in ("cassini", "cassini_joint"):
        run = ap.simulate(
            "fifo",
            load,
            cluster,
            mechanism=mechanism,
            placement=placement,
            network=PhaseNetwork(profiles=PROFILES, oversubscription=5),
            **options,
        )
        ends[placement] = run.jobs["completion_s"].max()
        assert run.settings["network"] == "phases"
        assert run.tables["candidates"]["placements"].sum() >= 3
    assert ends["cassini_joint"] == pytest.approx(1440)
    assert ends["cassini_joint"] <= ends["cassini"]


def test_the_network_beside_a_joint_placement_is_joint() -> None:
    given = get_network("phases", cluster=SERVERS)
    assert network_beside("consolidated", given) is given
    assert network_beside("cassini", given) is given
    joint = network_beside("cassini_joint", given)
    assert joint is not None
    assert isinstance(joint.model, PhaseNetwork)
    assert joint.model.loops == "links"
    assert joint.name == "phases"
    assert network_beside("cassini_joint", joint) is joint
    program = network_beside("cassini_program", given)
    assert program is not None
    assert isinstance(program.model, PhaseNetwork)
    assert program.model.loops == "jobs"
    with pytest.raises(InputError, match="jobs"):
        PhaseNetwork(loops="job")
