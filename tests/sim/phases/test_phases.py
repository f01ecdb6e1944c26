"""Jobs that go through the phases of their profiles on links: closed forms, and what fair means."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.time_shifts import iteration_s, law_is_exact, score_of
from apportion.sim.phases import PhaseJob, PhaseRun, max_min_rates, run_phases
from apportion.sim.phases.segments import segments_of

Profile = ap.CommunicationProfile


def on_off(on: float, period: float, gbps: float = 50.0, name: str = "job") -> Profile:
    return Profile(name, period, [(0.0, on, gbps)])


def on_one_link(
    profiles: list[Profile], shifts: list[float], capacity: float = 50.0, iterations: int = 30
) -> PhaseRun:
    jobs = {
        place: PhaseJob(profile, ("link",), shift)
        for place, (profile, shift) in enumerate(zip(profiles, shifts, strict=True))
    }
    return run_phases(jobs, {"link": capacity}, iterations=iterations)


def late(run: PhaseRun) -> list[float]:
    return [run.mean_s(job, after=10) for job in run.starts_s]


@pytest.mark.parametrize(
    ("on", "period", "shifts", "capacity", "expected"),
    [
        *((50, 100, [0, d], 50, 150 - d) for d in (0, 10, 25, 40, 50)),  # two alike
        (60, 100, [0, 0], 50, 160),
        (60, 100, [0, 40], 50, 120),
        (60, 100, [0, 60], 50, 120),
        (30, 90, [0, 0, 0], 50, 150),
        (30, 90, [0, 30, 60], 50, 90),
        (50, 100, [0, 0, 0], 50, 200),
        (100, 100, [0, 0, 0, 0], 50, 400),  # always on: 2 - (2 - k) = k times as long
    ],
)
def test_worked_cases(
    on: float, period: float, shifts: list[float], capacity: float, expected: float
) -> None:
    profiles = [on_off(on, period)] * len(shifts)
    run = on_one_link(profiles, shifts, capacity)
    assert late(run) == pytest.approx([expected] * len(shifts))
    law = iteration_s(period, score_of(profiles, capacity, shifts))
    assert law == pytest.approx(expected)


def test_rates_of_which_two_fit_beside_one() -> None:
    profiles = [on_off(50, 100, rate) for rate in (40.0, 20.0, 20.0)]
    apart = on_one_link(profiles, [0, 50, 50], 40)
    assert late(apart) == pytest.approx([100, 100, 100])
    assert sum(apart.excess_gigabits.values()) == 0
    together = on_one_link(profiles, [0, 0, 0], 40, iterations=1)
    # 40/3 for each until the two are done after 75: 1,000 of 2,000 Gb then go at 40.
    first = [float(together.iterations_s(job)[0]) for job in range(3)]
    assert first == pytest.approx([150, 125, 125])


def test_the_law_is_exact_where_it_says_so() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        on, shift = rng.integers(5, 100, 2), float(rng.integers(0, 100))
        profiles = [on_off(float(each), 100.0) for each in on]
        assert law_is_exact(profiles, 50)
        law = iteration_s(100, score_of(profiles, 50, [0, shift]))
        assert late(on_one_link(profiles, [0, shift])) == pytest.approx([law, law])


def test_the_law_is_not_exact_for_unequal_rates() -> None:
    profiles = [on_off(50, 100, 40.0), on_off(50, 100, 20.0)]
    assert iteration_s(100, score_of(profiles, 50, [0, 0])) == pytest.approx(110)
    run = on_one_link(profiles, [0, 0])
    assert [run.iterations_s(job)[0] for job in (0, 1)] == pytest.approx([112.5, 100])
    last = [run.iterations_s(job)[29] for job in (0, 1)]
    assert last == pytest.approx([100, 100], abs=0.01)  # they have drifted apart
    assert run.readjusted == {0: 0, 1: 0}


def test_rates_are_max_min_fair() -> None:
    """Every flow has its demand or a full link on which nobody has more: the definition."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        links: dict[Any, float] = {
            name: float(rng.uniform(1, 9)) for name in range(int(rng.integers(1, 6)))
        }
        flows = int(rng.integers(1, 9))
        demands = rng.uniform(0, 5, flows) * (rng.random(flows) < 0.9)
        uses = [[link for link in links if rng.random() < 0.4] for _ in range(flows)]
        rates = max_min_rates(demands.tolist(), uses, links)
        used = {
            link: sum(r for r, u in zip(rates, uses, strict=True) if link in u) for link in links
        }
        assert all(used[link] <= links[link] * (1 + 1e-9) for link in links)
        assert (np.array(rates) <= demands * (1 + 1e-9)).all()
        for flow in range(flows):
            full = [link for link in uses[flow] if used[link] >= links[link] * (1 - 1e-9)]
            most = [max(r for r, u in zip(rates, uses, strict=True) if link in u) for link in full]
            assert rates[flow] >= demands[flow] * (1 - 1e-9) or any(
                rates[flow] >= each * (1 - 1e-9) for each in most
            )
        order = rng.permutation(flows)
        again = max_min_rates(demands[order].tolist(), [uses[k] for k in order], links)
        assert again == pytest.approx(np.array(rates)[order].tolist())


