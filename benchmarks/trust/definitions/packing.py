"""Gangs that must pack into whole machines and racks: cutting planes, found one by one.

The gangs of each size that run at a tier must be an average of patterns that fit into one unit,
times the units. Where they are not, a linear program over all patterns finds the inequality that
they break: weights w of the sizes with ``pattern @ w <= 1`` for every pattern.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from benchmarks.trust.case import GPUS_PER_MACHINE, MACHINES_PER_RACK
from benchmarks.trust.definitions.programs import minimise

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts

RACK = GPUS_PER_MACHINE * MACHINES_PER_RACK
# GPUs of a unit, and the places in (machine, rack, network) of the tiers that must fit into one.
UNITS = ((GPUS_PER_MACHINE, (0,)), (RACK, (0, 1)))


def must_pack(facts: Facts) -> bool:
    """Whether the case asks for packing."""
    return facts.case.shape == "tiers" and facts.case.arguments.get("gang_packing", True)


@cache
def patterns(sizes: tuple[int, ...], gpus: int) -> tuple[tuple[int, ...], ...]:
    """Ways to fill a unit with gangs of these sizes, all to which none can be added among them."""
    if not sizes:
        return ((),)
    first, rest = sizes[0], sizes[1:]
    found = []
    for number in range(gpus // first, -1, -1):
        left = gpus - number * first
        found += [(number, *others) for others in patterns(rest, left)]
        if not rest:
            break
    return tuple(found)


def broken(facts: Facts, x: Floats) -> tuple[sp.csr_array, Floats, float]:
    """Rows of the inequalities that x breaks most, their limits, and by how much, relative."""
    _, option = facts.entries
    size = facts.case.gpus[facts.entries].astype(int)
    rows, limits, worst = [], [], 0.0
    for kind in np.flatnonzero(facts.in_tensor & (facts.case.capacity > 0)):
        for gpus, tiers in UNITS:
            here = (facts.entry_type == kind) & np.isin(option % 3, tiers)
            sizes = tuple(sorted(set(size[here].tolist())))
            if not sizes:
                continue
            units = facts.case.capacity[kind] / gpus
            run = np.array([x[here & (size == s)].sum() for s in sizes])
            fits = sp.csr_array(np.array(patterns(sizes, gpus), dtype=float))
            weights, most, _ = minimise(-run, fits, np.ones(fits.shape[0]))
            over = -most / units - 1.0
            if over > 1e-9:
                worst = max(worst, over)
                row = np.where(
                    here, weights[np.minimum(np.searchsorted(sizes, size), len(sizes) - 1)], 0.0
                )
                rows.append(row)
                limits.append(units)
    return sp.csr_array(np.array(rows).reshape(-1, len(x))), np.array(limits), worst


def packed(facts: Facts, optimise: Callable[[Facts], Floats]) -> Floats:
    """Optimise with the inequalities that turn out to be needed."""
    x = optimise(facts)
    if not must_pack(facts):
        return x
    for _ in range(60):
        rows, limits, over = broken(facts, x)
        if over <= 1e-9:
            break
        gpus, capacity = facts.gpus, facts.capacity
        facts = copy.copy(facts)
        facts.gpus = sp.vstack([gpus, rows]).tocsr()
        facts.capacity = np.concatenate([capacity, limits])
        x = optimise(facts)
    return x
