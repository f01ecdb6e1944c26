"""Transfers of the plain engine: those that wait for the gate, and those under way on links."""

from __future__ import annotations

import math
from bisect import insort
from functools import partial
from typing import TYPE_CHECKING

from apportion.checks import is_number
from apportion.errors import InputError, written
from apportion.sim.contention.engine import IN_VAIN, check_links, standstill
from apportion.sim.contention.plain_state import ASK, FIRST_BYTE, LAST_BYTE, View, turn_of
from apportion.sim.network.link_sharing import FairSharing, SharedCost, checked_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.errors import SolveError
    from apportion.mechanism.gates import Flow, Gate
    from apportion.sim.contention.plain_state import Transfer
    from apportion.sim.contention.record import Timeline
    from apportion.sim.network.link_sharing import LinkSharing

_FEW = 8
"""Up to so many transfers under way, to look at all is quicker than to find out at which."""


class Transfers:
    """Asks the gate, and shares links among those that it lets in.

    Parameters
    ----------
    links
        How many there are.
    sharing, gate
        How transfers share links, and when they may start.
    plan
        Is told of events to come: when, which kind, of which transfer, and its stamp then.
    timeline
        Takes down who sends, if anybody wants to know.
    names
        What users call the jobs, by number, for errors.

    Attributes
    ----------
    waiting, under_way
        Transfers that wait for the gate, first served first, and those that it has let in.
    on_link
        Transfers under way on each link.
    """

    def __init__(
        self,
        links: int,
        sharing: LinkSharing,
        gate: Gate,
        plan: Callable[..., None],
        timeline: Timeline | None,
        names: Sequence[object] = (),
    ) -> None:
        check_links(sharing, links)
        self._names = names
        self.sharing, self.gate, self._plan, self._timeline = sharing, gate, plan, timeline
        self.rates: Callable[[Sequence[Flow]], list[float]] = sharing.rates
        self._own_law = type(sharing) not in (SharedCost, FairSharing)
        if self._own_law:
            self.rates = partial(checked_rates, sharing, names=names)
        self.waiting: list[Transfer] = []
        self.under_way: list[Transfer] = []
        self.on_link: list[list[Transfer]] = [[] for _ in range(links)]
        self._waits_for: list[list[Transfer]] = [[] for _ in range(links)]
        self._opens_at_starts = getattr(gate, "opens_at_starts", True)
        self.asks_all = not getattr(gate, "sees_own_links_only", False) or self._opens_at_starts
        self._new: list[Transfer] = []  # of those that wait: nobody was asked about them
        self._ask = self._share_anew = False
        self._local = getattr(sharing, "local", False)
        self._freed: set[int] = set()  # links that have fewer transfers than when all were asked
        self._changed: set[int] = set()  # links that have others than when they were shared
        self._unlinked: list[Transfer] = []  # those that began since then and use none
        self._ask_at: set[float] = set()  # times that gates have named
        self._named, self._events = 0, -1  # how many came since so many events
        self._stamp = self._begun = 0

    def wants(self, transfer: Transfer, now_s: float) -> None:
        """Take in a transfer that wants to start; one that uses no link does."""
        if transfer.job.links:
            insort(self.waiting, transfer, key=turn_of)
            for link in transfer.job.links:
                self._waits_for[link].append(transfer)
            self._new.append(transfer)
        else:
            self._start(transfer, now_s)

    def first_byte(self, transfer: Transfer, now_s: float) -> None:
        """Let a transfer send that has started up."""
        transfer.begun = self._share_anew = True
        transfer.since_s = now_s
        self._changed.update(transfer.job.links)

    def ask_again(self, when_s: float, events: int) -> None:
        """Ask about all, as a gate has wanted at a time that has come, after so many events.

        Raises
        ------
        SolveError
            If the gate does so for ever.
        """
        self._ask = True
        self._ask_at.discard(when_s)
        self._named = self._named + 1 if events == self._events else 1
        self._events = events
        if self._named > IN_VAIN:
            raise self.standstill(when_s, in_vain=True)

    def standstill(self, now_s: float, *, in_vain: bool = False) -> SolveError:
        """Say who waits for the gate."""
        waiting = [(each.job.number, each.left, each.job.links) for each in self.waiting]
        return standstill(now_s, self.gate.name, waiting, self._names, in_vain=in_vain)

    def drop(self, transfer: Transfer) -> None:
        """Forget a transfer whose job has lost its GPUs."""
        if transfer in self.waiting:
            self._wait_no_more(transfer)
            self._new = [each for each in self._new if each is not transfer]
        else:
            self.take_off(transfer)

    def settle(self, now_s: float) -> None:
        """Ask the gate, and share the links."""
        if self._ask or self._new or self._freed:
            self._ask_gate(now_s)
        if self._share_anew:
            self._share(now_s)

    def _ask_gate(self, now_s: float) -> None:
        """Ask about transfers in the order of the jobs: the new ones, or, after an end, all.

        All are asked about after a start, too, if that may make the gate let another one in. Where
        the gate sees nothing but a transfer's own links, only those on links that have fewer now.
        """
        if self._ask:
            asked = list(self.waiting)
        else:
            about = list(self._new)
            for link in self._freed:
                about += self._waits_for[link]
            asked = sorted(set(about), key=turn_of) if len(about) > 1 else about
        self._ask, self._new = False, []
        self._freed.clear()
        view = View(self, now_s)
        while asked:
            there = len(self.waiting)
            self._ask_about(asked, view, now_s)
            again = self._opens_at_starts and len(self.waiting) < there
            asked = list(self.waiting) if again else []

    def _ask_about(self, asked: Sequence[Transfer], view: View, now_s: float) -> None:
        for transfer in asked:
            when_s = self.gate.decide(now_s, transfer.flow, view)
            if type(when_s) is not float or when_s != when_s:
                when_s = _answer(self.gate, when_s)
            if when_s <= now_s:
                self._wait_no_more(transfer)
                self._start(transfer, now_s)
                view.started(transfer.flow)
            elif when_s < math.inf and when_s not in self._ask_at:
                self._ask_at.add(when_s)
                self._plan(when_s, ASK, None)

    def _wait_no_more(self, transfer: Transfer) -> None:
        self.waiting.remove(transfer)
        for link in transfer.job.links:
            self._waits_for[link].remove(transfer)

    def _start(self, transfer: Transfer, now_s: float) -> None:
        job = transfer.job
        self.under_way.append(transfer)
        for link in job.links:
            self.on_link[link].append(transfer)
        if not job.links:
            self._unlinked.append(transfer)
        self._begun += 1
        transfer.order, self._share_anew = self._begun, True
        self._changed.update(job.links)
        startup_s = job.iteration.sends[job.sent].startup_s if job.links else 0.0
        transfer.since_s, transfer.begun = now_s, not startup_s
        if startup_s:
            self._plan(now_s + startup_s, FIRST_BYTE, transfer, transfer.stamp)

    def take_off(self, transfer: Transfer) -> None:
        """Let a transfer leave its links."""
        self.under_way.remove(transfer)
        for link in transfer.job.links:
            self.on_link[link].remove(transfer)
        self._share_anew = True
        self._changed.update(transfer.job.links)
        if self.asks_all:
            self._ask = True
        else:
            self._freed.update(transfer.job.links)

    def _near(self) -> list[Transfer]:
        """Return the transfers on links that have others than before, and those beside them."""
        near = {each.order: each for link in self._changed for each in self.on_link[link]}
        links = {link for each in near.values() for link in each.job.links}
        near = {each.order: each for link in links for each in self.on_link[link]}
        near |= {each.order: each for each in self._unlinked}
        return [near[order] for order in sorted(near)]

    def _share(self, now_s: float) -> None:
        """Give every transfer under way its rate; touch only those whose rate changes."""
        local = self._local and len(self.under_way) > _FEW
        sharing, changed = self._near() if local else self.under_way, self._changed
        self._share_anew, self._changed, self._unlinked = False, set(), []
        if self._own_law:
            flows = [transfer.seen(now_s) for transfer in sharing]
        else:  # by links alone, not by what is left
            flows = [transfer.flow for transfer in sharing]
        for transfer, flow, rate in zip(sharing, flows, self.rates(flows), strict=True):
            if local and transfer.job.links and changed.isdisjoint(transfer.job.links):
                continue
            if self._timeline is not None:
                self._timeline.sends(flow, flows, now_s)
            if rate == transfer.rate or not transfer.begun:
                continue
            transfer.job.moved += transfer.rate * (now_s - transfer.since_s)
            transfer.left = max(transfer.left - transfer.rate * (now_s - transfer.since_s), 0.0)
            transfer.rate, transfer.since_s = rate, now_s
            self._stamp += 1
            transfer.stamp = self._stamp
            self._plan(now_s + transfer.left / rate, LAST_BYTE, transfer, transfer.stamp)


def _answer(gate: Gate, answer: object) -> float:
    """Return the answer of a gate that is no plain float, if it is a number at all."""
    if not is_number(answer) or answer != answer:
        raise InputError(
            f"The gate {gate.name!r} answers {written(answer)}; it must answer START, HOLD, or the "
            f"time, seconds, at which to ask again."
        )
    return float(answer)  # type: ignore[arg-type]  # is a number
