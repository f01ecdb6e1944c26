"""Schedulers, speeds and beliefs of one's own on the one loop, worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.sim.generated import draw

import apportion as ap
from apportion.errors import SolveError
from apportion.mechanism.placement import Placer
from apportion.mechanism.scheduler import NO_GANGS, Change, Gangs, News, Spells
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.engine import Fluid, RunRecord, TableSpeeds, Truth, run
from apportion.sim.given_order import by_arrival_and_id
from apportion.sim.log import RoundLog
from apportion.sim.progress import Progress
from apportion.sim.schedule import ScheduleLog

if TYPE_CHECKING:
    from apportion.mechanism.job_table import JobTable
    from apportion.sim.beliefs import Believed


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
