"""A right schedule passes, and every way in which one can be wrong is caught."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.mechanism.devices import Devices
from apportion.mechanism.leases.active import ActiveLeases
from apportion.mechanism.placements import PLACEMENTS, Strategy
from apportion.mechanism.round_planner import RoundPlanner
from apportion.mechanisms import MECHANISMS
from apportion.sim.engine import Fluid
from apportion.sim.links.runtime import Iterating
from apportion.sim.workload_tables import by_arrival_and_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.mechanism.placements import Gang
    from apportion.mechanism.scheduler import Decision

CLUSTER = ap.Cluster({"v100": 4, "p100": 4, "k80": 4}, gpus_per_machine=2)
RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
OVERHEAD_S = 40.0


@cache
def crowd(seed: int = 0) -> ap.Workload:
    drawn = ap.generate_workload(
        jobs=20, seed=seed, jobs_per_hour=40, scale_factors={1: 0.6, 2: 0.2, 4: 0.2}
    )
    return replace(drawn, jobs=drawn.jobs.assign(total_steps=drawn.jobs["total_steps"] * 0.05))


@cache
def on_racks(seed: int = 0) -> ap.Workload:
    return ap.generate_rack_workload(jobs=20, seed=seed, max_scale_factor=16)


def rounds(policy: str = "max_min_fairness", **settings: Any) -> ap.Run:
    settings = {"preemption_overhead_seconds": OVERHEAD_S} | settings
    return ap.simulate(policy, crowd(), CLUSTER, **settings)


@pytest.fixture(scope="module")
def run() -> ap.Run:
    return rounds()


@pytest.fixture(scope="module")
def leased() -> ap.Run:
    return ap.simulate("dally", on_racks(), RACKS)


@pytest.mark.parametrize(
    "settings",
    [
        {"leases": False, "round_seconds": 77.7, "preemption_overhead_seconds": 7.0},
        {"placement_sensitive": True},
    ],
    ids=["no leases", "placement"],
)
def test_schedules_of_rounds_can_be(settings: dict[str, Any]) -> None:
    load = crowd(0)
    load = replace(load, unconsolidated=load.throughputs * 0.7)
    shared = {"max_min_fairness_space_sharing": True, "max_min_fairness_agnostic": False}
    for policy, sharing in shared.items():
        found = ap.simulate(policy, load, CLUSTER, **settings)
        ap.check_schedule(found, load, CLUSTER, sharing=sharing, work_conserving=True)


def test_a_restore_is_paid_at_each_start_but_the_first() -> None:
    scheduler = ap.get_scheduler("dally_manual", restore_s_per_gpu=20.0)
    ap.check_schedule(ap.simulate(scheduler, on_racks(), RACKS), on_racks(), RACKS)


def test_stays_go_on_while_a_job_keeps_its_devices() -> None:
    load = crowd().head(1)
    alone = ap.simulate("fifo", load, CLUSTER, round_seconds=50.0)
    assert len(alone.rounds) > 3
    (stay,) = alone.schedule.to_dict("records")
    (job,) = alone.jobs.reset_index().to_dict("records")
    assert stay["job"] == job["job"]
    assert len(stay["devices"]) == job["scale_factor"]
    assert (stay["start_s"], stay["end_s"]) == (job["start_s"], job["completion_s"])
    every = ap.simulate("fifo", load, CLUSTER, round_seconds=50.0, leases=False)
    assert len(every.schedule) == len(every.rounds)


def test_an_ideal_run_has_no_schedule() -> None:
    found = ap.simulate("fifo", crowd(), CLUSTER, mechanism="exact")
    with pytest.raises(ap.InputError, match="'exact' has no schedule"):
        ap.check_schedule(found, crowd(), CLUSTER)


def test_leases_declare_no_conservation_of_work(leased: ap.Run) -> None:
    with pytest.raises(ap.InputError, match="work_conserving"):
        ap.check_schedule(leased, on_racks(), RACKS, work_conserving=True)


def changed(run: ap.Run, change: Callable[[pd.DataFrame], pd.DataFrame]) -> ap.Run:
    """Return a run with another schedule, whose jobs table follows from it."""
    schedule = change(run.schedule.copy())
    jobs = run.jobs.copy()
    if len(schedule) and set(schedule["job"]) == set(jobs.index):
        by_job = schedule.groupby("job")
        jobs["start_s"], jobs["completion_s"] = by_job["start_s"].min(), by_job["end_s"].max()
        jobs["jct_s"] = jobs["completion_s"] - jobs["arrival_s"]
        jobs["preemptions"] = by_job.size() - 1
        seconds = schedule.assign(s=schedule["end_s"] - schedule["start_s"])
        for name in run.cluster.accelerators:
            mine = seconds[seconds["accelerator"] == name].groupby("job")["s"].sum()
            jobs[f"{name}_s"] = mine.reindex(jobs.index, fill_value=0.0)
    many = run.rounds.assign(preemptions=0)
    many.loc[0, "preemptions"] = int(jobs["preemptions"].sum())
    return replace(run, jobs=jobs, rounds=many, tables={**run.tables, "schedule": schedule})


def edit(**columns: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Change cells of the row in the middle, by functions of the row."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        row = len(table) // 2
        for name, make in columns.items():
            table.at[row, name] = make(table.loc[row])
        return table

    return change


def on_another(table: pd.DataFrame) -> pd.DataFrame:
    """Put a gang on the devices of another that runs at the same time."""
    rows: list[Any] = list(table.itertuples())
    for one in rows:
        for other in rows:
            same = one.accelerator == other.accelerator and one.job != other.job
            alike = len(one.devices) == len(other.devices) and one.devices != other.devices
            if same and alike and one.start_s <= other.start_s < one.end_s:
                table.at[other.Index, "devices"] = one.devices
                table.at[other.Index, "machines"] = one.machines
                return table
    raise LookupError


def later(table: pd.DataFrame) -> pd.DataFrame:
    """Let the job that is complete last have its last stay an hour later: GPUs idle."""
    row = int(table["end_s"].to_numpy().argmax())
    table.loc[row, ["start_s", "end_s"]] += 3600.0
    return table


WRONG: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "half a gang": (edit(devices=lambda row: (*row.devices, 99)), "different devices"),
    "a device twice in a gang": (
        edit(devices=lambda row: (row.devices[0],) * (len(row.devices) + 1)),
        "different devices",
    ),
    "no such device": (
        edit(devices=lambda row: tuple(99 + k for k in range(len(row.devices)))),
        "not there",
    ),
    "another machine": (edit(machines=lambda row: (77,)), "not on the machines"),
    "an unknown job": (edit(job=lambda row: 12345), "the job 12345"),
    "an unknown type": (edit(accelerator=lambda row: "z"), "the accelerator 'z'"),
    "no length": (edit(end_s=lambda row: row.start_s), "has no length"),
    "no end": (edit(end_s=lambda row: np.nan), "has no length"),
    "a device with two jobs": (on_another, "hold a device at the same time"),
    "before arrival": (
        lambda table: table.assign(start_s=table["start_s"] - 5000.0, end_s=table["end_s"] - 5000),
        "before the job arrives",
    ),
    "a job at two places": (edit(end_s=lambda row: row.end_s + 1e6), "overlap|at the same time"),
    "too many steps": (
        lambda table: table.assign(end_s=table["start_s"] + 0.99 * (table.end_s - table.start_s)),
        "steps",
    ),
    "a job that never runs": (lambda table: table[table["job"] != 3], "never runs"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("mechanism", ["rounds", "leases"])
def test_a_wrong_schedule_is_caught(
    wrong: str, mechanism: str, run: ap.Run, leased: ap.Run
) -> None:
    change, message = WRONG[wrong]
    found, load, cluster = {
        "rounds": (run, crowd(), CLUSTER),
        "leases": (leased, on_racks(), RACKS),
    }[mechanism]
    ap.check_schedule(changed(found, lambda table: table), load, cluster)
    with pytest.raises(AssertionError, match=message):
        ap.check_schedule(changed(found, change), load, cluster)


def test_devices_that_wait_while_a_job_waits_are_caught(run: ap.Run) -> None:
    with pytest.raises(AssertionError, match=r"waits for . GPUs while"):
        ap.check_schedule(changed(run, later), crowd(), CLUSTER, work_conserving=True)


@pytest.mark.parametrize(
    ("column", "message"),
    [("start_s", "start_s of job"), ("v100_s", "v100_s of job"), ("preemptions", "preemptions")],
)
def test_tables_that_do_not_follow_from_the_schedule_are_caught(
    column: str, message: str, run: ap.Run
) -> None:
    jobs = run.jobs.copy()
    jobs.loc[jobs.index[4], column] += 1
    with pytest.raises(AssertionError, match=message):
        ap.check_schedule(replace(run, jobs=jobs), crowd(), CLUSTER)


def test_jobs_that_share_are_caught_unless_they_may() -> None:
    shared = rounds("max_min_fairness_space_sharing")
    ap.check_schedule(shared, crowd(), CLUSTER, sharing=True)
    with pytest.raises(AssertionError, match="hold a device at the same time"):
        ap.check_schedule(shared, crowd(), CLUSTER)


def test_a_start_that_costs_nothing_is_caught() -> None:
    free = rounds(preemption_overhead_seconds=0.0)
    told = free.settings | {"preemption_overhead_seconds": OVERHEAD_S}
    with pytest.raises(AssertionError, match="lost at the start of each"):
        ap.check_schedule(replace(free, settings=told), crowd(), CLUSTER)


def test_a_joiner_that_starts_for_free_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overhead is paid by gangs on new devices, and not by each job that is new to them."""
    keys = pd.MultiIndex.from_tuples([("m", 1)], names=["job_type", "scale_factor"])
    pairs = ap.PairThroughputs(np.ones((1, 1, 1)), np.ones((1, 1)), keys, accelerators=("v100",))
    jobs = pd.DataFrame({"job_type": "m", "total_steps": 3600.0, "arrival_s": [0.0, 300.0]})
    load = ap.Workload("two", jobs, pd.DataFrame({"v100": [1.0]}, index=keys), pairs=pairs)
    plan = RoundPlanner.plan

    def of_gangs(planner: RoundPlanner, **how: bool) -> Decision:
        made = plan(planner, **how)
        first = np.arange(made.starts.size) if made.gangs.mate is None else made.gangs.mate
        return made._replace(starts=made.starts & made.starts[first])

    def check() -> None:
        settings: dict[str, Any] = {"preemption_overhead_seconds": OVERHEAD_S}
        shared = ap.simulate("max_min_fairness_space_sharing", load, "v100=1", **settings)
        schedule = shared.schedule
        if len(schedule) == 1 or schedule["start_s"].iloc[-1] != 360.0:  # as it would be written
            both = [schedule.iloc[[0]].assign(job=k, start_s=360.0 * k) for k in (0, 1)]
            done = shared.jobs["completion_s"].to_numpy()
            schedule = pd.concat(both, ignore_index=True).assign(end_s=done)
        shared = changed(shared, lambda _: schedule)
        ap.check_schedule(shared, load, "v100=1", sharing=True)

    check()
    monkeypatch.setattr(RoundPlanner, "plan", of_gangs)
    with pytest.raises(AssertionError, match="lost at the start of each"):
        check()


