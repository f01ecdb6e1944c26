"""The bound below which no starts bring jobs on links, against a grid and against the engine."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.sim.network.contention import PhaseNetwork
from apportion.sim.phases import best_meeting as searched
from apportion.sim.phases.best_meeting import least_slowdown
from apportion.sim.phases.steady import SteadyIterations
from apportion.sim.shifts.meeting import Meeting

GBPS = 50.0


def met(senders: list[tuple[float, float, float]], links: list[tuple[int, ...]]) -> Meeting:
    """Let jobs of (period, part of it in which they send, Gb/s) meet at random starts."""
    profiles = tuple(
        ap.CommunicationProfile(str(job), period, [((1 - duty) * period, duty * period, gbps)])
        for job, (period, duty, gbps) in enumerate(senders)
    )
    return Meeting(profiles, (None,) * len(senders), tuple((GBPS, users) for users in links))


def drawn(number: int) -> Meeting:
    """Draw two to four jobs on one to three links, each with two jobs or more."""
    rng = np.random.default_rng([93, number])
    jobs = int(rng.integers(2, 5))
    periods, duties = rng.uniform(0.1, 0.3, jobs), rng.uniform(0.2, 1.0, jobs)
    rates = rng.choice([30.0, 50.0], jobs)
    senders = list(zip(periods.tolist(), duties.tolist(), rates.tolist(), strict=True))
    links = [
        tuple(sorted(rng.choice(jobs, int(rng.integers(2, jobs + 1)), replace=False).tolist()))
        for _ in range(int(rng.integers(1, 4)))
    ]
    return met(senders, links)


@pytest.mark.parametrize(("jobs", "duty", "least"), [(2, 0.4, 1.0), (2, 0.9, 1.8), (4, 1.0, 4.0)])
def test_jobs_that_are_alike_share_a_link_evenly(jobs: int, duty: float, least: float) -> None:
    meeting = met([(0.2, duty, GBPS)] * jobs, [tuple(range(jobs))])
    assert least_slowdown(meeting) == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("number", each_seed(10, 30))
def test_a_grid_of_slowdowns_has_none_that_is_less(number: int) -> None:
    meeting = drawn(number)
    sent = np.array([profile.mean_gbps for profile in meeting.profiles])
    on = np.array([[job in users for job in range(sent.size)] for _, users in meeting.links])
    grid = np.array(list(product(np.geomspace(1, 4, 25), repeat=sent.size)))
    carried = ((sent / grid) @ on.T <= GBPS * (1 + 1e-9)).all(axis=1)
    least, found = least_slowdown(meeting), grid[carried].mean(axis=1).min()
    assert least <= found + 1e-6
    assert found <= 1.06 * least  # the next point of the grid, in each direction


@pytest.mark.parametrize("number", range(12))
def test_the_engine_is_never_below_it(number: int) -> None:
    meeting = drawn(number)
    steady = SteadyIterations(PhaseNetwork(starts=4))
    assert steady.of(meeting).slowdown.mean() >= least_slowdown(meeting) * (1 - 0.01)


def test_nothing_is_searched_where_nothing_can_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_given: object) -> None:
        raise AssertionError("a search without hope")

    steady = SteadyIterations(PhaseNetwork(starts=8))
    full = met([(0.2, 1.0, GBPS), (0.21, 1.0, GBPS)], [(0, 1)])
    loose = met([(0.2, 0.5, GBPS), (0.2, 0.5, GBPS)], [(0, 1)])
    assert steady.of(steady.best(loose, pace=0.05)).slowdown.mean() == pytest.approx(1.0)
    monkeypatch.setattr(searched, "_tried", never)
    assert steady.best(full, pace=0.05) is full
