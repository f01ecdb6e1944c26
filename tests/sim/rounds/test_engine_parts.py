"""Schedulers, speeds and beliefs of one's own on the one loop, worked out by hand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pytest
from tests.sim.workloads.generated import draw

import apportion as ap
from apportion.errors import InputError, SolveError
from apportion.mechanism.deciders import DECIDERS
from apportion.mechanism.placements import Gang
from apportion.mechanism.scheduler import Decision, DutyCycle, Event, Gangs
from apportion.mechanisms import MECHANISMS
from apportion.sim.about import AboutRun, Parts
from apportion.sim.beliefs import Told
from apportion.sim.engine import Fluid, TableSpeeds, TrueState
from apportion.sim.network.registry import NETWORKS
from apportion.sim.record import Columns
from apportion.sim.workload_tables import by_arrival_and_id

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.mechanism.decider import About
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.sim.beliefs import Believed
    from apportion.sim.engine import Speeds

pytestmark = pytest.mark.usefixtures("free_starts")


def workload(steps: list[float], arrival_s: list[float]) -> ap.Workload:
    """Jobs of one GPU that make 1 step/s."""
    jobs = pd.DataFrame({"job_type": "m", "total_steps": steps, "arrival_s": arrival_s})
    index = pd.MultiIndex.from_tuples([("m", 1)])
    return ap.Workload("by hand", jobs, pd.DataFrame({"v100": [1.0]}, index))


@pytest.mark.parametrize("step_s", [np.inf, 7.0, 133.0])
@pytest.mark.parametrize(
    ("work_s", "rest_s", "done_s"),
    [(100.0, 50.0, 360.0), (100.0, 0.0, 260.0), (125.0, 8.0, 268.0), (300.0, np.inf, 260.0)],
)
def test_duty_cycles_by_hand(step_s: float, work_s: float, rest_s: float, done_s: float) -> None:
    """250 s of work from 10 s on; how often somebody looks changes nothing."""
    truth = TrueState(workload([250.0], [0.0]), ap.Cluster({"v100": 1}))
    runtime, one, now_s = Fluid(truth, TableSpeeds(truth)), np.zeros(1, dtype=np.intp), 0.0
    duty_cycle = DutyCycle(np.array([10.0]), np.array([work_s]), np.array([rest_s]))
    truth.admit(0.0)
    gangs = Gangs(one, one, one, one + 1)
    runtime.apply(0.0, Decision(gangs, one == 0, duty_cycle=duty_cycle))
    while truth.left:
        now_s, ran = runtime.run(now_s, step_s, now_s, to_completion=True)
        assert ran.length_s <= step_s
    np.testing.assert_allclose([now_s, truth.completion_s[0]], done_s, rtol=1e-12)
    np.testing.assert_allclose(truth.held_s[0, 0], done_s)


@dataclass
class Watched:
    """Tells the truth, and keeps what it is shown; or begins with a guess, and learns."""

    guess: bool = False
    seen: list[tuple[Any, Any]] = field(default_factory=list)

    def start(self, truth: TrueState, workload: ap.Workload, cluster: ap.Cluster) -> Believed:
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


class Everybody:
    """First come, first served, on the fastest type that is free; nobody is ever stopped."""

    name = "everybody"

    def start(self, about: About) -> None:
        self.jobs, self.devices = about.jobs, about.devices
        self.waiting: list[int] = []
        self.here: list[int] = []

    def decide(self, event: Event) -> Decision:
        if event.ran is not None:
            done = event.ran.done.tolist()
            self.devices.release(done)
            self.here = [job for job in self.here if job not in done]
        self.waiting += event.arrived.tolist()
        new = [job for job in self.waiting if self._place(job)]
        self.waiting = [job for job in self.waiting if job not in new]
        self.here = sorted([*self.here, *new])
        job = np.array(self.here, dtype=np.intp)
        return Decision(self.devices.gangs(job), np.isin(job, new))

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


@pytest.mark.thorough
def test_a_mechanism_of_ones_own_is_as_the_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By value and by name, with schedule, and in other processes."""
    load, own = crowd(10), Everybody()
    case: dict[str, Any] = {"workload": load, "cluster": "v100=4,k80=4"}
    with_costs: dict[str, Any] = {"placement": "random", "preemption_overhead_seconds": 60.0}
    for settings in ({}, with_costs):
        made = ap.simulate(own, **case, **settings)
        ap.check_schedule(made, **case)
        assert made.jobs["preemptions"].sum() == 0
        assert_same(ap.simulate(own, **case, **settings), made)  # a run leaves no trace in it
        monkeypatch.setitem(DECIDERS, "everybody", own)
        assert_same(ap.simulate("everybody", **case, **settings), made)
    free: Any = {"preemption_overhead_seconds": 0.0, "n_jobs": 2, "out": tmp_path / "out"}
    compared = ap.compare([own], **case, **free)
    pd.testing.assert_frame_equal(
        compared["everybody"].jobs, ap.simulate(own, **case).jobs, check_exact=True
    )
    ap.check_scheduler(own)


