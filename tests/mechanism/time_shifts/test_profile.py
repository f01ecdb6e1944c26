from __future__ import annotations

import numpy as np
import pytest

import apportion as ap


def test_phases_in_turn() -> None:
    profile = ap.CommunicationProfile.in_turn("a", [(1, 0), (2, 10), (1, 0), (1, 30)])
    assert profile.period_s == 5
    assert profile.phases == ((1, 2, 10), (4, 1, 30))
    assert (profile.gigabits, profile.mean_gbps, profile.peak_gbps) == (50, 10, 30)
    assert profile.duty == pytest.approx(0.6)
    assert profile.demand([0.5, 1.5, 3.5, 4.5, 9.5]).tolist() == [0, 10, 0, 30, 30]


@pytest.mark.parametrize("shift", [0.0, 0.5, 4.9, 5.0, -1.5, 123.4, 1e-17, -1e-17])
def test_a_shifted_profile_wants_the_same_later(shift: float) -> None:
    profile = ap.CommunicationProfile("a", 5, [(1, 2, 10), (4, 1.5, 30)])
    moved = profile.shifted(shift)
    times = np.linspace(0, 5, 40, endpoint=False) + 0.0123
    assert moved.demand(times + shift).tolist() == profile.demand(times).tolist()
    assert moved.gigabits == pytest.approx(profile.gigabits)


def test_what_is_nothing_is_left_out() -> None:
    profile = ap.CommunicationProfile("a", 1, [(0, 0, 10), (0.2, 0.5, 0), (0.5, 0.1, 3)])
    assert profile.phases == ((0.5, 0.1, 3),)
    assert ap.CommunicationProfile("silent", 1).mean_gbps == 0


@pytest.mark.parametrize(
    ("period", "phases", "message"),
    [
        (0, [], r"period of the communication profile 'a' is 0; .* > 0"),
        (-1, [], "period"),
        (float("nan"), [], "period"),
        (float("inf"), [], "period"),
        ("1", [], "period"),
        (1, [(0, 1.5, 10)], r"'a' starts at 0 s and takes 1.5 s; .* no longer than it"),
        (1, [(1, 0.1, 10)], "must start within the period of 1 s"),
        (1, [(0, 0.5, 10), (0.4, 0.2, 5)], r"overlap: one starts at 0 s .* next starts at 0.4 s"),
        (1, [(0.1, 0.5, 10), (0.8, 0.4, 5)], "overlap"),
        (1, [(0.1, -0.5, 10)], "duration of a phase"),
        (1, [(-0.1, 0.5, 10)], "start of a phase"),
        (1, [(0.1, 0.5, -10)], "Gb/s of a phase"),
        (1, [(0.1, 0.5, None)], "Gb/s of a phase"),
        (1, [(0.1, 0.5)], r"must be \(start, duration, Gb/s\)"),
        (1, 7, "phases of the communication profile 'a'"),
        (1, [7], "A phase of the communication profile 'a'"),
    ],
)
def test_bad_phases_are_named(period: object, phases: object, message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        ap.CommunicationProfile("a", period, phases)  # type: ignore[arg-type]


def test_bad_phases_in_turn_are_named() -> None:
    with pytest.raises(ap.InputError, match=r"must be \(seconds, Gb/s\)"):
        ap.CommunicationProfile.in_turn("a", [(1, 2, 3)])  # type: ignore[list-item]
    with pytest.raises(ap.InputError, match="period"):
        ap.CommunicationProfile.in_turn("a", [])
    with pytest.raises(ap.InputError, match="name"):
        ap.CommunicationProfile("", 1)
