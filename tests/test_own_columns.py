"""Columns of one's own: from the jobs table to policies, schedulers, files and results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.elastic import ElasticRule
from apportion.mechanism.gates import HOLD, START, AllOf
from apportion.policies.sia import Sia

if TYPE_CHECKING:
    from pathlib import Path

TABLE = pd.DataFrame({"b": [40.0, 12.0, 100.0], "a": [10.0, 4.0, 50.0]}, index=["x", "y", "z"])


@dataclass(frozen=True)
class PerWatt(ap.Policy):
    """The most relative throughput per watt, twice as much for one user, none on some types."""

    columns = ("power_w", "user")
    traits = frozenset({"leaves_gpus_idle"})

    preferred: str = "ann"
    barred: str = ""

    def objective(self, p: ap.Problem) -> cp.Maximize:
        users = np.array(p.texts("user"))[p.column("user").astype(int)]
        worth = np.where(users == self.preferred, 2.0, 1.0) / p.column("power_w")
        return cp.Maximize(p.total(cp.multiply(worth / p.fastest_throughput, p.throughput)))

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        types = [p.accelerators[place] for place in p.accelerator]
        return [p.X[:, place] == 0 for place, name in enumerate(types) if name == self.barred]


def expected(preferred: str, power: list[float], user: list[str]) -> float:
    """Solve it as plain cvxpy."""
    X = cp.Variable(TABLE.shape, nonneg=True)
    worth = np.where(np.array(user) == preferred, 2.0, 1.0) / np.array(power)
    gain = cp.multiply(worth / TABLE.max(axis=1).to_numpy(), cp.multiply(TABLE, X).sum(axis=1))
    problem = cp.Problem(cp.Maximize(cp.sum(gain)), [X.sum(axis=0) <= 1, X.sum(axis=1) <= 1])
    problem.solve(solver="HIGHS")
    return float(np.asarray(problem.value))


@pytest.mark.parametrize("preferred", ["ann", "bob", "nobody"])
def test_solve_hands_them_to_the_policy(preferred: str) -> None:
    power, user = [100.0, 150.0, 300.0], ["bob", "ann", "bob"]
    jobs = {"power_w": power, "user": user}
    found = ap.solve(PerWatt(preferred), TABLE, workers="a=1,b=1", jobs=jobs)
    assert found.objective == pytest.approx(expected(preferred, power, user), rel=1e-9)


def test_types_have_their_names_in_whatever_order_they_are_given() -> None:
    jobs = {"power_w": [1.0, 2.0, 3.0], "user": "ann"}
    for table in (TABLE, TABLE[["a", "b"]]):
        X = ap.solve(PerWatt(barred="b"), table, workers="a=1,b=1", jobs=jobs).X
        assert (X["b"] == 0).all()
        assert X["a"].sum() == pytest.approx(1)


def workload() -> ap.Workload:
    load = ap.generate_workload(jobs=18, seed=3, jobs_per_hour=20)
    own = {
        "power_w": np.linspace(100, 300, 18),
        "user": ["ann", "bob", "eve"] * 6,
        "restartable": np.arange(18) % 2 == 0,
        "entity": ["red", "blue"] * 9,
    }
    return replace(load, jobs=load.jobs.assign(**own))


@pytest.mark.parametrize("mechanism", ["rounds", "exact", "leases"])
def test_simulations_hand_them_on_and_show_them_in_the_end(mechanism: str) -> None:
    load = workload()
    cluster = ap.Cluster.of_racks({"v100": 1, "k80": 1}, machines_per_rack=2, gpus_per_machine=4)
    run = ap.simulate(PerWatt(barred="k80"), load, cluster, mechanism=mechanism)
    for name in ("power_w", "user", "restartable", "entity"):
        assert run.jobs[name].tolist() == load.jobs[name].tolist()
    assert run.jobs["k80_s"].max() == 0


def test_schedulers_see_them() -> None:
    class ByUser(ap.QueueScheduler):
        name = "by_user"

        def queue(self, jobs: Any, now_s: float) -> Any:
            user = np.array(jobs.texts["user"])[jobs.facts["user"].astype(int)]
            held = jobs.held_s[jobs.active].sum(axis=1) > 0
            first = user[jobs.active] != "eve"
            for job in jobs.active[np.lexsort([first, ~held])]:
                yield job, np.argsort(-jobs.speed[job])

    load = workload()
    at_once = replace(load, jobs=load.jobs.assign(arrival_s=0.0, scale_factor=1))
    run = ap.simulate(ByUser(), at_once, "v100=6")
    assert run.jobs.groupby("user")["start_s"].mean().idxmin() == "eve"
    assert (run.jobs.loc[run.jobs["user"] == "eve", "start_s"] == 0).all()


@dataclass(frozen=True, repr=False)
class ByDue(ap.Order):
    """By a column of one's own, the least first."""

    def turn(self, job: Any) -> tuple[int, int]:
        return 0, int(job.facts["due_s"])

    def keys(self, now_s: float, waiting: Any) -> tuple[Any, ...]:
        return (waiting.facts["due_s"],)


