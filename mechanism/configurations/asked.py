"""What is asked of those who choose options for elastic jobs, and what changes cost these."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from apportion.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from apportion.mechanism.devices import Held
    from apportion.mechanism.scheduler import GangProgress
    from apportion.mechanisms.past import Past

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["Asked", "JobRestarts", "OptionChoice", "Standing"]


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
