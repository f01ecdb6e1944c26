"""Jobs on links, thousands of ways at once: how long iterations take, from the rules alone.

An iteration computes, then sends at up to its rate; links are shared max-min fairly. A job that
is paced begins to send at its times only: the first that is not past, but if the last one is past
by less than half of its period, at once. Computations take (1 +- noise) of their time, evenly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = ["Sender", "iterations"]


class Sender(NamedTuple):
    """Seconds of computing, then seconds of sending at a rate if nobody is in the way."""

    computes_s: float
    sends_s: float
    gbps: float

    @property
    def period_s(self) -> float:
        """Seconds of an iteration alone."""
        return self.computes_s + self.sends_s


def rates(sends: Bools, wants: Floats, uses: Floats, capacity: Floats) -> Floats:
    """Raise the rates of all who send until they have what they want or a link is full."""
    rate = np.zeros(sends.shape)
    left = np.tile(capacity, (len(sends), 1))
    rising = sends.copy()
    while rising.any():
        on = rising.astype(float) @ uses
        room = np.divide(left, on, out=np.full_like(left, np.inf), where=on > 0)
        short = np.where(rising, wants - rate, np.inf)
        more = np.minimum(room.min(axis=1), short.min(axis=1))[:, None]
        more = np.where(np.isinf(more), 0.0, more)
        rate += np.where(rising, more, 0.0)
        left = left - more * on
        full = left <= 1e-12 * capacity
        rising &= (wants - rate > 1e-12 * wants) & ~((full.astype(float) @ uses.T) > 0)
    return rate


def iterations(
    jobs: Sequence[Sender],
    capacity: Floats,
    uses: Floats,
    starts_s: Floats,
    paces_s: Floats,
    *,
    noise: float = 0.0,
    seed: int = 0,
    skipped: int = 60,
    counted: int = 240,
) -> Floats:
    """Return mean iterations over those alone, shape (ways, jobs).

    Parameters
    ----------
    jobs
        What each does in an iteration.
    capacity, uses
        Gb/s of each link; 1 where a job uses a link, (jobs, links).
    starts_s, paces_s
        When jobs begin and to which periods they are paced, NaN for one that is not; (ways, jobs).
    skipped, counted
        Iterations of each job before those that count, and these.
    """
    ways, many = starts_s.shape
    rng = np.random.default_rng(seed)
    computes = np.array([job.computes_s for job in jobs])
    amount = np.array([job.sends_s * job.gbps for job in jobs])
    wants = np.array([job.gbps for job in jobs])
    now = np.zeros(ways)
    # 0: computes until `left` seconds have gone, 1: waits likewise, 2: has `left` gigabits to send
    state = np.zeros((ways, many), dtype=int)
    left = starts_s + computes * (1 + noise * rng.uniform(-1, 1, (ways, many)))
    done = np.zeros((ways, many), dtype=int)
    from_s, to_s = np.full((ways, many), np.nan), np.full((ways, many), np.nan)
    while np.isnan(to_s).any():
        sends = state == 2
        speed = np.where(sends, rates(sends, wants, uses, capacity), 1.0)
        step = (left / speed).min(axis=1)
        left = left - step[:, None] * speed
        now = now + step
        ended = left <= 1e-12 * np.where(sends, amount, 1.0)
        for job in range(many):
            sent = ended[:, job] & (state[:, job] == 2)
            done[sent, job] += 1
            first = sent & (done[:, job] == skipped)
            last = sent & (done[:, job] == skipped + counted)
            from_s[first, job], to_s[last, job] = now[first], now[last]
            draws = computes[job] * (1 + noise * rng.uniform(-1, 1, ways))
            waited = ended[:, job] & (state[:, job] == 1)
            begins = ended[:, job] & (state[:, job] == 0)
            pace = paces_s[:, job]
            past = np.mod(now - starts_s[:, job] - computes[job], pace)
            early = pace - past
            waits = begins & (early < past) & (early > 1e-9 * pace)
            left[waits, job], state[waits, job] = early[waits], 1
            goes = waited | (begins & ~waits)
            left[goes, job], state[goes, job] = amount[job], 2
            left[sent, job], state[sent, job] = draws[sent], 0
    alone = np.array([job.period_s for job in jobs])
    longer: Floats = (to_s - from_s) / counted / alone
    return longer
