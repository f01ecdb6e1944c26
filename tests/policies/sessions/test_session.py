from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.seeds import each_seed, sampled

import apportion as ap
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from apportion.policies import Problem
    from apportion.policies.sessions.session import Session

GPUS = {"v100": 2, "p100": 3, "k80": 4}
KINDS = pd.DataFrame(
    {
        "v100": [40.0, 12.0, 100.0, 70.0, 3.0, 24.0],
        "p100": [22.0, 4.0, 51.0, 40.0, 1.0, 8.0],
        "k80": [10.0, 1.0, 25.0, 21.0, 0.0, 2.0],
    }
)
FACTS = pd.DataFrame({"scale_factor": [1, 1, 1, 2, 1, 2], "weight": [1.0, 1.0, 2.0, 1.0, 0.5, 1.0]})
WARM = ("max_min_fairness", "max_min_fairness_agnostic", "max_total_throughput")
REWRITTEN = ("makespan", "fifo", "finish_time_fairness", "min_cost")
ANEW = ("isolated", "nash_welfare", "proportional")
PRICED = ap.Cluster(GPUS, prices_per_gpu_hour={"v100": 3.0, "p100": 2.0, "k80": 1.0})
# One number for each event: the kind of a job that comes, or -1 - (place of a job that goes).
EVENTS = st.lists(st.integers(-6, 5), min_size=1, max_size=9)


def facts_of(job: str) -> dict[str, Any]:
    """What is told of a job whose name is its kind and its number, different for each."""
    kind, number = (int(part) for part in job.split("-"))
    return {
        "scale_factor": FACTS.loc[kind, "scale_factor"],
        "weight": FACTS.loc[kind, "weight"],
        "arrival_s": 10.0 * number,
        "elapsed_s": 5.0 * number,
        "steps_remaining": 1000.0 * (1 + number % 4),
    }


