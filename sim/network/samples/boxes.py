"""Traffic as boxes that repeat: what counters count of it, and what explains the counts best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import least_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.types import Floats


MOST_BOXES = 6
"""Boxes of an iteration that are looked for; the six phases of hybrid parallelism are most."""

BINS = 128
"""Parts of a period in which a new box is looked for."""

WORTH = 12.0
"""By how much a box must lower the information criterion: odds of some 400 to 1."""

PART = 0.01
"""Part by which it must at least lower what is left, squared: less is no matter."""

CODED = 1e-3
"""Part of the peak that counts are taken to be rounded to."""

STEPS = 60
"""Evaluations of a fit; it ends sooner where nothing moves."""


class Readings(NamedTuple):
    """Mean rates over intervals.

    Attributes
    ----------
    begin_s, end_s
        Of each interval, seconds, in order of time.
    gbps
        Mean rate in it, Gb/s.
    """

    begin_s: Floats
    end_s: Floats
    gbps: Floats

    def part(self, chosen: slice | NDArray[np.bool_]) -> Readings:
        """Return some of them."""
        return Readings(self.begin_s[chosen], self.end_s[chosen], self.gbps[chosen])

    def later(self, shift_s: float) -> Readings:
        """Return the same, so many seconds later."""
        return Readings(self.begin_s + shift_s, self.end_s + shift_s, self.gbps)

    @property
    def middle_s(self) -> Floats:
        """Middles of the intervals."""
        return (self.begin_s + self.end_s) / 2

    @property
    def step_s(self) -> float:
        """Length of an interval, the median."""
        return float(np.median(self.end_s - self.begin_s))


@dataclass(frozen=True)
class Boxes:
    """A level, and boxes that are added to it once a period.

    Attributes
    ----------
    period_s
        After which all repeat.
    level_gbps
        Below all boxes.
    boxes
        Start, length (seconds) and height (Gb/s) of each, shape (boxes, 3). Starts
        count from time 0 and may be anywhere.
    """

    period_s: float
    level_gbps: float
    boxes: Floats

    @property
    def numbers(self) -> Floats:
        """Period, level, and then each box."""
        return np.concatenate([[self.period_s, self.level_gbps], self.boxes.ravel()])

    @classmethod
    def of(cls, numbers: Floats) -> Boxes:
        """Return those of `numbers`."""
        return cls(float(numbers[0]), float(numbers[1]), numbers[2:].reshape(-1, 3).copy())

    def sent(self, time_s: Floats) -> tuple[Floats, Floats]:
        """Gigabits until some times, and their derivatives by `numbers`, one column each."""
        total = self.level_gbps * time_s
        slopes = np.zeros((time_s.size, 2 + self.boxes.size))
        slopes[:, 1] = time_s
        for at, (start_s, length_s, gbps) in enumerate(self.boxes):
            turns, since = np.divmod(time_s - start_s, self.period_s)
            inside = since < length_s
            busy = turns * length_s + np.minimum(since, length_s)
            total = total + gbps * busy
            slopes[:, 0] -= gbps * turns * inside
            slopes[:, 2 + 3 * at] = -gbps * inside
            slopes[:, 3 + 3 * at] = gbps * (turns + ~inside)
            slopes[:, 4 + 3 * at] = busy
        return total, slopes

    def counted(self, counts: Readings) -> tuple[Floats, Floats]:
        """Mean rates in the intervals of some counts, and their derivatives by `numbers`."""
        (until, by_until), (before, by_before) = (
            self.sent(counts.end_s),
            self.sent(counts.begin_s),
        )
        length_s = counts.end_s - counts.begin_s
        return (until - before) / length_s, (by_until - by_before) / length_s[:, None]

    def later(self, shift_s: float) -> Boxes:
        """Return the same, so many seconds later."""
        return replace(self, boxes=self.boxes + np.array([shift_s, 0.0, 0.0]))


@dataclass(frozen=True)
class BoxFit:
    """Boxes that explain counts, and how sure they are.

    Attributes
    ----------
    boxes
        Found.
    covariances
        Of `Boxes.numbers`, shape (3, numbers, numbers), by what errors may be like; of a sum of
        numbers the largest deviation counts.
    residual
        Gb/s that are left of each count.
    criterion
        Information criterion (Bayesian): lower is better.
    """

    boxes: Boxes
    covariances: Floats
    residual: Floats
    criterion: float


def fit_boxes(
    counts: Readings, period_s: float, start: Boxes | None = None, most: int = MOST_BOXES
) -> BoxFit:
    """Find boxes, one after the other, as long as each explains clearly more.

    Each is looked for in what is left, folded onto a period; then the numbers of all, and the
    period, are fitted together to the counts themselves by least squares. What an interval holds of
    a box is counted exactly, so that edges are found within an interval.

    Parameters
    ----------
    counts
        With times that count from the middle of them.
    period_s
        Near the true one.
    start
        Boxes known to be near, if there are any.
    most
        Boxes in all.
    """
    near = Boxes(period_s, float(np.mean(counts.gbps)), np.zeros((0, 3)))
    best = _fitted(counts, near if start is None else start)
    worth = max(WORTH, PART * counts.gbps.size)
    while len(best.boxes.boxes) < most:
        period_s = best.boxes.period_s
        found = np.array([_loudest(counts, best.residual, period_s)])
        more = replace(best.boxes, boxes=np.concatenate([best.boxes.boxes, found]))
        tried = _fitted(counts, more)
        if tried.criterion > best.criterion - worth or not _sound(tried.boxes, counts.step_s):
            break
        best = tried
    return best


def _sound(boxes: Boxes, step_s: float) -> bool:
    """Tell whether lengths can be: of several none within an interval, where no height is known."""
    lengths = boxes.boxes[:, 1]
    least_s = step_s if len(lengths) > 1 else 0.0
    return bool((lengths > least_s).all() and (lengths < boxes.period_s - least_s).all())


def _loudest(counts: Readings, residual: Floats, period_s: float) -> tuple[float, float, float]:
    """Return the box that takes most out of what is left: start, length, Gb/s."""
    bins = int(np.clip(2 * period_s / counts.step_s, 8, BINS))
    at = np.mod(counts.middle_s, period_s) / period_s * bins
    place = np.minimum(at.astype(int), bins - 1)
    number = np.bincount(place, minlength=bins).astype(float)
    total = np.bincount(place, residual, bins)
    if (number == 0).any():  # counts that fall on few places of a period say nothing of others
        known = np.flatnonzero(number)
        around = np.concatenate([known - bins, known, known + bins])
        mean = np.tile(total[known] / number[known], 3)
        total = np.interp(np.arange(bins), around, mean) * number.mean()
        number = np.full(bins, number.mean())
    sums = np.concatenate([[0.0], np.cumsum(np.tile(total, 2))])
    numbers = np.concatenate([[0.0], np.cumsum(np.tile(number, 2))])
    start, length = np.meshgrid(np.arange(bins), np.arange(1, bins), indexing="ij")
    inside = sums[start + length] - sums[start]
    count = numbers[start + length] - numbers[start]
    rest, others = sums[bins] - inside, numbers[bins] - count
    gain = inside**2 / np.maximum(count, 1e-9) + rest**2 / np.maximum(others, 1e-9)
    gain[(count <= 0) | (others <= 0)] = -np.inf
    first, width = np.unravel_index(int(np.argmax(gain)), gain.shape)
    height = inside[first, width] / count[first, width] - rest[first, width] / others[first, width]
    begin, size = float(first), float(length[first, width])
    if height < 0:  # what is below the rest is the same as the rest above it
        begin, size, height = begin + size, bins - size, -height
    return begin * period_s / bins, size * period_s / bins, float(height)


def _fitted(counts: Readings, start: Boxes) -> BoxFit:
    """BoxFit the numbers of boxes, from near them."""
    if not start.boxes.size:
        level = float(np.mean(counts.gbps))
        found, solved = replace(start, level_gbps=level), None
    else:
        first = start.numbers
        scale = np.concatenate([[1.0, 1.0], np.tile([1.0, 1.0, 1.0], len(start.boxes))])
        span_s = max(counts.end_s[-1] - counts.begin_s[0], counts.step_s)
        step_s = counts.step_s
        scale[0] = step_s * start.period_s / span_s
        scale[1] = max(float(np.std(counts.gbps)), 1e-12)
        scale[2::3] = scale[3::3] = step_s
        scale[4::3] = scale[1]

        def left(scaled: Floats) -> Floats:
            value, _ = Boxes.of(first + scaled * scale).counted(counts)
            return value - counts.gbps

        def slopes(scaled: Floats) -> Floats:
            return np.asarray(Boxes.of(first + scaled * scale).counted(counts)[1] * scale)

        solved = least_squares(left, np.zeros(first.size), slopes, method="lm", max_nfev=STEPS)
        found = Boxes.of(first + solved.x * scale)
    value, slope = found.counted(counts)
    residual = counts.gbps - value
    used = slope if found.boxes.size else slope[:, 1:2]
    n, k = used.shape
    least = CODED * max(float(np.ptp(counts.gbps)), 1e-12)
    variance = max(float(residual @ residual) / max(n - k, 1), least**2 / 12)
    criterion = n * math.log(max(float(residual @ residual) / n, least**2 / 12)) + k * math.log(n)
    return BoxFit(found, _covariances(used, residual, variance), residual, criterion)


def _covariances(slope: Floats, residual: Floats, variance: float) -> Floats:
    """Return covariances of numbers: of equal errors, of single errors, and of those of blocks."""
    size = np.linalg.norm(slope, axis=0)
    size[size == 0] = 1.0
    scaled = slope / size
    inverse = np.linalg.pinv(scaled.T @ scaled, rcond=1e-12, hermitian=True)
    single = scaled * residual[:, None]
    count = min(60, max(2, len(residual) // 8))
    blocks = np.linspace(0, len(residual), count + 1).astype(int)[:-1]
    scores = np.add.reduceat(single, blocks, axis=0)
    found = [variance * inverse]
    found += [inverse @ (each.T @ each) @ inverse for each in (single, scores)]
    return np.array(found) / np.outer(size, size)
