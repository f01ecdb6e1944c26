"""What is asked of those who choose options for elastic jobs, and what changes cost these.

At the same tier gangs come to machines where their links suit them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from apportion.mechanism.placements import Gang
from apportion.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apportion.mechanism.devices import Held
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import GangProgress, Placement
    from apportion.mechanisms.past import Past
    from apportion.types import Bools, Floats, Ints


class Asked(NamedTuple):
    """What a decision is about; arrays by active job, shape (jobs,).

    Attributes
    ----------
    now_s
        The time.
    jobs
        Numbers of the active jobs, ascending.
    current
        Place of the option that each has, -1 for none.
    most
        Most GPUs that each may have.
    restarts
        How often each was started again or changed.
    started
        Whether each ever had GPUs.
    restart_s
        Seconds that a restart costs each.
    pinned
        Whether it must keep its option.
    capacity
        GPUs of each type that may be given, shape (types,).
    """

    now_s: float
    jobs: Ints
    current: Ints
    most: Floats
    restarts: Ints
    started: Bools
    restart_s: Floats
    pinned: Bools
    capacity: Ints


class OptionChoice(Resumable, Protocol):
    """Chooses an option for every job, by a policy or otherwise."""

    def choose(self, asked: Asked) -> Ints:
        """Return the place of the option of every active job, -1 for none, shape (jobs,)."""
        ...

    def take_over(self, past: Past) -> None:
        """Begin in the middle."""
        ...

    def observe(self, ran: GangProgress) -> None:
        """Learn from what ran."""
        ...


class JobRestarts(NamedTuple):
    """How changes are priced: one of `RESTARTS`, and its seconds by job, shape (jobs,).

    Attributes
    ----------
    kind
        One of `RESTARTS`.
    first_s, rescale_s
        Seconds of a restart, and of the forming of another ring.
    believed_s
        Seconds of a restart, as those reckon who choose.
    leader_s
        Seconds in which a gang elects another leader, if its own is taken from it, under EDL.
    until_join_s
        Seconds for which a gang trains on when new workers are ready, before they join, under EDL.
    """

    kind: str
    first_s: Floats
    rescale_s: Floats
    believed_s: Floats
    leader_s: float = 0.0
    until_join_s: Callable[[int], float] | None = None


class Standing(NamedTuple):
    """What everyone had before a decision: options of all jobs, and the GPUs of gangs."""

    option: Ints
    held: dict[int, Held]


class ByLinks:
    """Places gangs again that have just been packed, by a placement that compares links.

    Parameters
    ----------
    placer
        Holds the gangs, and has the placement that compares links.
    models
        What a gang trains on a type at a place, as the placement knows it.
    """

    def __init__(self, placer: Placer, models: Callable[[int, int, Placement], str]) -> None:
        self._placer, self._models = placer, models

    def place(self, gangs: Iterable[int]) -> None:
        """Let gangs that have GPUs come to as many in machines that suit them better."""
        devices = self._placer.devices
        for gang, (kind, _) in devices.held.items():
            self._placer.remember(gang, self._models(gang, kind, devices.placement(gang)))
        wide = []
        for gang in sorted(gangs, key=lambda each: (-len(devices.held[each][1]), each)):
            where, (kind, held) = devices.placement(gang), devices.held[gang]
            if len(where) > 1:
                wide.append(Gang(gang, len(held), kind, self._models(gang, kind, where)))
        if self._placer.compares_whole:
            self._placer.compare(wide)
            return
        for each in wide:
            self._placer.place_again(each, devices.give_back(each.job)[1])

    def state(self) -> dict[str, Any]:
        """Return what the placement remembers, for JSON."""
        return self._placer.memory()

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        self._placer.recall(state)