def test_racks_that_give_a_gpu_twice_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every gang that fits is told that it has the first machine."""
    change = ActiveLeases.decision

    def first(holders: ActiveLeases, *args: Any, **settings: Any) -> Decision:
        made = change(holders, *args, **settings)
        devices = [
            (kind, [*range(len(held))] if len(held) <= 4 else held)
            for kind, held in made.gangs.devices
        ]
        return made._replace(gangs=made.gangs._replace(devices=devices))

    monkeypatch.setattr(ActiveLeases, "decision", first)
    found = ap.simulate("dally", on_racks(), RACKS)
    with pytest.raises(AssertionError, match=r"different devices|at the same time"):
        ap.check_schedule(found, on_racks(), RACKS)


class Observer:
    """Sees at every decision which devices each job holds, and nothing that a run writes down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[float, dict[int, tuple[int, tuple[int, ...]]]]] = []
        self._made: list[Devices] = []
        made, start = self._made, Devices.__init__

        def noted(devices: Devices, *args: Any, **settings: Any) -> None:
            start(devices, *args, **settings)
            made.append(devices)

        monkeypatch.setattr(Devices, "__init__", noted)
        for runtime in (Fluid, Iterating):
            self._watch(monkeypatch, runtime)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, runtime: Any) -> None:
        apply = runtime.apply

        def watched(self_: Any, now_s: float, decision: Decision) -> None:
            held = {gang: place for each in self._made for gang, place in each.held.items()}
            lines = zip(decision.gangs.job.tolist(), decision.gangs.gang.tolist(), strict=True)
            there = {job: (held[gang][0], tuple(held[gang][1])) for job, gang in lines}
            self.seen.append((now_s, there))
            apply(self_, now_s, decision)

        monkeypatch.setattr(runtime, "apply", watched)

    def stays(self, done_s: list[float]) -> list[tuple[Any, ...]]:
        """Job, type, devices, start and end of every stay, those that follow each other as one."""
        ends_s = [*(now_s for now_s, _ in self.seen[1:]), np.inf]
        found: list[tuple[Any, ...]] = []
        for (now_s, there), end_s in zip(self.seen, ends_s, strict=True):
            found += [(job, *at, now_s, min(end_s, done_s[job])) for job, at in there.items()]
        return joined(found)


