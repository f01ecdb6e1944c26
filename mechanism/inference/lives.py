"""What is known of GPUs that serve requests: who is in which state, who waits, what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apportion.annotations import explained
from apportion.checks import choice, seconds, whole
from apportion.errors import InputError, written
from apportion.mechanism.inference.agenda import Agenda
from apportion.mechanism.inference.ledger import StateLedger
from apportion.mechanism.inference.queues import ServedRequest, WaitingRequest, WaitingRequests
from apportion.mechanism.inference.settings import FREE_GPU, ProtectTimes
from apportion.mechanism.inference.slots import GpuState, ServiceSlots

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.inference.ledger import StateChange

__all__ = ["GpuLives"]


class GpuLives:
    """The books of `apportion.mechanism.inference.InferenceGpus`, which has its parameters."""

    @explained
    def __init__(
        self,
        nodes: Sequence[int],
        cold_start_s: Mapping[str, float],
        protect: ProtectTimes | None = None,
        services_per_gpu: int = 1,
        binding: Literal["late", "early"] = "late",
        free_gpu: Literal["fewest_loans", "random"] = "fewest_loans",
        seed: int = 0,
    ) -> None:
        if not len(nodes) or not cold_start_s:
            raise InputError("Inference needs at least one GPU and one service.")
        per_gpu = whole("services_per_gpu", services_per_gpu, 1)
        self._cold_s: dict[Hashable, float] = {
            name: seconds(f"The cold start of {written(name)}", value)
            for name, value in cold_start_s.items()
        }
        self._protect = protect or ProtectTimes()
        self._early = choice("binding", binding, ("late", "early")) == "early"
        drawn = choice("free_gpu", free_gpu, FREE_GPU) == "random"
        self._slots = ServiceSlots(nodes, per_gpu, np.random.default_rng(seed) if drawn else None)
        self.now_s = 0.0
        self.served: list[ServedRequest] = []
        self._ledger = StateLedger(len(nodes))
        self._agenda = Agenda()
        self._known: set[Hashable] = set()
        self._queue = WaitingRequests(self._cold_s)
        self._yielding: dict[int, WaitingRequest | None] = {}

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
        """Requests without a GPU, those included for whom one is being called back."""
        return self._queue.count + sum(bound is not None for bound in self._yielding.values())

    @property
    def reclaims_due(self) -> int:
        """How many loaned GPUs waiting requests still need, as far as there are any."""
        due = self._queue.count - (0 if self._early else len(self._yielding))
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

    def spent_s(self) -> NDArray[np.float64]:
        """Seconds that each GPU has spent in each state until now, shape (states, GPUs)."""
        return self._ledger.spent_s(self.now_s)

    def state(self) -> dict[str, Any]:
        """Return everything that later steps depend on, for JSON, if requests are named by it."""
        return {
            "now_s": self.now_s,
            "served": [list(each) for each in self.served],
            "known": list(self._known),
            "yielding": [[gpu, bound] for gpu, bound in self._yielding.items()],
            "slots": self._slots.state(),
            "random": self._slots.rng and self._slots.rng.bit_generator.state,
            "ledger": self._ledger.state(),
            "agenda": self._agenda.state(),
            "queue": self._queue.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state of `state` in GPUs that were made alike and never used."""
        self.now_s, self._known = float(state["now_s"]), set(state["known"])
        self.served = [ServedRequest(*each) for each in state["served"]]
        self._yielding = {
            gpu: None if bound is None else WaitingRequest(*bound)
            for gpu, bound in state["yielding"]
        }
        self._ledger.restore(state["ledger"])
        states = enumerate(self._ledger.states)
        self._slots.restore(state["slots"], [g for g, its in states if its == GpuState.LOANED])
        if self._slots.rng is not None:
            self._slots.rng.bit_generator.state = state["random"]
        self._agenda.restore(state["agenda"])
        self._queue.restore(state["queue"])
