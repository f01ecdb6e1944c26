"""Who was in which state when: changes, and the seconds spent in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.mechanism.inference.slots import GpuState
from apportion.resumable import array_of, plain

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

__all__ = ["StateChange", "StateLedger"]


class StateChange(NamedTuple):
    """A GPU that goes from one state to another, and what is loaded then, if anything."""

    time_s: float
    gpu: int
    before: GpuState
    after: GpuState
    service: Hashable = None


class StateLedger:
    """States of GPUs, all of them free at first.

    Parameters
    ----------
    gpus
        How many.

    Attributes
    ----------
    states
        State of each GPU; not to be changed from outside.
    changes
        Every change, in order.
    """

    def __init__(self, gpus: int) -> None:
        self.states = [GpuState.FREE] * gpus
        self.changes: list[StateChange] = []
        self._since_s = [0.0] * gpus
        self._spent_s = np.zeros((len(GpuState), gpus))

    def note(self, now_s: float, gpu: int, state: GpuState, service: Hashable = None) -> None:
        """Note the state that a GPU is in from now on, and what is loaded."""
        before = self.states[gpu]
        if state == before:
            return
        self.changes.append(StateChange(now_s, gpu, before, state, service))
        self._spent_s[before, gpu] += now_s - self._since_s[gpu]
        self._since_s[gpu] = now_s
        self.states[gpu] = state

    def spent_s(self, now_s: float) -> NDArray[np.float64]:
        """Seconds that each GPU has spent in each state, shape (states, GPUs)."""
        spent = self._spent_s.copy()
        for gpu, state in enumerate(self.states):
            spent[state, gpu] += now_s - self._since_s[gpu]
        return spent

    def state(self) -> dict[str, Any]:
        """Return states and changes so far, for JSON."""
        return {
            "states": [int(each) for each in self.states],
            "since_s": list(self._since_s),
            "spent_s": plain(self._spent_s),
            "changes": [list(each) for each in self.changes],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state of `state`."""
        self.states = [GpuState(each) for each in state["states"]]
        self._since_s, self._spent_s = list(state["since_s"]), array_of(state["spent_s"])
        self.changes = [
            StateChange(time_s, gpu, GpuState(before), GpuState(after), service)
            for time_s, gpu, before, after, service in state["changes"]
        ]
