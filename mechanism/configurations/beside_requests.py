"""Elastic gangs on GPUs that also serve requests: lent at intervals, called back at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.mechanism.configurations.asked import lost_seconds
from apportion.mechanism.configurations.reclaims import Loan, Shape, change_of_speedup
from apportion.mechanism.configurations.scheduler import InConfigurations
from apportion.mechanism.inference import GpuState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.configurations.reclaims import GangWorth, ReclaimRule, ServingPlaces
    from apportion.mechanism.inference import RequestFeed
    from apportion.mechanism.scheduler import Decision, Event
    from apportion.types import Ints


class Reclaim(NamedTuple):
    """A GPU that a job has had to give back.

    Attributes
    ----------
    time_s
        When it was called back, seconds.
    gpu
        Its number in the cluster.
    job
        Who had it.
    change
        Of the sum of speed-ups, as believed.
    yield_s
        Seconds until requests may have it.
    """

    time_s: float
    gpu: int
    job: int
    decision: float
    yield_s: float


class ServingSide(NamedTuple):
    """What serves requests, and how training gives way.

    Attributes
    ----------
    feed
        Requests, and the GPUs that serve them.
    places
        Which GPUs of the cluster those are.
    rule, worth
        Choose the GPUs that are called back, by what is believed of gangs.
    yield_s
        Seconds that training takes to leave a GPU; None for the pause of its job.
    lending
        Whether training may have those GPUs.
    """

    feed: RequestFeed
    places: ServingPlaces
    rule: ReclaimRule
    worth: GangWorth
    yield_s: float | None
    lending: bool


class BesideRequests(InConfigurations):
    """Gives jobs GPUs that serve no request; see `InConfigurations`, whose parameters it takes.

    At each interval the policy is offered the GPUs that neither run requests nor are protected;
    those that jobs are given are lent. Between intervals nobody is given any. A request that finds
    no GPU calls a loaned one back at once: its job shrinks, or stops if it has no other, and waits
    for the next interval. All at one time happens in this order: requests, protections and jobs
    end; requests come; GPUs are called back; the interval begins.

    Attributes
    ----------
    reclaims
        All GPUs that were called back, in order.
    """

    event_driven = True

    def __init__(self, *args: Any, serving: ServingSide, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._serving, self._gpus = serving, serving.feed.gpus
        self.reclaims: list[Reclaim] = []

    def decide(self, event: Event) -> Decision | None:
        """Let requests come, call GPUs back for them, and choose anew if an interval begins."""
        now_s = event.now_s
        done = self._let_go(event)
        before, due = self._standing(), self._begins(now_s, done=done)
        joined = self._join(now_s)
        self._serving.feed.until(now_s)
        called = self._call_back(now_s)
        if due:
            self._renew(now_s)
            self._book_loans(now_s)
        if not (due or called or done or joined):
            return None
        return self._change(now_s, before, joined, resolved=due)

    def finish(self) -> None:
        """Give all GPUs back, when all jobs are done."""
        self._devices.release([job for job in self._devices.held if job >= 0])
        self._book_loans(self._gpus.now_s)

    def _let_go(self, event: Event) -> bool:
        done = super()._let_go(event)
        if done:
            self._book_loans(self._gpus.now_s)  # of then, even if nobody has been asked since
        return done

    def _renew(self, now_s: float) -> None:
        self._set_aside()
        if self._capacity().any():  # else nobody trains
            super()._renew(now_s)

    def _capacity(self) -> Ints:
        aside = np.array(
            [len(self._devices.held.get(-1 - k, (k, []))[1]) for k in range(self._kinds)],
            dtype=np.intp,
        )
        return super()._capacity() - aside

    @property
    def _kinds(self) -> int:
        return len(self._devices.pools)

    def _set_aside(self) -> None:
        """Hold GPUs that training may not have, in the name of a gang for each type."""
        devices, places, gpus = self._devices, self._serving.places, self._gpus
        devices.release([gang for gang in devices.held if gang < 0])
        staying = set(gpus.reclaimable)
        free = (GpuState.FREE, GpuState.WARM)
        aside: dict[int, list[int]] = {}
        for gpu, state in enumerate(gpus.states):
            if not self._serving.lending or not (state in free or gpu in staying):
                kind, device = places.device[gpu]
                aside.setdefault(kind, []).append(device)
        for kind, held in aside.items():
            devices.hold(-1 - kind, kind, held)

    def _book_loans(self, now_s: float) -> None:
        """Lend what jobs have now, and take back what they have no longer."""
        gpus, places = self._gpus, self._serving.places.place
        lent = {
            places[kind, device]
            for job, (kind, held) in self._devices.held.items()
            if job >= 0
            for device in held
            if (kind, device) in places
        }
        loaned = set(gpus.reclaimable)
        for gpu in sorted(lent - loaned):
            gpus.lend(now_s, gpu)
        back = sorted(loaned - lent)
        if back:
            gpus.give_back(now_s, *back)

    def _call_back(self, now_s: float) -> bool:
        """Call GPUs back as long as requests need some; tell whether any was."""
        gpus, called = self._gpus, False
        while gpus.reclaims_due:
            loans, shapes = self._loans()
            chosen = self._serving.rule.choose(loans, shapes, self._serving.worth)
            of_job: dict[int, list[Loan]] = {}
            for loan in chosen:
                of_job.setdefault(loan.job, []).append(loan)
            for job, lost in of_job.items():
                self._take(now_s, job, lost, shapes[job])
            self._book_loans(now_s)
            called = True
        return called

    def _loans(self) -> tuple[list[Loan], dict[int, Shape]]:
        """Return the loans that may be called back, and the gangs of their jobs."""
        places = self._serving.places
        loans, shapes = [], {}
        for job, (kind, held) in self._devices.held.items():
            if job < 0:
                continue
            there: dict[int, int] = {}
            for device in held:
                node = places.nodes[kind, device]
                there[node] = there.get(node, 0) + 1
                if (kind, device) in places.place:
                    loans.append(Loan(places.place[kind, device], node, job))
            shapes[job] = Shape(kind, there)
        return sorted(loans), shapes

    def _take(self, now_s: float, job: int, lost: Sequence[Loan], shape: Shape) -> None:
        """Take GPUs of one node from a job, which goes on with the others if it can."""
        serving, devices, gpus = self._serving, self._devices, self._gpus
        kind, held = devices.give_back(job)
        gone = {serving.places.device[loan.gpu][1] for loan in lost}
        kept = [device for device in held if device not in gone]
        option = self._options.largest(kind, len(kept))
        kept = kept[: int(self._options.gpus[option])] if option >= 0 else []
        nodes = {serving.places.nodes[kind, device] for device in kept}
        if kept and not serving.worth.speedup(job, kind, len(kept), len(nodes)) > 0:
            option = -1  # it cannot train on so few
        self.option[job] = option
        if option >= 0:
            devices.hold(job, kind, kept)
        yield_s = self._yield_s(job)
        decision = change_of_speedup(serving.worth, job, shape, lost[0].node, len(lost))
        for loan in lost:
            number = serving.places.number[loan.gpu]
            self.reclaims.append(Reclaim(now_s, number, job, decision / len(lost), yield_s))
            gpus.reclaim(now_s, loan.gpu, yield_s, needed=gpus.reclaims_due > 0)

    def _yield_s(self, job: int) -> float:
        """Return how long a job takes to leave a GPU: as long as it pauses for having one less."""
        if self._serving.yield_s is not None:
            return self._serving.yield_s
        kind, first_s, rescale_s = self._restarts[:3]
        return float(lost_seconds(kind, first_s[job], rescale_s[job], 2, 1))
