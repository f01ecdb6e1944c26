"""Quotas, borrowing and eviction against plain Python, and against what Kueue's pages describe.

Its pages on cluster queues and on preemption: https://kueue.sigs.k8s.io/docs/concepts/.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from tests.mechanism.batch.plain_quotas import SPEEDS, Job, Play, Rules, by_hand, drawn
from tests.seeds import ranges_of_seeds

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.usefixtures("free_starts")


def workload(jobs: list[Job]) -> ap.Workload:
    table = pd.DataFrame(
        {
            "arrival_s": [job.arrival for job in jobs],
            "job_type": "any",
            "scale_factor": [job.gpus for job in jobs],
            "total_steps": [job.left for job in jobs],
            "entity": [job.queue for job in jobs],
            "priority": [job.priority for job in jobs],
        },
        index=[f"job {job.number:02}" for job in jobs],
    )
    rows = [("any", gpus) for gpus in sorted({job.gpus for job in jobs})]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    return ap.Workload("drawn", table, pd.DataFrame(SPEEDS, index=index))


def cluster_of(rules: Rules) -> dict[str, int]:
    return {kind: sum(quota.get(kind, 0) for quota in rules.quotas.values()) for kind in SPEEDS}


def told(load: ap.Workload, rules: Rules) -> list[tuple[float, int]]:
    run = ap.simulate(rules.scheduler(), load, cluster_of(rules))
    table = run.jobs.loc[sorted(load.jobs.index)]
    ends = [float(end) for end in table["completion_s"].round(6)]
    return list(zip(ends, table["preemptions"].astype(int).tolist(), strict=True))


@pytest.mark.parametrize("seeds", ranges_of_seeds(25, 500))
def test_every_event_is_as_defined(seeds: Iterable[int]) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        jobs, rules = drawn(seed)
        load = workload(jobs)
        expected = Play(jobs, rules).played()
        assert told(load, rules) == expected, seed
        seen["evicted"] += sum(evicted for _, evicted in expected)
        if seed % 5 == 0:
            turned = ap.Workload("drawn", load.jobs.iloc[::-1], load.throughputs)
            assert told(turned, rules) == expected, seed
    assert seen["evicted"] > 0


NINE_TWELVE = {"team-a": {"v100": 9}, "team-b": {"v100": 12}}


def test_the_borrowing_examples() -> None:
    """Quotas of 9 and 12: alone, a queue has 21; with a borrowing limit of 1 the first has 10.

    https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#borrowing-example and below it. With a
    lending limit of 1 of the second, the first has 10, too.
    """
    of_a = [("team-a", 1, 10, 0, 0)] * 22
    limits: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 21),
        ({"borrowing_limits": {"team-a": {"v100": 1}}}, 10),
        ({"borrowing_limits": {"team-b": {"v100": 1}}}, 21),
        ({"lending_limits": {"team-b": {"v100": 1}}}, 10),
        ({"lending_limits": {"team-a": {"v100": 1}}}, 21),
        ({"cohorts": {"team-a": "ab"}}, 9),
        ({"cohorts": {"team-a": "ab", "team-b": "ab"}}, 21),
        ({"cohorts": {"team-a": "a", "team-b": "b"}}, 9),
        ({"cohorts": {"team-b": "team-a"}}, 9),
    )
    for options, at_once in limits:
        ends = by_hand(*of_a, gpus=21, quotas=NINE_TWELVE, **options)
        assert ends.count(10.0) == at_once, options


def test_who_is_within_its_quota_is_admitted_before_who_borrows() -> None:
    """Both wait; the first queue has its quota used, and the second none, whoever came first."""
    quotas = {"a": {"v100": 1}, "b": {"v100": 1}}
    jobs = [("a", 2, 10, 0, 0), ("a", 1, 10, 1, 0), ("a", 1, 10, 2, 0), ("b", 1, 10, 3, 0)]
    # At 10 the first of a has its quota; then b's job is in front of a's next one.
    assert by_hand(*jobs, gpus=2, quotas=quotas) == [10, 20, 30, 20]


def test_a_head_blocks_its_own_queue_or_is_passed() -> None:
    """https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#queueing-strategy."""
    quotas = {"a": {"v100": 2}, "b": {"v100": 2}}
    limits = {name: {"v100": 0} for name in quotas}
    jobs = [("a", 1, 10, 0, 0), ("a", 2, 5, 1, 0), ("a", 1, 3, 2, 0), ("b", 2, 5, 3, 0)]
    options: dict[str, Any] = {"quotas": quotas, "borrowing_limits": limits, "gpus": 4}
    assert by_hand(*jobs, **options, strategy="StrictFIFO") == [10, 15, 18, 8]
    assert by_hand(*jobs, **options) == [10, 15, 5, 8]
    # The highest priority is in front, whoever was first.
    jobs[2] = ("a", 1, 3, 2, 7)
    assert by_hand(*jobs, **options, strategy="StrictFIFO") == [10, 15, 5, 8]


