"""Leases that are renewed again and again while nothing else happens: foreseen, and counted later.

Every lease as an event of its own is the truth. A run of renewals is passed over only where nobody
waits, and each job takes what it has at once and has the best GPUs that there are.
"""

from __future__ import annotations

import math
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apportion.mechanism.leases.active import ActiveLeases
    from apportion.mechanism.leases.queue import JobQueue


class RenewalForecast:
    """Jobs whose leases are renewed without being asked, until something happens.

    Parameters
    ----------
    leases, queue
        Who holds what, and who waits.
    lease_s
        Length of a lease, seconds.
    renewed
        Is told (job, time) of each renewal that was passed over, in the order of time.
    """

    def __init__(
        self,
        leases: ActiveLeases,
        queue: JobQueue,
        lease_s: float,
        renewed: Callable[[int, float], None],
    ) -> None:
        self._leases, self._queue = leases, queue
        self._lease_s, self._pause_s, self._renewed = lease_s, leases.pause_s, renewed
        # With a checkpoint, GPUs come back before other things of an instant, else after them.
        # Where there are both, the order of renewals would have to be known.
        self._alike = all(leases.pause_s) or not any(leases.pause_s)
        self._first_s: dict[int, float] = {}  # when the first lease began that was passed over

    def will_renew(self, jobs: Iterable[int]) -> bool:
        """Whether jobs get their GPUs again at each end of a lease, as long as nothing happens."""
        return (
            self._alike
            and not self._queue.size
            and not self._leases.placer.chooses_anew
            and all(map(self._keeps, jobs))
        )

    def _keeps(self, job: int) -> bool:
        at_once = self._queue.accepts_at_once(job, self._leases.jobs.option.item(job))
        return at_once and self._leases.is_at_best(job)

    def renew(self, jobs: Iterable[int], now_s: float) -> bool:
        """Let jobs go on from lease to lease, the first of which begins now.

        Returns
        -------
        bool
            Whether that changes when any of them works.
        """
        changed = False
        for job in jobs:
            self._first_s[job] = now_s
            pause_s, duty = self._pause_s[job], self._leases.duty[:, job]
            ready_s, *cycle = duty.tolist()
            work = [self._lease_s, pause_s] if pause_s else [inf, inf]
            if cycle != work or (pause_s and (now_s - ready_s) % (self._lease_s + pause_s)):
                duty[:] = now_s, *work
                changed = True
        return changed

    def wake(self, now_s: float) -> None:
        """Count the leases that began before a time; the last of each job ends as any other."""
        renewed = list[tuple[float, int]]()
        for job, first_s in self._first_s.items():
            cycle_s = self._lease_s + self._pause_s[job]
            begun = max(math.ceil((now_s - first_s) / cycle_s), 1)
            renewed += [(first_s + k * cycle_s, job) for k in range(begun)]
            self._leases.end(job, renewed[-1][0] + self._lease_s)
        self._first_s.clear()
        for at_s, job in sorted(renewed):
            self._renewed(job, at_s)