@dataclass(frozen=True)
class Lottery:
    """GPUs are drawn for in every round; the shares that a policy finds are the lots."""

    seconds: float = 600.0
    name = "lottery"

    def parts(self, decider: Any, about: AboutRun) -> Parts:
        told = about.place("consolidated")
        sharing = about.sharing(decider)
        scheduler: Any = Draws(self.seconds, told, sharing)
        return Parts(scheduler, about.fluid(), sharing.asked, [Won(told.jobs.jobs)])


class Draws:
    event_driven = False

    def __init__(self, seconds: float, told: About, sharing: Any) -> None:
        self.seconds, self.told, self.sharing = seconds, told, sharing
        self.rng = np.random.default_rng(told.seed)

    def decide(self, event: Event) -> Decision:
        jobs, devices = self.told.jobs, self.told.devices
        before = dict(devices.held)
        devices.release(before)
        shares = self.sharing.solve(event.now_s).alone
        with np.errstate(divide="ignore"):
            lots = self.rng.exponential(size=shares.shape) / shares
        for row, kind in zip(*np.unravel_index(lots.argsort(axis=None), lots.shape), strict=True):
            job = int(jobs.active[row])
            if shares[row, kind] > 0 and job not in devices.held:
                devices.give(Gang(job, int(jobs.scale[job]), int(kind), jobs.job_type[job]))
        here = np.array(sorted(devices.held), dtype=int)
        moved = [devices.held[job] != before.get(job) for job in here.tolist()]
        return Decision(devices.gangs(here), starts=np.array(moved, dtype=bool))

    def valid_for_s(self, now_s: float) -> float:
        return self.seconds


class Won(Columns):
    """A column of the jobs table: rounds in which each job had GPUs."""

    def __init__(self, jobs: int) -> None:
        self.rounds = np.zeros(jobs, dtype=int)

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        self.rounds[ran.gangs.job] += ran.times

    def of_jobs(self, jobs: pd.DataFrame) -> dict[str, Any]:
        return {"rounds_won": self.rounds}


@pytest.mark.thorough
@pytest.mark.parametrize("registered", [False, True])
def test_a_mechanism_that_makes_its_own_parts_is_as_the_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, registered: bool
) -> None:
    """By value and by name: in simulate, in compare and sweep with two workers."""
    case: dict[str, Any] = {"workload": crowd(8), "cluster": "v100=4,k80=4"}
    how: Any = Lottery(900.0)
    made = ap.simulate("fifo", **case, mechanism=how, seed=3)
    assert made.settings["mechanism"] == "lottery"
    assert made.solves == len(made.rounds)
    assert made.jobs["rounds_won"].sum() == made.rounds["running_jobs"].sum()
    for job, stays in made.schedule.groupby("job"):
        held_s = (stays["end_s"] - stays["start_s"]).sum()
        assert held_s == pytest.approx(made.jobs.loc[job, ["v100_s", "k80_s"]].sum())
    other = ap.simulate("fifo", **case, mechanism=how, seed=4)
    assert not other.jobs["rounds_won"].equals(made.jobs["rounds_won"])
    if registered:
        monkeypatch.setitem(MECHANISMS, "lottery", how)
        how = "lottery"
        assert_same(ap.simulate("fifo", **case, mechanism=how, seed=3), made)
    both = ["fifo", "max_min_fairness"]
    compared = ap.compare(both, **case, mechanism=how, seed=3, n_jobs=2, out=tmp_path / "out")
    assert_same(compared["fifo"], made)
    load = case["workload"]
    swept = ap.sweep(both, load, case["cluster"], seeds=[3], mechanism=how, n_jobs=2).summary()
    assert swept["mean_jct_s"].tolist() == compared.summary()["mean_jct_s"].tolist()


