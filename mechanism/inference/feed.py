"""Requests in the order in which they come, told to the GPUs that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.annotations import explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.inference.life_cycle import InferenceGpus


class RequestFeed:
    """Lets requests come, up to a time or until training must give way.

    Parameters
    ----------
    gpus
        Serve them; each request is named by its place.
    arrival_s, services, duration_s
        Of the requests, in order of arrival.
    """

    @explained
    def __init__(
        self,
        gpus: InferenceGpus,
        arrival_s: Sequence[float],
        services: Sequence[str],
        duration_s: Sequence[float],
    ) -> None:
        self.gpus = gpus
        self._arrival_s = [*arrival_s, float("inf")]
        self._services, self._duration_s = services, duration_s
        self._next = 0

    def before(self, end_s: float) -> float:
        """Let requests come before a time, and what ends until it end; return that time.

        Stops at once when a waiting request needs a loaned GPU, and returns the time of that.
        """
        gpus = self.gpus
        while self._arrival_s[self._next] < end_s:
            self._one()
            if gpus.reclaims_due:
                return gpus.now_s
        gpus.advance(end_s)
        return end_s

    def until(self, now_s: float) -> None:
        """Let all requests come that come up to a time, that time included."""
        while self._arrival_s[self._next] <= now_s:
            self._one()
        self.gpus.advance(now_s)

    def rest(self) -> None:
        """Let all others come, and be served; nothing may be loaned."""
        while self._next < len(self._duration_s):
            self._one()
        while self.gpus.waiting:
            self.gpus.advance(self.gpus.next_event_s)

    @property
    def busy(self) -> bool:
        """Whether requests are to come, wait or run, or GPUs are kept for more of them."""
        return self._next < len(self._duration_s) or self.gpus.next_event_s < float("inf")

    def _one(self) -> None:
        place = self._next
        self._next += 1
        self.gpus.request(
            self._arrival_s[place], place, self._services[place], self._duration_s[place]
        )
