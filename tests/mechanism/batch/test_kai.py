"""Fair shares, reclaim and preemption of queues, against the KAI scheduler's documents and tests.

Of https://github.com/NVIDIA/KAI-Scheduler: docs/fairness, docs/priority, docs/time-based-fairshare;
in pkg/scheduler resource_division_test.go and reclaimable_test.go of plugins/proportion, and
actions/reclaim/reclaim_test.go. Numbers restated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.mechanism.batch.plain_quotas import by_hand
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.mechanism.batch.kai import QueueDemand, fair_shares
from apportion.mechanism.batch.reclaim import QueueRules, ReclaimCycle
from apportion.mechanism.job_table import JobTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

pytestmark = pytest.mark.usefixtures("free_starts")

TWO = (QueueDemand(6, 2, 2), QueueDemand(6, 2, 2))


class Jobs(SimpleNamespace):
    """What a cycle asks of the job table."""

    fastest_first = JobTable.fastest_first


def two(**changed: tuple[Any, Any]) -> list[QueueDemand]:
    """Both deserve 2, have the weight 2, and want 6, but for what is changed."""
    return [
        each._replace(**{name: v[n] for name, v in changed.items()}) for n, each in enumerate(TWO)
    ]


@pytest.mark.parametrize(
    ("gpus", "demands", "expected"),
    [
        (2, [QueueDemand(2, 3, 0)], [2]),
        (3, [QueueDemand(2, 3, 0)], [2]),
        (1, [QueueDemand(2, 3, 0)], [2]),  # deserved is had, even if there is less in all
        (7, [QueueDemand(5, 3, 0)], [3]),  # and nothing more without a weight
        (5, [QueueDemand(5, 3, 1)], [5]),
        (6, [QueueDemand(5, 0, 1)], [5]),
        (15, two(), [6, 6]),
        (12, two(), [6, 6]),
        (8, two(weight=(1, 3)), [3, 5]),
        (12, two(requested=(5, 6)), [5, 6]),
        (11, two(weight=(1, 4), requested=(10, 10)), [3, 8]),  # 3.4 and 7.6
        (11, two(), [6, 5]),  # 5.5 each
        (4, two(priority=(1, 2)), [2, 2]),
        (6, two(priority=(1, 2)), [2, 4]),
        (6, two(priority=(1, 2), weight=(100, 1)), [2, 4]),
        (5, [*two(requested=(5, 5), priority=(2, 2)), QueueDemand(0, 1, 2, 1)], [3, 2, 0]),
    ],
)
def test_the_division(gpus: int, demands: list[QueueDemand], expected: list[int]) -> None:
    assert fair_shares(gpus, demands) == expected


def test_past_use_counts_against_the_rest_only() -> None:
    """The formula of docs/developer/designs/time-based-fairshare, by hand."""
    once = [QueueDemand(10, used=0.3), QueueDemand(10, used=0.1)]
    assert fair_shares(10, once) == [5, 5]
    # 0.7 and 0.9 of 1.6: 4.375 and 5.625 of 10.
    assert fair_shares(10, once, k=1.0) == [4, 6]
    all_used = [QueueDemand(10, used=1.0), QueueDemand(10)]
    assert fair_shares(10, all_used, k=1.0) == [0, 10]
    assert fair_shares(10, [all_used[0], QueueDemand(3)], k=1.0) == [7, 3]
    assert fair_shares(10, [all_used[0]._replace(deserved=4), all_used[1]], k=9.0) == [4, 6]
    assert fair_shares(10, [all_used[0]._replace(priority=1.0), all_used[1]], k=0.5) == [10, 0]


def plainly(gpus: int, demands: Sequence[QueueDemand], k: Fraction) -> list[int]:
    """Go by the documents, in exact fractions."""
    shares = [min(each.deserved, each.requested) for each in demands]
    left, rests = gpus - sum(shares), dict[int, Fraction]()
    for level in sorted({-each.priority for each in demands}):
        while left > 0:
            want = [
                n for n, d in enumerate(demands) if d.priority == -level and shares[n] < d.requested
            ]
            total = sum(Fraction(demands[n].weight) for n in want)
            if not total:
                break
            part = {}
            for n in want:
                w = Fraction(demands[n].weight) / total
                part[n] = max(Fraction(0), w + k * (w - Fraction(demands[n].used)))
            if not any(part.values()):
                break
            ideal = {n: left * each / sum(part.values()) for n, each in part.items() if each}
            less = False
            for n, each in ideal.items():
                missing = demands[n].requested - shares[n]
                gets = min(missing, each // 1)
                less |= missing < each
                if missing <= each:
                    rests.pop(n, None)
                elif each % 1:
                    rests[n] = each % 1
                shares[n] += int(gets)
                left -= int(gets)
            if not less:
                break
    for n in sorted(rests, key=lambda n: (-demands[n].priority, -rests[n], n)):
        if left > 0:
            shares[n], left = shares[n] + 1, left - 1
    return shares


@pytest.mark.parametrize("seeds", ranges_of_seeds(300, 10_000))
def test_every_division_is_as_written(seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        demands = [
            QueueDemand(
                int(rng.integers(0, 20)),
                int(rng.integers(0, 6)),
                float(rng.choice([0.0, 0.5, 1.0, 2.0, 3.0])),
                float(rng.integers(2)),
                float(rng.integers(0, 9)) / 8,
            )
            for _ in range(int(rng.integers(1, 6)))
        ]
        gpus, k = int(rng.integers(1, 40)), float(rng.choice([0.0, 0.5, 1.0, 2.0]))
        shares = fair_shares(gpus, demands, k)
        assert shares == plainly(gpus, demands, Fraction(k)), seed
        first = [min(each.deserved, each.requested) for each in demands]
        assert sum(shares) <= max(gpus, sum(first))
        for share, least, each in zip(shares, first, demands, strict=True):
            assert least <= share <= each.requested


def test_reclaim_by_fair_shares() -> None:
    """Each of two queues with 3 of 6 GPUs loses its lowest priority to one that deserves 2."""
    jobs = [(q, 1, 100, 0, p) for q in ("q0", "q1") for p in (50, 50, 49)] + [("r", 2, 10, 10, 50)]
    ends = by_hand(
        *jobs,
        scheduler="kai",
        gpus=6,
        deserved={"q0": 1, "q1": 1, "r": 2},
        over_quota_weights={"r": 0.0},
    )
    assert ends == [100, 100, 110, 100, 100, 110, 20]


def test_a_gang_above_its_quota_goes_as_a_whole() -> None:
    jobs = [("q0", 20, 100, 0, 0), ("q1", 10, 10, 5, 0)]
    options: dict[str, Any] = {"scheduler": "kai", "gpus": 20}
    assert by_hand(*jobs, **options, deserved={"q0": 10, "q1": 10}) == [110, 15]
    # What it deserves is not taken.
    assert by_hand(*jobs, **options, deserved={"q0": 20}) == [100, 110]


CASES = [
    # Deserved, fair share and GPUs of who asks for one, and of whom it asks.
    ((3, 3, 2), (2, 2, 3), True),
    ((3, 3, 2), (2, 2, 2), False),
    ((3, 3, 2), (2, 2, 1), False),
    ((3, 3, 2), (2, 3, 3), True),  # above its quota, within its fair share
    ((2, 3, 2), (2, 3, 3), False),
    ((3, 3, 3), (2, 2, 3), False),
]


@pytest.mark.parametrize(("asks", "other", "expected"), CASES)
def test_who_may_reclaim(
    asks: tuple[int, int, int], other: tuple[int, int, int], *, expected: bool
) -> None:
    running = [(0, 1)] * asks[2] + [(1, 1)] * other[2]
    cycle = moment([asks[1], other[1]], [asks[0], other[0]], running, [(0, 1)])
    found = cycle.run()
    assert (len(running) in found) == expected
    assert len(found) == len(running)
    assert cycle.evicted == ({len(running) - 1} if expected else set())  # who was submitted last


def moment(
    shares: list[int],
    deserved: list[int],
    running: list[tuple[int, int]],
    waiting: list[tuple[int, int]],
    free: int = 0,
) -> ReclaimCycle:
    """Return a moment of two queues; jobs are (queue, GPUs), those that run in front."""
    every = [*running, *waiting]
    jobs: Any = Jobs(
        speed=np.ones((len(every), 1)),
        scale=np.array([gpus for _, gpus in every]),
        capacity=np.array([free + sum(gpus for _, gpus in running)]),
        active=np.arange(len(every)),
    )
    rules = QueueRules(deserved, [np.inf, np.inf], [0.0, 0.0], 100.0)
    queue_of, on = [queue for queue, _ in every], dict.fromkeys(range(len(running)), 0)
    return ReclaimCycle(rules, jobs, queue_of, [0.0] * len(every), on, shares)


def test_the_order_of_queues() -> None:
    one_of_each, ask = [(0, 1), (1, 1)], [(0, 1), (1, 1)]
    # Within what it deserves, though its part of its share would be larger: 2 of 2, not 2 of 4.
    cycle = moment([4, 2], [0, 2], one_of_each, ask, free=1)
    assert 3 in cycle.run()
    assert not cycle.evicted
    assert 2 in moment([4, 2], [0, 0], one_of_each, ask, free=1).run()
    # Within its fair share, though the other has less of what it deserves.
    assert 3 in moment([2, 2], [40, 9], [(0, 3), (1, 2)], ask, free=1).run()
    # With the job: 3 of 4 GPUs before 4 of 4, though it has more now.
    assert set(moment([4, 4], [0, 0], [(0, 1), (1, 2)], [(0, 3), (1, 1)], free=3).run()) == {
        0,
        1,
        3,
    }


def test_who_need_not_go_stays() -> None:
    cycle = moment([3, 1], [0, 0], [(1, 3), (1, 1)], [(0, 3)])
    assert cycle.run() == {1: 0, 2: 0}
    assert cycle.evicted == {0}


def test_priorities_within_a_queue() -> None:
    """docs/priority: with a limit of 1 GPU a job of priority 100 takes that of 50, others wait."""
    options: dict[str, Any] = {"scheduler": "kai", "gpus": 4, "deserved": {"a": 1}}
    jobs = [("a", 1, 50, 0, 50), ("a", 1, 10, 5, 100)]
    assert by_hand(*jobs, **options, limits={"a": 1}) == [60, 15]
    assert by_hand(*jobs, **options) == [50, 15]
    # Of 100 and above only what is deserved, and nobody takes that; below, whatever is free.
    jobs = [("a", 1, 50, 0, 100), ("a", 1, 10, 5, 125), ("a", 3, 10, 6, 0)]
    assert by_hand(*jobs, **options) == [50, 60, 16]
    assert by_hand(*jobs, **options, non_preemptible_from=200.0) == [50, 15, 25]
    # The highest first, then who came first.
    jobs = [("a", 4, 10, 0, 9), ("a", 4, 10, 1, 1), ("a", 4, 10, 2, 2), ("a", 4, 10, 3, 2)]
    assert by_hand(*jobs, **options) == [10, 40, 20, 30]


def test_who_has_least_of_its_share_comes_first() -> None:
    """4 GPUs fall free at 10: of 2, 1 and 1 in fair shares of 4, 2 and 2, each gets one in turn."""
    jobs = [("z", 8, 10, 0, 0)]
    jobs += [("a", 1, 10 + n, 1, 0) for n in range(9)] + [("b", 1, 20 + n, 1, 0) for n in range(9)]
    ends = by_hand(*jobs, scheduler="kai", gpus=8, over_quota_weights={"a": 3.0, "z": 0.0})
    # Of weights 3 and 1 the shares are 6 and 2; at 1 they take all that is not deserved.
    assert sorted(ends[1:10])[:6] == [11, 12, 13, 14, 15, 16]
    assert sorted(ends[10:])[:2] == [21, 22]
    assert ends[0] > 20


def test_queues_of_higher_priority_have_of_the_rest_first() -> None:
    jobs = [("a", 1, 10, 0, 0)] * 4 + [("b", 1, 10, 0, 0)] * 4
    options: dict[str, Any] = {"scheduler": "kai", "gpus": 4}
    assert by_hand(*jobs, **options) == [10, 10, 20, 20] * 2
    assert by_hand(*jobs, **options, queue_priorities={"b": 1.0}) == [20] * 4 + [10] * 4
    deserves: dict[str, Any] = {"queue_priorities": {"b": 1.0}, "deserved": {"a": 1}}
    assert by_hand(*jobs, **options, **deserves) == [10, 20, 20, 20, 10, 10, 10, 20]


def switches(half_life_s: float, k: float, until_s: float) -> list[float]:
    """Say when all of 16 GPUs change hands between two queues, looking every minute.

    Who waits gets them once its fair share, rounded, is 16; uses are of the part of the time, so
    discounted, that each has had.
    """
    found, has, times = list[float](), 0, [0.0]
    rate = np.log(2) / half_life_s
    for now in np.arange(60.0, until_s, 60.0):
        every = [*times, float(now)]
        had = [0.0, 0.0]
        for n, (start, end) in enumerate(pairwise(every)):
            had[n % 2] += np.exp(-rate * (now - end)) - np.exp(-rate * (now - start))
        parts = [max(0.0, 0.5 + k * (0.5 - each / sum(had))) for each in had]
        if 16 * parts[1 - has] / sum(parts) > 15.5:
            found.append(float(now))
            times.append(float(now))
            has = 1 - has
    return found


@pytest.mark.parametrize(("half_life_s", "k"), [(600.0, 1.0), (1800.0, 4.0), (600.0, 0.9)])
def test_queues_take_turns_by_what_they_have_used(half_life_s: float, k: float) -> None:
    """docs/time-based-fairshare: two queues of equal weight, jobs of all 16 GPUs."""
    expected = switches(half_life_s, k, 40_000.0)
    options: dict[str, Any] = {"k_value": k, "half_life_s": half_life_s, "gpus": 16}
    jobs = [("a", 16, 20_000, 0, 0), ("b", 16, 20_000, 0, 0)]
    ends = by_hand(*jobs, scheduler="kai", **options)
    # Who has had 20,000 s is done; then the other has the rest.
    had, has, since, done = [0.0, 0.0], 0, 0.0, [0.0, 40_000.0]
    for at in [*expected, 40_000.0]:
        if had[has] + at - since >= 20_000:
            done[has], done[1 - has] = since + 20_000 - had[has], 40_000
            break
        had[has], since, has = had[has] + at - since, at, 1 - has
    assert ends == [round(each, 6) for each in done]
    assert len(expected) == 0 if k < 1 else len(expected) > 5
    assert by_hand(*jobs, scheduler="kai", gpus=16) == [20_000, 40_000]


@dataclass
class Drawn:
    """Queues a, b and c, 11 jobs, and who of them runs, within limits."""

    told: Any
    jobs: Any
    queue_of: list[int]
    priority: list[float]
    running: dict[int, int]

    @classmethod
    def by(cls, seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        queues, count, types = "abc", 11, 2
        told = ap.get_scheduler(
            "kai",
            deserved={queue: int(rng.integers(0, 4)) for queue in queues},
            limits={queue: int(rng.integers(3, 9)) for queue in queues if rng.random() < 0.4},
            over_quota_weights={queue: float(rng.integers(0, 3)) for queue in queues},
            queue_priorities={queue: float(rng.random() < 0.2) for queue in queues},
        )
        jobs = Jobs(
            scale=rng.integers(1, 4, count),
            speed=rng.choice([0.0, 1.0, 2.0], (count, types), p=[0.1, 0.5, 0.4]),
            capacity=rng.integers(3, 7, types),
            active=np.arange(count),
        )
        priority = rng.choice([0.0, 1.0, 2.0, 100.0], count, p=[0.4, 0.3, 0.2, 0.1])
        found = cls(told, jobs, rng.integers(0, 3, count).tolist(), priority.tolist(), {})
        for job in range(count):
            kind = int(rng.integers(types))
            tried = {**found.running, job: kind}
            if jobs.speed[job, kind] > 0 and rng.random() < 0.8 and found.kept(tried):
                found.running = tried
        return found

    def has(self, running: Iterable[int], queue: int) -> int:
        return sum(int(self.jobs.scale[job]) for job in running if self.queue_of[job] == queue)

    def kept(self, running: dict[int, int]) -> bool:
        """Tell whether capacities, limits, and quotas of jobs that nobody preempts are kept."""
        for kind, gpus in enumerate(self.jobs.capacity):
            if sum(self.jobs.scale[job] for job, on in running.items() if on == kind) > gpus:
                return False
        fixed = [job for job in running if self.priority[job] >= 100]
        return all(
            self.has(running, place) <= self.told.limits.get(queue, 10**6)
            and self.has(fixed, place) <= self.told.deserved[queue]
            for place, queue in enumerate("abc")
        )

    def rules(self) -> QueueRules:
        told = self.told
        return QueueRules(
            [told.deserved[queue] for queue in "abc"],
            [told.limits.get(queue, np.inf) for queue in "abc"],
            [told.queue_priorities[queue] for queue in "abc"],
            told.non_preemptible_from,
        )

    def shares(self) -> list[int]:
        told = self.told
        demands = [
            QueueDemand(
                min(self.has(range(11), n), told.limits.get(queue, 10**6)),
                *(told.deserved[queue], told.over_quota_weights[queue]),
                told.queue_priorities[queue],
            )
            for n, queue in enumerate("abc")
        ]
        return plainly(int(self.jobs.capacity.sum()), demands, Fraction(0))


@pytest.mark.parametrize("seeds", ranges_of_seeds(150, 5_000))
def test_nobody_can_complain(seeds: Iterable[int]) -> None:
    """Whoever waits finds nothing free and nobody to take GPUs from; who goes, goes for others."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        drawn = Drawn.by(seed)
        before, shares = drawn.running, drawn.shares()
        cycle = ReclaimCycle(
            *(drawn.rules(), drawn.jobs, drawn.queue_of, drawn.priority), *(dict(before), shares)
        )
        after = cycle.run()
        assert drawn.kept(after), seed
        # Whoever moved to another type was evicted as well.
        gone = {job for job, kind in before.items() if after.get(job) != kind}
        seen["gone"] += len(gone)
        assert all(drawn.priority[job] < 100 for job in gone), seed
        assert set(after) - set(before) or not gone, seed
        for job in set(range(11)) - set(after):
            for kind in np.flatnonzero(drawn.jobs.speed[job] > 0).tolist():
                assert not drawn.kept({**after, job: kind}), (seed, job)
                if job not in cycle.evicted:
                    seen["waits"] += 1
                    assert not complains(drawn, after, job, kind, shares), (seed, job)
    assert seen["gone"] > 0
    assert seen["waits"] > 0


