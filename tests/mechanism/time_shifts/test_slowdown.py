"""The law of the score against a plain simulation of two jobs on a link that is shared fairly."""

from __future__ import annotations

import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.mechanism.time_shifts import iteration_s, law_is_exact, score_of
from apportion.mechanism.time_shifts.circle import pacings, unified_circle

Job = tuple[float, float, float]


def iterations(jobs: list[Job], capacity: float, shift: float, first: bool = False) -> list[float]:
    """Seconds of a late, or the first, iteration of two jobs (compute s, send s, Gb/s).

    Each computes, then sends; the second starts later. The link is shared max-min; events are
    followed one by one.
    """
    left = [0.0, 0.0]  # gigabits of the message
    wakes = [jobs[0][0], shift + jobs[1][0]]
    ends: list[list[float]] = [[], []]
    now = 0.0
    while min(map(len, ends)) < 60:
        sending = [job for job in (0, 1) if left[job] > 0]
        rates = [0.0, 0.0]
        free, waiting = capacity, sorted(sending, key=lambda job: jobs[job][2])
        for place, job in enumerate(waiting):
            rates[job] = min(jobs[job][2], free / (len(waiting) - place))
            free -= rates[job]
        step = min(
            [left[job] / rates[job] for job in sending]
            + [wakes[job] - now for job in (0, 1) if job not in sending]
        )
        now += step
        for job in (0, 1):
            compute, send, rate = jobs[job]
            if job in sending:
                left[job] -= rates[job] * step
                if left[job] < 1e-9 * send * rate:
                    left[job] = 0.0
                    ends[job].append(now)
                    wakes[job] = now + compute
            elif wakes[job] <= now + 1e-12:
                left[job] = send * rate
    if first:
        return [ends[0][0], ends[1][0] - shift]
    return [(ends[job][-1] - ends[job][-11]) / 10 for job in (0, 1)]


def profiles(jobs: list[Job]) -> list[ap.CommunicationProfile]:
    return [
        ap.CommunicationProfile.in_turn(str(place), [(compute, 0), (send, rate)])
        for place, (compute, send, rate) in enumerate(jobs)
    ]


@pytest.mark.parametrize("shift", [0, 10, 25, 50, 65, 90])
@pytest.mark.parametrize(("first", "second"), [(50, 50), (60, 60), (30, 50), (20, 80), (70, 40)])
def test_the_law_is_exact_for_two_on_off_jobs_at_the_full_rate(
    first: float, second: float, shift: float
) -> None:
    jobs = [(100.0 - first, first, 50.0), (100.0 - second, second, 50.0)]
    assert law_is_exact(profiles(jobs), 50)
    law = iteration_s(100, score_of(profiles(jobs), 50, [0, shift]))
    assert iterations(jobs, 50, shift) == pytest.approx([law, law])


def test_worked_cases() -> None:
    assert iteration_s(100, 0.5) == 150
    for offset in (0, 20, 50):
        jobs = [(50.0, 50.0, 50.0)] * 2
        assert iterations(jobs, 50, offset) == pytest.approx([150 - offset] * 2)
    assert iteration_s(100, 0.4) == pytest.approx(160)
    assert iteration_s(90, 1 / 3) == pytest.approx(150)
    assert iteration_s(1, 2 - 4) == 4


def test_where_the_law_is_not_exact() -> None:
    jobs = [(50.0, 50.0, 40.0), (50.0, 50.0, 20.0)]
    assert not law_is_exact(profiles(jobs), 50)
    assert iteration_s(100, score_of(profiles(jobs), 50, [0, 0])) == pytest.approx(110)
    # The second sends at its full 20 Gb/s, the first at 30, then alone at 40.
    assert iterations(jobs, 50, 0, first=True) == pytest.approx([112.5, 100])
    # Then they no longer start together, and in the end do not meet at all.
    assert iterations(jobs, 50, 0) == pytest.approx([100, 100], rel=1e-5)


def test_who_the_law_is_said_to_be_exact_for() -> None:
    half = ap.CommunicationProfile("a", 100, [(0, 50, 50)])
    assert law_is_exact([half], 50)
    assert not law_is_exact([half], 40)
    assert not law_is_exact([half] * 3, 50)
    assert not law_is_exact([half, ap.CommunicationProfile("b", 50, [(0, 25, 50)])], 50)
    assert not law_is_exact(
        [half, ap.CommunicationProfile("b", 100, [(0, 9, 50), (20, 9, 50)])], 50
    )
    with pytest.raises(ap.InputError, match="score"):
        iteration_s(100, 1.5)
    with pytest.raises(ap.InputError, match="isolated_s"):
        iteration_s(-1, 0.5)


def test_a_common_speed_of_random_full_rate_jobs() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, second, shift = rng.uniform(5, 95, 3)
        jobs = [(100 - first, first, 50.0), (100 - second, second, 50.0)]
        law = iteration_s(100, score_of(profiles(jobs), 50, [0, shift]))
        assert iterations(jobs, 50, shift) == pytest.approx([law, law], rel=1e-6)


@pytest.mark.parametrize("seed", each_seed(20, 500))
def test_paces_stretch_no_iteration_by_more_than_is_allowed(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    most = float(rng.choice([0.0, 0.01, 0.05, 0.2]))
    periods = (rng.choice([0.1, 0.2, 0.3], rng.integers(1, 5)) * rng.uniform(1, 1.06)).tolist()
    periods = [period * (1 + float(rng.choice([0, 1e-5, 0.01, 0.04]))) for period in periods]
    for paced in pacings(periods, most):
        assert unified_circle(paced) is not None
        longer = np.divide(paced, periods)
        assert longer.min() >= 1 - 1e-5
        assert longer.max() <= 1 + most + 1e-9
    if max(periods) <= min(periods) * (1 + most):  # the slowest can be waited for
        assert max(next(pacings(periods, most))) == pytest.approx(max(periods))
