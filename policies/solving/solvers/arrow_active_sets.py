"""The best level, then the largest gain, then the least squares: active sets in arrow form.

An interior point sees to several objectives by weights, and ends near their optimum. It does tell
which constraints hold there, and these determine the optimum. For one set of constraints that hold,
the conditions of optimality are the system of `apportion.policies.solving.solvers.arrow_kkt` in the
limit: what holds has no slack, all else has no dual value. Each objective has dual values of its
own; of a constraint that holds, the first that is not zero must be positive. This is a primal-dual
active set method in which each objective counts infinitely more than the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.solvers.arrow_kkt import (
    PAIRS,
    ArrowPoint,
    ArrowProgram,
    Eliminated,
    Residuals,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from apportion.types import Bools, Floats


_ROUNDS = 60
_NEVER, _REGULAR = 1e30, 1e-12
"""Ratio of slack to dual value where a constraint does not hold; and where it does, relative to the
system, which it keeps regular if constraints repeat each other. Refinement takes it out again."""
_REFINEMENTS, _ROUNDING = 4, 4e-15
"""Refinement stops where residuals are those of rounding, some 20 units of the last place."""
_ZERO, _PRICED = 1e-12, 1e-10
"""Slack that is none; dual value that is none, relative to what it is made of."""
_OF_JOB = 1e-3
"""Part of the largest number of a job that its other numbers count as made of, at least."""
_TIED = 1e-6
"""By what part of its length a step may be longer to what holds at its end as well."""
_ACCEPTED, _NEEDED = 1e-10, 1e-7
"""By how much a constraint that holds may be missed; and a need, by what part of itself: the least
ones are rounding errors of others, and whoever takes the solution can make up for it."""
_UNKNOWN = ("x", "level", "need", "time", "price")
"""What the equations are solved for; slacks and dual values of cells follow."""


class _Held(NamedTuple):
    """Which constraints hold, in the order of `PAIRS`: cells at zero, needs, times, capacities."""

    x: Bools
    met: Bools
    idle: Bools
    free: Bools


class _Stage(NamedTuple):
    """One objective: the right-hand side of its equations, and all slacks and dual values.

    The dual values of cells are made of numbers of a certain `size`, shape (options, jobs).
    """

    right: Residuals
    at: ArrowPoint
    size: Floats


def exact_arrow(
    program: ArrowProgram,
    points: Sequence[ArrowPoint],
    level: float | None,
    rounds: int = _ROUNDS,
) -> Floats | None:
    """Maximise the level, of these optima the gain, and of these minimise the squares.

    Parameters
    ----------
    program
        The program, without a base; of gain and squares the proportions count only.
    points
        Points inside, each close to the optimum of the first objectives, the last one of all.
    level
        The level, if it is given and not to be maximised.
    rounds
        Sets to try, at most.

    Returns
    -------
    x
        The optimum, shape (options, jobs), the constraints met to 1e-10, and the conditions on the
        dual values of each objective to 1e-10 of what they are made of; ``None`` if the sets do
        not settle.
    """
    program = replace(program, reward=1.0 if level is None else 0.0)
    near, held = points[-1], _held_at(points)
    for _ in range(rounds):
        held = _with_a_cell_for_each_need(program, held, near)
        equations = _Equations(program, held)
        try:
            stages = [equations.solve(right) for right in _objectives(program, level)]
        except np.linalg.LinAlgError:
            return None
        rising = next((each.at for each in stages[:-1] if equations.rises(each)), None)
        if rising is not None:
            near, joins = _until_something_holds(near, held, rising)
            leaves = _Held(*map(np.zeros_like, held))
        else:
            joins, leaves = equations.violated(stages[-1]), equations.overpaid(stages)
        if not any(each.any() for each in (*joins, *leaves)):
            return stages[-1].at.x if rising is None and equations.met(stages[-1]) else None
        held = _Held(*((a & ~c) | b for a, b, c in zip(held, joins, leaves, strict=True)))
    return None


def _objectives(program: ArrowProgram, level: float | None) -> Iterator[Residuals]:
    """Right-hand sides of the equations for each objective; the last one has the limits."""
    cells, needs = np.zeros_like(program.throughput), np.zeros_like(program.rate)
    times, capacities = needs, np.zeros(program.resources)
    if level is None:
        yield Residuals(needs, times, capacities, cells, 1.0)
    yield Residuals(needs, times, capacities, cells + program.gain, 0.0)
    needs = needs if level is None else program.rate * level
    yield Residuals(needs, times + 1.0, capacities + 1.0, cells, 0.0)


def _held_at(points: Sequence[ArrowPoint]) -> _Held:
    """Take from points inside what holds at any of them: what has more dual value than slack."""
    each = [[getattr(at, dual) > getattr(at, slack) for slack, dual in PAIRS] for at in points]
    return _Held(*(np.logical_or.reduce(sides) for sides in zip(*each, strict=True)))


def _with_a_cell_for_each_need(program: ArrowProgram, held: _Held, near: ArrowPoint) -> _Held:
    """Let jobs run where they make something only, and on one cell at least if their need holds.

    A job may need so little that an interior point takes its time for nothing.
    """
    x = held.x | (program.throughput <= 0)
    none = np.flatnonzero(held.met & x.all(axis=0))
    x[(program.throughput[:, none] * near.x[:, none]).argmax(axis=0), none] = False
    return held._replace(x=x)


def _largest(sides: Iterable[Floats | float]) -> float:
    """Return the largest size of any number."""
    return max(float(np.abs(each).max(initial=0.0)) for each in sides)


def _until_something_holds(
    near: ArrowPoint, held: _Held, rising: ArrowPoint
) -> tuple[ArrowPoint, _Held]:
    """Go on in a direction in which an objective rises: where to, and what holds from there on."""
    noise = _ZERO * float(np.abs(rising.x).max())
    ratios = []
    for (slack, _), holds in zip(PAIRS, held, strict=True):
        change = getattr(rising, slack)
        left = np.maximum(getattr(near, slack), 0.0)
        falls = ~holds & (change < -noise)
        ratios.append(np.divide(left, -change, out=np.full_like(left, np.inf), where=falls))
    step = min(float(each.min(initial=np.inf)) for each in ratios)
    if not np.isfinite(step):
        return near, _Held(*map(np.zeros_like, held))
    moved = {
        slack: np.maximum(getattr(near, slack) + step * getattr(rising, slack), 0.0)
        for slack, _ in PAIRS
    }
    return replace(near, **moved), _Held(*(each <= step * (1 + _TIED) for each in ratios))


class _Equations:
    """The conditions of optimality for some constraints that hold, whatever the objective."""

    def __init__(self, program: ArrowProgram, held: _Held) -> None:
        self.program, self.held = program, held
        T, U = program.throughput, program.usage
        cells = np.where(held.x, 0.0, 1.0 / program.squares)
        own = (
            np.einsum("jm,jm,jm->m", T, T, cells),
            cells.sum(axis=0),
            program.held(U * U * cells),
        )
        met, idle, free = (
            np.where(holds, _REGULAR * np.maximum(each, _REGULAR), _NEVER)
            for holds, each in zip(held[1:], own, strict=True)
        )
        limit = ArrowPoint(
            x=np.ones_like(T),
            level=0.0,
            met=met,
            idle=idle,
            free=free,
            need=np.ones_like(met),
            time=np.ones_like(idle),
            price=np.ones_like(free),
            cost=np.where(held.x, _NEVER, 0.0),
        )
        self.system = Eliminated(program, limit)
        self.still = [np.zeros_like(getattr(limit, slack)) for slack, _ in PAIRS]

    def solve(self, right: Residuals) -> _Stage:
        """Solve for one objective, and refine what comes out."""
        held, at = self.held, self.system.solve(self._of_held(right), self.still)
        rest, before, least = self._rest(right, at), np.inf, _ROUNDING * _largest(right)
        for _ in range(_REFINEMENTS):
            missing = self._of_held(rest)
            error = _largest(missing)
            if error <= least or error > before / 2:
                break
            step, before = self.system.solve(missing, self.still), error
            for name in _UNKNOWN:
                setattr(at, name, getattr(at, name) + getattr(step, name))
            rest = self._rest(right, at)
        at.x[held.x], at.cost = 0.0, np.where(held.x, -rest.stationary, 0.0)
        at.met = np.where(held.met, 0.0, -rest.need)
        at.idle, at.free = (
            np.where(holds, 0.0, left)
            for holds, left in ((held.idle, rest.time), (held.free, rest.capacity))
        )
        if not self.program.reward:
            self._let_time_repeat_needs(at)
        return _Stage(right, at, self._made_of(right, at))

    def _let_time_repeat_needs(self, at: ArrowPoint) -> None:
        """Let a job that needs all of its time, on its fastest cells, pay for both what it takes.

        Either may be worth any more, if the other is: so much that no other cell is worth it.
        """
        T, held = self.program.throughput, self.held
        slowest = np.where(held.x, np.inf, T).min(axis=0)
        forced = held.met & held.idle & (slowest >= T.max(axis=0) * (1 - _ZERO))
        jobs = np.flatnonzero(forced)
        if not jobs.size:
            return
        fast, cost = slowest[jobs], at.cost[:, jobs]
        slower = np.where(held.x[:, jobs], np.maximum(fast - T[:, jobs], 0.0), 0.0)
        more = np.maximum(np.maximum(-at.need[jobs], -at.time[jobs] / fast), 0.0)
        lacking = np.divide(-cost, slower, out=np.zeros_like(cost), where=(cost < 0) & (slower > 0))
        more = np.maximum(more, lacking.max(axis=0))
        at.need[jobs] += more
        at.time[jobs] += more * fast
        at.cost[:, jobs] += more * slower

    def _rest(self, right: Residuals, at: ArrowPoint) -> Residuals:
        """Right-hand sides minus left-hand sides, of what holds and of all else."""
        program = self.program
        pull = at.need * program.throughput
        pull -= at.time
        pull -= program.usage * at.price[program.resource][:, None]
        pull -= program.squares * at.x
        made = np.einsum("jm,jm->m", program.throughput, at.x)
        return Residuals(
            need=right.need + program.rate * at.level - made,
            time=right.time - at.x.sum(axis=0),
            capacity=right.capacity - program.held(program.usage * at.x),
            stationary=right.stationary + pull,
            level=right.level - float(program.rate @ at.need),
        )

    def _of_held(self, rest: Residuals) -> Residuals:
        """Leave out the equations of what does not hold, and of the level if it is given."""
        held = self.held
        return Residuals(
            need=np.where(held.met, rest.need, 0.0),
            time=np.where(held.idle, rest.time, 0.0),
            capacity=np.where(held.free, rest.capacity, 0.0),
            stationary=np.where(held.x, 0.0, rest.stationary),
            level=rest.level if self.program.reward else 0.0,
        )

    def _made_of(self, right: Residuals, at: ArrowPoint) -> Floats:
        """Size of the numbers that the dual values of cells are made of."""
        program = self.program
        size = np.abs(at.need) * program.throughput
        size += np.abs(at.time)
        size += program.usage * np.abs(at.price)[program.resource][:, None]
        size += np.abs(program.squares * at.x) + np.abs(right.stationary)
        return np.asarray(size + _OF_JOB * size.max(axis=0))

    def rises(self, stage: _Stage) -> bool:
        """Whether there is a direction in which an objective gets better."""
        return bool((np.abs(self.program.squares * stage.at.x) > _PRICED * stage.size).any())

    def violated(self, last: _Stage) -> _Held:
        """Tell what constraints the solution of the last objective does not meet."""
        at, needed = last.at, self._needed(last)
        least = _ZERO * np.abs(at.x).max(axis=0), _ZERO * needed, _ZERO, _ZERO
        pairs = zip(PAIRS, self.held, least, strict=True)
        return _Held(*(~holds & (getattr(at, name) < -size) for (name, _), holds, size in pairs))

    def overpaid(self, stages: Sequence[_Stage]) -> _Held:
        """Tell what should not hold: constraints whose first dual value that counts is negative.

        Cells only if there is nothing else: where needs, times and capacities repeat each other,
        with one less of them the dual values of cells may be others.
        """
        signs = [np.zeros(each.shape) for each in self.held]
        for stage in stages:
            for sign, (_, dual), least in zip(signs, PAIRS, self._least(stage), strict=True):
                value = getattr(stage.at, dual)
                counts = (sign == 0) & (np.abs(value) > least)
                sign[counts] = np.sign(value[counts])
        found = _Held(*(holds & (sign < 0) for holds, sign in zip(self.held, signs, strict=True)))
        rows = any(each.any() for each in found[1:])
        return found._replace(x=np.zeros_like(found.x)) if rows else found

    def _least(self, stage: _Stage) -> tuple[Floats, Floats, Floats, Floats]:
        """Least dual values that count, in the order of `PAIRS`."""
        program, size = self.program, _PRICED * stage.size
        largest = np.where(self.held.x, 0.0, size).max(axis=0)
        fastest = np.where(self.held.x, 0.0, program.throughput).max(axis=0)
        needs = np.divide(largest, fastest, out=np.zeros_like(largest), where=fastest > 0)
        used = np.zeros(program.resources)
        np.maximum.at(used, program.resource, program.usage.max(axis=1))
        return size, needs, largest, size.max() / used

    def _needed(self, last: _Stage) -> Floats:
        """Return what each job needs at the level that was found, or given."""
        return np.asarray(last.right.need + self.program.rate * last.at.level)

    def met(self, last: _Stage) -> bool:
        """Whether what should hold does."""
        rest, needed = self._of_held(self._rest(last.right, last.at)), self._needed(last)
        part = np.divide(rest.need, needed, out=np.zeros_like(needed), where=needed > 0)
        return _largest((part * (_ACCEPTED / _NEEDED), rest.time, rest.capacity)) <= _ACCEPTED
