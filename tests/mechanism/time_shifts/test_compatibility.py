"""Compatibility against hand-computed cases, all rotations of a grid, and invariants."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.mechanism.time_shifts import LinkScores, jensen_bound, score_of, unified_circle

Slots = list[float]


def on_off(name: str, period: float, on: float, gbps: float = 50.0) -> ap.CommunicationProfile:
    return ap.CommunicationProfile(name, period, [(0.0, on, gbps)])


def of_slots(name: str, demand: Slots) -> ap.CommunicationProfile:
    """One second a slot."""
    return ap.CommunicationProfile.in_turn(name, [(1.0, each) for each in demand])


def drawn(rng: np.random.Generator, slots: int, levels: int = 3) -> Slots:
    demand = rng.integers(0, levels, slots) * 10.0 * (rng.random(slots) < 0.7)
    return [float(each) for each in demand]


def best_on_slots(demands: list[Slots], capacity: float) -> tuple[float, float]:
    """Best and unshifted score over all rotations by whole slots, from the definition."""
    perimeter = math.lcm(*map(len, demands))
    scores = []
    for shifts in product(*(range(len(demand)) for demand in demands[1:])):
        excess = 0.0
        for slot in range(perimeter):
            wanted = sum(
                demand[(slot - shift) % len(demand)]
                for demand, shift in zip(demands, (0, *shifts), strict=True)
            )
            excess += max(0.0, wanted - capacity)
        scores.append(1 - excess / (perimeter * capacity))
    return max(scores), scores[0]


def test_two_identical_jobs_at_half_duty() -> None:
    found = ap.compatibility([on_off("a", 100, 50), on_off("b", 100, 50)], 50)
    assert (found.unshifted_score, found.score, found.proof) == (0.5, 1.0, "exact")
    assert found.shifts_s == pytest.approx((0, 50))
    assert found.rotations_deg == pytest.approx((0, 180))
    assert found.perimeter_s == 100
    assert found.repetitions == (1, 1)


@pytest.mark.parametrize("jobs", [1, 2, 3, 4, 6])
def test_jobs_that_always_send(jobs: int) -> None:
    found = ap.compatibility([on_off(str(job), 100, 100) for job in range(jobs)], 50)
    assert found.score == pytest.approx(2 - jobs) == found.unshifted_score
    assert found.proof == "exact"


def test_two_jobs_at_60_percent_duty() -> None:
    found = ap.compatibility([on_off("a", 100, 60), on_off("b", 100, 60)], 50)
    assert found.unshifted_score == pytest.approx(0.4)
    assert found.score == pytest.approx(0.8) == found.bound
    assert found.shifts_s[1] == pytest.approx(40)  # 60 is as good


@pytest.mark.parametrize(
    ("period", "on", "unshifted", "best"), [(90, 30, 1 / 3, 1.0), (100, 50, 0.0, 0.5)]
)
def test_three_jobs(period: float, on: float, unshifted: float, best: float) -> None:
    found = ap.compatibility([on_off(name, period, on) for name in "abc"], 50)
    assert found.unshifted_score == pytest.approx(unshifted)
    assert found.score == pytest.approx(best)
    assert found.proof == "exact"
    if best == 1:
        assert found.shifts_s == pytest.approx((0, 30, 60))


def test_three_rates_with_the_two_small_ones_together() -> None:
    jobs = [on_off("a", 100, 50, 40), on_off("b", 100, 50, 20), on_off("c", 100, 50, 20)]
    found = ap.compatibility(jobs, 40)
    assert (found.unshifted_score, found.score) == pytest.approx((0.5, 1.0))
    assert found.shifts_s == pytest.approx((0, 50, 50))


def test_a_long_circle_is_not_sampled() -> None:
    """Left edges of 72 slots would say .722."""
    found = ap.compatibility([on_off("a", 0.040, 0.020), on_off("b", 0.041, 0.020)], 50)
    assert found.perimeter_s == pytest.approx(1.640)
    assert found.repetitions == (41, 40)
    assert found.score == pytest.approx(1 - 400 / 1640)


@pytest.mark.parametrize("seed", range(40))
def test_full_rate_jobs_are_compatible_if_they_fit_the_gcd_of_their_periods(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gcd, (first, second) = int(rng.integers(4, 12)), [(1, 2), (2, 3), (3, 4), (1, 1)][seed % 4]
    on = rng.integers(1, gcd * min(first, second), 2, endpoint=True)
    jobs = [on_off("a", gcd * first, on[0]), on_off("b", gcd * second, on[1])]
    found = ap.compatibility(jobs, 50)
    assert (found.score == pytest.approx(1, abs=1e-12)) == (on.sum() <= gcd)


@pytest.mark.parametrize("seed", range(30))
def test_up_to_four_jobs_against_all_rotations(seed: int) -> None:
    """Edges on slots make the best rotations whole slots, so that these are the optimum."""
    rng = np.random.default_rng(seed)
    periods = [(12, 12), (8, 12), (6, 6, 6), (4, 6, 8), (9, 12, 6), (5, 5, 5, 5)][seed % 6]
    demands = [drawn(rng, period) for period in periods]
    jobs = [of_slots(str(number), demand) for number, demand in enumerate(demands)]
    found = ap.compatibility(jobs, 20)
    best, unshifted = best_on_slots(demands, 20)
    assert found.unshifted_score == pytest.approx(unshifted)
    if len(jobs) <= 3:
        assert found.proof == "exact"
    if found.proof == "exact":
        assert found.score == pytest.approx(best)
    assert best - 0.003 <= found.score <= best + 1e-9


@pytest.mark.parametrize("seed", each_seed(10, 25))
def test_no_score_is_above_jensens_bound_or_below_the_unshifted_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [
        of_slots(str(number), drawn(rng, int(rng.choice([4, 6, 8, 12]))))
        for number in range(rng.integers(1, 8))
    ]
    capacity = float(rng.uniform(20, 60))
    found = ap.compatibility(jobs, capacity)
    assert found.score <= found.bound + 1e-12 <= jensen_bound(jobs, capacity) + 2e-12
    assert found.score >= found.unshifted_score
    assert found.score == pytest.approx(score_of(jobs, capacity, found.shifts_s), abs=1e-9)
    assert found.unshifted_score == pytest.approx(score_of(jobs, capacity, [0] * len(jobs)))
    for shift, job in zip(found.shifts_s, jobs, strict=True):
        assert 0 <= shift < job.period_s


@pytest.mark.parametrize("seed", each_seed(2, 6))
def test_the_order_of_jobs_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 3 if seed < 3 else 5
    jobs = [of_slots(str(each), drawn(rng, [6, 12][each % 2])) for each in range(count)]
    first = ap.compatibility(jobs, 30)
    for order in list(permutations(range(count)))[:: max(1, count * 3)]:
        other = ap.compatibility([jobs[job] for job in order], 30)
        assert other.score == pytest.approx(first.score, abs=1e-12)
        assert other.proof == first.proof
        moved = [first.shifts_s[job] - first.shifts_s[order[0]] for job in order]
        assert score_of([jobs[job] for job in order], 30, moved) == pytest.approx(first.score)


@pytest.mark.parametrize("seed", range(6))
def test_where_iterations_are_said_to_begin_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [of_slots(str(each), drawn(rng, [6, 12, 12][each])) for each in range(3)]
    moved = [job.shifted(float(rng.uniform(0, 12))) for job in jobs]
    assert ap.compatibility(moved, 25).score == pytest.approx(ap.compatibility(jobs, 25).score)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_neither_do_the_units_of_time_and_rate(factor: float) -> None:
    jobs = [ap.CommunicationProfile(n, 0.9, [(0.1, 0.3, 40), (0.5, 0.2, 10)]) for n in "abc"]
    scaled = [
        ap.CommunicationProfile(
            job.name,
            job.period_s * factor,
            [
                (each.start_s * factor, each.duration_s * factor, each.gbps * 7)
                for each in job.phases
            ],
        )
        for job in jobs
    ]
    first, second = ap.compatibility(jobs, 50), ap.compatibility(scaled, 350)
    assert second.score == pytest.approx(first.score)
    assert np.array(second.shifts_s) / factor == pytest.approx(first.shifts_s, abs=1e-9)


@pytest.mark.parametrize("longer", [0.0, 1e-6, 1.9e-6, 3e-6, 8e-6, 9e-6, 1e-4])
@pytest.mark.parametrize("epoch_s", [60.0, 600.0])
def test_jobs_that_drift_little_over_an_epoch_are_shifted(longer: float, epoch_s: float) -> None:
    jobs = [on_off("a", 0.1, 0.05), on_off("b", 0.1 * (1 + longer), 0.05 * (1 + longer))]
    drifts = longer * epoch_s / 0.1  # iterations of 0.1 s
    expected = 1.0 if drifts <= 0.05 else 0.75  # half of the time at half of the capacity
    found = ap.compatibility(jobs, 50.0, epoch_s=epoch_s)
    assert found.score == pytest.approx(expected, abs=1e-5)
    assert score_of(jobs, 50.0, found.shifts_s, epoch_s=epoch_s) == pytest.approx(found.score)
    if epoch_s == 600.0:  # as networks have it
        assert ap.compatibility(jobs, 50.0).score == found.score


def test_networks_and_links_have_one_epoch() -> None:
    profiles = {"a": on_off("a", 0.1, 0.05), "b": on_off("b", 0.1 * (1 + 3e-6), 0.05)}
    for epoch_s, expected in ((600.0, 1.0), (6000.0, 0.75)):
        scores = LinkScores(lambda model, _: profiles[model], epoch_s=epoch_s)
        trained = [("a", 2), ("b", 2)]
        assert scores.score(trained, 50.0, shifted=True) == pytest.approx(expected, abs=1e-5)


def test_incommensurate_periods_meet_in_every_way() -> None:
    jobs = [on_off("a", 1.0, 0.4), on_off("b", math.sqrt(2), 0.3 * math.sqrt(2))]
    found = ap.compatibility(jobs, 50)
    assert not found.commensurate
    assert found.perimeter_s == math.inf
    assert found.score == pytest.approx(1 - 0.4 * 0.3) == found.unshifted_score
    assert found.proof == "exact"
    nearly = ap.compatibility([on_off("a", 1.0, 0.4), on_off("b", 1.41, 0.423)], 50)
    assert nearly.score == pytest.approx(found.score, abs=0.01)


def test_shifts_count_within_groups_of_incommensurate_jobs() -> None:
    golden = (1 + math.sqrt(5)) / 2
    jobs = [on_off("a", 1.0, 0.5), on_off("b", 1.0, 0.5), on_off("c", golden, golden / 4, 25)]
    found = ap.compatibility(jobs, 50)
    assert found.unshifted_score == pytest.approx(1 - 0.5 - 0.5 * 0.25 * 0.5)
    assert found.score == pytest.approx(1 - 0.25 * 0.5)
    assert found.shifts_s[1] == pytest.approx(0.5)


def test_the_load_of_the_link_is_what_the_jobs_want() -> None:
    rng = np.random.default_rng(3)
    jobs = [of_slots(str(each), drawn(rng, [6, 4, 12][each])) for each in range(3)]
    found = ap.compatibility(jobs, 25)
    for shifted, score in ((True, found.score), (False, found.unshifted_score)):
        times, load = found.load(shifted=shifted)
        assert (times[0], times[-1]) == pytest.approx((0, 12))
        excess = np.diff(times) @ np.maximum(0, load[:-1] - 25)
        assert 1 - excess / (12 * 25) == pytest.approx(score)


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        ([0.24, 0.36, 0.48], (1.44, (6, 4, 3))),
        ([1.0], (1.0, (1,))),
        ([0.1, 0.3], (0.3, (3, 1))),
        ([1.0, 1.0 + 5e-7], (1.0 + 5e-7, (1, 1))),
        ([1.0, 300.0], (300.0, (300, 1))),
        ([1.0, 301.0], None),
        ([1.0, math.sqrt(2)], None),
    ],
)
def test_unified_circles(
    periods: list[float], expected: tuple[float, tuple[int, ...]] | None
) -> None:
    found = unified_circle(periods)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found.perimeter_s == pytest.approx(expected[0])
        assert found.repetitions == expected[1]


def test_bad_links_are_named() -> None:
    job = on_off("loud", 1, 0.5, 80)
    with pytest.warns(UserWarning, match=r"'loud' wants 80 Gb/s of a link of 50 Gb/s; .* never"):
        assert ap.compatibility([job], 50).score == pytest.approx(1 - 0.5 * 30 / 50)
    for capacity in (0, -1, math.nan, math.inf, "50", True):
        with pytest.raises(ap.InputError, match="A link has no capacity"):
            ap.compatibility([job], capacity)  # type: ignore[arg-type]
    with pytest.raises(ap.InputError, match="at least one job"):
        ap.compatibility([], 50)
    with pytest.raises(ap.InputError, match="must be a CommunicationProfile"):
        ap.compatibility([job, "other"], 50)  # type: ignore[list-item]
    with pytest.raises(ap.InputError, match="2 shifts for 1 jobs"):
        score_of([job], 50, [0, 0])
    with pytest.raises(ap.InputError, match="tolerance"):
        ap.compatibility([job], 50, tolerance=2)
