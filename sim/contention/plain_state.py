"""What the plain engine keeps of jobs and transfers, and what gates see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.mechanism.gates import Flow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.sim.contention.engine import Turn
    from apportion.sim.contention.iteration import Iteration, Send
    from apportion.sim.contention.plain_links import Transfers


READY, TASKS, FIRST_BYTE, LAST_BYTE, ASK = range(5)
"""Kinds of events: a job begins, tasks end, a transfer's first and last byte, a gate's time."""


class OnGPUs:
    """A job that has GPUs."""

    __slots__ = (
        *("number", "iteration", "gpus", "links", "left", "turn", "key", "done", "sent", "lag"),
        *("transfer", "computed_s", "moved", "here"),
    )

    def __init__(
        self, number: int, iteration: Iteration, times: int, gpus: list[int], links: tuple[int, ...]
    ) -> None:
        self.number, self.iteration, self.left = number, iteration, times
        self.gpus, self.links = gpus, links
        self.turn: Turn = (0, 0)
        self.key = (0, 0)
        self.done = [0] * len(gpus)  # tasks of this iteration, by worker
        self.sent = 0  # transfers of this iteration
        self.lag = 0  # workers that have yet to get to the barrier before the next transfer
        self.transfer: Transfer | None = None
        self.computed_s = self.moved = 0.0
        self.here = True

    def set_key(self) -> None:
        """Set whose turn it is in this iteration."""
        first, second = self.turn
        self.key = (first * self.left + second, self.number)

    def set_lag(self) -> None:
        """Count the workers before the next barrier; the last one is the end of the iteration."""
        self.lag = sum(map(self.barrier().__gt__, self.done))

    def barrier(self) -> int:
        """Return the tasks that all workers must have done to go on."""
        iteration = self.iteration
        if self.sent < len(iteration.sends):
            return iteration.sends[self.sent].after
        return len(iteration.gpu_s)


class Transfer:
    """A transfer that waits or is under way."""

    __slots__ = ("begun", "flow", "job", "left", "order", "rate", "since_s", "stamp")

    def __init__(self, job: OnGPUs, send: Send) -> None:
        self.job, self.left = job, send.size
        self.flow = Flow(job.number, job.links, send.size, send.size, send.most)
        self.rate, self.since_s = 0.0, 0.0  # no byte moves before `begun`
        self.begun = False
        self.order = 0  # in which transfers were let in
        self.stamp = 0  # events of other stamps are void

    def seen(self, now_s: float) -> Flow:
        """Return it with what is left now."""
        job, links, size, _, most = self.flow
        return Flow(job, links, size, self.left - self.rate * (now_s - self.since_s), most)


def turn_of(transfer: Transfer) -> tuple[int, int]:
    """Return whose turn it is."""
    return transfer.job.key


class View:
    """What a gate sees, see `apportion.mechanism.gates.LinksView`."""

    def __init__(self, transfers: Transfers, now_s: float) -> None:
        self._transfers, self._now_s = transfers, now_s
        self._on: dict[int, list[Flow]] = {}
        self.s_per_byte = transfers.sharing.s_per_byte
        self.penalty_s_per_byte = transfers.sharing.penalty_s_per_byte

    @property
    def flows(self) -> list[Flow]:
        """Transfers under way."""
        return [each.seen(self._now_s) for each in self._transfers.under_way if each.job.links]

    @property
    def waiting(self) -> list[Flow]:
        """Transfers that wait."""
        return [each.flow for each in self._transfers.waiting]

    def on(self, link: int) -> list[Flow]:
        """Return the transfers under way on a link."""
        if not self._transfers.on_link[link]:
            return []
        if link not in self._on:
            self._on[link] = [each.seen(self._now_s) for each in self._transfers.on_link[link]]
        return self._on[link]

    def started(self, flow: Flow) -> None:
        """Look again at links that have one more transfer now."""
        for link in flow.links:
            self._on.pop(link, None)

    def rates(self, flows: Sequence[Flow]) -> list[float]:
        """Return what such transfers would get."""
        return self._transfers.rates(flows)