def test_what_makes_no_parts_is_said_in_words() -> None:
    class Nothing:
        def __init__(self, made: Any) -> None:
            self.made = made

        def parts(self, decider: Any, about: AboutRun) -> Any:
            return self.made(about)

    class Still:
        name, event_driven = "still", True

        def decide(self, event: Event) -> None: ...

    still: Any = Still()
    none: Any = None
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (Nothing, {}, r"class Nothing; write mechanism=Nothing\(\)"),
        (Nothing(lambda about: 3), {}, "'Nothing' makes 3; .* must return apportion.sim.about"),
        (Nothing(lambda about: Parts(still, about.fluid())), {}, "has no valid_for_s"),
        (Nothing(lambda about: Parts(still, still)), {}, "has no apply"),
        (Nothing(lambda about: Parts(none, about.fluid())), {}, "the scheduler None; .* decide"),
        (Nothing(lambda about: Parts(still, about.fluid(), None, none)), {}, "the columns None"),
        (Nothing(lambda about: 3), {"seconds": 3.0}, "all settings are in it"),
        (Lottery(), {"speeds": "agnostic", "policy": Everybody()}, "asks for no speeds"),
    ]
    for how, settings, words in cases:
        policy = settings.pop("policy", "fifo")
        with pytest.raises(InputError, match=words):
            ap.simulate(policy, workload([50.0], [0.0]), "v100=2", mechanism=how, **settings)


def test_who_decides_itself_gives_devices_to_gangs_that_iterate() -> None:
    """As the order "fifo" of a scheduler with a gate, whose GPUs are for one job each."""
    load = ap.generate_contended_workload(seed=2, scale=0.05)
    load = replace(load, jobs=load.jobs[load.jobs["scale_factor"] <= 8].iloc[:12])
    case: dict[str, Any] = {"workload": load, "mechanism": "iterations"}
    case["cluster"] = ap.Cluster({"v100": 8}, gpus_per_machine=2)
    how: Any = {"order": "fifo", "placement": "consolidated", "exclusive": True}
    gated = ap.simulate("ada_srsf", **case, **how)
    own = ap.simulate(Everybody(), **case)
    assert_same(own, gated)
    assert own.jobs["sent_bytes"].sum() > 0
    with pytest.raises(InputError, match="order='srsf' does nothing to 'everybody'"):
        ap.simulate(Everybody(), **case, order="srsf")


def test_who_decides_itself_has_the_columns_of_leases() -> None:
    racks = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    load = ap.generate_rack_workload(jobs=12, seed=3, max_scale_factor=16)
    case: dict[str, Any] = {"workload": load, "cluster": racks, "network": "table1"}
    queued = ap.simulate(Everybody(), **case, placement="best_fit").jobs
    run = ap.simulate(Everybody(), **case, mechanism="leases")
    ap.check_schedule(run, load, racks, network="table1")
    np.testing.assert_allclose(run.jobs["completion_s"], queued["completion_s"], atol=1e-4)
    tiers = run.jobs[["machine_s", "rack_s", "network_s"]].sum(axis=1)
    np.testing.assert_allclose(tiers, run.jobs["gpu_s"])
    worked = run.jobs["compute_s"] + run.jobs["communication_s"]
    np.testing.assert_allclose(worked, run.jobs["gpu_s"], rtol=1e-6)
    with pytest.raises(InputError, match="timers='tuned' does nothing to 'everybody'"):
        ap.simulate(Everybody(), **case, mechanism="leases", timers="tuned")


class MovesUp(Everybody):
    """Whoever runs goes on, on the free devices of its machines that have the lowest numbers."""

    def decide(self, event: Event) -> Decision:
        made, devices = super().decide(event), self.devices.devices
        job, moved = made.gangs.job, np.zeros(made.starts.size, dtype=bool)
        for line in (~made.starts).nonzero()[0].tolist():
            kind, before = devices.give_back(int(job[line]))
            pool = devices.pools[kind]
            devices.hold(int(job[line]), kind, pool.lowest(pool.placement(before)))
            moved[line] = devices.held[int(job[line])] != (kind, before)
        return made._replace(gangs=self.devices.gangs(job), moved=moved)


@pytest.mark.parametrize("mechanism", ["queue", "leases"])
def test_who_decides_itself_moves_gangs_inside_their_machines(mechanism: str) -> None:
    racks = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    load = ap.generate_rack_workload(jobs=20, seed=3, max_scale_factor=4)
    case: dict[str, Any] = {"workload": load, "cluster": racks, "mechanism": mechanism}
    run, stays = (ap.simulate(own, **case, network="table1") for own in (MovesUp(), Everybody()))
    if mechanism == "leases":  # elsewhere the check takes each stay for a start
        ap.check_schedule(run, load, racks, network="table1")
    pd.testing.assert_frame_equal(run.jobs, stays.jobs, rtol=1e-9)
    assert (run.jobs["preemptions"] == 0).all()
    assert len(run.schedule) > len(stays.schedule) == len(load)
    assert (run.schedule.groupby("job")["machines"].nunique() == 1).all()