def joined(stays: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Stays on the same devices of which one begins as the other ends are one; none is empty."""
    found: list[tuple[Any, ...]] = []
    for stay in sorted((each for each in stays if each[4] > each[3]), key=lambda s: (s[0], s[3])):
        if found and found[-1][:3] == stay[:3] and found[-1][4] == stay[3]:
            found[-1] = (*found[-1][:4], stay[4])
        else:
            found.append(stay)
    return found


def table_of(run: ap.Run, ordered: list[Any], cluster: ap.Cluster) -> list[tuple[Any, ...]]:
    kinds = sorted(cluster.gpus)
    rows = run.schedule[["job", "accelerator", "devices", "start_s", "end_s"]]
    return joined(
        [
            (ordered.index(job), kinds.index(name), tuple(devices), start_s, end_s)
            for job, name, devices, start_s, end_s in rows.itertuples(index=False)
        ]
    )


class Highest(Strategy):
    """The free devices with the highest numbers, whatever machines they are in."""

    name = "highest"

    def choose(self, gang: Gang, devices: Devices) -> list[int] | None:
        free = sorted(devices.free_for(gang).free_devices)
        return free[-gang.gpus :] if len(free) >= gang.gpus else None


LINKED = ("VGG11", "ResNet50")


def case_of(mechanism: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """A decider, jobs, a cluster and settings of a mechanism, drawn."""
    seed = int(rng.integers(1000))
    load: Any
    settings: dict[str, Any] = {}
    if mechanism == "configurations":
        load = ap.generate_elastic_workload(jobs=3, seed=seed)
        restart = str(rng.choice(["stop_resume", "afe", "edl"]))
        settings |= {"gang_restart": restart, "growth": 4.0, "interval_seconds": 300.0}
        return str(rng.choice(["sia", "afs", "pollux"])), load, "v100=8", settings
    if mechanism == "iterations":
        load = ap.generate_contended_workload(seed=seed, scale=0.0001)
        cluster = ap.Cluster({"v100": 64}, gpus_per_machine=4)
        return "ada_srsf", load, cluster, {"rack_links": bool(rng.integers(2))}
    sizes = [int(each) for each in rng.choice([1, 2, 3, 5], 12, p=[0.4, 0.3, 0.2, 0.1])]
    jobs = pd.DataFrame(
        {
            "job_type": rng.choice(LINKED, 12),
            "scale_factor": sizes,
            "total_steps": np.exp(rng.normal(6.0, 2.5, 12)) * 10,
            "arrival_s": np.sort(rng.choice(4, 12) * float(rng.choice([0.3, 1000.0]))),
        }
    )
    rows = pd.MultiIndex.from_product([LINKED, range(1, 6)], names=["job_type", "scale_factor"])
    kinds = ["new", "old"][: int(rng.integers(1, 3))]
    load = ap.Workload("drawn", jobs, pd.DataFrame({k: 10.0 / len(k) for k in kinds}, index=rows))
    gpus = dict.fromkeys(kinds, 8)
    cluster = ap.Cluster(gpus, gpus_per_machine=2, machines_per_rack=2)
    settings["placement"] = str(rng.choice(list(PLACEMENTS)))
    shared = settings["placement"].startswith("cassini")
    networks = ["cassini"] if shared else ["none", "alpha_beta", "contention", "cassini"]
    settings["network"] = str(rng.choice(networks))
    if mechanism == "leases":
        settings["lease_seconds"] = float(rng.choice([300.0, 3600.0]))
        settings["checkpoint_seconds_per_gpu"] = float(rng.choice([0.0, 1.0]))
        names = ["dally", "gandiva", "themis", "max_min_fairness"]
        return str(rng.choice(names)), load, cluster, settings
    overhead_s = float(rng.choice([0.0, 40.0]))
    settings["preemption_overhead_seconds"] = overhead_s
    if mechanism == "queue":
        return Longest(), load, cluster, settings
    settings["leases"] = bool(rng.random() < 0.7)
    return str(rng.choice(["max_min_fairness", "fifo"])), load, cluster, settings


class Longest(ap.QueueScheduler):
    """Whoever has most steps left is first."""

    name = "longest"

    def queue(self, jobs: Any, now_s: float) -> Any:
        for job in jobs.active[np.argsort(-jobs.remaining[jobs.active], kind="stable")]:
            yield job, range(jobs.speed.shape[1])


@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 60))
@pytest.mark.parametrize("mechanism", [each for each in MECHANISMS if each != "exact"])
def test_schedules_are_what_was_held(
    mechanism: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under every mechanism, by every placement, those of one's own included."""
    monkeypatch.setitem(PLACEMENTS, "highest", Highest)
    for seed in seeds:
        rng = np.random.default_rng([seed, len(mechanism)])
        decider, load, cluster, settings = case_of(mechanism, rng)
        cluster = ap.Cluster.of(cluster)
        with pytest.MonkeyPatch.context() as patched:
            observer = Observer(patched)
            made = ap.simulate(decider, load, cluster, mechanism=mechanism, seed=seed, **settings)
        order = by_arrival_and_id(load).jobs.index
        done_s = made.jobs["completion_s"].loc[order].tolist()
        assert table_of(made, order.tolist(), cluster) == observer.stays(done_s)
        if mechanism not in ("iterations", "configurations"):
            ap.check_schedule(made, load, cluster)


@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 150))
def test_schedules_of_jobs_of_less_than_a_second_can_be(seeds: range) -> None:
    """Under leases times are multiples of a tick, which is much of a job that takes few of them."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 22])
        count = int(rng.integers(1, 9))
        span_s = 10 ** rng.uniform(-3, 3)
        jobs = pd.DataFrame(
            {
                "job_type": rng.choice(LINKED, count),
                "scale_factor": rng.choice([1, 2, 3, 5], count),
                "total_steps": 10 ** rng.uniform(-6, 4, count),
                "arrival_s": np.sort(rng.uniform(0, span_s, count)),
            }
        )
        rows = pd.MultiIndex.from_product([LINKED, range(1, 6)], names=["job_type", "scale_factor"])
        load = ap.Workload("short", jobs, pd.DataFrame({"new": 10.0, "old": 5.0}, index=rows))
        cluster = ap.Cluster({"new": 8, "old": 8}, gpus_per_machine=2, machines_per_rack=2)
        settings: dict[str, Any] = {
            "lease_seconds": float(rng.choice([1.0, 600.0])),
            "checkpoint_seconds_per_gpu": float(rng.choice([0.0, 1e-4, 1.0])),
            "network": str(rng.choice(["none", "alpha_beta", "contention"])),
        }
        name = str(rng.choice(["dally", "gandiva", "dally_no_wait", "max_min_fairness"]))
        made = ap.simulate(name, load, cluster, mechanism="leases", **settings)
        ap.check_schedule(made, load, cluster)
        assert (made.jobs["completion_s"] > made.jobs["start_s"]).all()
