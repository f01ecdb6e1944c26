"""The life of GPUs that serve inference requests and are lent to training in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.checks import seconds, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.inference.lives import Due, Ending, GpuLives
from apportion.mechanism.inference.slots import GpuState, ServedRequest, WaitingRequest

if TYPE_CHECKING:
    from collections.abc import Hashable

    from apportion.mechanism.inference.slots import Slot


class InferenceGpus(GpuLives):
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
    services_per_gpu
        Services that a GPU may have loaded, each serving one request at a time; how much they slow
        each other down is not modelled.
    binding
        When a request is bound to a GPU: ``"early"``, as soon as one is called back for it, which
        it waits for and takes no other; ``"late"``, once a GPU is there, whoever waits longest, and
        a service is loaded after that; ``"loaded"``, once its service is loaded. Then whichever GPU
        of the service is ready first has whoever waits longest for it, and one that was loaded for
        nobody, as others were faster, is kept as after a request.
    free_gpu
        Which GPU a request gets for whose service none is protected: ``"fewest_loans"``, as the
        released DeepBoot does, see `ServiceSlots.choose`; or ``"random"``, any that is free or
        warm, as its paper says.
    seed
        Of those that are drawn.

    Attributes
    ----------
    now_s
        The time.
    served
        Requests that have or had a GPU, in the order in which they got one.

    Raises
    ------
    InputError
        For no GPUs or services, and options out of range.
    """

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
        if self._binding == "loaded":
            self._queue.add(new)
            self._serve_waiting()
            last = self.served[-1] if self.served else None
            return last if last is not None and last.request == request else None
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
        bound = None
        if self._binding == "early" and self._queue.count:
            bound = self._queue.take(self._queue.oldest()[0].service)
        self._yielding[gpu] = bound
        self._agenda.set(Due(self.now_s + yield_s, Ending.LOAN, gpu, -1))
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
        began_s, ready_s = self._loads.pop((slot.gpu, slot.number), (0.0, -1.0))
        fresh = ready_s == self.now_s  # it was loaded for those who wait now
        start_s = max(began_s, new.arrival_s) if fresh else self.now_s
        kept = loaded and slot.state == GpuState.PROTECTED and not fresh
        slot.count = slot.count + 1 if kept else 0
        cold_s = 0.0 if loaded else self._cold_s[new.service]
        end_s = self.now_s + cold_s + new.duration_s
        self._change(slot, GpuState.RUNNING, new.service)
        self._agenda.set(Due(end_s, Ending.REQUEST, slot.gpu, slot.number))
        got = ServedRequest(
            *(new.request, new.service, slot.gpu, new.arrival_s, start_s),
            *(self.now_s - start_s if fresh else cold_s, end_s),
        )
        self.served.append(got)
        return got

    def _load(self, slot: Slot, service: Hashable) -> None:
        """Load a service in a slot, for whoever waits for it then."""
        ready_s = self.now_s + self._cold_s[service]
        slot.count = 0
        self._loads[slot.gpu, slot.number] = self.now_s, ready_s
        self._change(slot, GpuState.RUNNING, service)
        self._agenda.set(Due(ready_s, Ending.REQUEST, slot.gpu, slot.number))

    def _end(self, due: Due) -> None:
        """End a loan, a request or loading for one, or a protection."""
        if due.what == Ending.LOAN:
            self._arrives(due.gpu)
            return
        slot = self._slots.of_gpu[due.gpu][due.number]
        if due.what == Ending.REQUEST:
            self._change(slot, GpuState.PROTECTED, slot.service)
            end_s = self.now_s + self._protect.after(slot.count)
            self._agenda.set(Due(end_s, Ending.PROTECTION, slot.gpu, slot.number))
        else:
            slot.count = 0
            self._change(slot, GpuState.WARM, slot.service)

    def _arrives(self, gpu: int) -> None:
        """Free a GPU that was loaned, or run on it the request that it was called back for."""
        bound = self._yielding.pop(gpu, None)
        self._agenda.clear(gpu)
        self._slots.take_back(gpu)
        self._ledger.note(self.now_s, gpu, GpuState.FREE)
        if bound is not None:
            self._start(self._slots.of_gpu[gpu][0], bound)

    def _serve_waiting(self) -> None:
        """Give what became available to those who wait longest."""
        while self._queue.count:
            loading = self._loading()
            for head, covered in self._queue.heads(loading):
                slot = self._slots.choose(head.service, loaded=covered)
                if slot is not None:
                    self._give(slot, head.service)
                    break
            else:
                return

    def _give(self, slot: Slot, service: Hashable) -> None:
        """Give a slot to whoever waits longest for a service, or load it first for them."""
        if self._binding == "loaded" and slot.service != service and self._cold_s[service] > 0:
            self._load(slot, service)
        else:
            self._start(slot, self._queue.take(service))

    def _change(self, slot: Slot, state: GpuState, service: Hashable) -> None:
        """Change a slot, and with it perhaps its GPU: the busiest of its slots counts."""
        slot.since_s = self.now_s
        self._slots.fill(slot, state, service)
        loaded = [each for each in self._slots.of_gpu[slot.gpu] if each.service is not None]
        busiest = min((each.state for each in loaded), default=GpuState.FREE)
        names = [str(each.service) for each in loaded if each.state == busiest]
        self._ledger.note(self.now_s, slot.gpu, busiest, "+".join(names) or None)