class Shrinking(Everybody):
    """Whoever comes has two GPUs, or one."""

    def _place(self, job: int) -> bool:
        gangs = [Gang(job, gpus, 0, self.jobs.job_type[job]) for gpus in (2, 1)]
        return any(self.devices.give(gang) is not None for gang in gangs)


@pytest.mark.thorough
def test_who_decides_itself_gives_elastic_jobs_any_number_of_gpus() -> None:
    load = ap.generate_elastic_workload(5, hours=0.2, seed=2)
    case: dict[str, Any] = {"policy": Shrinking(), "workload": load, "cluster": "v100=3"}
    run = ap.simulate(**case, restart_seconds=12.0)
    assert set(map(len, run.schedule["devices"])) == {1, 2}
    assert run.jobs["paused_s"].tolist() == [12.0] * 5
    held = run.schedule["devices"].map(len) * (run.schedule["end_s"] - run.schedule["start_s"])
    np.testing.assert_allclose(held.sum(), run.jobs["gpu_seconds"].sum())
    compared = ap.compare([Shrinking(), "sia"], load, "v100=3", n_jobs=1)
    assert compared.summary()["restarts"].iloc[0] == 0
    with pytest.raises(InputError, match=r"growth=3.0 does nothing to 'everybody'"):
        ap.simulate(**case, growth=3.0)


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (lambda own, made: "all", "must return a Decision or None"),
    "no gangs": (lambda own, made: made._replace(gangs="all"), "must return a Decision or None"),
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
    "moves": (
        lambda own, made: made._replace(starts=made.starts & False, moved=made.starts),
        r"moves job 0 from None to \(0, \[0\]\), .*There it must start",
    ),
    "moves and starts": (lambda own, made: made._replace(moved=made.starts), "that it moved"),
    "moves all": (lambda own, made: made._replace(moved=[1]), "of 2 lines that they moved"),
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
    decision, words = WRONG[wrong]

    class Wrong(Everybody):
        def decide(self, event: Event) -> Any:
            return decision(self, super().decide(event))

    load = workload([50.0, 60.0], [0.0, 0.0])
    with pytest.raises(InputError, match=rf"^Scheduler 'everybody' .*{words}"):
        ap.simulate(Wrong(), load, "v100=2")


@pytest.mark.parametrize("lasts", [float("nan"), -1.0, None, "soon"])
def test_times_that_are_none_are_said_in_words(lasts: Any) -> None:
    class Wrong(Everybody):
        def valid_for_s(self, now_s: float) -> Any:
            return lasts

    with pytest.raises(InputError, match=r"'everybody' answers valid_for_s .*must be seconds >= 0"):
        ap.simulate(Wrong(), workload([50.0], [0.0]), "v100=2")


@pytest.mark.parametrize("comes", [0.0, 10.0], ids=["alone", "another comes"])
def test_decisions_that_never_last_are_an_error(comes: float) -> None:
    class Hasty(Everybody):
        def valid_for_s(self, now_s: float) -> float:
            return 0.0 if now_s >= 5 or comes == 0 else 5.0

    with pytest.raises(SolveError, match=r"has decided 1,000 times at \d s, each time for 0 s"):
        ap.simulate(Hasty(), workload([50.0, 60.0], [0.0, comes]), "v100=2")


def test_what_makes_no_scheduler_is_said_in_words() -> None:
    class Makes:
        def make(self, about: Any) -> int:
            return 3

    class Says(Makes):
        works_by = ("queue",)

    load, makes, says = workload([50.0], [0.0]), cast("Any", Makes()), cast("Any", Says())
    with pytest.raises(InputError, match=r"'Makes' makes 3 for a run; make\(about\) must return"):
        ap.simulate(makes, load, "v100=2")
    with pytest.raises(InputError, match=r"Says says works_by.*derive it from"):
        ap.simulate(says, load, "v100=2")


def test_what_is_no_mechanism_is_said_in_words() -> None:
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
        case: dict[str, Any] = {"workload": ap.generate_elastic_workload(jobs=12, seed=1)}
        case["cluster"] = "v100=8"
    else:
        case = on_racks(rack_jobs())
    by_name: Any = settings
    free = ap.simulate(decider, **case, **by_name, network="none")
    made = ap.simulate(decider, **case, **by_name, network="halved")
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