def test_what_was_lent_is_reclaimed_from_the_lowest_priority_and_the_newest() -> None:
    """The owner of 2 GPUs comes while all 4 are the other's: who has lost nothing of its steps.

    https://kueue.sigs.k8s.io/docs/concepts/preemption/#candidates.
    """
    quotas = {"a": {"v100": 2}, "b": {"v100": 2}}
    jobs = [("a", 1, 20, at, priority) for at, priority in ((0, 1), (1, 0), (2, 1), (3, 1))]
    jobs.append(("b", 2, 10, 5, 0))
    assert by_hand(*jobs, gpus=4, quotas=quotas) == [20, 21, 22, 23, 31]
    # Both evicted come back at 15; the first had 4 of its 20 seconds, the last 2.
    reclaimed = by_hand(*jobs, gpus=4, quotas=quotas, reclaim_within_cohort="Any")
    assert reclaimed == [20, 31, 22, 33, 15]
    # Of lower priority is nobody but the second, and it does not hold 2 GPUs.
    lower = by_hand(*jobs, gpus=4, quotas=quotas, reclaim_within_cohort="LowerPriority")
    assert lower == [20, 21, 22, 23, 31]


def test_who_is_not_needed_is_left() -> None:
    """One GPU of the lowest priority does not do, the two of the next do alone."""
    jobs = [("a", 1, 20, 0, 0), ("a", 2, 20, 1, 1), ("a", 2, 10, 5, 2)]
    ends = by_hand(*jobs, gpus=3, within_cluster_queue="LowerPriority")
    assert ends == [20, 31, 15]


def test_of_the_same_priority_only_the_newer_go() -> None:
    """The first in line asks for all; who came after it was admitted before it, past it."""
    jobs = [("a", 1, 10, 0, 0), ("a", 2, 10, 1, 0), ("a", 1, 50, 2, 0)]
    for how, ends in (
        ("Never", [10, 62, 52]),
        ("LowerPriority", [10, 62, 52]),
        # At 10 the last has had 8 of its 50 seconds.
        ("LowerOrNewerEqualPriority", [10, 20, 62]),
    ):
        assert by_hand(*jobs, gpus=2, within_cluster_queue=how) == ends


def test_a_type_is_borrowed_or_the_next_one_is_tried() -> None:
    """https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#flavorfungibility."""
    rules = Rules(
        {"a": {"fast": 1, "slow": 2}, "b": {"fast": 1, "slow": 0}}, {}, {}, None, {"a": True}
    )
    jobs = [Job(0, 1.0, 2, 8.0, "a"), Job(1, 2.0, 1, 8.0, "b")]
    load = workload(jobs)
    assert told(load, rules) == [(5.0, 0), (10.0, 0)]  # the second borrows a slow one
    rules.next_flavor = True
    assert told(load, rules) == [(9.0, 0), (6.0, 0)]


