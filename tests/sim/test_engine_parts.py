"""Schedulers, speeds and beliefs of one's own on the one loop, worked out by hand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.sim.generated import draw

import apportion as ap
from apportion.errors import InputError, SolveError
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.mechanism.queue import QUEUES
from apportion.mechanism.scheduler import NO_GANGS, Change, Gangs, News, Spells
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.engine import Fluid, RunRecord, TableSpeeds, Truth, run
from apportion.sim.engine.snapshot import Snapshots
from apportion.sim.given_order import by_arrival_and_id
from apportion.sim.log import RoundLog
from apportion.sim.network.registry import NETWORKS
from apportion.sim.progress import Progress
from apportion.sim.schedule import ScheduleLog

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.mechanism.about import About
    from apportion.mechanism.job_table import JobTable
    from apportion.sim.beliefs import Believed
    from apportion.sim.engine import Speeds


def workload(steps: list[float], arrival_s: list[float]) -> ap.Workload:
    """Jobs of one GPU that make 1 step/s."""
    jobs = pd.DataFrame({"job_type": "m", "total_steps": steps, "arrival_s": arrival_s})
    index = pd.MultiIndex.from_tuples([("m", 1)])
    return ap.Workload("by hand", jobs, pd.DataFrame({"v100": [1.0]}, index))


class ShortestFirst:
    """Whoever has least left runs; others wait. Moved jobs lose some seconds."""

    name, hears = "Scheduler 'shortest first'", True

    def __init__(self, jobs: JobTable, devices: Placer, lost_s: float = 0.0) -> None:
        self.jobs, self.devices, self.lost_s = jobs, devices, lost_s

    def decide(self, news: News) -> Change:
        active, before = self.jobs.active, set(self.devices.held)
        order = active[np.argsort(self.jobs.remaining[active], kind="stable")]
        now = set(order[: int(self.jobs.capacity[0])].tolist())
        self.devices.release(before - now)
        new = sorted(now - before)
        self.devices.place(new, [0] * len(new), [1] * len(new))
        job = np.array(sorted(now), dtype=np.intp)
        stop = np.intersect1d(np.array(sorted(before - now), dtype=np.intp), active)
        return Change(self.devices.gangs(job), np.isin(job, new), stop, lost_s=self.lost_s)

    def lasts_s(self, now_s: float) -> float:
        return np.inf

    def steady_s(self, now_s: float) -> float:
        return now_s

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


class Contended(TableSpeeds):
    """Gangs that run at once slow each other down."""

    def rates(self, gangs: Gangs, there: Any = None) -> Any:
        return super().rates(gangs) / max(gangs.job.size, 1)


def simulated(
    load: ap.Workload, gpus: int, kind: type[TableSpeeds] = TableSpeeds, lost_s: float = 0.0
) -> tuple[Truth, RunRecord, pd.DataFrame]:
    cluster = ap.Cluster({"v100": gpus})
    truth, devices = Truth(load, cluster), Placer(cluster)
    log = ScheduleLog(cluster, len(load))
    record = RunRecord(truth, RoundLog(cluster.accelerators), Progress(None), log)
    scheduler = ShortestFirst(truth.told, devices, lost_s)
    run(truth, scheduler, Fluid(truth, kind(truth)), record)
    return truth, record, log.table(load.jobs.index)


def test_the_shortest_job_goes_first_by_hand() -> None:
    truth, _, schedule = simulated(workload([100.0, 30.0, 50.0], [0.0, 20.0, 25.0]), 1)
    assert truth.completion_s.tolist() == [180.0, 50.0, 100.0]
    assert truth.start_s.tolist() == [0.0, 20.0, 50.0]
    assert truth.preemptions.tolist() == [1, 0, 0]
    assert truth.held_s[:, 0].tolist() == [100.0, 30.0, 50.0]
    assert schedule[["job", "start_s", "end_s"]].to_numpy().tolist() == [
        *([0, 0.0, 20.0], [1, 20.0, 50.0], [2, 50.0, 100.0], [0, 100.0, 180.0]),
    ]


def test_what_a_start_costs_goes_on_through_later_decisions() -> None:
    truth, _, _ = simulated(workload([100.0, 300.0], [0.0, 10.0]), 2, lost_s=30.0)
    assert truth.completion_s.tolist() == [130.0, 340.0]
    assert truth.held_s[:, 0].tolist() == [130.0, 330.0]


def test_gangs_slow_each_other_down_by_another_model_of_speeds() -> None:
    truth, _, _ = simulated(workload([100.0, 100.0], [0.0, 50.0]), 2, Contended)
    # 50 s alone, then both at half speed until the first is done 100 s later.
    assert truth.completion_s.tolist() == [150.0, 200.0]
    np.testing.assert_allclose(truth.gpu_s.sum(), 300.0)


@pytest.mark.parametrize("step_s", [np.inf, 7.0, 133.0])
@pytest.mark.parametrize(
    ("work_s", "rest_s", "done_s"),
    [(100.0, 50.0, 360.0), (100.0, 0.0, 260.0), (125.0, 8.0, 268.0), (300.0, np.inf, 260.0)],
)
def test_spells_of_work_and_rest_by_hand(
    step_s: float, work_s: float, rest_s: float, done_s: float
) -> None:
    """250 s of work from 10 s on; how often somebody looks changes nothing."""
    truth = Truth(workload([250.0], [0.0]), ap.Cluster({"v100": 1}))
    runtime, one, now_s = Fluid(truth, TableSpeeds(truth)), np.zeros(1, dtype=np.intp), 0.0
    spells = Spells(np.array([10.0]), np.array([work_s]), np.array([rest_s]))
    truth.admit(0.0)
    gangs = Gangs(one, one, one, one + 1)
    runtime.apply(0.0, Change(gangs, one == 0, spells=spells))
    while truth.left:
        now_s, ran = runtime.run(now_s, step_s, now_s, to_completion=True)
        assert ran.length_s <= step_s
    np.testing.assert_allclose([now_s, truth.completion_s[0]], done_s, rtol=1e-12)
    np.testing.assert_allclose(truth.held_s[0, 0], done_s)


def test_jobs_that_are_never_served_are_told_from_those_that_wait() -> None:
    class Nobody(ShortestFirst):
        def decide(self, news: News) -> Change:
            return Change(NO_GANGS, np.zeros(0, dtype=bool))

    cluster = ap.Cluster({"v100": 1})
    truth, log = Truth(workload([1.0], [0.0]), cluster), RoundLog(cluster.accelerators)
    record = RunRecord(truth, log, Progress(None))
    nobody, runtime = Nobody(truth.told, Placer(cluster)), Fluid(truth, TableSpeeds(truth))
    with pytest.raises(SolveError, match="'shortest first' gives none of the 1 active jobs"):
        run(truth, nobody, runtime, record)


@dataclass
class Watched:
    """Tells the truth, and keeps what it is shown; or begins with a guess, and learns."""

    guess: bool = False
    seen: list[tuple[Any, Any]] = field(default_factory=list)

    def start(self, truth: Truth, workload: ap.Workload, cluster: ap.Cluster) -> Believed:
        self.believed = Told().start(truth, workload, cluster)
        self.true = truth.speed
        if self.guess:
            self.believed.fixed, self.believed.speed = False, np.ones_like(truth.speed)
        tell = self.believed.observe

        def observe(gangs: Gangs, rate: Any, seconds: Any) -> Any:
            self.seen.append((gangs.job, rate * seconds))
            moved = tell(gangs, rate, seconds)
            if not self.guess:
                return moved
            ran = seconds > 0
            cells = gangs.job[ran], gangs.option[ran]
            new = self.believed.speed[cells] != rate[ran]
            self.believed.speed[cells] = rate[ran]
            return np.unique(gangs.job[ran][new])

        self.believed.observe = observe  # type: ignore[method-assign]
        return self.believed

    def steps(self, jobs: int) -> Any:
        done = np.zeros(jobs)
        for job, steps in self.seen:
            np.add.at(done, job, steps)
        return done


def crowd(jobs: int = 14) -> ap.Workload:
    return ap.generate_workload(jobs=jobs, seed=5, scale_factors="gavel", jobs_per_hour=6)


@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
@pytest.mark.parametrize("policy", ["max_min_fairness", "max_min_fairness_space_sharing"])
def test_beliefs_are_shown_all_that_ran(mechanism: Any, policy: str) -> None:
    case = draw(policy, np.random.default_rng(4), most_jobs=30)
    case = replace(case, settings={"mechanism": mechanism})
    watched = Watched()
    found = case.run(settings={**case.settings, "beliefs": watched})
    pd.testing.assert_frame_equal(found.jobs, case.run().jobs, check_exact=True)
    # Of what the last stretch brings nobody is told: there is nothing left to decide.
    told = (found.jobs["completion_s"] <= found.rounds["start_s"].iloc[-1]).to_numpy()
    order = by_arrival_and_id(case.workload).jobs.index
    done = pd.Series(watched.steps(len(order)), order)[found.jobs.index].to_numpy()
    total = case.workload.jobs["total_steps"].to_numpy()
    assert told.sum() > 3
    np.testing.assert_allclose(done[told], total[told], rtol=1e-9)
    assert (done <= total * (1 + 1e-9)).all()


def test_types_that_are_told_alike_are_used_alike() -> None:
    index = pd.MultiIndex.from_tuples([("m", 1)])
    jobs = pd.DataFrame({"job_type": ["m"], "total_steps": [3600.0]})
    load = ap.Workload("one", jobs, pd.DataFrame({"k80": [1.0], "v100": [4.0]}, index))
    told = ap.simulate("max_min_fairness", load, "v100=1,k80=1").jobs
    blind = ap.simulate("max_min_fairness", load, "v100=1,k80=1", beliefs=Agnostic()).jobs
    assert told["completion_s"].tolist() == [900.0]
    assert blind["k80_s"].iloc[0] > 0
    np.testing.assert_allclose(blind["k80_s"] * 1.0 + blind["v100_s"] * 4.0, 3600.0)


@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
def test_what_is_learnt_of_single_jobs_is_heeded_from_then_on(mechanism: Any) -> None:
    load, cluster = crowd(), "v100=4,k80=4"
    ways: dict[str, Any] = {"told": Told(), "learnt": Watched(guess=True)}
    runs = {
        name: ap.simulate("max_min_fairness", load, cluster, mechanism=mechanism, beliefs=way)
        for name, way in ways.items()
    }
    agnostic = ap.simulate("max_min_fairness_agnostic", load, cluster, mechanism=mechanism)
    # Exact shares are found anew at events only, of which there are as many.
    assert runs["learnt"].solves >= runs["told"].solves + (mechanism == "rounds")
    mean = {name: each.jobs["jct_s"].mean() for name, each in runs.items()}
    assert mean["told"] < mean["learnt"] < agnostic.jobs["jct_s"].mean()


class Everybody:
    """First come, first served, on the fastest type that is free; nobody is ever stopped."""

    name = "everybody"

    def start(self, about: About) -> None:
        self.jobs, self.devices = about.jobs, about.devices
        self.waiting: list[int] = []
        self.here: list[int] = []

    def decide(self, news: News) -> Change:
        if news.ran is not None:
            done = news.ran.done.tolist()
            self.devices.release(done)
            self.here = [job for job in self.here if job not in done]
        self.waiting += news.arrived.tolist()
        new = [job for job in self.waiting if self._place(job)]
        self.waiting = [job for job in self.waiting if job not in new]
        self.here = sorted([*self.here, *new])
        job = np.array(self.here, dtype=np.intp)
        return Change(self.devices.gangs(job), np.isin(job, new))

    def _place(self, job: int) -> bool:
        speed, gpus = self.jobs.speed[job], int(self.jobs.scale[job])
        kinds = [kind for kind in np.argsort(-speed).tolist() if speed[kind] > 0]
        gangs = (Gang(job, gpus, kind, self.jobs.job_type[job]) for kind in kinds)
        return any(self.devices.give(gang) is not None for gang in gangs)

    def state(self) -> dict[str, Any]:
        return {"waiting": self.waiting, "here": self.here}

    def restore(self, state: dict[str, Any]) -> None:
        self.waiting, self.here = state["waiting"], state["here"]


class InTurn(ap.QueueScheduler):
    """The same as a queue of the package."""

    name = "in_turn"

    def queue(self, jobs: JobTable, now_s: float) -> Any:
        held = jobs.held_s[jobs.active].sum(axis=1) > 0
        for job in jobs.active[np.argsort(~held, kind="stable")]:
            yield job, np.argsort(-jobs.speed[job])


def on_racks(load: ap.Workload) -> dict[str, Any]:
    kinds = sorted(load.throughputs.columns)[:1]
    cluster = ap.Cluster(dict.fromkeys(kinds, 16), gpus_per_machine=4, machines_per_rack=2)
    return {"workload": load, "cluster": cluster}


def assert_same(one: ap.Run, other: ap.Run) -> None:
    pd.testing.assert_frame_equal(one.jobs, other.jobs, check_exact=True)
    pd.testing.assert_frame_equal(one.schedule, other.schedule, check_exact=True)


def test_a_mechanism_of_ones_own_is_as_the_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By value and by name, with schedule, snapshots, and in other processes."""
    load, own = crowd(10), Everybody()
    case: dict[str, Any] = {"workload": load, "cluster": "v100=4,k80=4"}
    with_costs: dict[str, Any] = {"placement": "random", "preemption_overhead_seconds": 60.0}
    for settings in ({}, with_costs):
        made = ap.simulate(own, **case, **settings)
        ap.check_schedule(made, **case)
        assert made.jobs["preemptions"].sum() == 0
        assert_same(ap.simulate(own, **case, **settings), made)  # a run leaves no trace in it
        monkeypatch.setitem(QUEUES, "everybody", own)
        assert_same(ap.simulate("everybody", **case, **settings), made)
        killed, left = tmp_path / "run.json", [3, 7, -1]
        monkeypatch.setattr(Snapshots, "note", stopping(left))
        for _ in range(2):
            with pytest.raises(InterruptedError):
                ap.simulate(own, **case, **settings, snapshot=killed)
        assert_same(ap.simulate(own, **case, **settings, snapshot=killed), made)
    compared = ap.compare([own], **case, n_jobs=2, out=tmp_path / "out")
    pd.testing.assert_frame_equal(
        compared["everybody"].jobs, ap.simulate(own, **case).jobs, check_exact=True
    )
    ap.check_scheduler(own)


