"""What must be true of whole decisions, of those asked for (pins) and of those found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, SolveError, written
from apportion.policies.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cvxpy as cp

    from apportion.policies.instance import Instance
    from apportion.policies.whole.statement import WholeProgram
    from apportion.types import Floats

_ROUNDING = 1e-9
"""Part of a capacity that sums of amounts may miss it by; whole amounts miss it by nothing."""
_MISSED = 1e-6
"""Beyond what HiGHS may miss an integer by (1e-8): only mistakes are found, no rounding."""


def check_pins(instance: Instance, jobs: Sequence[Any] | None = None) -> None:
    """Refuse pins that cannot hold: without an option, on an impossible one, above capacity.

    Parameters
    ----------
    instance
        A problem.
    jobs
        What its jobs are called; by default they have numbers.

    Raises
    ------
    InputError
        It names the first such job, or the resource and what the pinned jobs hold of it.
    """
    pinned = np.flatnonzero(instance.pinned)
    if not pinned.size:
        return

    def called(row: int) -> str:
        return f"Job number {row}" if jobs is None else f"Job {written(jobs[row])}"

    now = instance.current[pinned] > 0
    nowhere = pinned[~now.any(axis=1)]
    if nowhere.size:
        raise InputError(
            f"{called(nowhere[0])} is pinned and has no current_option that it could keep."
        )
    cannot = pinned[(now & ~instance.can_run[pinned]).any(axis=1)]
    if cannot.size:
        raise InputError(
            f"{called(cannot[0])} is pinned to an option under which it cannot run: its throughput "
            f"there is 0, or there are too few GPUs."
        )
    p, X = Problem(instance), np.where(instance.pinned[:, None], instance.current, 0.0)
    p.X.value = X
    held = np.asarray(p.held.value)
    over = np.flatnonzero(held > instance.capacity * (1 + _ROUNDING))
    if over.size:
        names = instance.resource_names or tuple(map(str, range(held.size)))
        of_it = instance.usage[:, over[0] :: held.size].toarray()
        holders = pinned[(of_it * X).sum(axis=1)[pinned] > 0]
        first = ", ".join(map(called, holders[:10]))
        raise InputError(
            f"The pinned jobs hold {held[over[0]]:g} of {names[over[0]]!r}, of which there are "
            f"{instance.capacity[over[0]]:g}: {first}."
        )


def check_decision(whole: WholeProgram, x: Floats) -> None:
    """Make sure that a rounded decision meets every constraint; the variables hold its values.

    Raises
    ------
    SolveError
        If it does not, which is the solver's fault.
    """
    program, shared = whole.program, slice(0, whole.own.start)
    allowed = _ROUNDING * np.maximum(np.abs(program.b[shared]), 1.0)
    over = (program.A @ x - program.b)[shared] > allowed
    below = (x < program.lower - _ROUNDING).any()
    if over.any() or below or any(_missed(each) > _MISSED for each in whole.constraints):
        raise SolveError(f"What HiGHS found for {whole.policy!r} meets its constraints not quite.")


def _missed(constraint: cp.Constraint) -> float:
    """Violation of a constraint, relative to numbers above 1."""
    sides = (np.abs(np.asarray(side.value)).max(initial=0.0) for side in constraint.args)
    return float(np.max(constraint.violation(), initial=0.0)) / max(1.0, *map(float, sides))
