"""What is asked of those who choose options for elastic jobs, and what it costs to go on.

At the same tier gangs come to machines where their links suit them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.checks import choice
from apportion.mechanism.placements import Gang
from apportion.table_checks import at_least_0
from apportion.ties import EXACT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import ArrayLike

    from apportion.mechanism.devices import Held
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import GangProgress, Placement
    from apportion.types import Bools, Floats, Ints

    Price = Callable[[Floats, Floats, Floats, Floats], Floats]


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


class OptionChoice(Protocol):
    """Chooses an option for every job, by a policy or otherwise."""

    def choose(self, asked: Asked) -> Ints:
        """Return the place of the option of every active job, -1 for none, shape (jobs,)."""
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
    """

    kind: str
    first_s: Floats
    rescale_s: Floats
    believed_s: Floats


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


def lost_seconds(
    restart: str,
    first_s: ArrayLike,
    rescale_s: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
) -> Floats:
    r"""Seconds for which a job makes no progress after a change, though it holds its GPUs.

    With :math:`f` = `first_s`, :math:`r` = `rescale_s`, from :math:`k` to :math:`k'` GPUs:

    =============== ======= ============================================== ======== =======
    ..              start   grow                                           shrink   move
    =============== ======= ============================================== ======== =======
    ``stop_resume`` f       f                                              f        f
    ``afe``         f       :math:`r + \lfloor (f - r)(k' - k)/k' \rfloor` r        f
    ``edl``         f       r                                              0        f
    =============== ======= ============================================== ======== =======

    Under ``afe`` the old workers wait for `r` and the new ones for `f`, which is booked as a pause
    of the whole gang that loses as many GPU-seconds, but for the fraction of a second that the
    released DeepBoot drops. Growth does not stop the old workers under ``edl``: they train on for
    `f` seconds while the new ones prepare (`apportion.mechanism.configurations.resizing`), and the
    gang waits for the broadcast, `r`, only. A
    move is a change of GPUs but not of their number. Sources: DeepBoot (IEEE TPDS 2023), section on
    AFE; EDL (Wu et al., IEEE TPDS 2022).

    Parameters
    ----------
    restart
        One of `RESTARTS`.
    first_s
        Seconds from nothing to the first step, as after a start.
    rescale_s
        Seconds that workers need to form another ring.
    before, after
        GPUs before (0 for a start) and after (0 for a stop, which takes none of its time); all
        arguments broadcast.

    Raises
    ------
    InputError
        For another word, and for seconds and GPUs that are not numbers >= 0.
    """
    price = RESTARTS[choice("restart", restart, RESTARTS)]
    given = {"first_s": first_s, "rescale_s": rescale_s, "before": before, "after": after}
    arrays = [at_least_0(name, value) for name, value in given.items()]
    first, rescale, old, new = np.broadcast_arrays(*arrays)
    as_new = (old == 0) | (old == new)
    lost_s = np.where(as_new, first, price(first, rescale, old, np.maximum(new, 1.0)))
    return np.where(new == 0, 0.0, lost_s)


def _stop_resume(first: Floats, rescale: Floats, old: Floats, new: Floats) -> Floats:
    return first


def _afe(first: Floats, rescale: Floats, old: Floats, new: Floats) -> Floats:
    wait = (first - rescale) * (np.maximum(new - old, 0.0) / new)
    return rescale + np.floor(wait + EXACT * np.maximum(np.abs(wait), 1.0))


def _edl(first: Floats, rescale: Floats, old: Floats, new: Floats) -> Floats:
    return np.where(new > old, rescale, 0.0)


RESTARTS: Mapping[str, Price] = MappingProxyType(
    {"stop_resume": _stop_resume, "afe": _afe, "edl": _edl}
)
"""Ways to go on with other GPUs, by name."""