def told(jobs: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    speeds = {job: KINDS.iloc[int(job.split("-")[0])].to_dict() for job in jobs}
    return speeds, {job: facts_of(job) for job in jobs}


def from_nothing(policy: str | ap.Policy, jobs: Sequence[Any], **options: Any) -> ap.Allocation:
    speeds, facts = told(jobs)
    table = pd.DataFrame.from_dict(facts, orient="index")
    return ap.solve(policy, speeds, workers=GPUS, jobs=table, **options)


def play(s: Session, events: Sequence[int]) -> Any:
    """Yield after each event that leaves jobs; half of the arrivals are tables."""
    for number, event in enumerate(events):
        if event >= 0:
            speeds, facts = told([f"{event}-{number}"])
            if number % 2:
                s.add(pd.DataFrame.from_dict(speeds, orient="index"), pd.DataFrame(facts).T)
            else:
                s.add(speeds, facts)
        elif len(s):
            s.remove([s.jobs[event % len(s)]])
        if len(s):
            yield


@pytest.mark.parametrize("policy", sampled(WARM, 2))
@settings(
    max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(events=EVENTS)
def test_after_any_events_a_session_has_what_solve_has(policy: str, events: list[int]) -> None:
    with ap.session(policy, GPUS) as s:
        for _ in play(s, events):
            found, expected = s.solve(), from_nothing(policy, s.jobs)
            assert found.objective == pytest.approx(expected.objective, rel=1e-8)
            assert found.gap <= 1e-8
            pd.testing.assert_frame_equal(found.X, expected.X, atol=1e-7, rtol=0)
            pd.testing.assert_series_equal(found.throughput, expected.throughput, rtol=1e-6)


@pytest.mark.parametrize("policy", sampled(ANEW, 2))
def test_other_policies_are_solved_anew_with_the_same_result(policy: str) -> None:
    with ap.session(policy, PRICED) as s:
        found = [s.solve() for _ in play(s, [0, 1, 3, -2, 1, 0])][-1]
        speeds, facts = told(s.jobs)
        table = pd.DataFrame.from_dict(facts, orient="index")
        expected = ap.solve(policy, speeds, workers=PRICED, jobs=table)
        assert found.objective == pytest.approx(expected.objective, rel=1e-8)
        pd.testing.assert_frame_equal(found.X, expected.X, atol=1e-7)


@pytest.mark.parametrize("policy", sampled(REWRITTEN, 2))
def test_what_an_event_leaves_is_what_solve_finds(policy: str) -> None:
    paths: list[str] = []
    with ap.session(policy, PRICED) as s:
        for place, _ in enumerate(play(s, [0, 1, 3, -2, 1, 0, 5, 5, -1, -1, 2])):
            if place == 6:
                s.set_capacity("k80", 0)
            found, (speeds, facts) = s.solve(), told(s.jobs)
            table = pd.DataFrame.from_dict(facts, orient="index")
            expected = ap.solve(policy, speeds, workers=s.cluster, jobs=table)
            paths.append(found.stats["path"])
            assert found.objective == pytest.approx(expected.objective, rel=1e-9)
            assert found.gap <= 1e-9
            pd.testing.assert_frame_equal(found.X, expected.X, atol=1e-9, rtol=0)
            pd.testing.assert_series_equal(found.prices, expected.prices, rtol=1e-6, atol=1e-12)
    assert ("warm start" in paths) == (policy != "min_cost")


def test_a_class_that_has_no_jobs_left_binds_nobody() -> None:
    slow = {"slow": {"v100": 1.0, "p100": 1.0, "k80": 1.0}}
    quick = {"quick": {"v100": 100.0, "p100": 1.0, "k80": 1.0}}
    with ap.session("max_min_fairness", {"v100": 9, "p100": 1, "k80": 1}) as s:
        s.add(slow)
        s.add(quick)
        together = s.solve()
        assert together.objective == pytest.approx(1.0)  # the slow one runs all the time
        s.remove("slow")
        alone = s.solve()
        assert alone.objective == pytest.approx(100 / ((9 * 100 + 2) / 11))
        assert alone.X.index.tolist() == ["quick"]
        s.add(slow)
        assert s.solve().objective == pytest.approx(together.objective)


def test_every_class_can_be_empty_and_fill_again() -> None:
    with ap.session("max_min_fairness", GPUS) as s:
        s.add(*told(["0-0", "3-1"]))
        before = s.solve()
        s.remove(["0-0", "3-1"])
        assert len(s) == 0
        with pytest.raises(InputError, match="no jobs in the session"):
            s.solve()
        s.add(*told(["3-1", "0-0"]))
        after = s.solve()
    pd.testing.assert_frame_equal(after.X.sort_index(), before.X.sort_index(), atol=1e-9)


def test_results_outlive_later_events_and_the_session() -> None:
    with ap.session("max_min_fairness", GPUS) as s:
        s.add(*told([f"{kind}-{kind}" for kind in range(5)]))
        early = s.solve()
        s.remove([job for job in s.jobs if job != "4-4"])
        s.add(*told(["5-9"]))  # a new class: those without jobs are dropped
        late = s.solve()
    assert early.X.index.tolist() == ["0-0", "1-1", "2-2", "3-3", "4-4"]
    pd.testing.assert_frame_equal(
        early.X, from_nothing("max_min_fairness", list(early.X.index)).X, atol=1e-7
    )
    pd.testing.assert_frame_equal(
        late.X, from_nothing("max_min_fairness", ["4-4", "5-9"]).X, atol=1e-7
    )
    assert late.stats["classes"] == 2


def test_a_closed_session_cannot_be_used_and_an_error_closes_it() -> None:
    s = ap.session("max_min_fairness", GPUS)
    s.add(*told(["0-0"]))
    with pytest.raises(InputError, match="removed twice"), s:
        s.remove(["0-0", "0-0"])
    for use in (s.solve, lambda: s.add(*told(["1-1"])), lambda: s.remove(["0-0"]), s.__enter__):
        with pytest.raises(InputError, match="session is closed"):
            use()


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda s: s.add({"1-9": dict.fromkeys(GPUS, 1.0), "0-0": dict.fromkeys(GPUS, 1.0)}),
            "Job '0-0' is in the session already, with other values; change its columns by update",
        ),
        (lambda s: s.add({"new": {"v100": 1.0, "p100": 1.0, "k80": -1.0}}), "'new' on 'k80'"),
        (lambda s: s.add({"new": {"v100": 1.0, "t4": 1.0}}), "type of this session 't4'"),
        (
            lambda s: s.add({"new": dict.fromkeys(GPUS, 1.0)}, {"new": {"scale_factor": 5}}),
            "Job 'new' fits nowhere: it needs 5 GPUs",
        ),
        (lambda s: s.add({"new": dict.fromkeys(GPUS, 1.0)}, {"mew": {"weight": 1}}), "'new'"),
        (lambda s: s.remove(["1-1", "2-7"]), "Unknown job to remove '2-7'"),
        (lambda s: s.remove(["1-1", "1-1"]), "Job '1-1' is to be removed twice"),
        (lambda s: s.update({"1-1": {"weight": 2.0}, "8-8": {"weight": 1.0}}), "'8-8'"),
        (lambda s: s.update({"1-1": {"weight": -2.0}}), "Job '1-1' has weight"),
        (
            lambda s: s.add(
                ap.ThroughputTensor.of_combinations({("a", "b"): [[1.0] * 3] * 2}, list(GPUS))
            ),
            "single jobs",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_named_and_changes_nothing(attempt: Any, message: str) -> None:
    with ap.session("max_min_fairness", GPUS) as s:
        s.add(*told(["0-0", "1-1"]))
        before, jobs = s.solve(), s.jobs
        with pytest.raises(InputError, match=message):
            attempt(s)
        assert s.jobs == jobs
        pd.testing.assert_frame_equal(s.solve().X, before.X)


def test_what_a_session_cannot_do_is_refused_when_it_is_opened() -> None:
    with pytest.raises(InputError, match="share GPUs"):
        ap.session("max_min_fairness_space_sharing", GPUS)
    with pytest.raises(InputError, match="Did you mean 'max_min_fairness'"):
        ap.session("max_min_fairnes", GPUS)


@pytest.mark.parametrize("as_tables", [False, True])
def test_jobs_added_again_with_the_same_values_stay_as_they_are(
    as_tables: bool, caplog: pytest.LogCaptureFixture
) -> None:
    speeds, facts = told(["0-0", "1-1", "1-5"])
    given: Any = speeds, facts
    if as_tables:
        table = pd.DataFrame.from_dict(facts, orient="index")
        given = pd.DataFrame(speeds).T, table.assign(remark=float("nan"))
    with ap.session("max_min_fairness", GPUS) as s:
        s.add(*given)
        before = s.solve()
        with caplog.at_level("INFO", logger="apportion"):
            s.add(*given)
        assert caplog.messages == [
            "In the session already, with the same values: ['0-0', '1-1', '1-5']."
        ]
        assert len(s) == 3
        pd.testing.assert_frame_equal(s.solve().X, before.X)
        s.remove(["0-0"])
        s.add(*given)  # one of them is new
        assert s.jobs == ["1-1", "1-5", "0-0"]
        pd.testing.assert_frame_equal(s.solve().X.sort_index(), before.X, atol=1e-9)
        s.remove(s.jobs)
        assert len(s) == 0


@pytest.mark.parametrize("policy", ["max_min_fairness", "makespan"])
def test_updated_columns_count_from_the_next_solve(policy: str) -> None:
    jobs = ["0-0", "1-1", "1-5"]
    speeds, facts = told(jobs)
    with ap.session(policy, GPUS) as s:
        s.add(speeds, facts)
        s.solve()
        s.update({"1-5": {"weight": 4.0, "steps_remaining": 99.0}})
        found = s.solve()
    facts["1-5"] |= {"weight": 4.0, "steps_remaining": 99.0}
    table = pd.DataFrame.from_dict(facts, orient="index")
    expected = ap.solve(policy, speeds, workers=GPUS, jobs=table)
    pd.testing.assert_frame_equal(found.X, expected.X, atol=1e-7)


def test_labels_make_an_allocation_like_that_of_solve(tmp_path: Path) -> None:
    with ap.session("max_min_fairness", GPUS) as s:
        s.add(*told(["0-0", "1-1"]))
        found = s.solve()
    expected = from_nothing("max_min_fairness", ["0-0", "1-1"])
    assert repr(found).splitlines()[1:] == repr(expected).splitlines()[1:]
    assert (found.policy, found.unit, found.status) == (repr(ap.MaxMinFairness()), "", "optimal")
    pd.testing.assert_series_equal(found.prices, expected.prices, rtol=1e-9)
    assert found.message == ""
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-9)
    pd.testing.assert_frame_equal(ap.Allocation.from_dict(found.to_dict()).X, expected.X, rtol=1e-9)
    found.to_parquet(tmp_path / "shares.parquet")
    told_again = pd.read_parquet(tmp_path / "shares.parquet")["share"]
    np.testing.assert_allclose(told_again, expected.to_frame()["share"], rtol=1e-9)


def test_tiers_pack_as_in_solve() -> None:
    cluster = ap.Cluster({"v100": 8}, gpus_per_machine=4)
    options = pd.MultiIndex.from_product([["v100"], ["machine", "network"]])
    speeds = pd.DataFrame([[9.0, 5.0], [4.0, 3.0]], ["a", "b"], options)
    jobs = pd.DataFrame({"scale_factor": [3, 2]}, ["a", "b"])
    with ap.session("max_min_fairness", cluster) as s:
        s.add(speeds, jobs)
        found = s.solve()
    expected = ap.solve("max_min_fairness", speeds, workers=cluster, jobs=jobs)
    pd.testing.assert_frame_equal(found.X, expected.X, atol=1e-7)


@pytest.mark.parametrize("policy", ["max_total_throughput", "max_min_fairness", "makespan"])
@pytest.mark.parametrize("seed", each_seed(2, 3))
def test_rows_that_stand_for_several_jobs_count_as_many(policy: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = list("abcde")
    speeds = pd.DataFrame(np.exp(rng.normal(size=(5, 2))), columns=["v100", "k80"], index=names)
    facts = {"count": rng.integers(1, 5, 5), "steps_remaining": 10 ** rng.uniform(2, 5, 5)}
    jobs = pd.DataFrame(facts, index=speeds.index)
    opened = ap.session(policy, "v100=2,k80=1")
    opened.add(speeds, jobs)
    opened.solve()
    opened.remove(["a"])
    anew = ap.solve(policy, speeds.loc["b":], workers="v100=2,k80=1", jobs=jobs.loc["b":])
    assert opened.solve().objective == pytest.approx(anew.objective, rel=1e-9)
    assert np.allclose(opened.solve().X, anew.X, atol=1e-7)


def test_types_that_are_as_fast_but_for_a_hair_are_shared() -> None:
    speeds = {f"job{i}": {"v100": 2.000000002, "p100": 2.0} for i in range(4)}
    jobs = {"scale_factor": [2, 8, 3, 3], "steps_remaining": [2.0, 2.0 / 2.4, 5.0, 5.0]}
    with ap.session("makespan", "v100=8,p100=3") as s:
        s.add(speeds, jobs)
        found = s.solve()
    held = np.array(jobs["scale_factor"]) @ found.X.to_numpy()
    assert found.objective == pytest.approx(2.5)  # five steps, two a second, all the time
    assert (held <= np.array([8, 3]) + 1e-9).all()


def test_a_column_called_as_a_type_is_a_speed() -> None:
    """As if the job had been added with that speed, whatever form the update has."""
    speeds = {"ana": {"h100": 40.0, "a100": 18.0}, "ben": {"h100": 30.0, "a100": 20.0}}
    table = pd.DataFrame({"h100": [4.0], "weight": [2.0]}, index=["ana"])
    for update in ({"ana": {"h100": 4.0, "weight": 2.0}}, table):
        with ap.session("max_min_fairness", "h100=1,a100=1") as s:
            s.add(speeds)
            s.solve()
            s.update(update)
            found = s.solve()
        anew = {**speeds, "ana": {"h100": 4.0, "a100": 18.0}}
        jobs = {"weight": [2.0, 1.0]}
        cold = ap.solve("max_min_fairness", anew, workers="h100=1,a100=1", jobs=jobs)
        pd.testing.assert_frame_equal(found.X, cold.X, atol=1e-9)
        assert found.throughput["ana"] == pytest.approx(18.0)


def test_a_speed_that_is_none_changes_nothing() -> None:
    with ap.session("max_min_fairness", "h100=1,a100=1") as s:
        s.add({"ana": {"h100": 40.0, "a100": 18.0}})
        before = s.solve().X
        for wrong, said in ((-1.0, "'ana' on 'h100'"), ("fast", "'ana' on 'h100'")):
            with pytest.raises(InputError, match=said):
                s.update({"ana": {"h100": wrong}})
        with pytest.raises(InputError, match="'h100' is an accelerator type"):
            s.add({"ben": {"h100": 1.0}}, {"ben": {"h100": 2.0}})
        assert s.jobs == ["ana"]
        pd.testing.assert_frame_equal(s.solve().X, before)


GAVELS = {
    "priority_weight": "weight",
    "SLO": "deadline_s",
    "num_steps_remaining": "steps_remaining",
    "times_since_start": "elapsed_s",
    "arrival_time": "arrival_s",
    "duration": "duration_s",
    "scale_factors": "scale_factor",
    "job_types": "job_type",
}


@pytest.mark.parametrize("name", GAVELS)
def test_names_of_gavel_are_refused_with_ours(name: str) -> None:
    speeds, meant = {"a": {"v100": 1.0}}, f"Did you mean '{GAVELS[name]}'"
    with pytest.raises(InputError, match=meant):
        ap.solve("fifo", speeds, workers="v100=1", jobs={name: [2.0]})
    with pytest.raises(InputError, match=meant):
        ap.solve("fifo", ap.ThroughputTensor.of(speeds, workers="v100=1", jobs={name: [2.0]}))
    jobs = {"steps_remaining": 9.0, name: [2.0]}
    with pytest.raises(InputError, match=meant):
        ap.solve_round("fifo", speeds, "v100=1", jobs=jobs)
    with ap.session("fifo", "v100=1") as s:
        with pytest.raises(InputError, match=meant):
            s.add(speeds, {"a": {name: 2.0}})
        s.add(speeds)
        with pytest.raises(InputError, match=meant):
            s.update({"a": {name: 2.0}})


class ByOwnColumns(ap.Policy):
    """Reads columns that are called as Gavel calls them, and as a type."""

    name = "by_own_columns"
    columns = ("priority_weight", "v100")

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(cp.multiply(p.column("v100"), p.throughput)))


def test_a_policy_may_call_its_columns_as_it_likes() -> None:
    speeds = {"a": {"v100": 1.0, "k80": 1.0}, "b": {"v100": 1.0, "k80": 0.5}}
    jobs = {job: {"priority_weight": 1.0, "v100": 1.0, "mine": 3.0} for job in speeds}
    with ap.session(ByOwnColumns(), "v100=1,k80=1") as s:
        s.add(speeds, jobs)
        assert s.solve().objective == pytest.approx(2.0)
        s.update({"b": {"v100": 10.0}})  # a worth of each of its steps, and no speed
        assert s.solve().objective == pytest.approx(11.0)
        s.update({"b": {"k80": 4.0}})
        assert s.solve().objective == pytest.approx(41.0)


@pytest.mark.parametrize(
    ("policy", "types"),
    [
        *(("fifo", 1), ("fifo", 3), ("shortest_job_first", 3), ("max_min_fairness", 3)),
        *(("makespan", 1), ("makespan", 3), ("finish_time_fairness", 3), ("min_cost", 3)),
    ],
)
def test_events_of_many_jobs_leave_what_a_cold_solve_finds(policy: str, types: int) -> None:
    rng, gpus = np.random.default_rng([types, 7]), dict.fromkeys("abc"[:types], 24 // types)
    cluster = ap.Cluster(gpus, prices_per_gpu_hour=dict(zip(gpus, (3.0, 2.0, 1.1), strict=False)))
    names = [f"job-{number:02}" for number in range(64)]
    speeds = pd.DataFrame(rng.lognormal(0.0, 0.5, (64, types)), names, list(gpus))
    facts = {
        "scale_factor": rng.choice([1, 2, 4], 64),
        "steps_remaining": rng.uniform(1e3, 2e3, 64) * speeds.max(axis=1),
        "arrival_s": rng.permutation(64) * 1.0,
        "weight": rng.integers(1, 4, 64),
    }
    jobs = pd.DataFrame(facts, index=speeds.index)
    with ap.session(policy, cluster) as s:
        s.add(speeds[:52], jobs[:52])
        for event in range(8):
            found = s.solve()
            cold = ap.solve(policy, speeds.loc[s.jobs], workers=cluster, jobs=jobs.loc[s.jobs])
            pd.testing.assert_frame_equal(found.X, cold.X, atol=1e-8, rtol=0)
            assert found.objective == pytest.approx(cold.objective, rel=1e-9)
            pd.testing.assert_series_equal(found.prices, cold.prices, rtol=1e-6, atol=1e-9)
            s.remove([names[4 * event]])
            s.add(speeds[52 + event : 53 + event], jobs[52 + event : 53 + event])
