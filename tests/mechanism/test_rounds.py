from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import each_seed

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism import RoundPlan, RoundScheduler


def shares(**rows: list[float]) -> pd.DataFrame:
    width = len(next(iter(rows.values())))
    return pd.DataFrame.from_dict(rows, orient="index", columns=["v100", "k80"][:width])


def step(scheduler: RoundScheduler) -> RoundPlan:
    plan = scheduler.ask()
    scheduler.tell(plan)
    return plan


def where(plan: RoundPlan) -> dict[object, str]:
    return {job: gang.accelerator for gang in plan.assignments for job in gang.jobs}


def test_two_jobs_on_one_gpu_alternate() -> None:
    scheduler = RoundScheduler({"v100": 1})
    scheduler.set_target(shares(a=[0.5], b=[0.5]))
    plans = [step(scheduler) for _ in range(4)]
    assert [plan.jobs for plan in plans] == [("a",), ("b",), ("a",), ("b",)]
    assert plans[1].started == ("b",)
    assert plans[1].preempted == ("a",)


def test_gavels_example_of_priorities_is_apportioned_by_webster() -> None:
    # Seats of one type: shares .7/.2/.1 over ten rounds give 7, 2 and 1 of them.
    scheduler = RoundScheduler({"v100": 1})
    scheduler.set_target(shares(a=[0.7], b=[0.2], c=[0.1]))
    ran = [step(scheduler).jobs[0] for _ in range(10)]
    assert {job: ran.count(job) for job in "abc"} == {"a": 7, "b": 2, "c": 1}


def test_leases_are_extended_when_nothing_changes() -> None:
    scheduler = RoundScheduler({"v100": 8}, placement="random", seed=2)
    scheduler.set_target(shares(a=[1.0], b=[1.0]), {"a": 4, "b": 3})
    first, second = step(scheduler), step(scheduler)
    assert first.started == ("a", "b")
    assert second.extended == ("a", "b")
    assert [gang.devices for gang in first.assignments] == [g.devices for g in second.assignments]
    table = second.table()
    assert table.loc["a", "status"] == "extended"
    assert list(table.columns) == ["accelerator", "machines", "devices", "status", "shares_with"]


def test_a_gang_waits_until_it_fits_and_others_fill_in() -> None:
    scheduler = RoundScheduler({"v100": 4})
    scheduler.set_target(shares(small=[1.0], gang=[0.5]), {"small": 1, "gang": 4})
    plans = [step(scheduler) for _ in range(4)]
    assert {plan.jobs for plan in plans} == {("small",), ("gang",)}


def test_jobs_without_a_share_are_lent_idle_gpus_the_least_served_first() -> None:
    scheduler = RoundScheduler({"v100": 2})
    scheduler.set_target(shares(a=[1.0]))
    scheduler.add(["late"])
    assert step(scheduler).jobs == ("a", "late")
    scheduler.add(["later"])
    assert step(scheduler).jobs == ("a", "later")


def test_idle_gpus_are_not_lent_where_a_job_cannot_run() -> None:
    can_run = pd.DataFrame({"v100": [True, False], "k80": [True, True]}, index=["a", "b"])
    scheduler = RoundScheduler({"v100": 2, "k80": 1})
    scheduler.set_target(shares(a=[1.0, 0.0]))
    scheduler.add(["b"], can_run=can_run)
    assert where(step(scheduler)) == {"a": "v100", "b": "k80"}


def test_of_two_idle_types_a_job_is_lent_the_faster() -> None:
    speeds = pd.DataFrame({"v100": [1.0], "k80": [3.0]}, index=["a"])
    scheduler = RoundScheduler({"v100": 1, "k80": 1})
    scheduler.add(["a"], can_run=speeds)
    assert where(step(scheduler)) == {"a": "k80"}