def complains(
    drawn: Drawn, running: dict[int, int], job: int, kind: int, shares: Sequence[int]
) -> bool:
    """Tell whether a job that waits could preempt or reclaim on a type."""
    queue, gpus, most = drawn.queue_of[job], int(drawn.jobs.scale[job]), drawn.priority[job]
    with_it = {**running, job: kind}
    stay = {
        each: on
        for each, on in with_it.items()
        if each == job
        or on != kind
        or drawn.queue_of[each] != queue
        or drawn.priority[each] >= min(most, 100)
    }
    if drawn.kept(stay):
        return True
    own = {each: on for each, on in with_it.items() if drawn.queue_of[each] == queue}
    asks = drawn.has(own, queue)
    if asks > shares[queue] or not drawn.kept(own):
        return False
    held = sum(int(drawn.jobs.scale[each]) for each, on in running.items() if on == kind)
    free = int(drawn.jobs.capacity[kind]) - held
    return free + freed(drawn, running, kind, queue, asks, shares) >= gpus


def freed(
    drawn: Drawn, running: dict[int, int], kind: int, queue: int, asks: int, shares: Sequence[int]
) -> int:
    """Return how many GPUs of a type a queue could take from others, asking each queue in order."""
    told, total = drawn.told, 0
    for other in {0, 1, 2} - {queue}:
        deserved = told.deserved["abc"[other]]
        fair = min(max(shares[other], deserved), told.limits.get("abc"[other], 10**6))
        left = drawn.has(running, other)
        of_other = [job for job, on in running.items() if on == kind]
        for job in sorted(of_other, key=lambda job: (drawn.priority[job], -job)):
            if drawn.queue_of[job] == other and drawn.priority[job] < 100:
                guaranteed = asks <= told.deserved["abc"[queue]] and left > deserved
                if not (left > fair or guaranteed):
                    break
                left -= int(drawn.jobs.scale[job])
                total += int(drawn.jobs.scale[job])
    return total


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": {"a": 1}}, r"Job 0 .* asks for 2 GPUs, and queue 'a' has 1 by limits: give"),
        ({"non_preemptible_from": 0.0}, "has 0 by deserved, and jobs of priority 0 and above run"),
        ({"deserved": {"a": -1}}, "deserved of queue 'a' is -1"),
        ({"over_quota_weights": {"a": -1.0}}, "over_quota_weights of queue 'a' is -1"),
        ({"limits": {"b": 4}}, "Unknown queue of limits 'b'"),
        ({"deserved": {"abba": 4}, "queue_priorities": {"aba": 1.0}}, "Did you mean 'abba'"),
        ({"half_life_s": 0.0}, "half_life_s is 0"),
        ({"k_value": -0.5}, "k_value is -0.5"),
        ({"usage_every_s": 0.0}, "usage_every_s is 0"),
        ({"deserve": {}}, "'deserve'. Did you mean 'deserved'"),
    ],
)
def test_what_cannot_be_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        by_hand(("a", 2, 10, 0, 0), scheduler="kai", gpus=4, **options)


@pytest.mark.parametrize("options", [{}, {"k_value": 1.0, "half_life_s": 3600.0}])
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    ap.check_scheduler(ap.get_scheduler("kai", deserved={"a": 2}, **options), n_jobs=1)


def test_one_queue_passes_whoever_does_not_fit() -> None:
    """Without entities nobody has a share to reclaim; the big one waits for all."""
    load = ap.generate_workload(jobs=30, seed=1, jobs_per_hour=30)
    run = ap.simulate("kai", load, "v100=8,k80=4")
    assert run.jobs["completion_s"].notna().all()
    assert (run.jobs["preemptions"] == 0).all()
