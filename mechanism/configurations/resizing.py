"""Gangs that keep GPUs where they are when they grow or shrink."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.machines import MachinePool

__all__ = ["grow", "shrink"]


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
