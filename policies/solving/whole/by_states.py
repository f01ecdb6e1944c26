"""The best whole decision of a policy whose objective is a sum over options, by `States`.

To keep the option that a job has is worth `STAYING`, as in branch and bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.whole.branch_and_bound import STAYING, Found
from apportion.policies.solving.whole.program import NOISE, without_noise
from apportion.policies.solving.whole.states import ROUNDING, States, best_of

if TYPE_CHECKING:
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.policies.solving.whole.relaxation import Relaxed
    from apportion.types import Floats


def by_states(
    whole: WholeProgram, relaxed: Relaxed, known: Floats, deadline: float, gap: float
) -> Found | None:
    """Find the best whole decision; ``None`` where this is not the way, or not a quick one.

    Parameters
    ----------
    known
        Any whole decision: how far to reach at most.
    deadline
        Value of the clock at which the search ends.
    gap
        Part of the objective that what `STAYING` is worth may not hide, nor rounding. Where it
        would, both are parts of the distance from the bound, as in `Relaxed.from_bound`.
    """
    instance, program, k = whole.p.instance, whole.program, whole.cells.size
    single = whole.separable and instance.solo and bool((instance.count == 1).all())
    if not (single and k) or whole.lower.any():
        return None
    row, option = np.divmod(whole.cells, instance.options)
    held = program.A[whole.priced].tocsc()[:, :k].toarray()
    shape, price = (instance.jobs, instance.options + 1), np.maximum(relaxed.dual[whole.priced], 0)
    reduced, column = np.full(shape, np.inf), np.full(shape, -1)
    amounts = np.zeros((*shape, len(held)))
    column[row, option], amounts[row, option] = np.arange(k), held.T
    about = min(abs(program.value(known)), abs(relaxed.bound))
    unit = whole.largest_cost
    hides = unit * (STAYING * float(whole.stays.sum()) + NOISE * instance.jobs) > gap * about
    costs = whole.costs if hides else program.c
    reduced[row, option], reduced[:, -1] = costs[:k], 0.0
    reduced += amounts @ price
    lowest = reduced.min(axis=1)
    least = float(lowest.sum()) - float(program.b[whole.priced] @ price) + program.offset
    most = relaxed.slack(whole, known) + abs(least - relaxed.bound)
    if hides:
        reduced -= lowest[:, None]
        matter = reduced <= most
        reduced[matter], unit = without_noise(reduced[matter]), most
    stays = np.asarray(STAYING * unit * whole.stays, dtype=np.float64)
    reduced[row, option] -= stays
    states = States.of(reduced, amounts, program.b[whole.priced], price)
    if states is None:
        return None
    rounding = ROUNDING * max(abs(relaxed.bound), whole.largest_cost)
    found = best_of(states, most, rounding, deadline)
    if found is None:
        return None
    x, taken = np.zeros(program.c.size), column[np.arange(instance.jobs), found[0]]
    x[taken[taken >= 0]] = 1.0
    value = float(costs @ x) + program.offset
    lost = float(stays @ x[:k]) + NOISE * unit * instance.jobs * hides
    if hides and lost > gap * abs(value) and program.value(x) < program.value(known):
        return by_states(whole, relaxed, x, deadline, gap)  # from there, less is far
    return Found(x, value - lost, "optimal", 0)
