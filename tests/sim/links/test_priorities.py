"""Strict priorities on links, and Crux's: its first example, and what holds for any jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.sim.links import PhaseJob, crux_priorities, gpu_intensity, max_min_rates, run_phases

if TYPE_CHECKING:
    from collections.abc import Hashable

LINK = {"link": 50.0}


def job(computes_s: float, sends_s: float, priority: float = 0.0) -> PhaseJob:
    profile = ap.CommunicationProfile(
        "job", computes_s + sends_s, [(computes_s, sends_s, LINK["link"])]
    )
    return PhaseJob(profile, ("link",), priority=priority)


@pytest.mark.parametrize(("first", "sent"), [("long", (6, 3)), ("short", (4, 6))])
def test_the_example_of_the_paper(first: str, sent: tuple[float, float]) -> None:
    # 10 Gflop and 2 s of sending against 5 Gflop and 1 s, over 12 s (figure 11 of the paper).
    jobs = {
        "long": job(2, 2, priority=float(first == "long")),
        "short": job(1, 1, priority=float(first == "short")),
    }
    run = run_phases(jobs, LINK, iterations=40)
    seconds = [
        12 / run.mean_s(name, after=10) * each.profile.phases[0].duration_s
        for name, each in jobs.items()
    ]
    assert seconds == pytest.approx(sent)


def test_intensity_is_corrected_as_in_the_paper() -> None:
    jobs = {"long": job(2, 2), "short": job(1, 1)}
    work = {"long": 10.0, "short": 5.0}
    assert gpu_intensity(jobs, work, LINK) == {"long": 5.0, "short": 5.0}
    assert crux_priorities(jobs, work, LINK) == pytest.approx({"long": 5.0, "short": 7.5})
    assert crux_priorities(jobs, work, LINK, corrected=False) == {"long": 5.0, "short": 5.0}


def test_the_first_is_as_if_alone_and_equals_share() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        times = rng.uniform(0.1, 1, (3, 2))
        first, *others = (job(*map(float, each)) for each in times)
        jobs = {0: PhaseJob(first.profile, first.links, priority=1.0)} | dict(enumerate(others, 1))
        run = run_phases(jobs, LINK, iterations=10)
        assert run.iterations_s(0) == pytest.approx(
            np.full(run.iterations_s(0).size, sum(times[0]))
        )
    same = {name: job(1, 1, priority=3.0) for name in "ab"}
    plain = {name: job(1, 1) for name in "ab"}
    for name in "ab":
        with_, without = (run_phases(each, LINK).iterations_s(name) for each in (same, plain))
        assert np.array_equal(with_, without)


def test_shares_by_priority_fill_links_from_the_top() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        capacities: dict[Hashable, float] = {k: float(rng.integers(1, 60)) for k in range(3)}
        count = int(rng.integers(1, 7))
        demands = rng.integers(1, 60, count).astype(float).tolist()
        links_of = [rng.permutation(3)[: rng.integers(0, 4)].tolist() for _ in range(count)]
        priorities = rng.integers(0, 3, count).astype(float).tolist()
        rates = max_min_rates(demands, links_of, capacities, priorities)
        for level in set(priorities):  # those above are as if those below were not there
            above = [k for k in range(count) if priorities[k] >= level]
            alone = max_min_rates(
                [demands[k] for k in above],
                [links_of[k] for k in above],
                capacities,
                [priorities[k] for k in above],
            )
            assert [rates[k] for k in above] == pytest.approx(alone)
        for flow, rate in enumerate(rates):  # nobody could have more from those below
            spare = [
                capacities[link]
                - sum(
                    rates[k]
                    for k in range(count)
                    if link in links_of[k] and priorities[k] >= priorities[flow]
                )
                for link in links_of[flow]
            ]
            assert rate == pytest.approx(demands[flow]) or min(spare) == pytest.approx(0, abs=1e-9)
            assert min(spare, default=0.0) >= -1e-9
        one = max_min_rates(demands, links_of, capacities, [1.0] * count)
        assert one == max_min_rates(demands, links_of, capacities)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="The priority of the job 'job'"):
        job(1, 1, priority=float("nan"))
    with pytest.raises(InputError, match="job without work"):
        gpu_intensity({"a": job(1, 1)}, {}, LINK)
    with pytest.raises(InputError, match="work of job 'a'"):
        gpu_intensity({"a": job(1, 1)}, {"a": 0.0}, LINK)
    with pytest.raises(InputError, match="link of the job 'a'"):
        gpu_intensity({"a": job(1, 1)}, {"a": 1.0}, {})


def test_a_job_that_starves_is_named() -> None:
    profile = ap.CommunicationProfile("always", 1.0, [(0.0, 1.0, 50.0)])
    always = PhaseJob(profile, ("link",), priority=1.0)
    with pytest.raises(InputError, match="The job 'late' starves"):
        run_phases({"always": always, "late": job(1, 1)}, LINK, iterations=5)
