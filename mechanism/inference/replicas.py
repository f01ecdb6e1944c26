"""Replicas that serve requests in batches, iteration by iteration, from one queue.

A replica works in iterations. At the end of each, requests that are done leave, and some that wait
may join, as many as its batch has room for; those get a *first iteration* of their own (the prefill
of a language model, or all that there is to it), during which the others pause. Otherwise all that
it has make a step together (one token each). Who waits longest is served first; of replicas whose
iteration ends at that time each next request goes to the one with fewest, then the first. (Batching
by iteration: Yu et al., Orca, OSDI 2022; prefill before decode as in vLLM, Kwon et al., SOSP 2023.)
Memory is counted in tokens: a request joins where all of its own, those that it will get as well,
fit beside those of the requests that are there (Orca's reservation). If they fit nowhere, it waits,
and so does who came later.

With a batch of one and no steps it is a queue with several servers.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.types import Floats, Ints


class BatchSpeed(NamedTuple):
    """How fast a replica is.

    Attributes
    ----------
    first_s
        Seconds of the first iteration of some requests, given by their places.
    step_s
        Seconds of a step with b requests, by b; what stands at 0 is not used.
    most
        Most requests at a time.
    tokens
        Most tokens of them, with those that they have yet to get.
    """

    first_s: Callable[[Sequence[int]], float]
    step_s: Sequence[float]
    most: int
    tokens: float = math.inf


class ServedInBatches(NamedTuple):
    """What became of requests, by place: when each began, had its first answer, ended, and where.

    Attributes
    ----------
    start_s, first_s, finish_s
        Begin and end of its first iteration, and the end of its last; seconds.
    replica
        Its number.
    busy
        Stretches in which replicas had requests: number, from, to.
    """

    start_s: Floats
    first_s: Floats
    finish_s: Floats
    replica: Ints
    busy: list[tuple[int, float, float]]


@dataclass(slots=True)
class _Replica:
    """What goes on: a first iteration of `joining`, or steps of `running` since a time."""

    number: int
    speed: BatchSpeed
    running: list[tuple[int, int]] = field(default_factory=list)  # (its last step, place), a heap
    joining: list[int] = field(default_factory=list)
    steps: int = 0  # made so far
    since_s: float = 0.0
    step_s: float = 0.0
    due: tuple[float, int] = (math.inf, 0)  # end of what goes on; in steps from `since_s`
    from_s: float = 0.0
    tokens: float = 0.0  # of what it has

    @property
    def count(self) -> int:
        return len(self.running) + len(self.joining)

    def room(self, tokens: float) -> bool:
        return self.count < self.speed.most and self.tokens + tokens <= self.speed.tokens


class Replicas:
    """Serves requests on replicas.

    Parameters
    ----------
    speeds
        Of each replica.
    arrival_s
        Of the requests, ascending.
    steps
        That each needs after its first iteration.
    tokens
        That each holds as long as it is served; none by default.
    late
        Is told the place, begin, first answer and end of each request that ends, and may say that
        the rest does not matter (True).
    """

    def __init__(
        self,
        speeds: Sequence[BatchSpeed],
        arrival_s: Sequence[float],
        steps: Sequence[int],
        late: Callable[[int, float, float, float], bool] | None = None,
        tokens: Sequence[float] | None = None,
    ) -> None:
        self._tokens = [0.0] * len(steps) if tokens is None else tokens
        self._limited = any(speed.tokens < math.inf for speed in speeds)
        self._replicas = [_Replica(number, speed) for number, speed in enumerate(speeds)]
        self._arrival_s, self._steps, self._late = arrival_s, steps, late
        self._idle = list(range(len(speeds)))
        self._agenda: list[tuple[float, int]] = []
        self._queue: deque[int] = deque()
        self._start_s, self._first_s, self._finish_s = (np.zeros(len(steps)) for _ in range(3))
        self._at = np.zeros(len(steps), dtype=np.int64)
        self._busy: list[tuple[int, float, float]] = []
        self._over = False

    def run(self) -> ServedInBatches | None:
        """Serve all; None if `late` has said that the rest does not matter."""
        come, total = 0, len(self._arrival_s)
        while not self._over:
            next_s = self._arrival_s[come] if come < total else math.inf
            now_s = min(next_s, self._agenda[0][0] if self._agenda else math.inf)
            if now_s == math.inf:
                break
            ready = self._ends(now_s)
            while come < total and self._arrival_s[come] == now_s:
                self._queue.append(come)
                come += 1
            self._go_on(now_s, ready)
        if self._over:
            return None
        times = (self._start_s, self._first_s, self._finish_s)
        return ServedInBatches(*times, self._at, sorted(self._busy))

    def _ends(self, now_s: float) -> list[_Replica]:
        """End the iterations that are over; return their replicas."""
        found = []
        while self._agenda and self._agenda[0][0] == now_s:
            _, number = heapq.heappop(self._agenda)
            replica = self._replicas[number]
            if replica.due[0] == now_s:
                self._end(replica, now_s)
                found.append(replica)
        return found

    def _end(self, replica: _Replica, now_s: float) -> None:
        replica.steps += replica.due[1]
        replica.due = (math.inf, 0)
        for place in replica.joining:
            self._first_s[place] = now_s
            heapq.heappush(replica.running, (replica.steps + self._steps[place], place))
        replica.joining = []
        while replica.running and replica.running[0][0] == replica.steps:
            place = heapq.heappop(replica.running)[1]
            self._finish_s[place], self._at[place] = now_s, replica.number
            replica.tokens -= self._tokens[place]
            if self._late is not None:
                start_s, first_s = float(self._start_s[place]), float(self._first_s[place])
                self._over |= self._late(place, start_s, first_s, now_s)

    def _go_on(self, now_s: float, ready: list[_Replica]) -> None:
        """Let who waits join, and begin the next iterations."""
        if self._queue and (self._limited or len(self._queue) > len(self._idle)):
            ready += self._between(now_s)
        if self._queue:
            self._join(now_s, ready)
        for each in ready:
            self._begin(each, now_s)
        if self._queue:
            self._stop_first(now_s)

    def _join(self, now_s: float, ready: list[_Replica]) -> None:
        """Give who waits to the replicas that are at the end of an iteration, or idle."""
        open_to = [(each.count, each.number) for each in ready if each.room(0.0)]
        heapq.heapify(open_to)
        while self._queue:
            replica = self._with_room(self._tokens[self._queue[0]], open_to)
            if replica is None:
                break
            if not replica.count and replica not in ready:
                replica.from_s = now_s
                ready.append(replica)
            place = self._queue.popleft()
            replica.joining.append(place)
            replica.tokens += self._tokens[place]
            self._start_s[place] = now_s
            if replica.room(0.0):
                heapq.heappush(open_to, (replica.count, replica.number))

    def _with_room(self, tokens: float, open_to: list[tuple[int, int]]) -> _Replica | None:
        """Take the replica with fewest requests that has room out of its heap; None: none has."""
        found, passed, passed_idle = None, [], []
        while found is None and (open_to or self._idle):
            if self._idle and (not open_to or (0, self._idle[0]) < open_to[0]):
                number = heapq.heappop(self._idle)
                replica = self._replicas[number]
                if not replica.room(tokens):
                    passed_idle.append(number)
                    continue
            else:
                entry = heapq.heappop(open_to)
                replica = self._replicas[entry[1]]
                if not replica.room(tokens):
                    passed.append(entry)
                    continue
            found = replica
        for entry in passed:
            heapq.heappush(open_to, entry)
        for number in passed_idle:
            heapq.heappush(self._idle, number)
        return found

    def _begin(self, replica: _Replica, now_s: float) -> None:
        """Begin the next iteration of a replica, or let it be idle."""
        if replica.joining:
            self._set(replica, now_s + replica.speed.first_s(replica.joining), 0)
        elif replica.running:
            replica.since_s, replica.step_s = now_s, replica.speed.step_s[len(replica.running)]
            steps = replica.running[0][0] - replica.steps
            self._set(replica, now_s + steps * replica.step_s, steps)
        else:
            if now_s > replica.from_s:
                self._busy.append((replica.number, replica.from_s, now_s))
            heapq.heappush(self._idle, replica.number)

    def _set(self, replica: _Replica, time_s: float, steps: int) -> None:
        if replica.due[0] != time_s:
            heapq.heappush(self._agenda, (time_s, replica.number))
        replica.due = (time_s, steps)

    def _between(self, now_s: float) -> list[_Replica]:
        """End the step of the replicas that are between two at this very time; return them."""
        found = []
        for each in self._replicas:
            if each.joining or not each.room(0.0):
                continue
            if each.running and now_s < each.due[0] < math.inf:
                end_s, steps = self._step_end(each, now_s)
                if end_s == now_s:
                    each.due = (now_s, steps)
                    self._end(each, now_s)
                    found.append(each)
        return found

    def _stop_first(self, now_s: float) -> None:
        """Have the replicas whose step ends first of those with room for the first stop there."""
        tokens = self._tokens[self._queue[0]]
        first_s = math.inf
        found: list[tuple[_Replica, int]] = []
        for each in self._replicas:
            if each.running and not each.joining and each.due[0] < math.inf and each.room(tokens):
                end_s, steps = self._step_end(each, now_s)
                if end_s < first_s:
                    first_s, found = end_s, []
                if end_s == first_s:
                    found.append((each, steps))
        for each, steps in found:
            self._set(each, first_s, steps)

    def _step_end(self, replica: _Replica, now_s: float) -> tuple[float, int]:
        """Return when the step that goes on ends, and which it is."""
        since_s, step_s = replica.since_s, replica.step_s
        steps = max(1, math.ceil((now_s - since_s) / step_s))
        while since_s + steps * step_s < now_s:
            steps += 1
        while steps > 1 and since_s + (steps - 1) * step_s >= now_s:
            steps -= 1
        return since_s + steps * step_s, steps
