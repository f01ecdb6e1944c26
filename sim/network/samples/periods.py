"""How long an iteration is: coarsely from a spectrum, and how it wanders from block to block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.sim.network.samples.boxes import Readings, fit_boxes

if TYPE_CHECKING:
    from apportion.sim.network.samples.boxes import Boxes, BoxFit
    from apportion.types import Floats


LEAST_COUNTS = 3
"""Readings of a period, at least: with fewer another period looks the same."""

LEAST_PERIODS = 3
"""Periods in the counts, at least."""

SPECTRUM = 4096
"""Readings that a spectrum is of: over more a period may wander."""

PEAKS, MULTIPLES, TRIED = 5, 6, 3
"""Peaks of a spectrum, multiples of their periods, and how many of these are fitted."""

HARMONICS = 20

FOLLOWED, PASSES = 2, 2
"""Boxes by which iterations are followed, and how often they are followed anew with those found."""

SHORTER, PART = 10.0, 0.03
"""By how much the criterion of a multiple of a period must be lower to be believed, and by what
part of the number of counts: by what part less must be left, squared."""

BLOCKS, OF_PERIODS = 40, 5
"""Blocks in which a period may wander, and periods of each at least."""

SURE = 4.0
"""Standard deviations by which blocks must wander more than noise to be said to."""


class Wander(NamedTuple):
    """How iterations begin later or earlier than a fixed period says, block by block.

    Attributes
    ----------
    time_s, late_s
        Middle of each block, and by how much it is late; about a straight line if nothing wanders.
    doubt_s
        Standard deviation of `late_s` by noise alone.
    jitter_s
        Standard deviation by which one iteration is longer than another, 0 if it cannot be told
        from noise.
    """

    time_s: Floats
    late_s: Floats
    doubt_s: Floats
    jitter_s: float

    def undone(self, counts: Readings) -> Readings:
        """Return counts at the times at which they would be if nothing wandered."""

        def early(time_s: Floats) -> Floats:
            late_s = np.interp(time_s, self.time_s, self.late_s)
            for end, inner in ((0, 1), (-1, -2)):  # as the last two blocks lead on
                beyond = time_s < self.time_s[0] if end == 0 else time_s > self.time_s[-1]
                speed = (self.late_s[end] - self.late_s[inner]) / (
                    self.time_s[end] - self.time_s[inner]
                )
                late_s[beyond] += speed * (time_s[beyond] - self.time_s[end])
            return time_s - late_s

        return Readings(early(counts.begin_s), early(counts.end_s), counts.gbps)


class Explained(NamedTuple):
    """What explains counts.

    Attributes
    ----------
    fit
        Boxes that repeat.
    wander
        How iterations wander about them.
    criterion
        Information criterion of both: lower is better.
    """

    fit: BoxFit
    wander: Wander
    criterion: float


def explained(counts: Readings) -> Explained | None:
    """Find the period and the boxes that explain some counts; None if they do not repeat.

    Candidates are the periods of the peaks of the spectrum, and multiples of these, as a harmonic
    may be stronger than the first; each is followed and fitted, and the shortest of the best is
    taken.
    """
    best = None
    least = fit_boxes(counts, counts.step_s, most=0).criterion
    for period_s in _candidates(counts):
        found = _followed(counts, period_s)
        if found is not None and found.criterion < least - max(SHORTER, PART * counts.gbps.size):
            best, least = found, found.criterion
    if best is None:
        return None
    for part in range(len(best.fit.boxes.boxes), 1, -1):  # a pattern that is there several times
        found = _followed(counts, best.fit.boxes.period_s / part)
        if found is not None and found.criterion <= least + max(SHORTER, PART * counts.gbps.size):
            return found
    return best


def _followed(counts: Readings, period_s: float) -> Explained | None:
    """BoxFit boxes near a period, moved with the iterations where these wander."""
    fit = fit_boxes(counts, period_s, most=FOLLOWED)
    if not fit.boxes.boxes.size or not _within(fit.boxes.period_s, counts):
        return None
    path = wander(counts, fit.boxes)
    fixed = fit_boxes(counts, fit.boxes.period_s, fit.boxes)
    plain = Explained(fixed, path._replace(jitter_s=0.0), fixed.criterion)
    if not path.jitter_s:
        return plain
    for _ in range(PASSES):
        fit = fit_boxes(path.undone(counts), fit.boxes.period_s)
        if not fit.boxes.boxes.size:
            return plain
        path = wander(counts, fit.boxes)
    if not path.jitter_s:
        return plain
    fit = fit_boxes(path.undone(counts), fit.boxes.period_s, fit.boxes, len(fit.boxes.boxes))
    criterion = fit.criterion + path.time_s.size * math.log(counts.gbps.size)
    return Explained(fit, path, criterion) if criterion < plain.criterion else plain


def _within(period_s: float, counts: Readings) -> bool:
    whole_s = counts.end_s[-1] - counts.begin_s[0]
    return LEAST_COUNTS * counts.step_s <= period_s * (1 + 1e-9) and (
        LEAST_PERIODS * period_s <= whole_s * (1 + 1e-9)
    )


def _candidates(counts: Readings) -> list[float]:
    """Periods by which most of the counts may be explained, the best first."""
    step_s = counts.step_s
    place = np.rint((counts.middle_s - counts.middle_s[0]) / step_s).astype(int)
    size = int(place[-1]) + 1
    number = np.bincount(place, minlength=size)
    swing = np.bincount(place, counts.gbps - counts.gbps.mean(), size) / np.maximum(number, 1)
    padded = 8 * size
    power = np.abs(np.fft.rfft(swing, padded)) ** 2 * 2 / max(counts.gbps.size, 1)
    per_s = np.arange(power.size) / (padded * step_s)
    allowed = power.copy()
    allowed[per_s < LEAST_PERIODS * 0.8 / (size * step_s)] = 0.0
    tops: list[float] = []
    for _ in range(PEAKS):
        top = int(np.argmax(allowed))
        if allowed[top] <= 0:
            break
        tops.append(_refined(power, top) / (padded * step_s))
        allowed[max(0, top - 12) : top + 13] = 0.0
    total = float(swing @ swing)
    scores: dict[float, float] = {}
    for per_second in tops:
        for multiple in range(1, MULTIPLES + 1):
            period_s = multiple / per_second
            if _within(period_s * 1.02, counts):
                count = min(HARMONICS, int(0.5 * period_s / step_s))
                at = np.arange(1, count + 1) / period_s
                explained = float(np.interp(at, per_s, power).sum())
                left = max(total - explained, 1e-3 * total) / counts.gbps.size
                size_of = counts.gbps.size
                scores[period_s] = size_of * np.log(left) + 2 * count * np.log(size_of)
    ranked = sorted(scores, key=lambda period_s: scores[period_s])
    chosen: list[float] = []
    for period_s in ranked:
        if all(abs(period_s / other - 1) > 1e-3 for other in chosen):
            chosen.append(period_s)
    chosen = chosen[:TRIED]
    return sorted({*chosen, *(1 / each for each in tops[:1] if _within(1.02 / each, counts))})


def _refined(power: Floats, top: int) -> float:
    """Place of a peak between three values, by a parabola."""
    if not 0 < top < power.size - 1:
        return float(top)
    left, middle, right = power[top - 1 : top + 2]
    bend = left - 2 * middle + right
    return top + (0.5 * (left - right) / bend if bend < 0 else 0.0)


def wander(counts: Readings, boxes: Boxes) -> Wander:
    """Follow the start of the iterations through all counts, from the last to the first.

    Each block of some periods is moved to where it fits best, near where the blocks after it lead
    to expect it.
    """
    period_s = boxes.period_s
    whole_s = float(counts.end_s[-1] - counts.begin_s[0])
    number = int(np.clip(whole_s / (OF_PERIODS * period_s), 1, BLOCKS))
    if counts.gbps.size > SPECTRUM:  # so short that no block is further off than can be followed
        number = max(number, min(int(whole_s / (OF_PERIODS * period_s)), 16 * BLOCKS))
    edges = np.linspace(counts.begin_s[0], counts.end_s[-1], number + 1)
    block_of = np.clip(np.searchsorted(edges, counts.middle_s) - 1, 0, number - 1)
    times: list[float] = []
    lates: list[float] = []
    doubts: list[float] = []
    speed, late = 0.0, 0.0
    for block in range(number - 1, -1, -1):
        part = counts.part(block_of == block)
        if part.gbps.size < LEAST_COUNTS * 2:
            continue
        middle_s = float(part.middle_s.mean())
        guess = late + (speed * (middle_s - times[-1]) if times else 0.0)
        late, doubt = _latest(part, boxes, guess)
        if len(times) >= 2:
            known = slice(-min(len(times), 8), None)
            speed = float(np.polyfit(times[known], lates[known], 1)[0])
        times.append(middle_s)
        lates.append(late)
        doubts.append(doubt)
    time_s, late_s, doubt_s = (np.array(each[::-1]) for each in (times, lates, doubts))
    jitter_s = _jitter(time_s, late_s, doubt_s, period_s)
    return Wander(time_s, late_s, doubt_s, jitter_s)


def _latest(counts: Readings, boxes: Boxes, guess_s: float) -> tuple[float, float]:
    """By how much boxes are best moved for some counts, near a guess; with its doubt."""
    near = guess_s + boxes.period_s * np.linspace(-0.45, 0.45, 37)
    errors = [
        float(np.sum((boxes.later(late_s).counted(counts)[0] - counts.gbps) ** 2))
        for late_s in near
    ]
    late_s = float(near[int(np.argmin(errors))])
    doubt_s = np.inf
    for _ in range(6):
        value, slopes = boxes.later(late_s).counted(counts)
        slope = slopes[:, 2::3].sum(axis=1)
        weight = float(slope @ slope)
        if weight <= 0:
            break
        residual = counts.gbps - value
        step_s = float(slope @ residual) / weight
        late_s += float(np.clip(step_s, -counts.step_s / 2, counts.step_s / 2))
        doubt_s = float(
            np.sqrt(max(float(residual @ residual), 1e-18) / max(len(residual) - 1, 1) / weight)
        )
    return late_s, doubt_s


def _jitter(time_s: Floats, late_s: Floats, doubt_s: Floats, period_s: float) -> float:
    """Return the standard deviation of one iteration, from how blocks move against those before."""
    if time_s.size < 5 or not np.isfinite(doubt_s).all():
        return 0.0
    apart = np.diff(time_s) / period_s
    slope = float(np.polyfit(time_s, late_s, 1, w=1 / np.maximum(doubt_s, 1e-15))[0])
    moved = np.diff(late_s) - slope * np.diff(time_s)
    by_noise = doubt_s[1:] ** 2 + doubt_s[:-1] ** 2
    excess = float(np.mean(moved**2 - by_noise))
    spread = float(np.sqrt(2.0 / moved.size) * np.mean(by_noise))
    if excess <= SURE * spread:
        return 0.0
    return float(np.sqrt(1.5 * excess / np.mean(apart)))  # middles of blocks move by 2/3 of it
