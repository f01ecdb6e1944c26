"""The life of GPUs that serve inference requests and are lent to training in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.annotations import explained
from apportion.checks import seconds, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.inference.lives import Agenda, Due, Ending, StateChange, StateLedger
from apportion.mechanism.inference.settings import ProtectTimes
from apportion.mechanism.inference.slots import (
    GpuState,
    ServedRequest,
    ServiceSlots,
    WaitingRequest,
    WaitingRequests,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from apportion.mechanism.inference.slots import Slot
    from apportion.types import Floats


class InferenceGpus:
    """GPUs that are free, running, protected, warm or loaned; requests, and loans to training.

    A request gets a GPU at once if `ServiceSlots.choose` finds one, else it waits: first come,
    first served, except that a GPU that is protected for a service goes on with a request of that
    service. For each that waits, a loaned GPU may be called back (`reclaims_due`, `reclaim`); which
    one is for the owner of the loans to say. Nothing is stopped once it runs. (The life cycle of
    DeepBoot, Chen et al., TPDS 2023, with timers in place of ticks.)

    Time is told with every call and never goes back. All that ends at a time has ended before
    those who wait choose among it, and before what is told at that time: a request at the end of a
    protection finds the GPU warm.

    Parameters
    ----------
    nodes
        Node of each GPU.
    cold_start_s
        Seconds until a service is loaded on a GPU, by service, see `cold_starts`.
    protect
        How long a GPU is kept for the service that it has just run.

    Attributes
    ----------
    now_s
        The time.
    served
        Requests that have or had a GPU, in the order in which they got one.

    Raises
    ------
    InputError
        For no GPUs or services, and cold starts that are no seconds.
    """

    @explained
    def __init__(
        self,
        nodes: Sequence[int],
        cold_start_s: Mapping[str, float],
        protect: ProtectTimes | None = None,
    ) -> None:
        if not len(nodes) or not cold_start_s:
            raise InputError("Inference needs at least one GPU and one service.")
        self._cold_s: dict[Hashable, float] = {
            name: seconds(f"The cold start of {written(name)}", value)
            for name, value in cold_start_s.items()
        }
        self._protect = protect or ProtectTimes()
        self._slots = ServiceSlots(nodes)
        self.now_s = 0.0
        self.served: list[ServedRequest] = []
        self._ledger = StateLedger(len(nodes))
        self._agenda = Agenda()
        self._known: set[Hashable] = set()
        self._queue = WaitingRequests(self._cold_s)
        self._yielding: set[int] = set()

    @property
    def states(self) -> tuple[GpuState, ...]:
        """State of each GPU."""
        return tuple(self._ledger.states)

    @property
    def changes(self) -> tuple[StateChange, ...]:
        """Every change of state, in order."""
        return tuple(self._ledger.changes)

    @property
    def waiting(self) -> int:
        """Requests without a GPU."""
        return self._queue.count

    @property
    def reclaims_due(self) -> int:
        """How many loaned GPUs waiting requests still need, as far as there are any."""
        due = self._queue.count - len(self._yielding)
        return min(due, len(self.reclaimable)) if due > 0 else 0

    @property
    def reclaimable(self) -> list[int]:
        """Loaned GPUs that are not being called back yet."""
        states = enumerate(self._ledger.states)
        return [g for g, its in states if its == GpuState.LOANED and g not in self._yielding]

    @property
    def lendable(self) -> list[int]:
        """GPUs that training may have: free ones first, then those that are only warm."""
        return [
            gpu
            for state in (GpuState.FREE, GpuState.WARM)
            for gpu, its in enumerate(self._ledger.states)
            if its == state
        ]

    @property
    def next_event_s(self) -> float:
        """When something ends by itself; infinite if nothing will."""
        return self._agenda.next_s

    def spent_s(self) -> Floats:
        """Seconds that each GPU has spent in each state until now, shape (states, GPUs)."""
        return self._ledger.spent_s(self.now_s)

    def advance(self, now_s: float) -> None:
        """Let everything happen that ends until a time.

        Raises
        ------
        InputError
            If that time is past.
        """
        if not self.now_s <= now_s < float("inf"):
            raise InputError(
                f"The time is {written(now_s)}; it must be {self.now_s:g} s or later, and finite."
            )
        while (next_s := self._agenda.next_s) <= now_s:
            self.now_s = next_s
            while self._agenda.next_s <= next_s:
                self._end(self._agenda.pop())
            self._serve_waiting()  # choosing among all that became available at this time
        self.now_s = float(now_s)

    def request(
        self, now_s: float, request: Hashable, service: Hashable, duration_s: float
    ) -> ServedRequest | None:
        """Take a request in.

        Returns
        -------
        ServedRequest or None
            What it got; None if it waits.

        Raises
        ------
        InputError
            For an unknown service, a duration that is not > 0, and a request that came before.
        """
        if service not in self._cold_s:
            raise unknown_name(f"service of request {written(request)}", service, self._cold_s)
        seconds(f"The duration of request {written(request)}", duration_s, strict=True)
        if request in self._known:
            raise InputError(f"Request {written(request)} came before; each comes once.")
        self.advance(now_s)
        self._known.add(request)
        new = WaitingRequest(len(self._known), request, service, self.now_s, float(duration_s))
        slot = None if self._queue.of_service[service] else self._slots.choose(service)
        if slot is not None:
            return self._start(slot, new)
        self._queue.add(new)
        return None

    def lend(self, now_s: float, gpu: int) -> None:
        """Lend a free or warm GPU to training.

        Raises
        ------
        InputError
            If it is neither, or there is no such GPU.
        """
        self.advance(now_s)
        self._check(gpu, "be lent", GpuState.FREE, GpuState.WARM)
        self._slots.lend(gpu)
        self._ledger.note(self.now_s, gpu, GpuState.LOANED)

    def give_back(self, now_s: float, *gpus: int) -> None:
        """Take GPUs back that training no longer needs: who waits has them, else they are free.

        Those that are being called back are there at once.

        Raises
        ------
        InputError
            If one is not loaned.
        """
        self.advance(now_s)
        for gpu in gpus:
            self._check(gpu, "be given back", GpuState.LOANED)
        for gpu in gpus:
            self._arrives(gpu)
        self._serve_waiting()

    def reclaim(self, now_s: float, gpu: int, yield_s: float = 0.0, *, needed: bool = True) -> None:
        """Call a loaned GPU back; it stays loaned for the seconds that training takes to leave it.

        With `needed` a waiting request must need it; others come back too, as when a whole machine
        is emptied.

        Raises
        ------
        InputError
            If it is not loaned, or is being called back already, or no request needs it.
        """
        seconds("The yield time", yield_s)
        self.advance(now_s)
        self._check(gpu, "be called back", GpuState.LOANED)
        if gpu in self._yielding:
            raise InputError(f"GPU {gpu} is being called back already.")
        if needed and not self.reclaims_due:
            raise InputError(f"GPU {gpu} cannot be called back: no waiting request needs it.")
        self._yielding.add(gpu)
        self._agenda.set(Due(self.now_s + yield_s, Ending.LOAN, gpu))
        self.advance(self.now_s)  # it may be there at once

    def _check(self, gpu: int, what: str, *valid: GpuState) -> None:
        whole("The number of a GPU", gpu, 0, len(self._ledger.states) - 1)
        state = self._ledger.states[gpu]
        if state not in valid:
            names = " or ".join(each.name.lower() for each in valid)
            raise InputError(f"GPU {gpu} is {state.name.lower()}; it must be {names} to {what}.")

    def _start(self, slot: Slot, new: WaitingRequest) -> ServedRequest:
        """Run a request in a slot."""
        loaded = slot.service == new.service
        kept = loaded and slot.state == GpuState.PROTECTED
        slot.count = slot.count + 1 if kept else 0
        cold_s = 0.0 if loaded else self._cold_s[new.service]
        end_s = self.now_s + cold_s + new.duration_s
        self._change(slot, GpuState.RUNNING, new.service)
        self._agenda.set(Due(end_s, Ending.REQUEST, slot.gpu))
        got = ServedRequest(
            *(new.request, new.service, slot.gpu, new.arrival_s, self.now_s, cold_s, end_s)
        )
        self.served.append(got)
        return got

    def _end(self, due: Due) -> None:
        """End a loan, a request, or a protection."""
        if due.what == Ending.LOAN:
            self._arrives(due.gpu)
            return
        slot = self._slots.of_gpu[due.gpu]
        if due.what == Ending.REQUEST:
            self._change(slot, GpuState.PROTECTED, slot.service)
            end_s = self.now_s + self._protect.after(slot.count)
            self._agenda.set(Due(end_s, Ending.PROTECTION, slot.gpu))
        else:
            slot.count = 0
            self._change(slot, GpuState.WARM, slot.service)

    def _arrives(self, gpu: int) -> None:
        """Free a GPU that was loaned."""
        self._yielding.discard(gpu)
        self._agenda.clear(gpu)
        self._slots.take_back(gpu)
        self._ledger.note(self.now_s, gpu, GpuState.FREE)

    def _serve_waiting(self) -> None:
        """Give what became available to those who wait longest."""
        while self._queue.count:
            for head in self._queue.oldest():
                slot = self._slots.choose(head.service)
                if slot is not None:
                    self._start(slot, self._queue.take(head.service))
                    break
            else:
                return

    def _change(self, slot: Slot, state: GpuState, service: Hashable) -> None:
        """Change what a GPU does and has loaded."""
        slot.since_s = self.now_s
        self._slots.fill(slot, state, service)
        self._ledger.note(self.now_s, slot.gpu, state, str(service) or None)