def test_who_is_within_its_quota_of_a_type_comes_first_whatever_its_share() -> None:
    """The first queue borrows two slow ones; its fast one falls free, and both ask for it."""
    rules = Rules({"a": {"fast": 1, "slow": 0}, "b": {"fast": 0, "slow": 3}}, {}, {}, None, {})
    rules.fair = ("LessThanInitialShare",)
    of_a = [Job(n, at, 1, steps, "a") for n, (at, steps) in enumerate(((1, 8), (2, 40), (3, 40)))]
    jobs = [*of_a, Job(3, 5.0, 1, 8.0, "a"), Job(4, 5.0, 1, 8.0, "b")]
    assert told(workload(jobs), rules) == [(5.0, 0), (42.0, 0), (43.0, 0), (9.0, 0), (13.0, 0)]


def test_one_queue_is_first_come_first_served() -> None:
    load = ap.generate_workload(jobs=40, seed=1, jobs_per_hour=30)
    strict = ap.get_scheduler("kueue", strategy="StrictFIFO")
    runs = [ap.simulate(each, load, "v100=8,k80=4").jobs for each in (strict, "fcfs")]
    pd.testing.assert_series_equal(runs[0]["completion_s"], runs[1]["completion_s"])


def test_equal_quotas_give_the_rest_to_the_first_names() -> None:
    jobs = [("ben", 1, 10, 0, 0)] * 5 + [("ana", 1, 10, 0, 0)] * 5
    limits = {"ana": {"v100": 0}, "ben": {"v100": 0}}
    ends = by_hand(*jobs, gpus=5, borrowing_limits=limits)
    assert ends == [10, 10, 20, 20, 30, 10, 10, 10, 20, 20]


def test_a_column_names_the_queues() -> None:
    load = ap.generate_workload(jobs=12, seed=1, jobs_per_hour=30)
    team = load.jobs.assign(team=[1, 2] * 6)
    load = ap.Workload("teams", team, load.throughputs)
    quotas = {"1": {"v100": 4}, "2": {"v100": 4}}
    run = ap.simulate(ap.get_scheduler("kueue", column="team", quotas=quotas), load, "v100=8")
    assert run.jobs["completion_s"].notna().all()
    with pytest.raises(
        ap.InputError, match=r"Unknown column of queues 'tam'\. Did you mean 'team'"
    ):
        ap.simulate(ap.get_scheduler("kueue", column="tam"), load, "v100=8")


@pytest.mark.parametrize("reclaim", ["Never", "Any"])
def test_it_keeps_the_contract(reclaim: str) -> None:
    how = {"reclaim_within_cohort": reclaim, "within_cluster_queue": "LowerPriority"}
    ap.check_scheduler(ap.get_scheduler("kueue", **how), n_jobs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quotas": {"a": {"v100": -1}}}, "quotas of queue 'a' on 'v100' is -1"),
        ({"quotas": {"a": 3}}, "quotas is {'a': 3}; it must be a mapping to a mapping"),
        ({"quotas": {"a": {"v10": 1}}}, "type in quotas of queue 'a': 'v10'. Did you mean 'v100'"),
        ({"quotas": {"b": {"v100": 1}}}, "queue, of which quotas tell nothing: 'a'. Valid: b"),
        ({"quotas": {"a": {"v100": 5}}}, "Quotas on 'v100' are 5 GPUs in all.*the cluster has 4"),
        ({"quotas": {"a": {"v100": 1}}}, "Job 0 .* asks for 2 GPUs, and queue 'a' has 1 of 'v100'"),
        ({"lending_limits": {"b": {"v100": 1}}}, "Unknown queue of lending_limits 'b'. Valid: a"),
        ({"strategy": "strict"}, "StrictFIFO"),
        ({"within_cluster_queue": "Any"}, "LowerOrNewerEqualPriority"),
        ({"quota": {}}, "'quota'. Did you mean 'quotas'"),
    ],
)
def test_what_cannot_be_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        by_hand(("a", 2, 10, 0, 0), gpus=4, **options)
