"""Where gangs lie and when they start, by trying everything: sums of slowdowns on slots.

A job's slowdown is 1 plus what the worst link that it uses is over, on average over the slots, as
a part of its capacity. Each GPU is for one gang.
"""

from __future__ import annotations

from itertools import product
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["least_sum"]

Floats = "NDArray[np.float64]"


def least_sum(
    demand: Sequence[NDArray[np.float64]],
    places: Sequence[Sequence[tuple[frozenset[int], tuple[str, ...]]]],
    capacity: Mapping[str, float],
    weight: Sequence[float] | None = None,
) -> float | None:
    """Return the least sum of slowdowns; ``None`` if no places fit together.

    Parameters
    ----------
    demand
        Of each job, slot by slot of its period.
    places
        Of each job: GPUs and links of each place.
    capacity
        Gb/s of each link.
    weight
        What the slowdown of each job counts, 1 each unless given.
    """
    counts = [1.0] * len(demand) if weight is None else weight
    span = lcm(*(each.size for each in demand))
    rows = [
        [np.tile(np.roll(each, turn), span // each.size) for turn in range(each.size)]
        for each in demand
    ]
    best: list[float] = []

    def over(load: NDArray[np.float64], link: str) -> float:
        return float(np.maximum(0.0, load - capacity[link]).sum()) / span / capacity[link]

    def extend(
        chosen: tuple[tuple[frozenset[int], tuple[str, ...]], ...],
        job: int,
        held: dict[str, NDArray[np.float64]],
    ) -> None:
        lost = {link: over(load, link) for link, load in held.items()}
        total = sum(
            count * (1 + max((lost.get(link, 0.0) for link in links), default=0.0))
            for count, (_, links) in zip(counts, chosen, strict=True)
        )
        if best and total >= best[0] - 1e-12:  # demands only add up
            return
        if job == len(demand):
            best[:] = [total]
            return
        links = chosen[job][1]
        for row in rows[job][: 1 if job == 0 else None]:
            more = {link: held.get(link, 0.0) + row for link in links}
            extend(chosen, job + 1, {**held, **more})

    for chosen in product(*places):
        gpus = [gpu for members, _ in chosen for gpu in members]
        if len(gpus) == len(set(gpus)):
            extend(chosen, 0, {})
    return best[0] if best else None