def test_progressive_filling_by_hand() -> None:
    # The long flow shares both links; what it leaves on the wide one the second takes.
    rates = max_min_rates([50, 50, 50], [["a", "b"], ["a"], ["b"]], {"a": 30.0, "b": 50.0})
    assert rates == [15, 15, 35]
    assert max_min_rates([5, 50], [["a"], ["a"]], {"a": 30.0}) == [5, 25]
    assert max_min_rates([5, 0], [[], ["a"]], {"a": 30.0}) == [5, 0]


def test_marks_are_what_is_wanted_above_the_capacity() -> None:
    run = on_one_link([on_off(50, 100)] * 2, [0, 0], iterations=1)
    assert run.excess_gigabits == {"link": pytest.approx(100 * 50)}  # 50 Gb/s above, for 100 s
    assert run.marks_gigabits == {0: pytest.approx(2500), 1: pytest.approx(2500)}
    assert on_one_link([on_off(50, 100)] * 2, [0, 50]).excess_gigabits == {"link": 0}


def test_a_job_alone_makes_its_period_and_sends_its_gigabits() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        edges = np.sort(rng.uniform(0, 10, 6))
        phases = [(a, b - a, float(rng.uniform(1, 50))) for a, b in list(pairwise(edges))[::2]]
        profile = Profile("alone", 10.0, phases).shifted(float(rng.uniform(0, 10)))
        segments = segments_of(profile)
        assert sum(each.amount for each in segments if each.gbps) == pytest.approx(profile.gigabits)
        run = on_one_link([profile], [0.0])
        assert run.iterations_s(0) == pytest.approx([10.0] * 30)


def test_drift_is_readjusted() -> None:
    half = on_off(0.4, 1.0)
    jobs = {name: PhaseJob(half, ("link",), shift) for name, shift in (("a", 0.0), ("b", 0.5))}
    given: dict[str, Any] = {
        "capacities": {"link": 50.0},
        "iterations": 200,
        "jitter": 0.03,
        "random_seed": 1,
    }
    kept, free = run_phases(jobs, readjust=0.05, **given), run_phases(jobs, **given)
    assert free.readjusted == {"a": 0, "b": 0}
    assert all(0 < count < 100 for count in kept.readjusted.values())
    # Sends begin near their places: never more than 5 % off by the schedule.
    for name, job in jobs.items():
        late_s = np.mod(kept.starts_s[name][1:-1] - job.start_s, 1.0)
        again = np.minimum(late_s, 1 - late_s)
        assert np.median(again) <= 0.05
    again = run_phases(jobs, readjust=0.05, **given)
    assert np.array_equal(again.starts_s["a"], kept.starts_s["a"])


def test_an_early_job_waits_for_its_schedule() -> None:
    slow = PhaseJob(on_off(0.5, 1.0), ("link",), 0.0, schedule_s=1.25)
    run = run_phases({"a": slow}, {"link": 50.0}, readjust=0.05, iterations=8)
    assert run.iterations_s("a") == pytest.approx([1.0] + [1.25] * 7)
    assert run.readjusted["a"] == 8  # the last of them in the iteration that is not complete


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"jobs": {}}, "at least one job"),
        ({"jobs": {"a": 3}}, "'a'"),
        ({"capacities": {}}, "link of the job 'a'"),
        ({"capacities": {"link": 0}}, "no capacity"),
        ({"iterations": 0}, "iterations"),
        ({"readjust": 0.0}, "readjust"),
        ({"jitter": 1.5}, "jitter"),
        ({"random_seed": -1}, "random_seed"),
        ({"iterations": 10**9}, "fewer iterations"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {
        "jobs": {"a": PhaseJob(on_off(1, 2), ("link",))},
        "capacities": {"link": 50.0},
    }
    with pytest.raises(InputError, match=told):
        run_phases(**{**given, **change})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"profile": 3}, "CommunicationProfile"),
        ({"links": ("a", "a")}, "once"),
        ({"start_s": -1}, "start of the job 'job'"),
        ({"schedule_s": 0}, "schedule of the job 'job'"),
    ],
)
def test_bad_jobs_are_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        PhaseJob(**{"profile": on_off(1, 2), **change})
