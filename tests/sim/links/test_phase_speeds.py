"""Gangs under any mechanism, as fast as the engine of phases says: closed forms and invariants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.decider import About
from apportion.mechanism.placement import Placer
from apportion.mechanism.scheduler import Gangs
from apportion.sim.engine import Speeds
from apportion.sim.links import PhaseJob, run_phases
from apportion.sim.links.meeting import Meeting, connected, meeting_of
from apportion.sim.links.shift_plan import Epochs
from apportion.sim.links.steady import SteadyIterations
from apportion.sim.network import PhaseNetwork, get_network
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.models.trained import table_iii_profiles
from apportion.sim.network.own_speeds import speeds_on

if TYPE_CHECKING:
    from apportion.mechanism.devices import Held

pytestmark = pytest.mark.usefixtures("free_starts")

FOUR = ap.Cluster({"a100": 4}, gpus_per_machine=1, machines_per_rack=2)
ACROSS: list[Held] = [(0, [0, 2]), (0, [1, 3]), (0, [1, 2])]


def on_off(name: str, on: float, period: float = 1.0, gbps: float = 50.0) -> Any:
    return ap.CommunicationProfile(name, period, [(0.0, on, gbps)])


PROFILES = {
    "half": on_off("half", 0.5),
    "most": on_off("most", 0.8),
    "always": on_off("always", 1.0),
    "slow": on_off("slow", 0.25, 2.0),
    "forty": on_off("forty", 0.5, gbps=40.0),
    "twenty": on_off("twenty", 0.5, gbps=20.0),
}


class Free(Speeds):
    def rates(self, gangs: Gangs, there: Any = None) -> Any:
        return np.full(gangs.job.size, 10.0)


def speeds_of(types: list[str], kind: Any = PhaseNetwork, **options: Any) -> Any:
    return made_by(kind(profiles=PROFILES, **options), types, FOUR)


def made_by(model: Any, types: list[str], cluster: ap.Cluster) -> Any:
    """What a network makes of speeds of 10 steps/s."""
    nothing: Any = None
    network = get_network(model, cluster=cluster)
    about = About(nothing, nothing, cluster, Placer(cluster), models=types)
    return speeds_on(network, Free(), about)


def lines(count: int, across: list[Held] = ACROSS) -> Gangs:
    each = np.arange(count)
    kinds = np.zeros(count, dtype=int)
    return Gangs(each, each, kinds, np.full(count, 2), devices=across[:count])


@pytest.mark.parametrize("types", [["half", "half"], ["half", "most"], ["most", "most"]])
def test_the_law_holds_where_it_is_exact(types: list[str]) -> None:
    """Two racks of two servers: both gangs use both uplinks of 50 Gb/s, and so form a loop."""
    law, engine = (speeds_of(types, kind, shifted=False) for kind in (CassiniNetwork, PhaseNetwork))
    engine._model = engine._steady._network = PhaseNetwork(
        profiles=PROFILES, shifted=False, starts=64
    )
    assert engine.rates(lines(2)) == pytest.approx(law.rates(lines(2)), rel=0.01)


def test_shifted_gangs_on_one_link_as_the_law_has_it() -> None:
    where: list[Held] = [(0, [0, 2]), (0, [3, 4]), (0, [5, 6])]
    cluster = ap.Cluster({"a100": 8}, gpus_per_machine=1, machines_per_rack=2)
    for types, expected in (
        (["half", "half", "half"], [10, 10, 10]),
        (["half", "most", "half"], [10 / 1.3] * 3),
        (["always", "always", "twenty"], [5, 5, 10]),
    ):
        rates = made_by(PhaseNetwork(profiles=PROFILES), types, cluster).rates(lines(3, where))
        assert rates[:2] == pytest.approx(expected[:2])
        if types[1] != "always":
            assert rates[2] == pytest.approx(expected[2])


def test_where_the_law_is_not_exact() -> None:
    """40 and 20 Gb/s on 50: the law says 1.05 at random; in the engine they drift apart."""
    types = ["forty", "twenty"]
    law = speeds_of(types, CassiniNetwork, shifted=False).rates(lines(2))
    assert law == pytest.approx([10 / 1.05] * 2)
    engine = speeds_of(types, shifted=False).rates(lines(2))
    assert engine == pytest.approx([10, 10], rel=0.01)
    # A link that one gang alone crowds: the law knows of no neighbour, the engine of the link.
    cluster = ap.Cluster({"a100": 6}, gpus_per_machine=1, machines_per_rack=1)
    found = {}
    for kind in (CassiniNetwork, PhaseNetwork):
        speeds = made_by(kind(profiles=PROFILES, oversubscription=2.0), ["half"], cluster)
        found[kind] = speeds.rates(lines(1, [(0, [0, 1])]))[0]
    assert found == pytest.approx({CassiniNetwork: 10, PhaseNetwork: 10 / 1.5})


def test_the_same_meeting_elsewhere_is_the_same() -> None:
    rng = np.random.default_rng(3)
    names = list(PROFILES)
    for _ in range(12):
        count = int(rng.integers(2, 6))
        profiles = {job: PROFILES[names[int(rng.integers(len(names)))]] for job in range(count)}
        starts = {job: float(rng.integers(0, 4)) / 8 for job in range(count)}
        jobs_of: dict[Any, list[Any]] = {
            f"l{each}": rng.choice(count, 2, replace=False).tolist() for each in range(count)
        }
        gbps = {link: float(rng.choice([30.0, 50.0])) for link in jobs_of}
        new = dict(zip(range(count), rng.permutation(count).tolist(), strict=True))
        turned = {f"x{link}": [new[job] for job in jobs_of[link]] for link in reversed(jobs_of)}
        other = {new[job]: profile for job, profile in profiles.items()}
        begun = {new[job]: start for job, start in starts.items()}
        caps = {f"x{link}": each for link, each in gbps.items()}
        steady = SteadyIterations(PhaseNetwork())
        first: dict[int, float] = {}
        second: dict[int, float] = {}
        for jobs, links in connected(jobs_of):
            meeting, order = meeting_of(jobs, links, jobs_of, profiles, starts, gbps)
            first |= dict(zip(order, steady.of(meeting).slowdown.tolist(), strict=True))
            assert steady.of(meeting) is steady.of(meeting)
            assert np.array_equal(steady.of(meeting), steady.measured(meeting))
        for jobs, links in connected(turned):
            meeting, order = meeting_of(jobs, links, turned, other, begun, caps)
            second |= dict(zip(order, steady.of(meeting).slowdown.tolist(), strict=True))
        assert {new[job]: each for job, each in first.items()} == pytest.approx(second)
        assert min(first.values()) >= 1 - 1e-9


def test_iterations_are_measured_when_they_are_steady() -> None:
    """As a run of the engine that is many times as long, from given starts."""

    profiles = (PROFILES["half"], PROFILES["most"], PROFILES["slow"])
    meeting = Meeting(profiles, (0.0, 0.3, 0.1), ((50.0, (0, 1)), (60.0, (0, 1, 2))))
    found = SteadyIterations(PhaseNetwork()).of(meeting)
    uses = [("l", "m"), ("l", "m"), ("m",)]
    jobs = {
        place: PhaseJob(profiles[place], uses[place], start)
        for place, start in enumerate((0.0, 0.3, 0.1))
    }
    run = run_phases(jobs, {"l": 50.0, "m": 60.0}, iterations=1500)
    long = [run.mean_s(job, after=100) / profiles[job].period_s for job in range(3)]
    assert found.slowdown == pytest.approx(long, rel=0.02)
    marks = [run.marks_gigabits[job] / run.end_s for job in range(3)]
    assert found.marks_gbps == pytest.approx(marks, rel=0.05, abs=0.1)


def two_gangs(second_s: float, steps: float = 3000.0, model: str = "half") -> ap.Workload:
    table = pd.DataFrame(
        {
            "job_type": [model, model],
            "scale_factor": 2,
            "total_steps": steps,
            "arrival_s": [0.0, second_s],
        }
    )
    rows = pd.MultiIndex.from_tuples([(model, 2)], names=["job_type", "scale_factor"])
    return ap.Workload("two gangs", table, pd.DataFrame({"a100": 1.0}, index=rows))


# Three servers of two GPUs in a rack: of two gangs of three GPUs each has a server of its own and
# shares the third, whose link is the only one that both use.
LEASES: dict[str, Any] = {"mechanism": "leases", "checkpoint_seconds_per_gpu": 0}
SHARED = ap.Cluster({"a100": 6}, gpus_per_machine=2, machines_per_rack=3)


def three_gpus(second_s: float, model: str = "half") -> ap.Workload:
    load = two_gangs(second_s, model=model)
    rows = pd.MultiIndex.from_tuples([(model, 3)], names=["job_type", "scale_factor"])
    table = load.jobs.assign(scale_factor=3)
    return ap.Workload("gangs of three", table, pd.DataFrame({"a100": 1.0}, index=rows))


@pytest.mark.parametrize(
    ("decider", "settings"),
    [
        ("max_min_fairness", {"mechanism": "rounds", "round_seconds": 150}),
        ("fifo", {"mechanism": "rounds", "round_seconds": 50}),
        ("finish_time_fairness", {**LEASES, "lease_seconds": 150}),
        ("dally", {"mechanism": "leases", "lease_seconds": 3600}),
    ],
)
def test_shifts_come_with_the_next_epoch(decider: str, settings: dict[str, Any]) -> None:
    """The second gang comes after 150 s and starts at random; from 600 s on both are shifted."""
    network = PhaseNetwork(profiles=PROFILES)
    run = ap.simulate(decider, three_gpus(150.0), SHARED, network=network, **settings)
    meeting = Meeting((PROFILES["half"],) * 2, (None, None), ((50.0, (0, 1)),))
    slowdown = SteadyIterations(network).of(meeting).slowdown
    assert 1 < slowdown[0] <= 1.5
    lost = 450 - 450 / slowdown
    links = run.tables["links"]
    if decider != "dally":  # whose leases end with pauses
        expected = np.sort([3000 + lost[0], 3150 + lost[1]])
        assert np.sort(run.jobs["completion_s"]) == pytest.approx(expected, abs=1e-3)
        assert links["shared_s"].to_numpy() == pytest.approx([2850 + lost[0]] * 2, abs=1)
        assert links["shifted_s"].iloc[1] == pytest.approx(2400 + lost[0], abs=1)
    assert (links["marks_gigabits"] > 0).all()
    assert links["slowdown"].to_numpy() == pytest.approx(3000 / (3000 - lost), rel=0.01)
    assert (links["looped_s"] == 0).all()


def test_shifts_at_once_without_epochs() -> None:
    network = PhaseNetwork(profiles=PROFILES, epoch_s=0)
    run = ap.simulate(
        "fifo", three_gpus(150.0), SHARED, network=network, mechanism="rounds", round_seconds=50
    )
    assert run.jobs["completion_s"].tolist() == pytest.approx([3000, 3150])
    assert run.tables["links"]["marks_gigabits"].tolist() == [0, 0]


def test_epochs_begin_at_multiples_of_their_length() -> None:
    epochs = Epochs(600.0)
    assert epochs.at(100.0)
    epochs.chosen()
    told = [(100.0, False), (400.0, False), (700.0, True), (700.0, True), (2000.0, False)]
    for now_s, due in told:
        assert epochs.at(now_s) == due
    assert epochs.next_s == 2500
    assert epochs.at(2500.0)
    always = Epochs(0.0)
    assert always.at(3.0)
    always.chosen()
    assert always.due
    assert always.next_s == np.inf


def test_rounds_of_a_whole_number_of_seconds_lose_no_fractions() -> None:
    """The rounds are told as integers; jobs are done in the middle of one."""
    network = CassiniNetwork(profiles=PROFILES)
    load = three_gpus(0.0)
    table = load.jobs.assign(total_steps=[30.25, 70.5])
    run = ap.simulate(
        "fifo",
        ap.Workload("short", table, load.throughputs),
        SHARED,
        network=network,
        mechanism="rounds",
        round_seconds=100,
    )
    assert run.jobs["completion_s"].tolist() == [30.25, 70.5]


def test_jitter_is_readjusted_where_the_link_carries_everything() -> None:
    meeting = Meeting((on_off("part", 0.45),) * 2, (0.0, 0.5), ((50.0, (0, 1)),))
    free = SteadyIterations(PhaseNetwork(jitter=0.1, readjust=None)).of(meeting)
    kept = SteadyIterations(PhaseNetwork(jitter=0.1)).of(meeting)
    assert (kept.slowdown < free.slowdown).all()
    assert (kept.marks_gbps < free.marks_gbps).all()
    full = Meeting((on_off("most", 0.8),) * 2, (0.0, 0.5), ((50.0, (0, 1)),))
    assert SteadyIterations(PhaseNetwork()).of(full).slowdown == pytest.approx([1.6, 1.6])


def test_bad_input_is_named() -> None:
    for option, value in (
        ("epoch_s", -1),
        ("epoch_s", 1e-4),
        ("jitter", 1.0),
        ("readjust", 0.0),
        ("starts", -1),
        ("machine_gbps", 0),
    ):
        with pytest.raises(InputError, match=option):
            PhaseNetwork(**{option: value})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="PhaseNetwork"):
        get_network("phases", cluster=FOUR, profiles=table_iii_profiles())
    assert get_network("phases_unshifted", cluster=FOUR).name == "phases_unshifted"
