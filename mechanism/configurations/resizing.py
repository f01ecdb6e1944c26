"""Gangs that keep GPUs where they are when they grow or shrink.

Under EDL new workers prepare while those that a job had before train on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from apportion.mechanism.devices import Devices, Held
    from apportion.mechanism.machines import MachinePool


def shrink(devices: Devices, gang: int, gpus: int, spare: Collection[int] = ()) -> None:
    """Let a gang keep so many of its GPUs: it leaves machines on which it has fewest.

    Parameters
    ----------
    devices
        Who holds what; it is changed.
    gang, gpus
        Who shrinks, to how many GPUs.
    spare
        GPUs that it gives up before all others.
    """
    kind, held = devices.give_back(gang)
    machine_of = devices.pools[kind].machine_of
    there = _by_machine(held, machine_of)
    order = sorted(
        held,
        key=lambda g: (g in spare, -len(there[machine_of[g]]), machine_of[g], g),
    )
    kept = set(order[:gpus])
    devices.hold(gang, kind, [device for device in held if device in kept])


def grow(devices: Devices, gang: int, gpus: int, machines: int) -> bool:
    """Give a gang more GPUs beside those that it has, if it then has no more than so many machines.

    Those of its own machines come first, the machine on which it has most before others; then the
    fewest other machines, as `apportion.mechanism.configurations.packing.pack` chooses them.
    """
    kind, held = devices.held[gang]
    pool = devices.pools[kind]
    own = _by_machine(held, pool.machine_of)
    missing = gpus - len(held)
    more: list[int] = []
    for machine in sorted(own, key=lambda m: (-len(own[m]), m)):
        more += pool.free_on(machine)[: missing - len(more)]
    more += _elsewhere(pool, missing - len(more), set(own))
    chosen = [*held, *more]
    if len(more) < missing or len(_by_machine(chosen, pool.machine_of)) > machines:
        return False
    devices.release([gang])
    devices.hold(gang, kind, chosen)
    return True


def _elsewhere(pool: MachinePool, gpus: int, without: set[int]) -> list[int]:
    """Return as many free GPUs as there are, up to so many, on few other machines."""
    chosen: list[int] = []
    for machine in pool.emptiest_first():
        left = gpus - len(chosen)
        if not left:
            break
        if machine in without:
            continue
        tightest = pool.tightest(left, without=without)
        chosen += pool.free_on(machine if tightest is None else tightest)[:left]
        without = without | {machine}
    return chosen


def _by_machine(held: list[int], machine_of: list[int]) -> dict[int, list[int]]:
    there: dict[int, list[int]] = {}
    for device in held:
        there.setdefault(machine_of[device], []).append(device)
    return there


_ROUNDING = 1e-12
"""Part of the time by which workers may seem late that are ready right now."""


class Joining:
    """Which GPUs of which jobs work, where others are not ready yet, and when they will be.

    New workers prepare for as long as a restart takes, perhaps for some mini-batches of the old
    ones more, and all that are new join at the same time. If there are more new ones before that,
    they all begin anew.
    """

    def __init__(self) -> None:
        self._old: dict[int, list[int]] = {}
        self._due_s: dict[int, float] = {}

    def working(self, job: int) -> list[int] | None:
        """Return the devices that work; None for all that the job has."""
        return self._old.get(job)

    def of(self, jobs: NDArray[np.intp]) -> list[list[int] | None] | None:
        """Return the devices of each of some jobs that work; None if all do of all."""
        return [self._old.get(job) for job in jobs.tolist()] if self._old else None

    @property
    def next_s(self) -> float:
        """When workers join next; infinite if none prepare."""
        return min(self._due_s.values(), default=float("inf"))

    def join(self, now_s: float) -> list[int]:
        """Let workers join that are ready; return their jobs, ascending."""
        late_s = now_s + _ROUNDING * abs(now_s)
        ready = sorted(job for job, due_s in self._due_s.items() if due_s <= late_s)
        self.forget(ready)
        return ready

    def forget(self, jobs: Iterable[int]) -> None:
        """Let jobs have nobody that prepares."""
        for job in jobs:
            self._old.pop(job, None)
            self._due_s.pop(job, None)

    def change(self, job: int, before: Held | None, now: Held, ready_s: float) -> bool:
        """Let a job have other devices; tell whether some that worked go on.

        Parameters
        ----------
        job, before, now
            What it had, and has.
        ready_s
            When workers that begin now are ready.
        """
        old, due_s = self._old.pop(job, None), self._due_s.pop(job, ready_s)
        if before is None or before[0] != now[0]:
            return False
        stay = _common(now[1], before[1] if old is None else old)
        if stay and len(stay) < len(now[1]):
            self._old[job] = stay
            begun = len(_common(now[1], before[1])) == len(now[1])
            self._due_s[job] = due_s if begun else ready_s
        return bool(stay)


def _common(devices: Sequence[int], others: Sequence[int]) -> list[int]:
    return [device for device in devices if device in others]
