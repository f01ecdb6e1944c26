"""Gates that play out what would happen: for the transfers under way, or for those waiting too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apportion.mechanism.gates.gate import HOLD, START
from apportion.mechanism.gates.rules import TIE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apportion.mechanism.gates.gate import Flow, LinksView


@dataclass(frozen=True)
class WhatIf:
    """Let a transfer start if a simulation of those under way finds that better than to wait.

    All transfers that share links with it, or with one that does, and so on, are let run to their
    ends, once with it from now on, and once for each that it would share a link with, with it from
    the end of that one on. It starts if the first has the least sum of completion times. Nobody is
    assumed to come later.
    """

    name: str = field(default="what_if", init=False)

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Compare starting now with a start after each completion."""
        others = _reached(flow, links.flows)
        rivals = _meeting(flow, others)
        if not rivals:
            return START
        now = _sum_of_ends(others, [flow], rivals, links.rates)
        later = (_sum_of_ends(others, [flow], beside, links.rates) for beside in range(rivals))
        return START if all(now < cost * (1 - TIE) for cost in later) else HOLD


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