def test_without_work_conservation_a_small_share_stays_small() -> None:
    scheduler = RoundScheduler({"v100": 1}, work_conserving=False)
    scheduler.set_target(shares(a=[0.25]))
    ran = [len(step(scheduler).jobs) for _ in range(40)]
    assert sum(ran) == 10


def test_one_list_over_all_types_not_one_type_after_the_other() -> None:
    # Gavel fills v100 first, by which `b` would take it although its whole share is on k80.
    can_run = pd.DataFrame(1.0, index=["a", "b"], columns=["v100", "k80"])
    scheduler = RoundScheduler({"v100": 2, "k80": 1})
    scheduler.set_target(shares(a=[1.0, 0.0], b=[0.0, 1.0]), can_run=can_run)
    assert where(step(scheduler)) == {"a": "v100", "b": "k80"}


def test_pairs_share_devices_and_nobody_runs_twice() -> None:
    X = pd.DataFrame(
        {"v100": [0.25, 0.25, 0.5]}, index=pd.Index(["a", "b", ("a", "b")], tupleize_cols=False)
    )
    scheduler = RoundScheduler({"v100": 1})
    scheduler.set_target(X)
    plans = [step(scheduler) for _ in range(8)]
    assert all(len(plan.assignments) == 1 for plan in plans)
    together = [plan for plan in plans if len(plan.jobs) == 2]
    assert len(together) == 4
    assert together[0].table().loc["a", "shares_with"] == ("b",)


def test_a_job_keeps_its_devices_when_its_partner_completes() -> None:
    scheduler = RoundScheduler({"v100": 4}, placement="random", seed=1)
    scheduler.set_target(pd.DataFrame({"v100": [1.0]}, index=[("a", "b")]), 2)
    first = step(scheduler)
    scheduler.remove(["a"])
    scheduler.set_target(pd.DataFrame({"v100": [1.0]}, index=["b"]), 2)
    second = step(scheduler)
    assert second.jobs == second.extended == ("b",)
    assert second.assignments[0].devices == first.assignments[0].devices
    scheduler.remove(["b"])
    assert step(scheduler).jobs == ()


def test_named_combinations_stand_for_their_jobs() -> None:
    scheduler = RoundScheduler({"v100": 1})
    table = pd.DataFrame({"v100": [1.0]}, index=["a + b"])
    scheduler.set_target(table, combinations={"a + b": ("a", "b")})
    assert step(scheduler).jobs == ("a", "b")


def test_a_job_that_changes_its_gpus_starts_again() -> None:
    scheduler = RoundScheduler({"v100": 4})
    scheduler.set_target(shares(a=[1.0]), 1)
    step(scheduler)
    scheduler.set_target(shares(a=[1.0]), 3)
    plan = step(scheduler)
    assert plan.moved == ("a",)
    assert len(plan.assignments[0].devices) == 3


def test_asking_again_gives_the_same_plan_and_telling_needs_it() -> None:
    scheduler = RoundScheduler({"v100": 1})
    scheduler.set_target(shares(a=[1.0]))
    plan = scheduler.ask()
    assert scheduler.ask() is plan
    scheduler.tell(plan, {"a": 100.0})
    with pytest.raises(InputError, match="round 0 does not wait"):
        scheduler.tell(plan)


def test_shorter_run_times_count() -> None:
    scheduler = RoundScheduler({"v100": 1})
    scheduler.set_target(shares(a=[0.5], b=[0.5]))
    plan = scheduler.ask()
    scheduler.tell(plan, {"a": 10.0})
    scheduler.tell(scheduler.ask())
    assert scheduler.ask().jobs == ("a",)


def test_a_finished_job_may_be_removed_while_its_round_is_told() -> None:
    scheduler = RoundScheduler({"v100": 2})
    scheduler.set_target(shares(a=[1.0], b=[1.0]))
    plan = scheduler.ask()
    scheduler.remove(["a"])
    scheduler.tell(plan, {"a": 5.0})
    plan = step(scheduler)
    assert plan.jobs == ("b",)
    assert plan.preempted == ()