def stopping(left: list[int]) -> Any:
    """Write a state and stop at some step of each run."""

    def note(snapshots: Snapshots, *where: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            snapshots.write(*where)
            del left[0]
            raise InterruptedError

    return note


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (lambda own, made: "all", "must return a Change or None"),
    "absent": (
        lambda own, made: made._replace(gangs=made.gangs._replace(job=made.gangs.job + 90)),
        "which is not there",
    ),
    "same devices": (
        lambda own, made: made._replace(
            gangs=made.gangs._replace(devices=[(0, [0])] * made.gangs.job.size)
        ),
        "to two gangs",
    ),
    "few": (
        lambda own, made: made._replace(gangs=made.gangs._replace(gpus=made.gangs.gpus + 1)),
        r"2 GPUs; it needs 1",
    ),
    "unknown": (
        lambda own, made: made._replace(
            gangs=made.gangs._replace(devices=[(0, [7])] * made.gangs.job.size)
        ),
        r"1 GPUs of type 0, and says \(0, \[7\]\)",
    ),
    "silent": (lambda own, made: made._replace(starts=made.starts & False), "where it was not"),
    "stops": (lambda own, made: made._replace(stop=np.array([0])), "which has lost nothing"),
    "shares": (
        lambda own, made: made._replace(
            gangs=made.gangs._replace(share=np.ones(made.gangs.job.size))
        ),
        "shares time",
    ),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_what_a_mechanism_of_ones_own_cannot_do_is_said_in_words(wrong: str) -> None:
    change, words = WRONG[wrong]

    class Wrong(Everybody):
        def decide(self, news: News) -> Any:
            return change(self, super().decide(news))

    load = workload([50.0, 60.0], [0.0, 0.0])
    with pytest.raises(InputError, match=rf"^Scheduler 'everybody' .*{words}"):
        ap.simulate(Wrong(), load, "v100=2")


def test_what_is_no_mechanism_is_said_in_words(tmp_path: Path) -> None:
    load, own = workload([50.0], [0.0]), Everybody()
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (Everybody, {}, r"policy is the class Everybody; write Everybody\(\.\.\.\)"),
        ("fifo", {"mechanism": own}, "stands in place of the policy"),
        (own, {"mechanism": "rounds"}, "decides itself"),
        (own, {"speeds": "agnostic"}, "does nothing to .queue."),
    ]
    for who, settings, words in cases:
        with pytest.raises(InputError, match=words):
            ap.simulate(who, load, "v100=2", **settings)

    class Forgetful:
        def decide(self, news: News) -> None: ...

    with pytest.raises(InputError, match=r"has no state\(\)"):
        ap.simulate(Forgetful(), load, "v100=2", snapshot=tmp_path / "x")


