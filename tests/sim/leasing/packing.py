"""Best fit on racks in dictionaries: where a gang goes that has one way only to be packed."""

from __future__ import annotations

from typing import Any

MACHINE, RACK, NETWORK = range(3)

Place = dict[tuple[int, int], int]
"""GPUs by (rack, machine of the rack)."""


def packed(free: dict[Any, int], gpus: int) -> dict[Any, int]:
    """Best fit: the fullest that holds the rest, and until there is one all of the emptiest."""
    free, found = dict(free), {}
    while not any(left >= gpus for left in free.values()):
        most = max(free, key=lambda at: (free[at], [-k for k in at]))
        found[most] = free.pop(most)
        gpus -= found[most]
    return found | {min((free[at], at) for at in free if free[at] >= gpus)[1]: gpus}


def spot(free: Place, gpus: int, widest: int) -> tuple[int, Place] | None:
    """Find GPUs for a gang in the tightest tier that has room, up to a widest one."""
    racks = {(r,): sum(n for (at, _), n in free.items() if at == r) for r, _ in free}
    if max(free.values()) >= gpus:
        return MACHINE, packed(free, gpus)
    holds = [n for n in racks.values() if n >= gpus]
    if (widest >= RACK and holds) or (widest == NETWORK and sum(racks.values()) >= gpus):
        found: Place = {}
        for (r,), part in packed(racks, gpus).items():
            inside = {(r, m): n for (at, m), n in free.items() if at == r}
            found |= packed(inside, part)
        return (RACK if holds else NETWORK), found
    return None
