"""Fair shares of queues: what each deserves, and of the rest by priority, weight and past use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDING = 1e-9
"""GPUs: shares are divided again and again, and 2.9999999999 of them are 3."""


class QueueDemand(NamedTuple):
    """What a queue asks for and is entitled to.

    Attributes
    ----------
    requested
        GPUs of its jobs that run or wait, no more than its limit.
    deserved
        GPUs that it has before anything is divided by weights.
    weight
        Of its part of the rest.
    priority
        Queues of higher priority have of the rest what they ask for before others have any.
    used
        Part of all GPU time that it has had.
    """

    requested: int
    deserved: int = 0
    weight: float = 1.0
    priority: float = 0.0
    used: float = 0.0


def fair_shares(gpus: int, demands: Sequence[QueueDemand], k: float = 0.0) -> list[int]:
    """Divide GPUs among queues, as the KAI scheduler does in its documents on fairness.

    Every queue has what it deserves and asks for, which may be more than there is in sum. The rest
    is divided in proportion to max(0, w + k (w - u)), w the weight over those of all that want
    more, u what was used; by priority, in whole GPUs, and again while somebody gets all that it
    asks for. The GPUs that are left of the rounding go one by one to the largest fractions, of
    higher priorities first, of equal ones to who is first.

    Parameters
    ----------
    gpus
        How many there are.
    demands
        Of the queues.
    k
        How much past use matters.

    Returns
    -------
    list of int
        GPUs of each queue.
    """
    shares = [min(each.deserved, each.requested) for each in demands]
    left = gpus - sum(shares)
    fractions: dict[int, float] = {}
    priorities = sorted({each.priority for each in demands}, reverse=True)
    for priority in priorities:
        equal = [place for place, each in enumerate(demands) if each.priority == priority]
        left = _by_weight(left, demands, equal, shares, fractions, k)
    for place in sorted(fractions, key=lambda q: (-demands[q].priority, -fractions[q], q)):
        if left > 0:
            shares[place] += 1
            left -= 1
    return shares


def _by_weight(
    left: int,
    demands: Sequence[QueueDemand],
    queues: Sequence[int],
    shares: list[int],
    fractions: dict[int, float],
    k: float,
) -> int:
    """Give queues of one priority their parts in `shares`; return how many GPUs are left."""
    again = True
    while again and left > 0:
        again, there = False, left
        parts = _parts(demands, [q for q in queues if shares[q] < demands[q].requested], k)
        for queue, part in parts.items():
            ideal, missing = there * part, demands[queue].requested - shares[queue]
            if missing <= ideal + _ROUNDING:
                gets = missing
                again = again or missing < ideal - _ROUNDING
                fractions.pop(queue, None)
            else:
                gets = math.floor(ideal + _ROUNDING)
                if ideal - gets > _ROUNDING:
                    fractions[queue] = round(ideal - gets, 9)
            shares[queue] += gets
            left -= gets
    return left


def _parts(demands: Sequence[QueueDemand], queues: Sequence[int], k: float) -> dict[int, float]:
    """Return which part of a round queues get that want more, 1 in sum, if anybody gets any."""
    weights = sum(demands[queue].weight for queue in queues)
    if not weights:
        return {}
    normal = {queue: demands[queue].weight / weights for queue in queues}
    raw = {q: max(0.0, w + k * (w - demands[q].used)) for q, w in normal.items()}
    total = sum(raw.values())
    return {queue: part / total for queue, part in raw.items() if part > 0}
