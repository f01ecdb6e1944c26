"""Many ways to start and to pace the same jobs, run side by side with the noise that there is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from apportion.sim.phases.segments import segments_of

if TYPE_CHECKING:
    from apportion.sim.shifts.meeting import Meeting
    from apportion.types import Bools, Floats


HEATS = ((1, 20, 100, 60), (4, 50, 250, 8), (4, 50, 500, 10), (12, 100, 1000, 1))
"""Runs of each way, iterations left out and counted, and ways that are left, heat by heat."""

MORE = 1.5
"""Times the jitter that there is by which ways are compared: jobs that keep out of each other's way
by a hair do so for a thousand iterations and then no more, and an epoch has some thousands."""

CHILDREN, STEP = 8, 0.02
"""Ways that are drawn beside each of the best, and how far: of a period, and of the largest pace.

Where jobs hardly fit, a hundredth of a period is much."""

ROUNDING = 1e-12
"""Part of an iteration, or of a link: what ends so little later ends now."""


def iterations_of(
    meeting: Meeting,
    starts_s: Floats,
    paces_s: Floats,
    *,
    jitter: float,
    seed: int,
    skipped: int,
    counted: int,
) -> Floats:
    """Return mean iterations over those alone, shape (ways, jobs).

    By the rules of `apportion.sim.phases.engine.run_phases`, all ways at once in arrays.

    Parameters
    ----------
    meeting
        Profiles and links; its own starts and paces do not count.
    starts_s, paces_s
        When each job begins, and the period to which it is held, NaN for none; (ways, jobs).
    jitter
        Every computation takes 1 - jitter to 1 + jitter of its time, evenly drawn.
    seed
        Of the draws.
    skipped, counted
        Iterations of the job with the longest before those that count, and these; of others as
        many as go into their time.
    """
    run = _Ways(meeting, starts_s, paces_s, jitter, np.random.default_rng(seed))
    own = np.array([profile.period_s for profile in meeting.profiles])
    first = np.round(skipped * own.max() / own).astype(int)
    last = first + np.round(counted * own.max() / own).astype(int)
    from_s, to_s = np.full(starts_s.shape, np.nan), np.full(starts_s.shape, np.nan)
    while np.isnan(to_s).any():
        began = run.step()
        for times, when in ((from_s, first), (to_s, last)):
            now = began & (run.begun == when)
            times[now] = np.broadcast_to(run.now_s[:, None], now.shape)[now]
    longer: Floats = (to_s - from_s) / (last - first) / own
    return longer


def least_of(
    meeting: Meeting, starts_s: Floats, paces_s: Floats, *, jitter: float, most: float
) -> tuple[list[float], list[float]]:
    """Return starts and paces of the way with the least mean slowdown.

    All run a little, the better ones longer and with more draws, so that no lucky draw decides;
    before the last heat others that are drawn beside the best join these.

    Parameters
    ----------
    meeting, starts_s, paces_s, jitter
        As of `iterations_of`.
    most
        Largest part by which an iteration is stretched.
    """
    own, rng = np.array([profile.period_s for profile in meeting.profiles]), drawn_for(meeting)
    for heat, (runs, skipped, counted, kept) in enumerate(HEATS):
        if heat == len(HEATS) - 2:  # all jobs a little slower or faster, each a little later
            family = np.repeat(np.arange(len(starts_s)), CHILDREN)
            stretch = paces_s[family] / own  # one factor for all, so that a circle stays one
            least_factor, most_factor = 1 / stretch.min(axis=1), (1 + most) / stretch.max(axis=1)
            drawn = rng.normal(1, STEP * most, family.size)
            factor = np.minimum(np.maximum(drawn, least_factor), most_factor)
            paces = paces_s[family] * np.maximum(factor, least_factor)[:, None]
            starts = starts_s[family] + rng.normal(0, STEP, paces.shape) * own
            starts_s = np.concatenate([starts_s, np.mod(starts, paces)])
            paces_s = np.concatenate([paces_s, paces])
        again = np.repeat(np.arange(len(starts_s)), runs)
        took = iterations_of(
            *(meeting, starts_s[again], paces_s[again]),
            jitter=min(MORE * jitter, 0.9),
            seed=heat,
            skipped=skipped,
            counted=counted,
        )
        means = took.mean(axis=1).reshape(-1, runs).mean(axis=1)
        best = np.argsort(means, kind="stable")[:kept]
        starts_s, paces_s = starts_s[best], paces_s[best]
    return starts_s[0].tolist(), paces_s[0].tolist()


def drawn_for(meeting: Meeting) -> np.random.Generator:
    """Return random numbers that are always the same for a meeting."""
    digest = hashlib.sha256(repr(meeting).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


class _Ways:
    """Where all jobs of all ways are; arrays are (ways, jobs)."""

    def __init__(
        self,
        meeting: Meeting,
        starts_s: Floats,
        paces_s: Floats,
        jitter: float,
        rng: np.random.Generator,
    ) -> None:
        jobs = [segments_of(profile) for profile in meeting.profiles]
        most = max(map(len, jobs))
        table = np.zeros((3, len(jobs), most))
        for place, segments in enumerate(jobs):
            table[:, place, : len(segments)] = np.array(segments).T
        self._start_s, self._amount, self._gbps = table
        self._count = np.array([len(segments) for segments in jobs])
        self._own_s = np.array([profile.period_s for profile in meeting.profiles])
        self._capacity = np.array([gbps for gbps, _ in meeting.links])
        self._on = np.zeros((len(meeting.links), len(jobs)))
        for link, (_, users) in enumerate(meeting.links):
            self._on[link, list(users)] = 1.0
        self._starts_s, self._paces_s = starts_s, paces_s
        self._jitter, self._rng, self._job = jitter, rng, np.arange(len(jobs))
        self.now_s = np.zeros(len(starts_s))
        self.begun = np.full(starts_s.shape, -1)  # iterations, the one that it is in not counted
        self._place = np.full(starts_s.shape, -1)
        self._waits = np.zeros(starts_s.shape, dtype=bool)
        self._wants = np.zeros(starts_s.shape)
        self._left = starts_s.copy()  # seconds, or gigabits

    def step(self) -> Bools:
        """Go on to the next event of each way; return who began an iteration."""
        sends = self._wants > 0
        speed = np.where(sends, self._rates(), 1.0)
        step_s = np.maximum(self._left / speed, 0.0).min(axis=1)
        self._left -= step_s[:, None] * speed
        self.now_s += step_s
        ended = self._left <= ROUNDING * self._own_s * speed
        goes = ended & ~self._waits
        place = np.where(goes, (self._place + 1) % self._count, self._place)
        began: Bools = goes & (place == 0)
        self.begun += began
        self._place = place
        wants = self._gbps[self._job, place]
        late = np.mod(
            self.now_s[:, None] - self._starts_s - self._start_s[self._job, place], self._paces_s
        )
        early = self._paces_s - late  # NaN, and so no wait, for who is not held
        waits = goes & (wants > 0) & (early < late) & (early > ROUNDING * self._paces_s)
        amount = self._amount[self._job, place]
        if self._jitter:
            drawn = self._rng.uniform(-self._jitter, self._jitter, amount.shape)
            amount = np.where(wants > 0, amount, amount * (1 + drawn))
        self._left = np.where(waits, early, np.where(ended, amount, self._left))
        self._wants = np.where(waits, 0.0, np.where(ended, wants, self._wants))
        self._waits = np.where(ended, waits, self._waits)
        return began

    def _rates(self) -> Floats:
        """Gb/s of each job: all are raised together until a link is full or a job has all."""
        rates = np.zeros(self._wants.shape)
        left = np.broadcast_to(self._capacity, (len(rates), self._capacity.size)).copy()
        rising = self._wants > 0
        while rising.any():
            users = rising @ self._on.T
            room = np.divide(left, users, out=np.full(left.shape, np.inf), where=users > 0)
            wanting = np.where(rising, self._wants - rates, np.inf)
            rise = np.minimum(room.min(axis=1), wanting.min(axis=1))
            rise = np.where(np.isfinite(rise), rise, 0.0)[:, None]
            rates += rising * rise
            left -= users * rise
            full = (left <= ROUNDING * self._capacity) @ self._on > 0
            rising &= ~full & (rates < self._wants * (1 - ROUNDING))
        return rates
