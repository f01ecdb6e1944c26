"""What a gate is: it sees a transfer that could start, and the links, and says when it may."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apportion.mechanism.job_table import JobTable


START = -math.inf
"""The transfer may start at once."""

HOLD = math.inf
"""It may not, until a transfer ends, or a gate has named the time: then the gate is asked again.

Any other time is that at which the gate is to be asked again, whatever happens until then. So the
latest of several answers is what all of them together say.
"""


class Flow(NamedTuple):
    """A transfer, as gates and links see it.

    Attributes
    ----------
    job
        Whose it is.
    links
        Links that it uses all the time: servers, ascending, then racks. None within one server.
    size, left
        Bytes in all, and still to go.
    most
        Highest bytes/s that it can use; infinite for all that it gets.
    """

    job: int
    links: tuple[int, ...]
    size: float
    left: float
    most: float = math.inf


class LinksView(Protocol):
    """The links as a gate sees them; nothing of it changes what happens.

    Attributes
    ----------
    s_per_byte, penalty_s_per_byte
        The cost of a byte that k transfers share a link for is ``k s_per_byte + (k - 1)
        penalty_s_per_byte``: b and eta.
    """

    s_per_byte: float
    penalty_s_per_byte: float

    @property
    def flows(self) -> Sequence[Flow]:
        """Transfers under way, with what is left of them now."""
        ...

    @property
    def waiting(self) -> Sequence[Flow]:
        """Transfers that wait to start, first served first, that which is asked about included."""
        ...

    def on(self, link: int) -> Sequence[Flow]:
        """Transfers under way on a link, in the order in which they started."""
        ...

    def rates(self, flows: Sequence[Flow]) -> Sequence[float]:
        """Bytes/s that such transfers would get if they were under way together."""
        ...


@runtime_checkable
class Gate(Protocol):
    """Says when a transfer may start; asked in the order of the jobs' priorities.

    A transfer that wants to start is asked about. Whenever one ends or has started, all that wait
    are asked about, one by one, and see those that were let in before them. A gate that never lets
    a transfer in because another has started can say so, ``opens_at_starts = False``, and is not
    asked then. One that, besides, never lets a transfer in before one ends on its own links can say
    ``sees_own_links_only = True``, and is asked about no others then.

    One that goes by what jobs are, such as a column of one's own, has ``knowing(jobs)``: it returns
    the gate of a run, given the `JobTable`, in which `Flow.job` is a place.
    """

    @property
    def name(self) -> str:
        """Name of the gate."""
        ...

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Return `START`, `HOLD`, or the time, seconds, at which to ask again.

        At a time that is not later than now it starts.
        """
        ...


def knowing(gate: Gate, jobs: JobTable) -> Gate:
    """Return the gate of a run: one that asks for the jobs is told them."""
    ask: Callable[[JobTable], Gate] | None = getattr(gate, "knowing", None)
    return gate if ask is None else ask(jobs)


TIE = 1e-9
"""Bytes and seconds that differ by less, relatively, are equal: no start hangs on rounding."""


def small_beside(size: float, rest: float, b: float, eta: float) -> bool:
    """Tell whether a transfer should join another of which so much is left, see `AdaDual`."""
    return size < b / (2 * (b + eta)) * (1 - TIE) * rest


def next_turn(now_s: float, shift_s: float, period_s: float) -> float:
    """Return `START` at shift + n period, up to rounding, and else the next such time."""
    turns = (now_s - shift_s) / period_s
    if abs(turns - round(turns)) * period_s <= TIE * max(1.0, now_s):
        return START
    return shift_s + math.ceil(turns) * period_s


@dataclass(frozen=True)
class Rollout:
    """Let a transfer start if a simulation, with all that wait, finds that better than to hold it.

    In the simulation all others that wait start, in their order, when nobody is under way on any
    of their links; so does the transfer itself if it is held now. The sum of the completion times
    of all of them decides: one step of a rollout of SRSF(1) (Bertsekas, 2020, section 2.3).
    """

    name: str = field(default="rollout", init=False)

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Compare starting now with holding it."""
        waiting = [other for other in links.waiting if other.job != flow.job]
        involved = _reached(flow, [*links.flows, *waiting])
        jobs = {other.job for other in involved}
        running = [other for other in links.flows if other.job in jobs]
        if not _meeting(flow, running):
            return START
        queue = [other for other in links.waiting if other.job in jobs or other.job == flow.job]
        rest = [other for other in queue if other.job != flow.job]
        started = _sum_of_ends([*running, flow], rest, 0, links.rates)
        held = _sum_of_ends(running, queue, 0, links.rates)
        return START if started < held * (1 - TIE) else HOLD


def _reached(flow: Flow, others: Sequence[Flow]) -> list[Flow]:
    """Return those that share links with a transfer, or with one that does, and so on."""
    links, found = set(flow.links), set[int]()
    while near := [
        other for other in others if other.job not in found and not links.isdisjoint(other.links)
    ]:
        found.update(other.job for other in near)
        links.update(link for other in near for link in other.links)
    return [other for other in others if other.job in found]


def _meeting(flow: Flow, others: Iterable[Flow]) -> int:
    """Return how many of others share links with a transfer."""
    links = set(flow.links)
    return sum(not links.isdisjoint(other.links) for other in others)


def _sum_of_ends(
    running: Sequence[Flow],
    queue: Sequence[Flow],
    beside: int,
    rates: Callable[[Sequence[Flow]], Sequence[float]],
) -> float:
    """Sum the completion times if those of a queue start as soon as they meet so many at most."""
    running, queue = list(running), list(queue)
    now_s = total_s = 0.0
    while running or queue:
        still: list[Flow] = []
        for one in queue:
            (running if _meeting(one, running) <= beside else still).append(one)
        queue = still
        step_s, running, ended = _to_next_end(running, rates(running))
        now_s += step_s
        total_s += now_s * len(ended)
    return total_s


def _to_next_end(
    running: Sequence[Flow], rates: Sequence[float]
) -> tuple[float, list[Flow], list[Flow]]:
    """Return the time to the next end, who is still running then, and who has ended."""
    ends_s = [one.left / rate for one, rate in zip(running, rates, strict=True)]
    step_s = min(ends_s)
    left, ended = [], []
    for one, rate, end_s in zip(running, rates, ends_s, strict=True):
        if end_s <= step_s * (1 + TIE):
            ended.append(one)
        else:
            left.append(one._replace(left=one.left - rate * step_s))
    return step_s, left, ended
