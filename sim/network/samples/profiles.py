"""Profiles of jobs from samples of their traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from apportion.checks import number
from apportion.mechanism.time_shifts import CommunicationPhase, CommunicationProfile
from apportion.sim.network.samples.boxes import Boxes, BoxFit, Readings, fit_boxes
from apportion.sim.network.samples.periods import LEAST_COUNTS, SPECTRUM, Wander, explained, wander
from apportion.sim.network.samples.reading import counts_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from apportion.types import Floats


DEVIATIONS = 3.0
"""Standard deviations that a doubt has: 95 % of intervals and more hold the truth."""

WIDER = 2.0
"""By how much doubts of phases are wider where iterations vary: the errors are not alike then."""

SILENT = 0.05
"""Part of the peak below which a level counts as silence."""

FEWEST = 16
"""Samples of a job, at least."""

GLITCH = 2.0
"""Times the rate that one sample in 200 is above: more is a fault of a counter, and is left out."""


class ProfileDoubt(NamedTuple):
    """By how much the numbers of a profile may be off, up or down: three standard deviations.

    Attributes
    ----------
    period_s
        Of the period; of the mean of iterations, where these vary.
    phases
        `CommunicationPhase` of the doubts of start, duration and Gb/s of each phase.
    jitter_s
        Standard deviation of one iteration, 0 where it cannot be told from noise. Iterations drift:
        after n of them a start is off by some ``sqrt(n) jitter_s``.
    noise_gbps
        Standard deviation of what the profile leaves of a sample.
    """

    period_s: float
    phases: tuple[CommunicationPhase, ...]
    jitter_s: float
    noise_gbps: float


@dataclass(frozen=True, eq=False)
class SampledTraffic:
    """What samples tell of the traffic of jobs.

    Attributes
    ----------
    profiles
        Of each job whose traffic repeats, by job; time 0 of each is `until_s`.
    doubts
        `ProfileDoubt` of each, by job.
    unexplained
        Why there is no profile of the others, by job.
    until_s
        End of the last sample, on the clock of the samples.
    """

    profiles: Mapping[str, CommunicationProfile]
    doubts: Mapping[str, ProfileDoubt]
    unexplained: Mapping[str, str]
    until_s: float

    @property
    def table(self) -> pd.DataFrame:
        """A row for each phase of each job: numbers, and their doubts."""
        rows = []
        for job, profile in self.profiles.items():
            doubt = self.doubts[job]
            for place, (phase, off) in enumerate(zip(profile.phases, doubt.phases, strict=True)):
                rows.append(
                    {
                        "job": job,
                        "phase": place,
                        "period_s": profile.period_s,
                        "period_doubt_s": doubt.period_s,
                        **phase._asdict(),
                        "start_doubt_s": off.start_s,
                        "duration_doubt_s": off.duration_s,
                        "gbps_doubt": off.gbps,
                        "jitter_s": doubt.jitter_s,
                    }
                )
        return pd.DataFrame(rows)


def profiles_from_samples(
    samples: pd.DataFrame | str | Path, *, silent: float = SILENT
) -> SampledTraffic:
    """Return the communication profiles of jobs from samples of their traffic.

    A sample is the mean rate over the interval that ends at its time, as two readings of a counter
    give it; the interval begins at the sample before, or, where samples are missing, the usual time
    earlier. The load of a job is taken to be boxes that repeat: the period is looked for in the
    spectrum, starts, lengths and heights by least squares of what each interval holds of the boxes,
    so that edges are found within an interval. Where iterations vary, blocks of them are followed.
    Single samples of more than twice what all but one in 200 have are left out as faults.

    Parameters
    ----------
    samples
        Table or csv file with a column ``time`` (seconds, or dates with times) and one of Gb/s for
        each job; or with the columns ``time``, ``job`` and ``gbps``. Empty cells are missing.
    silent
        Part of the highest level below which a level is none.

    Returns
    -------
    SampledTraffic
        Time 0 of the profiles is the end of the last sample: shifts of `compatibility` are from
        now on.

    Raises
    ------
    InputError
        For columns that are missing, and times and rates that are none; it names the line.

    Examples
    --------
    >>> ms = np.arange(0.0, 12.0, 0.025)
    >>> load = 40.0 * (ms % 0.25 < 0.1)
    >>> found = profiles_from_samples(pd.DataFrame({"time": ms + 0.025, "vgg": load}))
    >>> round(found.profiles["vgg"].period_s, 6), round(found.profiles["vgg"].gigabits, 3)
    (0.25, 4.0)
    """
    least = number("silent", silent, most=1.0)
    counts = counts_of(samples)
    until_s = max(
        (float(each.end_s[-1]) for each in counts.values() if each.end_s.size), default=0.0
    )
    profiles, doubts, unexplained = {}, {}, {}
    for job, each in counts.items():
        found = _explained(each)
        if isinstance(found, str):
            unexplained[job] = found
            continue
        profiles[job], doubts[job] = _profile(job, found, until_s, least)
    return SampledTraffic(profiles, doubts, unexplained, until_s)


class _Found(NamedTuple):
    """Boxes on the clock of the samples, and how sure they are.

    Attributes
    ----------
    fit
        About `origin_s`.
    path
        How iterations wander; its times count from `origin_s`.
    origin_s
        Time from which starts count.
    step_s
        Length of an interval.
    """

    fit: BoxFit
    path: Wander
    origin_s: float
    step_s: float


def _explained(counts: Readings) -> _Found | str:
    """Explain the counts of a job, or say why that cannot be."""
    if counts.gbps.size < FEWEST:
        return f"{counts.gbps.size} samples; {FEWEST} are needed"
    counts = counts.part(counts.gbps <= GLITCH * max(float(np.quantile(counts.gbps, 0.995)), 1e-12))
    if not np.ptp(counts.gbps):
        return f"it always sends {counts.gbps[0]:g} Gb/s: nothing repeats"
    last = counts.part(slice(-SPECTRUM, None))
    origin_s = (last.begin_s[0] + last.end_s[-1]) / 2
    found = explained(last.later(-origin_s))
    if found is None:
        return (
            f"no period is to be seen; an iteration must last {LEAST_COUNTS} samples or more "
            f"({LEAST_COUNTS * counts.step_s:g} s), and 3 of them must be there"
        )
    fit, path = found.fit, found.wander
    if counts.gbps.size > last.gbps.size:
        moved = counts.later(-origin_s)
        path = wander(moved, fit.boxes)
        if path.jitter_s:
            boxes = fit.boxes
            fit = fit_boxes(path.undone(moved), boxes.period_s, boxes, len(boxes.boxes))
        else:
            fit, origin_s = _of_all(counts, fit, path, origin_s)
    return _Found(fit, path, origin_s, counts.step_s)


def _of_all(counts: Readings, fit: BoxFit, path: Wander, origin_s: float) -> tuple[BoxFit, float]:
    """BoxFit the boxes of the last counts to all, with the period that all of them show."""
    slope, late_s = np.polyfit(path.time_s, path.late_s, 1, w=1 / np.maximum(path.doubt_s, 1e-15))
    period_s = fit.boxes.period_s / (1 - float(slope))
    middle_s = (counts.begin_s[0] + counts.end_s[-1]) / 2
    boxes = Boxes(period_s, fit.boxes.level_gbps, fit.boxes.later(float(late_s)).boxes)
    turns = round((middle_s - origin_s) / period_s)
    boxes = boxes.later(origin_s - middle_s + turns * period_s)
    fitted = fit_boxes(counts.later(-middle_s), period_s, boxes, len(boxes.boxes))
    return fitted, float(middle_s)


def _profile(
    job: str, found: _Found, until_s: float, silent: float
) -> tuple[CommunicationProfile, ProfileDoubt]:
    """Return the profile whose time 0 is the end of all samples, and its doubt."""
    boxes, path = found.fit.boxes, found.path
    slope = float(np.polyfit(path.time_s, path.late_s, 1)[0]) if path.jitter_s else 0.0
    period_s = boxes.period_s * (1 + slope)
    now_s = until_s - found.origin_s
    late_s, late_doubt_s = 0.0, 0.0
    period_doubt_s = _deviation(found.fit.covariances, np.eye(boxes.numbers.size)[0])
    if path.jitter_s:
        late_s = float(path.late_s[-1]) + slope * (now_s - float(path.time_s[-1]))
        ahead = max(now_s - float(path.time_s[-1]), 0.0) / period_s
        late_doubt_s = math.hypot(float(path.doubt_s[-1]), path.jitter_s * math.sqrt(ahead))
        seen = max((path.time_s[-1] - path.time_s[0]) / period_s, 1.0)
        by_noise = float(np.median(path.doubt_s)) * math.sqrt(12 / path.time_s.size) / seen
        period_doubt_s = math.hypot(path.jitter_s * math.sqrt(1.2 / seen), by_noise)
    turns = math.floor((now_s - late_s) / boxes.period_s)
    begin_s = now_s - late_s - turns * boxes.period_s  # of now, in the first turn of the boxes
    wider = DEVIATIONS * (WIDER if path.jitter_s else 1.0)
    both = []
    for phase, by_start, by_length, by_level in _phases(boxes, silent, found.step_s):
        by_now = by_start.copy()
        by_now[0] += turns if not path.jitter_s else 0.0
        start_s = (phase.start_s - begin_s) % boxes.period_s * (1 + slope)
        off = [
            wider * _deviation(found.fit.covariances, by) for by in (by_now, by_length, by_level)
        ]
        now = CommunicationPhase(start_s % period_s, phase.duration_s * (1 + slope), phase.gbps)
        off[0] = math.hypot(off[0], DEVIATIONS * late_doubt_s)
        both.append((now, CommunicationPhase(*off)))
    phases, doubts = zip(*sorted(both), strict=True)
    return CommunicationProfile(job, period_s, phases), ProfileDoubt(
        DEVIATIONS * period_doubt_s, doubts, path.jitter_s, float(np.std(found.fit.residual))
    )


def _deviation(covariances: Floats, by: Floats) -> float:
    """Return the largest standard deviation of a sum of numbers."""
    return math.sqrt(max(0.0, *(float(by @ each @ by) for each in covariances)))


def _phases(
    boxes: Boxes, silent: float, step_s: float
) -> list[tuple[CommunicationPhase, Floats, Floats, Floats]]:
    """Levels of boxes between their edges, each with the slopes of start, length and Gb/s."""
    size = boxes.numbers.size
    edges = []
    for place, (start_s, length_s, _) in enumerate(boxes.boxes):
        for ends in (0.0, 1.0):
            by = np.zeros(size)
            by[2 + 3 * place], by[3 + 3 * place] = 1.0, ends
            turns, at_s = divmod(start_s + ends * length_s, boxes.period_s)
            by[0] = -turns
            edges.append((float(at_s), by))
    edges.sort(key=lambda edge: edge[0])
    edges = [  # of edges that no interval tells apart the first stands for all
        edge
        for place, edge in enumerate(edges)
        if place == 0 or edge[0] - edges[place - 1][0] > step_s / 2
    ]
    after = [*edges[1:], (edges[0][0] + boxes.period_s, edges[0][1] + np.eye(size)[0])]
    found = []
    for (at_s, by), (next_s, by_next) in zip(edges, after, strict=True):
        middle_s = (at_s + next_s) / 2
        by_level = np.zeros(size)
        by_level[1] = 1.0
        inside = (middle_s - boxes.boxes[:, 0]) % boxes.period_s < boxes.boxes[:, 1]
        by_level[4::3] = inside
        gbps = float(by_level @ boxes.numbers)
        found.append(
            (CommunicationPhase(at_s, next_s - at_s, max(gbps, 0.0)), by, by_next - by, by_level)
        )
    least = silent * max(phase.gbps for phase, *_ in found)
    return [each for each in found if each[0].gbps > least and each[0].duration_s > 0]
