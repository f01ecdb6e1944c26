"""Replicas that serve in batches, every iteration by itself, from the definition.

Times are whole ticks. At each time, in this order: iterations end, and with them requests that have
all their steps; requests come; who waits, the longest first, joins the replica with fewest requests
of those that are between two iterations and have room for it, the first of equals, and nobody joins
if there is none; and all that are between two begin the next: the first one of those that have
joined, else a step of all they have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass
class Ask:
    """A request in ticks: when it comes, its prompt, its steps after the first answer."""

    arrival: int
    prompt: int
    steps: int


@dataclass
class Kind:
    """A type: ticks of a first iteration by the prompts, of a step by requests, most of them.

    And the most tokens, of all that its requests have brought and will be given.
    """

    first: Callable[[list[int]], int]
    step: dict[int, int]
    most: int
    tokens: float = float("inf")


@dataclass
class Replica:
    """What one replica has."""

    kind: Kind
    has: dict[int, int] = field(default_factory=dict)  # request: steps left
    new: list[int] = field(default_factory=list)
    end: int | None = None


def held(ask: Ask) -> int:
    """Return the tokens of a request: its prompt, the first that it gets, one for each step."""
    return ask.prompt + 1 + ask.steps


def served(asks: Sequence[Ask], kinds: Sequence[Kind]) -> list[tuple[int, int, int, int]]:
    """Return begin, first answer, end and replica of each request."""
    replicas = [Replica(kind) for kind in kinds]
    found = [[-1, -1, -1, -1] for _ in asks]
    waiting: list[int] = []
    to_come = sorted(range(len(asks)), key=lambda n: (asks[n].arrival, n))
    while to_come or waiting or any(r.end is not None for r in replicas):
        ends = [r.end for r in replicas if r.end is not None]
        now = min(ends + [asks[n].arrival for n in to_come[:1]])
        for number, r in enumerate(replicas):
            if r.end == now:
                end_iteration(r, number, now, asks, found)
        while to_come and asks[to_come[0]].arrival == now:
            waiting.append(to_come.pop(0))
        while waiting:
            room = [
                (len(r.has) + len(r.new), number)
                for number, r in enumerate(replicas)
                if r.end is None
                and len(r.has) + len(r.new) < r.kind.most
                and sum(held(asks[n]) for n in [*r.has, *r.new, waiting[0]]) <= r.kind.tokens
            ]
            if not room:
                break
            request = waiting.pop(0)
            replicas[min(room)[1]].new.append(request)
            found[request][0] = now
        for r in replicas:
            if r.end is None and r.new:
                r.end = now + r.kind.first([asks[n].prompt for n in r.new])
            elif r.end is None and r.has:
                r.end = now + r.kind.step[len(r.has)]
    return [(a, b, c, d) for a, b, c, d in found]


def end_iteration(
    r: Replica, number: int, now: int, asks: Sequence[Ask], found: list[list[int]]
) -> None:
    """End an iteration of a replica."""
    r.end = None
    if r.new:
        for request in r.new:
            found[request][1] = now
            r.has[request] = asks[request].steps
        r.new = []
    else:
        r.has = {request: left - 1 for request, left in r.has.items()}
    for request in [n for n, left in r.has.items() if not left]:
        del r.has[request]
        found[request][2:] = [now, number]


def cheapest(
    most: Sequence[int], cost: Sequence[float], meets: Callable[[tuple[int, ...]], bool]
) -> float | None:
    """Return the least cost of all counts that meet a goal; None if none does."""
    every = product(*(range(n + 1) for n in most))
    prices = [
        sum(c * n for c, n in zip(cost, counts, strict=True)) for counts in every if meets(counts)
    ]
    return min(prices, default=None)
