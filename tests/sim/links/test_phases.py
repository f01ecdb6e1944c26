"""Jobs that go through the phases of their profiles on links: closed forms, and what fair means."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.time_shifts import iteration_s, law_is_exact, score_of
from apportion.sim.links import PhaseJob, PhaseRun, max_min_rates, run_phases
from apportion.sim.links.phases import iteration_of

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


def test_the_law_is_exact_where_it_says_so() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        on, shift = rng.integers(5, 100, 2), float(rng.integers(0, 100))
        profiles = [on_off(float(each), 100.0) for each in on]
        assert law_is_exact(profiles, 50)
        law = iteration_s(100, score_of(profiles, 50, [0, shift]))
        assert late(on_one_link(profiles, [0, shift])) == pytest.approx([law, law])


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


def test_a_job_alone_makes_its_period_and_sends_its_gigabits() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        edges = np.sort(rng.uniform(0, 10, 6))
        phases = [(a, b - a, float(rng.uniform(1, 50))) for a, b in list(pairwise(edges))[::2]]
        profile = Profile("alone", 10.0, phases).shifted(float(rng.uniform(0, 10)))
        iteration, begins_s = iteration_of(profile)
        assert iteration.size == pytest.approx(profile.gigabits)
        assert len(iteration.sends) == len(begins_s)
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