class Halved:
    """A network: whoever has k neighbours anywhere makes 1/(1 + k/10) of the speed alone."""

    name = "halved"

    def __init__(self) -> None:
        self.asked = 0

    def overhead(self, job_type: str, shape: Any) -> float:
        return 0.0

    def speeds(self, alone: Speeds, about: About) -> Any:
        network = self

        class Among:
            def rates(self, gangs: Gangs, there: Any = None) -> Any:
                network.asked += 1
                others = gangs.job.size if there is None else int(there.sum())
                return alone.rates(gangs, there) / (1 + (others - 1) / 10)

        return Among()


def rack_jobs() -> ap.Workload:
    load = ap.generate_rack_workload(jobs=6, seed=3, max_scale_factor=4)
    return replace(load, jobs=load.jobs.assign(total_steps=load.jobs["total_steps"] * 0.1))


NEIGHBOURS: dict[str, tuple[Any, dict[str, Any]]] = {
    "rounds": ("max_min_fairness", {"mechanism": "rounds"}),
    "leases": ("dally", {}),
    "policy": ("max_min_fairness", {"mechanism": "leases"}),
    "queue": (InTurn(), {}),
    "own": (Everybody(), {}),
    "configurations": ("afs", {}),
}


@pytest.mark.parametrize("mechanism", list(NEIGHBOURS))
def test_networks_of_ones_own_count_under_every_mechanism(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job takes as long as its neighbours say, by the schedule alone."""
    decider, settings = NEIGHBOURS[mechanism]
    network = Halved()
    monkeypatch.setitem(NETWORKS, "halved", lambda profiles: network)
    if mechanism == "configurations":
        case: dict[str, Any] = {"workload": ap.generate_elastic_workload(jobs=3, seed=1)}
        case["cluster"] = "v100=8"
    else:
        case = on_racks(rack_jobs())
    free = ap.simulate(decider, **case, **{**settings, "network": "none"})
    made = ap.simulate(decider, **case, **{**settings, "network": "halved"})
    assert network.asked > 3
    assert (made.jobs["completion_s"] >= free.jobs["completion_s"] - 1e-3).all()
    assert made.jobs["jct_s"].mean() > free.jobs["jct_s"].mean()
    if mechanism in ("queue", "own"):  # nobody loses time but to neighbours
        schedule = made.schedule
        edges = np.unique(schedule[["start_s", "end_s"]].to_numpy())
        done = dict.fromkeys(made.jobs.index, 0.0)
        for begin_s, end_s in itertools.pairwise(edges):
            there = schedule[(schedule["start_s"] <= begin_s) & (schedule["end_s"] >= end_s)]
            for job in there["job"]:
                done[job] += (end_s - begin_s) / (1 + (len(there) - 1) / 10)
        speed = case["workload"].throughput_of(case["cluster"]).max(axis=1)
        np.testing.assert_allclose(
            pd.Series(done) * speed, case["workload"].jobs["total_steps"], rtol=1e-6
        )


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (lambda gangs: np.full(gangs.job.size, np.nan), "is nan"),
        (lambda gangs: np.full(gangs.job.size, -1.0), "is -1.0"),
        (lambda gangs: np.full(gangs.job.size, np.inf), "is inf"),
        (lambda gangs: np.zeros(gangs.job.size), "lets none of"),
        (lambda gangs: np.ones(gangs.job.size + 1), "have the shape"),
        (lambda gangs: "fast", "are no numbers"),
    ],
)
def test_what_networks_of_ones_own_say_is_checked(rates: Any, words: str) -> None:
    class Own(Halved):
        def speeds(self, alone: Speeds, about: About) -> Any:
            return SimpleNamespace(rates=rates)

    with pytest.raises(InputError, match=words):
        ap.simulate("dally", **on_racks(rack_jobs()), network=Own())


def test_a_network_that_makes_no_speeds_is_refused() -> None:
    class Own(Halved):
        def speeds(self, alone: Speeds, about: About) -> Any:
            return 3.0

    with pytest.raises(InputError, match=r"makes 3.0, which has no rates"):
        ap.simulate("dally", **on_racks(rack_jobs()), network=Own())
    with pytest.raises(InputError, match="does nothing to 'exact'"):
        ap.simulate("fifo", crowd(3), "v100=4", mechanism="exact", network=Own())
