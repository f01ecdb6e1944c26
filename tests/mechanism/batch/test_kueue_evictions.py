"""Who goes, case by case, as Kueue's own tests have it; numbers restated, halves doubled.

Of https://github.com/kubernetes-sigs/kueue: pkg/cache/scheduler/fair_sharing_test.go; in
pkg/scheduler/preemption preemption_fair_test.go and preemption_test.go; fair_sharing_test.go in
test/integration/singlecluster/scheduler/fairsharing. Rules: keps/1714-fair-sharing and
keps/1337-preempt-within-cohort-while-borrowing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.mechanism.batch.plain_quotas import by_hand

import apportion as ap
from apportion.mechanism.batch.cluster_queues import ClusterQueues, QuotaLedger
from apportion.mechanism.batch.evictions import Evictions, FairEvictions, QuotaEvictions

pytestmark = pytest.mark.usefixtures("free_starts")

FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
THREES = {"a": 3, "b": 3, "c": 3}
SIXES = {"a": 6, "b": 6, "c": 6}


class Running(NamedTuple):
    """A job that runs."""

    gpus: int
    priority: int = 0
    kind: str = "default"


def units(number: int, priority: int = 0, kind: str = "default") -> list[Running]:
    return [Running(1, priority, kind)] * number


def of_size(*gpus: int) -> list[Running]:
    return [Running(each) for each in gpus]


def ledger_of(quotas: dict[str, Any], **told: Any) -> QuotaLedger:
    by_type = {q: n if isinstance(n, dict) else {"default": n} for q, n in quotas.items()}
    types = sorted({kind for each in by_type.values() for kind in each})
    queues = sorted(by_type)
    return QuotaLedger(ClusterQueues(quotas=by_type, **told), queues, [], types, by_type)


def go(
    quotas: dict[str, Any],
    running: dict[str, list[Running]],
    incoming: tuple[str, int, int],
    on: str = "default",
    *,
    told: dict[str, Any] | None = None,
    **policy: Any,
) -> set[str]:
    """Return who goes, as ``"b2"`` for the second job of b, for (queue, GPUs, priority).

    The first of a queue was admitted last, so that it goes first among equals.
    """
    policy = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any", **policy}
    ledger = ledger_of(quotas, **(told or {}))
    types = sorted({kind for each in quotas.values() if isinstance(each, dict) for kind in each})
    types = types or ["default"]
    jobs = [(q, n, job) for q, every in running.items() for n, job in enumerate(every, 1)]
    queues = [queue for queue, _, _ in jobs] + [incoming[0]]
    ledger.queue_of = [ledger.queues.index(queue) for queue in queues]
    for place, (_, _, job) in enumerate(jobs):
        ledger.use(place, types.index(job.kind), job.gpus)
    before = [list(row) for row in ledger.used]
    finds = (FairEvictions if policy.get("fair_sharing") else Evictions)(
        QuotaEvictions(**policy),
        ledger,
        [job.gpus for _, _, job in jobs] + [incoming[1]],
        [float(job.priority) for _, _, job in jobs] + [float(incoming[2])],
        {place: types.index(job.kind) for place, (_, _, job) in enumerate(jobs)},
        {place: -float(place) for place in range(len(jobs))},
    )
    gone = finds.of(len(jobs), types.index(on))
    assert ledger.used == before
    return {f"{jobs[each][0]}{jobs[each][1]}" for each in gone}


def fairly(*given: Any, by: tuple[str, ...] = (FINAL, INITIAL), **more: Any) -> set[str]:
    return go(*given, fair_sharing=by, **more)


@pytest.mark.parametrize(
    ("quotas", "used", "told", "expected"),
    [
        ({"a": 5, "b": 5}, 2, {}, 0.0),
        ({"a": 5, "b": 5}, 7, {}, 0.2),
        ({"a": 500, "b": 1000}, 501, {"fair_weights": {"b": 300.0}}, 1 / 1500),
        ({"a": 500, "b": 1000}, 800, {"fair_weights": {"a": 300.0, "b": 300.0}}, 0.2 / 300),
        ({"a": 5, "b": 5}, 7, {"fair_weights": {"a": 2.0}}, 0.1),
        ({"a": 5, "b": 5}, 7, {"fair_weights": {"a": 0.5}}, 0.4),
        # KEP 1714: what is lent counts, not the quota.
        ({"a": 5, "b": 5}, 7, {"lending_limits": {"b": {"default": 3}}}, 0.25),
        ({"a": 5, "b": 5}, 7, {"cohorts": {"b": "alone"}}, 0.4),
    ],
)
def test_the_share_of_a_queue(
    quotas: dict[str, int], used: int, told: dict[str, Any], expected: float
) -> None:
    ledger = ledger_of(quotas, **told)
    ledger.used[0][0] = used
    behind, share = ledger.share(0)
    assert share == pytest.approx(expected, abs=0)
    assert not behind
    assert ledger.share(1) == (False, 0.0)


def test_the_share_of_two_types() -> None:
    """25 of 20 and 5 of 80 are 5 of 200 above; of weight 0, it is behind everybody."""
    quotas = {"a": {"on-demand": 20, "spot": 80}, "b": {"on-demand": 100}}
    ledger = ledger_of(quotas)
    ledger.used[0] = [25, 5]
    assert ledger.share(0) == (False, 0.025)
    ledger = ledger_of(quotas, fair_weights={"a": 0.0})
    assert ledger.share(0) == (False, 0.0)
    ledger.used[0] = [25, 5]
    assert ledger.share(0) == (True, 0.025) > (False, 1e9)


A3_B5_C1 = {"a": units(3), "b": units(5), "c": units(1)}
FAIR_CASES: dict[str, tuple[Any, ...]] = {
    "quota is reclaimed from who uses the most": (THREES, A3_B5_C1, ("c", 1, 0), {"b1"}),
    "and from who uses less, if the last of who uses the most is not enough": (
        *(THREES, {"a": of_size(3, 1), "b": of_size(2, 3)}, ("c", 3, 0), {"a1"}),
    ),
    "what is lent is taken from who uses the most": (THREES, A3_B5_C1, ("a", 1, 0), {"b1"}),
    "one of each that borrows": (
        *(SIXES, {"a": of_size(1, 1, 6), "b": of_size(1, 1, 6)}, ("c", 4, 0), {"a1", "b1"}),
    ),
    "nobody where all are within quotas": (
        *(THREES, {"a": units(3), "b": units(3), "c": units(3)}, ("c", 1, 0), set()),
    ),
    "nobody where the imbalance would change sides": (
        *(THREES, {"a": units(3), "b": units(5)}, ("a", 2, 0), set()),
    ),
    "lower priority of the same queue": (
        *(THREES, {"a": [*units(2, -1), *units(2)], "b": units(5)}, ("a", 2, 0), {"a1", "a2"}),
    ),
    "of the same queue and of who uses the most": (
        *(THREES, {"a": [*units(1, -1), *units(2)], "b": units(6)}, ("a", 2, 0), {"a1", "b1"}),
    ),
    "a huge one, if nobody else": (THREES, {"b": of_size(9)}, ("a", 2, 0), {"b1"}),
    "no huge one for a huge one": (
        *(THREES, {"a": of_size(2), "b": of_size(7)}, ("a", 5, 0), set()),
    ),
    "no two smaller ones for a huge one": (*(THREES, {"b": of_size(2, 2, 3)}, ("a", 6, 0), set()),),
    "of the same queue and others, even above the quota": (
        *(THREES, {"a": [Running(2, -1), Running(1, -1)], "b": of_size(3, 3)}, ("a", 4, 0)),
        {"a1", "b1"},
    ),
    "who leaves its queue no smaller share, first": (
        *(SIXES, {"b": of_size(4, 2, 4), "c": of_size(2)}, ("a", 7, 0), {"b2"}),
    ),
    "of several queues, if the largest share falls": (
        *(SIXES, {"b": of_size(4, 5), "c": of_size(4, 5)}, ("a", 7, 0), {"b1", "c1"}),
    ),
    "and they do not come back": (
        *(SIXES, {"a": of_size(7), "b": of_size(5), "c": of_size(5)}, ("b", 4, 0), set()),
    ),
    "nobody who would leave its queue within its quota": (
        *(THREES, {"b": of_size(3, 3), "c": of_size(3)}, ("a", 4, 0), set()),
    ),
}


@pytest.mark.parametrize("case", FAIR_CASES.values(), ids=FAIR_CASES)
def test_who_goes_for_a_fair_share(case: tuple[Any, ...]) -> None:
    quotas, running, incoming, expected = case
    assert fairly(quotas, running, incoming) == expected


def test_the_two_strategies() -> None:
    """Low priority and big, or high priority and small."""
    running = {"a": of_size(3), "b": [Running(5, 0), Running(1, 1)]}
    assert fairly(THREES, running, ("a", 1, 0), by=(INITIAL,)) == {"b1"}
    assert fairly(THREES, running, ("a", 1, 0), by=(FINAL,)) == {"b2"}
    # As large a share is enough by the one, and not by the other.
    assert fairly(THREES, A3_B5_C1, ("a", 1, 0), by=(FINAL,)) == {"b1"}
    even = {"a": units(3), "b": units(4), "c": units(2)}
    assert fairly(THREES, even, ("a", 1, 0), by=(INITIAL,)) == set()
    # By shares, not by priority: those of -3 borrow three, and two more would be as many.
    running = {"a": units(3), "b": units(3), "z": units(3, -3)}
    assert fairly({**THREES, "z": 0}, running, ("a", 2, 0)) == set()
    assert fairly({**THREES, "z": 0}, running, ("a", 1, 0)) == {"z1"}


def test_weights() -> None:
    running = {"a": units(3), "b": units(6)}
    assert fairly(THREES, running, ("a", 2, 0)) == set()
    twice = {"fair_weights": {"a": 2.0}}
    assert fairly(THREES, running, ("a", 2, 0), told=twice) == {"b1", "b2"}
    nothing = {"fair_weights": {"b": 0.0}}
    assert fairly(THREES, running, ("a", 3, 0), told=nothing) == {"b1", "b2", "b3"}
    within = {"a": units(3), "b": units(3)}
    assert fairly({"a": 3, "b": 3}, within, ("a", 1, 0), told=nothing) == set()
    # Of weight 0, one takes its quota back, and nothing of who borrows with a weight.
    quotas, none = {"a": 1, "b": 0}, {"fair_weights": {"a": 0.0}}
    assert fairly(quotas, {"b": units(1)}, ("a", 1, 0), told=none) == {"b1"}
    borrows = {"a": units(1), "b": units(2)}
    assert fairly({"a": 1, "b": 1, "c": 1}, borrows, ("a", 1, 0), told=none) == set()
    # Both of weight 0: as if both had 1.
    for weight in (0.0, 1.0):
        both = {"fair_weights": {"a": weight, "b": weight}}
        quotas = {"a": 1, "b": 0, "lends": 3}
        assert fairly(quotas, {"b": units(3)}, ("a", 2, 0), told=both) == {"b1"}


def test_a_quota_counts_by_type_whatever_the_share() -> None:
    """It borrows 5 cheap ones and has 2 of its 3 premium ones: its third comes back."""
    quotas = {"a": {"premium": 3, "cheap": 0}, "b": {"premium": 0, "cheap": 6}}
    running = {"a": [*units(2, 0, "premium"), *units(5, 0, "cheap")], "b": units(1, 0, "premium")}
    assert fairly(quotas, running, ("a", 1, 0), "premium") == {"b1"}


def test_without_a_cohort_lower_priority_of_its_own_queue_goes() -> None:
    alone: dict[str, Any] = {"cohorts": {}}
    assert fairly({"a": 1, "b": 1}, {"a": units(1)}, ("a", 1, 1000), told=alone) == {"a1"}


SHARED_TEN = {"as": 1, "bs": 1, "ae": 1, "be": 0, "shared": 10}
LIMITS = {
    "borrowing_limits": {
        **{queue: {"default": 12} for queue in ("as", "bs", "ae")},
        **{"be": {"default": 13}},
    }
}


@pytest.mark.parametrize(
    ("running", "incoming", "policy", "expected"),
    [
        # Lower priority of another queue goes while one borrows,
        ({"ae": [Running(10, -1)], "be": units(1, -1)}, ("as", 10, 0), {}, {"ae1"}),
        # not above the threshold,
        ({"bs": [Running(10, 1)]}, ("as", 10, 2), {}, set()),
        # but for who does not borrow then,
        ({"bs": [Running(13, 1)]}, ("as", 1, 2), {}, {"bs1"}),
        # and not of one's own queue, if that is said.
        ({"as": [Running(13, 1)]}, ("as", 1, 2), {"within_cluster_queue": "Never"}, set()),
        # Of the own queue only, where the others are above the threshold,
        (
            *({"as": [Running(10, 1), Running(1, 1)], "bs": [Running(1, 1), Running(1, 2)]},),
            *(("bs", 1, 3), {}, {"bs1"}),
        ),
        # and with others that are below it.
        (
            {"bs": [Running(10, 2), Running(1, 1)], "ae": [Running(1, -1), Running(1, -2)]},
            *(("bs", 2, 2), {}, {"bs2", "ae2"}),
        ),
    ],
)
def test_who_goes_for_a_queue_that_borrows(
    running: dict[str, list[Running]],
    incoming: tuple[str, int, int],
    policy: dict[str, Any],
    expected: set[str],
) -> None:
    policy = {"borrow_within_cohort": "LowerPriority", "max_priority_threshold": 0.0, **policy}
    assert go(SHARED_TEN, running, incoming, told=LIMITS, **policy) == expected


def test_borrowing_evicts_only_where_it_is_said() -> None:
    running = {"ae": [Running(10, -1)], "be": units(1, -1)}
    assert go(SHARED_TEN, running, ("as", 10, 0), told=LIMITS) == set()
    borrows: dict[str, Any] = {"borrow_within_cohort": "LowerPriority"}
    assert go(SHARED_TEN, running, ("as", 10, 0), told=LIMITS, **borrows) == {"ae1"}
    at_most = {**borrows, "max_priority_threshold": -1.0}
    assert go(SHARED_TEN, running, ("as", 10, 0), told=LIMITS, **at_most) == {"ae1"}
    equal = {"ae": [Running(10, 0)], "be": units(1, 0)}
    assert go(SHARED_TEN, equal, ("as", 10, 0), told=LIMITS, **borrows) == set()


def test_who_goes_beside_those_who_may_go_for_a_queue_that_borrows() -> None:
    """Above the threshold: if the queue stays within its quota then, or without its own jobs."""
    borrows: dict[str, Any] = {
        "borrow_within_cohort": "LowerPriority",
        "max_priority_threshold": 0.0,
    }
    running = {"a": units(1), "b": units(5, 1)}
    assert go({"a": 3, "b": 3}, running, ("a", 3, 2), **borrows) == {"a1", "b1", "b2"}
    running = {"a": units(1, -5), "b": units(3, 1)}
    assert go({"a": 2, "b": 2}, running, ("a", 1, 2), **borrows) == {"b1"}
    # Without the policy, at its quota: only its own, as few as need to.
    running = {"a": units(2, -1), "b": units(3)}
    assert go({"a": 2, "b": 2, "c": 2}, running, ("a", 2, 0)) == {"a1"}


def test_free_gpus_go_to_the_smaller_share() -> None:
    """Quotas of 3, 1 and 4: the first has all 8; of those that end the second has three.

    Then the first has one. Both have 250 thousandths then; of two more each has one, and they have
    125 and 375.
    """
    quotas = {name: {"v100": gpus} for name, gpus in {"a": 3, "b": 1, "shared": 4}.items()}
    lengths = (10, 11, 12, 13, 14, 14, 100, 100, 100, 100)
    jobs = [("a", 1, length, 0, 0) for length in lengths] + [("b", 1, 50, 5, 0)] * 5
    ends = by_hand(*jobs, gpus=8, quotas=quotas, fair_sharing=[FINAL, INITIAL])
    assert ends[:10] == [10, 11, 12, 13, 14, 14, 100, 100, 113, 114]
    assert ends[10:] == [60, 61, 62, 64, 110]
    # Without fair sharing it is first come, first served among those who borrow.
    assert by_hand(*jobs, gpus=8, quotas=quotas)[8:] == [111, 112, 60, 63, 64, 64, 110]


def test_borrowed_gpus_are_taken_for_a_fair_share() -> None:
    """Quotas of 3 each: the first has all 9, then the second 4, and the third 1.

    Of the second's fourth the first has 5 and it 4, 2 and 1 above their quotas; a fifth would
    have as many as the first, which would have one less.
    """
    quotas = {name: {"v100": 3} for name in "abc"}
    jobs = [("a", 1, 100, 0, 0)] * 10 + [("b", 1, 100, 10, 0)] * 5 + [("c", 1, 100, 20, 0)]
    options: dict[str, Any] = {
        "reclaim_within_cohort": "Any",
        "within_cluster_queue": "LowerPriority",
        "fair_sharing": [FINAL, INITIAL],
    }
    ends = by_hand(*jobs, gpus=9, quotas=quotas, **options)
    assert ends[:4] == [100] * 4  # of the first queue stay those who came first
    assert min(ends[4:10]) > 100
    assert ends[10:14] == [110] * 4
    assert ends[14] > 110
    assert ends[15] == 120


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fair_sharing": [INITIAL, FINAL]}, "valid: either strategy, or LessThanOrEqualTo"),
        ({"fair_sharing": [FINAL, FINAL]}, "valid: either strategy"),
        ({"fair_sharing": [INITIAL, INITIAL]}, "valid: either strategy"),
        ({"fair_sharing": ["LessThanFinalShare"]}, "LessThanOrEqualToFinalShare"),
        ({"borrow_within_cohort": "LowerPriority"}, "reclaim_within_cohort is 'Never'"),
        (
            {
                "borrow_within_cohort": "LowerPriority",
                "reclaim_within_cohort": "Any",
                "fair_sharing": [FINAL],
            },
            r"without fair sharing.*fair_sharing \['LessThanOrEqualToFinalShare'\]",
        ),
        ({"max_priority_threshold": 1.0}, "about borrow_within_cohort, which is 'Never'"),
        ({"fair_weights": {"a": -1.0}}, "fair_weights of queue 'a' is -1"),
        ({"fair_weights": {"b": 1.0}}, "Unknown queue of fair_weights 'b'. Valid: a"),
        ({"strategy": {"b": "StrictFIFO"}}, "Unknown queue of strategy 'b'. Valid: a"),
        ({"strategy": {"a": "Strict"}}, "strategy is {'a': 'Strict'}"),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        by_hand(("a", 2, 10, 0, 0), gpus=4, **options)


def test_strategies_are_by_queue() -> None:
    quotas = {"a": {"v100": 2}, "b": {"v100": 2}}
    jobs = [(queue, gpus, 10, at, 0) for queue in "ab" for at, gpus in enumerate((1, 2, 1))]
    limits = {name: {"v100": 0} for name in quotas}
    told: dict[str, Any] = {"quotas": quotas, "borrowing_limits": limits, "gpus": 4}
    ends = by_hand(*jobs, **told, strategy={"a": "StrictFIFO"})
    assert ends == [10, 20, 30, 10, 22, 12]
