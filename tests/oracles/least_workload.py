"""LWF-kappa (Algorithm 1) word for word, and the variant with a true cap on servers.

    J needs n GPUs with room for its memory; avail = all GPUs with that much free memory.
    n > |avail|:  none.
    n <= kappa:   the n of avail with the least L_g.
    else:         servers by L_S = sum_g L_g ascending, each one's available GPUs by L_g ascending
                  appended; the first n.
    chosen:       L_g += L_J,  L_J = (C_J + E_J) |G(J)|,  E_J = 0 on one server.

GPUs are numbered through all servers in order. Equal loads go by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracles.whole_choices import Number

Gpus = tuple[int, ...]


@dataclass(frozen=True)
class Servers:
    """By server, by GPU: load (seconds of work) and free memory."""

    load: Sequence[Sequence[Number]]
    free: Sequence[Sequence[Number]]

    @cached_property
    def server_of(self) -> list[int]:
        """Server of every GPU."""
        return [s for s, row in enumerate(self.load) for _ in row]

    @cached_property
    def loads(self) -> list[Fraction]:
        """L_g of every GPU."""
        return [Fraction(x) for row in self.load for x in row]

    def available(self, memory: Number) -> list[int]:
        """GPUs with that much free memory."""
        free = [x for row in self.free for x in row]
        return [g for g, x in enumerate(free) if x >= memory]


def least_workload(
    servers: Servers,
    n: int,
    memory: Number,
    kappa: int,
    *,
    order: Sequence[int] | None = None,
) -> Gpus | None:
    """GPUs in the order in which Algorithm 1 takes them; None where the job waits.

    ``order`` is the order of servers before the stable sort (as released it stays from call to
    call), by number unless given.
    """
    load, at, avail = servers.loads, servers.server_of, servers.available(memory)
    if not 0 < n <= len(avail):
        return None
    by_load = sorted(avail, key=lambda g: (load[g], g))
    if n <= kappa:
        return tuple(by_load[:n])
    ranked = sorted(
        range(len(servers.load)) if order is None else order,
        key=lambda s: sum((load[g] for g in range(len(load)) if at[g] == s), Fraction(0)),
    )
    found = tuple(g for s in ranked for g in by_load if at[g] == s)
    return found[:n] if len(found) >= n else None


def first_fit(servers: Servers, n: int, memory: Number) -> Gpus | None:
    """Take the first n available GPUs by number."""
    avail = servers.available(memory)
    return tuple(avail[:n]) if 0 < n <= len(avail) else None