def test_state_goes_through_json_and_gives_the_same_plans() -> None:
    scheduler = RoundScheduler({"v100": 5, "k80": 3}, placement="random", seed=4)
    index = pd.Index(["a", 7, "c", ("a", "c")], tupleize_cols=False)
    X = pd.DataFrame({"v100": [0.3, 0.5, 0.2, 0.2], "k80": [0.1, 0.5, 0.2, 0]}, index=index)
    scheduler.set_target(X, {"a": 2, 7: 1, "c": 2})
    for _ in range(3):
        step(scheduler)
    scheduler.add(["new"])
    copy = RoundScheduler.from_state(json.loads(json.dumps(scheduler.state(), allow_nan=False)))
    for _ in range(6):
        assert step(copy) == step(scheduler)
    assert copy.jobs == ("a", 7, "c", "new")


def test_the_state_of_an_empty_scheduler_can_be_taken() -> None:
    copy = RoundScheduler.from_state(RoundScheduler({"v100": 1}).state())
    copy.set_target(shares(a=[1.0]))
    assert step(copy).jobs == ("a",)


AFTER_A_STEP = {
    *("job in round 0 'b'", "time of job 'a' is -1.0", "Round 0 is under way", "cannot be written")
}
"""Mistakes after something that was right."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.set_target(pd.DataFrame({"v10": [1.0]}, index=["x"])), "Did you mean 'v100'"),
        (lambda s: s.set_target(shares(x=[1.5])), "'x' on 'v100' is 1.5"),
        (lambda s: s.set_target(shares(x=[float("nan")])), "'x' on 'v100' is nan"),
        (lambda s: s.set_target([1.0]), "must be a DataFrame"),
        (lambda s: s.set_target(shares(x=[1.0], y=[1]), {"x": 2}), "'y' has no scale factor"),
        (lambda s: s.add(["x", "y"], {"x": 2}), "'y' has no scale factor"),
        (lambda s: s.set_target(shares(x=[1.0]), {"x": 9}), "'x' has scale_factor = 9.*1 to 4"),
        (lambda s: s.set_target(shares(x=[1.0]), {"x": 1.5}), "whole number"),
        (
            lambda s: s.set_target(
                pd.DataFrame({"v100": [1.0]}, index=[("a", "x")]), {"a": 1, "x": 2}
            ),
            "different scale factors",
        ),
        (lambda s: s.set_target(pd.DataFrame({"v100": [1.0]}, index=[("a", "a")])), "different"),
        (
            lambda s: s.set_target(pd.DataFrame({"v100": [1, 1]}, index=[("a", "b"), ("b", "a")])),
            "twice",
        ),
        (lambda s: s.add(["a"]), "'a' is known already"),
        (lambda s: s.add(["x"], can_run=shares(y=[1.0])), "row of can_run 'x'"),
        (lambda s: s.remove(["job 11"]), "Did you mean 'job 1'"),
        (lambda s: s.tell(s.ask(), {"b": 1.0}), "job in round 0 'b'"),
        (lambda s: s.tell(s.ask(), {"a": -1.0}), "time of job 'a' is -1.0"),
        (lambda s: (s.ask(), s.state()), "Round 0 is under way"),
        (lambda s: (s.add([("t",)]), s.state()), "cannot be written"),
        (lambda s: RoundScheduler.from_state({}), "has no 'cluster'"),
        (lambda s: RoundScheduler({"v100": 1}, round_seconds=0.0), "round_seconds is 0.0"),
    ],
)
def test_mistakes_are_named(change: object, message: str) -> None:
    scheduler = RoundScheduler({"v100": 4})
    scheduler.set_target(shares(a=[1.0], **{"job 1": [0.0]}))
    before = scheduler.state()
    assert callable(change)
    with pytest.raises(InputError, match=message):
        change(scheduler)
    if message not in AFTER_A_STEP:
        assert scheduler.state() == before


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(parts=st.lists(st.integers(1, 30), min_size=2, max_size=7), gpus=st.integers(1, 4))
def test_nobody_gets_a_round_more_than_its_share_if_idle_gpus_are_not_lent(
    parts: list[int], gpus: int
) -> None:
    target = np.minimum(np.array(parts) / sum(parts) * gpus, 1.0)
    names = [f"job {k}" for k in range(len(parts))]
    scheduler = RoundScheduler({"v100": gpus}, round_seconds=1.0, work_conserving=False)
    scheduler.set_target(pd.DataFrame({"v100": target}, index=names))
    received = np.zeros(len(parts))
    for done in range(1, 61):
        received += np.isin(names, list(map(str, step(scheduler).jobs)))
        assert (received - target * done).max() <= 1.0 + 1e-6
        # Webster's method: the others are at most half a round ahead each.
        assert (received - target * done).min() >= -max(1.0, (len(parts) - 1) / 2)


@pytest.mark.parametrize("types", [1, 3])
@pytest.mark.parametrize("seed", each_seed(2, 4))
def test_time_shares_converge_to_the_target(seed: int, types: int) -> None:
    rng = np.random.default_rng(seed)
    gpus, jobs, rounds = rng.integers(1, 5, types), 16, 400
    target = rng.random((jobs, types)) ** 3
    for _ in range(100):
        target /= np.maximum(target.sum(axis=1, keepdims=True), 1.0)
        target *= gpus / target.sum(axis=0)
    target /= max(target.sum(axis=1).max(), 1.0)
    names, kinds = [f"job {k}" for k in range(jobs)], [f"type {k}" for k in range(types)]
    scheduler = RoundScheduler(dict(zip(kinds, gpus.tolist(), strict=True)))
    scheduler.set_target(pd.DataFrame(target, index=names, columns=kinds))
    received = np.zeros_like(target)
    lag = []
    for done in range(1, rounds + 1):
        for job, kind in where(step(scheduler)).items():
            received[names.index(str(job)), kinds.index(kind)] += 1
        lag.append((target * done - received).max())
    assert max(lag) <= (1.2 if types == 1 else 2.5)


@pytest.mark.parametrize("seed", range(12))
def test_pairs_without_a_share_change_nothing(seed: int) -> None:
    def plans(*, named: bool) -> list[list[object]]:
        rng, which = np.random.default_rng(seed), np.random.default_rng(seed)
        types = ["k80", "v100", "p100"][: rng.integers(2, 4)]
        scheduler = ap.RoundScheduler({name: int(rng.integers(1, 5)) for name in types})
        jobs: list[str] = []
        found: list[list[object]] = []
        for step in range(8):
            jobs += (come := [f"{step}.{job}" for job in range(rng.integers(0, 4))])
            scheduler.add(come)
            if len(jobs) > 1 and rng.random() < 0.3:
                scheduler.remove([jobs.pop(int(rng.integers(len(jobs))))])
            pairs = [(jobs[k], jobs[k + 1]) for k in range(len(jobs) - 1) if which.random() < 0.7]
            share = rng.random((len(jobs), len(types))) * (
                rng.random((len(jobs), len(types))) < 0.4
            )
            X = pd.DataFrame(share / len(types), pd.Index(jobs, tupleize_cols=False), types)
            if pairs and named:
                X = pd.concat([X, pd.DataFrame(0.0, pd.Index(pairs, tupleize_cols=False), types)])
            scheduler.set_target(X, can_run=pd.DataFrame(True, index=jobs, columns=types))
            scheduler.add([f"later than {step}"])
            jobs.append(f"later than {step}")
            plan = scheduler.ask()
            found.append([(gang.jobs, gang.accelerator, gang.devices) for gang in plan.assignments])
            scheduler.tell(plan)
        return found

    assert plans(named=True) == plans(named=False)