@dataclass(frozen=True, repr=False)
class OneByDue(ElasticRule):
    """One GPU for who has the least of the column, and none for the others."""

    name = "one_by_due"

    def choose(self, jobs: Any) -> Any:
        chosen, first = np.full(len(jobs.speed), -1), int(np.argmin(jobs.facts["due_s"]))
        chosen[first] = int(np.argmax(jobs.speed[first] * (jobs.gpus == 1)))
        return chosen


@dataclass(frozen=True)
class WaitsForDue:
    """A tighter tier is waited for as long as a column of one's own says."""

    rule = "the tightest tier, until the column says"
    job_types: tuple[str, ...] = ()

    def check(self, job_type: str) -> None:
        """Judge any."""

    def patience_s(self, waiting: Any) -> Any:
        return np.column_stack([np.zeros(waiting.job.size), *[waiting.facts["due_s"]] * 2])


@dataclass(frozen=True)
class LateOnesWait:
    """Nobody sends while one with less of the column sends or waits."""

    due_s: tuple[float, ...] = ()
    name: str = "late_ones_wait"

    def knowing(self, jobs: Any) -> LateOnesWait:
        return LateOnesWait(tuple(jobs.facts["due_s"]))

    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        first = min((*links.flows, *links.waiting), key=lambda each: self.due_s[each.job])
        return START if first.job == flow.job else HOLD


def in_turn(run: ap.Run) -> bool:
    """Whether the jobs, on one GPU, start in the order of the column."""
    return bool(run.jobs.sort_values("due_s")["start_s"].is_monotonic_increasing)


def test_orders_and_rules_see_them() -> None:
    due: dict[str, Any] = {"due_s": [500.0, 900.0, 100.0, 700.0, 300.0], "arrival_s": 0.0}
    rigid = ap.generate_workload(jobs=5, seed=3)
    rigid = replace(rigid, jobs=rigid.jobs.assign(scale_factor=1, **due))
    one = ap.Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=1, accelerator="v100")
    offers = ap.OfferScheduler("by_due", order=ByDue(), lease_s=1e9)
    assert in_turn(ap.simulate(offers, rigid, one, network="none"))
    sending = ap.generate_contended_workload(scale=0.01)
    jobs = sending.jobs.iloc[:5].assign(scale_factor=1, **due)
    settings: dict[str, Any] = {"order": ByDue(), "exclusive": True}
    assert in_turn(ap.simulate("ada_srsf", replace(sending, jobs=jobs), one, **settings))
    elastic = ap.generate_elastic_workload(5, seed=1)
    elastic = replace(elastic, jobs=elastic.jobs.assign(**due))
    assert in_turn(ap.simulate(OneByDue(), elastic, "t4=1"))


def test_gates_see_them() -> None:
    """Two gangs that meet on the link of a machine: who is due first never waits for the other."""
    sending = ap.generate_contended_workload(scale=0.01)
    jobs = sending.jobs.iloc[[0, 0]].set_axis(["x", "y"])
    jobs = jobs.assign(scale_factor=4, arrival_s=0.0, total_steps=50.0)
    three = ap.Cluster.of_racks(1, machines_per_rack=3, gpus_per_machine=3, accelerator="v100")
    for due, order in (([1.0, 2.0], ["x", "y"]), ([2.0, 1.0], ["y", "x"])):
        for gate in (LateOnesWait(), AllOf((LateOnesWait(),))):
            load = replace(sending, jobs=jobs.assign(due_s=due))
            run = ap.simulate("ada_srsf", load, three, gate=gate, exclusive=True)
            ends = run.jobs["completion_s"]
            assert ends.sort_values().index.tolist() == order
            assert ends.nunique() == 2


@pytest.mark.thorough
def test_rules_of_leases_see_them() -> None:
    """A gang that no machine has room for takes two as soon as its column says so."""
    jobs = pd.DataFrame(
        {"job_type": "net", "scale_factor": 2, "total_steps": 1e5}, index=["a", "b", "c"]
    )
    index = pd.MultiIndex.from_tuples([("net", 2)], names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({"v100": [1.0]}, index=index)
    two = ap.Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=3, accelerator="v100")
    rule: Any = WaitsForDue()
    terms = ap.OfferScheduler("due", rule=rule, lease_s=60.0)
    for due_s in (300.0, 900.0):
        load = ap.Workload("own", jobs.assign(arrival_s=[0.0, 0.0, 1.0], due_s=due_s), speeds)
        run = ap.simulate(terms, load, two, network="none")
        assert run.jobs["start_s"].tolist() == pytest.approx([0.0, 0.0, 1.0 + due_s], abs=60.0)


