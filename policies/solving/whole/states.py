"""Exact search over what has been taken of each resource, job by job, near the relaxation.

With dual values y of the relaxation, prices p of the resources and u of the jobs' units, a whole
decision x is worth ::

    value(x) = least + sum over jobs of cost of their choice + p @ (capacity - taken)

where an option costs its reduced cost, no option costs u, both less the least of their job, and
``least`` is what is left. All terms are at least 0. So a decision within some *reach* of ``least``
takes only choices that cost no more than it, and so does every part of it: of two parts that have
taken the same of each resource only the cheaper one matters, and one that costs more than the
reach, or is sure to leave idle what does, matters not at all. If any decision is within the reach
the best of all is; else the reach is widened. Choices that are dear come first: few parts survive
them, and at the end little of each resource is open (the core of a knapsack problem by lists, after
Pisinger, "A minimal algorithm for the multiple-choice knapsack problem", EJOR 83, 1995).

To keep the option that a job has is worth `STAYING`, as in branch and bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.whole.branch_and_bound import STAYING, Found

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.policies.solving.whole.relaxation import Relaxed
    from apportion.types import Floats, Int64s


_BEAM, _FIRST = 500, 1 / 64
"""Parts kept of each length where any good decision will do, and where to reach for one first."""
_PARTS = (0.4, 0.6, 0.8, 1.0)
"""Parts of what a good decision costs within which the best is looked for, one after the other."""
_MOST_WORK = 20_000_000
"""Parts up to which it is quicker than branch and bound."""
_MOST_BITS = 62
_ROUNDING = 1e-12
"""Part of the largest number of a sum that rounding may make of it."""


class _Choices(NamedTuple):
    """What a job can choose, the cheapest first, shape (choices,).

    Attributes
    ----------
    taken
        Of all resources, packed.
    cost
        At the dual values.
    column
        Or -1 for none.
    least, most
        Taken of each resource by this choice and those before, shape (choices, resources).
    """

    taken: Int64s
    cost: Floats
    column: Int64s
    least: Int64s
    most: Int64s


class _TooMany(Exception):
    """There are too many parts for this to be quick."""


@dataclass
class States:
    """The choices of all jobs at the dual values of a relaxation.

    Attributes
    ----------
    choices
        Of each job.
    capacity, price
        Of each resource, shape (resources,).
    shift, mask
        Where a resource lies in a packed number, and its bits, shape (resources,).
    least
        Least adjusted value of any decision.
    stays
        What each column is worth more because its job has it now, shape (columns,).
    """

    choices: list[_Choices]
    capacity: Floats
    price: Floats
    shift: Int64s
    mask: Int64s
    least: float
    stays: Floats

    @classmethod
    def of(cls, whole: WholeProgram, relaxed: Relaxed) -> States | None:
        """Read a problem; ``None`` where it is no sum over single jobs that take whole amounts."""
        instance, program, k = whole.p.instance, whole.program, whole.cells.size
        single = whole.separable and instance.solo and bool((instance.count == 1).all())
        there = program.b[whole.priced]
        if not (single and k) or whole.lower.any() or 2 * there.size > _MOST_BITS:
            return None
        held = program.A[whole.priced].tocsc()[:, :k].toarray()
        if (
            (held != np.rint(held)).any()
            or held.min(initial=0.0) < 0
            or not np.isfinite(there).all()
        ):
            return None
        bits = [int(most).bit_length() + 1 for most in there + held.max(axis=1)]
        if sum(bits) > _MOST_BITS:
            return None
        shift = np.array([sum(bits[:place]) for place in range(len(bits))], dtype=np.int64)
        taken = (held.astype(np.int64) << shift[:, None]).sum(axis=0)
        dual = np.maximum(relaxed.dual, 0.0)
        own = dual[whole.priced.stop :]
        stays = np.asarray(STAYING * whole.largest_cost * whole.stays, dtype=np.float64)
        price = dual[whole.priced]
        reduced = program.c + held.T @ price + own[whole.row_of_cell] - stays
        starts = np.searchsorted(whole.row_of_cell, np.arange(instance.jobs + 1)).tolist()
        nothing = np.zeros((1, there.size))
        choices, least = [], program.offset - float(there @ price)
        for job in range(instance.jobs):
            mine = slice(starts[job], starts[job + 1])
            cost = np.append(reduced[mine], own[job])
            lowest = float(cost.min())
            column = np.append(np.arange(starts[job], starts[job + 1]), -1)
            order = np.argsort(cost, kind="stable")
            amounts = np.vstack([held[:, mine].T, nothing])[order].astype(np.int64)
            choices.append(
                _Choices(
                    np.append(taken[mine], 0)[order],
                    (cost - lowest)[order],
                    column[order],
                    np.minimum.accumulate(amounts, axis=0),
                    np.maximum.accumulate(amounts, axis=0),
                )
            )
            least += lowest - float(own[job])
        mask = np.array([(1 << each) - 1 for each in bits], dtype=np.int64)
        return cls(choices, there, price, shift, mask, least, stays)

    def within(
        self, reach: float, deadline: float, beam: int | None = None
    ) -> tuple[Int64s, float, bool] | None:
        """Return columns and cost of the best decision within a reach, if any, and if it is that.

        With a `beam` only so many parts are kept of each length, the cheapest, and what is found
        need not be the best if any is left out.

        Raises
        ------
        _TooMany
            If that takes too many parts, or too long.
        """
        first, second = self._firsts
        open_ = [_near(self.choices[job], reach) for job in np.flatnonzero(second <= reach)]
        settled = [self.choices[job] for job in np.flatnonzero(second > reach)]
        held = first[second > reach].sum(axis=0)
        if (held > self.capacity + 1e-9).any():
            return None
        open_.sort(key=lambda each: -float(each.cost[1]))
        key = np.array([sum(int(each.taken[0]) for each in settled)], dtype=np.int64)
        cost, work, whole = np.zeros(1), 0, True
        least, most = self._rest(open_)
        steps: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        for turn, each in enumerate(open_):
            work += key.size * each.cost.size
            if work > _MOST_WORK or time.perf_counter() > deadline:
                raise _TooMany
            sums = cost[:, None] + each.cost
            before, choice = np.nonzero(sums <= reach)
            key, cost = key[before] + each.taken[choice], sums[before, choice]
            kept, idle = self._matter(key, cost, reach, least[turn + 1], most[turn + 1])
            if not kept.size:
                return None
            if beam is not None and kept.size > beam:
                whole = False
                kept = np.sort(kept[np.argsort(idle[kept], kind="stable")[:beam]])
            key, cost = key[kept], cost[kept]
            steps.append((before[kept].astype(np.int32), choice[kept].astype(np.int32)))
        idle = self.capacity[:, None] - ((key >> self.shift[:, None]) & self.mask[:, None])
        total = cost + sum(price * left for price, left in zip(self.price, idle, strict=True))
        at = int(total.argmin())
        if total[at] > reach:
            return None
        columns = [int(each.column[0]) for each in settled]
        for (since, chosen), each in zip(reversed(steps), reversed(open_), strict=True):
            columns.append(int(each.column[chosen[at]]))
            at = int(since[at])
        taken = np.array([column for column in columns if column >= 0], dtype=np.int64)
        return taken, float(total.min()), whole

    @cached_property
    def _firsts(self) -> tuple[Int64s, Floats]:
        """Return what the cheapest choice of each job takes, and what the next one costs."""
        first = np.array([each.least[0] for each in self.choices])
        second = np.array([each.cost[1] if each.cost.size > 1 else np.inf for each in self.choices])
        return first, second

    def _rest(self, choices: list[_Choices]) -> tuple[Int64s, Int64s]:
        """Return the least and the most that the jobs from each on take, by resource."""
        found = []
        for ends in ([each.least[-1] for each in choices], [each.most[-1] for each in choices]):
            summed = np.zeros((len(choices) + 1, len(self.shift)), dtype=np.int64)
            if ends:
                summed[:-1] = np.cumsum(np.array(ends)[::-1], axis=0)[::-1]
            found.append(summed)
        return found[0], found[1]

    def _matter(
        self, key: Int64s, cost: Floats, reach: float, least: Int64s, most: Int64s
    ) -> tuple[Int64s, Floats]:
        """Return which parts may become a decision within reach, and what each costs at least."""
        left = self.capacity[:, None] - ((key >> self.shift[:, None]) & self.mask[:, None])
        fits, idle = (left >= least[:, None] - 1e-9).all(axis=0), cost
        for price, over in zip(self.price.tolist(), left - most[:, None], strict=True):
            if price:
                idle = idle + price * np.maximum(over, 0.0)
        kept = np.flatnonzero(fits & (idle <= reach))
        if not kept.size:
            return kept, idle
        kept = kept[np.lexsort((cost[kept], key[kept]))]
        taken, new = key[kept], np.ones(kept.size, dtype=bool)
        np.not_equal(taken[1:], taken[:-1], out=new[1:])
        return kept[new], idle


def _near(choices: _Choices, reach: float) -> _Choices:
    """Return the choices of a job within reach."""
    count = int(np.searchsorted(choices.cost, reach, side="right"))
    return _Choices(
        choices.taken[:count],
        choices.cost[:count],
        choices.column[:count],
        choices.least[:count],
        choices.most[:count],
    )


def by_states(
    whole: WholeProgram, relaxed: Relaxed, known: Floats, deadline: float
) -> Found | None:
    """Find the best whole decision; ``None`` where this is not the way, or not a quick one.

    Parameters
    ----------
    known
        Any whole decision: how far to reach at most.
    deadline
        Value of the clock at which the search ends.
    """
    states = States.of(whole, relaxed)
    if states is None:
        return None
    most = relaxed.slack(whole, known) + abs(states.least - relaxed.bound)
    try:
        found = _best(
            states, most, _ROUNDING * max(abs(relaxed.bound), whole.largest_cost), deadline
        )
    except _TooMany:
        return None
    if found is None:
        return None
    x = np.zeros(whole.program.c.size)
    x[found] = 1.0
    bound = whole.program.value(x) - float(states.stays @ x)
    return Found(x, bound, "optimal", 0)


def _best(states: States, most: float, rounding: float, deadline: float) -> Int64s | None:
    """Reach for a good decision first, then for the best, never further than needed."""
    reach, good = _FIRST * most, None
    while good is None and reach < most:
        good = states.within(reach, deadline, _BEAM)
        reach *= 2
    if good is not None and not good[2]:
        good = states.within(good[1] + rounding, deadline, _BEAM) or good
        most = good[1] + rounding
    if good is not None and good[2]:
        return good[0]
    for part in _PARTS:
        found = states.within(part * most, deadline)
        if found is not None:
            return found[0]
    return None