def test_files_keep_them(tmp_path: Path) -> None:
    load = workload()
    load.save(tmp_path / "jobs.csv")
    back = ap.read_workload(tmp_path / "jobs.csv").jobs
    for name in ("power_w", "user", "restartable"):
        assert back[name].tolist() == load.jobs[name].tolist()


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({"wieght": 1.0}, "Unknown column .*'wieght'. Did you mean 'weight'"),
        ({"arrival": 0.0}, "Did you mean 'arrival_s'"),
        ({"jct_s": 1.0}, "'jct_s' has a name of what a run tells"),
        ({"order": [1, 2, 0]}, "'order' is made of 'arrival_s'.*: give arrival_s in its place"),
        ({"power_w": [1, 2, "x"]}, r"Job 'z' has power_w = 'x'; .*\(a column of your own\)"),
        ({"power_w": np.inf}, "Job 'x' has power_w = inf"),
        ({"user": ["ann", None, "bob"]}, "Job 'y' has user = .*; it must be a text"),
        ({3: 1.0}, "Unknown column .* 3"),
    ],
)
def test_what_is_none_is_said_in_words(jobs: Any, words: str) -> None:
    with pytest.raises(ap.InputError, match=words):
        ap.solve("max_min_fairness", TABLE, workers="a=1,b=1", jobs=jobs)


def test_a_column_of_numbers_has_no_texts_and_one_that_lacks_is_named() -> None:
    class Asks(PerWatt):
        columns = ("power_w", "user")

        def objective(self, p: ap.Problem) -> cp.Maximize:
            p.texts("power_w")
            return super().objective(p)

    jobs = {"power_w": 1.0, "user": "ann"}
    with pytest.raises(ap.InputError, match="'power_w' of the jobs table holds numbers, not texts"):
        ap.solve(Asks(), TABLE, workers="a=1,b=1", jobs=jobs)
    with pytest.raises(ap.InputError, match=r"no column 'user' .*of your own"):
        ap.solve(PerWatt(), TABLE, workers="a=1,b=1", jobs={"power_w": 1.0})


def test_sessions_know_them() -> None:
    session = ap.session(PerWatt(), "a=1,b=1")
    for job, power, user in (("x", 100.0, "bob"), ("y", 150.0, "ann"), ("z", 300.0, "bob")):
        session.add({job: TABLE.T.to_dict()[job]}, {job: {"power_w": power, "user": user}})
    told = expected("ann", [100.0, 150.0, 300.0], ["bob", "ann", "bob"])
    assert session.solve().objective == pytest.approx(told, rel=1e-9)


def test_a_session_takes_them_by_column_as_well() -> None:
    session = ap.session(PerWatt(), "a=1,b=1")
    power, user = [100.0, 150.0, 300.0], ["bob", "ann", "bob"]
    facts: dict[str, Any] = {"power_w": power, "user": user}
    by_column = {name: dict(zip("xyz", each, strict=True)) for name, each in facts.items()}
    session.add(TABLE, by_column)
    assert session.solve().objective == pytest.approx(expected("ann", power, user), rel=1e-9)


@dataclass(frozen=True)
class SiaPerWatt(Sia):
    """Sia's problem; takes down what it is told of the jobs."""

    columns = (*Sia.columns, "power_w", "user")  # type: ignore[assignment]

    def objective(self, p: ap.Problem) -> cp.Maximize:
        users = [p.texts("user")[place] for place in p.column("user").astype(int)]
        SEEN.extend(zip(users, p.column("power_w").tolist(), p.column("weight"), strict=True))
        return super().objective(p)


SEEN: list[tuple[str, float, float]] = []


def test_elastic_jobs_have_them_too() -> None:
    drawn = ap.generate_elastic_workload(jobs=6, seed=1)
    count = np.arange(len(drawn))
    users = [f"user {each}" for each in count]
    own = drawn.jobs.assign(power_w=100.0 + count, user=users, weight=1.0 + count)
    load = replace(drawn, jobs=own)
    SEEN.clear()
    run = ap.simulate(SiaPerWatt(), load, "t4=8")
    facts = load.jobs[["user", "power_w", "weight"]].itertuples(index=False)
    assert set(SEEN) == {tuple(each) for each in facts}
    assert run.jobs["power_w"].tolist() == load.jobs["power_w"].tolist()
