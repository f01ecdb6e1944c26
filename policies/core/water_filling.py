"""Water filling: raise all levels together, freeze what cannot rise, go on with the rest.

All active jobs rise along a path: at a height each has a level, up to what it makes with all of its
time, where it stops and the others go on without it. The largest part t of the levels of a height
that an allocation can have, where frozen jobs keep theirs, is a linear program's, and its dual
values y bound the levels of every other allocation::

    max t  such that  u(x) >= t * level(height),  or >= level of a frozen job
    sum of y * u(x) <= t * sum of y * level over active jobs + sum of y * level over frozen ones

The next height is the last one whose levels are within that bound; heights approach the last that
is possible from above, and end there in a few programs (Newton's method). Whoever has y > 0 there
can rise no further in any allocation that leaves the others what they have: it is frozen, and the
others go on. At least one job is, so there are at most as many such levels as jobs.

Levels build upon each other, and little may be left of one for the next. What rounding errors may
have done to the heights is counted; if it may show, all is done once more in decimals of 120 digits
(`apportion.policies.core.level_program`), in which a job rises or does not.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass, replace
from decimal import localcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np

from apportion.errors import InputError, SolveError
from apportion.policies.core.certificate import make_feasible, relative_gap
from apportion.policies.core.faces import least_duals
from apportion.policies.core.forms import SpeedProblem, stated_form
from apportion.policies.core.general import Statement, evenness, most_even, optimum_of, over_earlier
from apportion.policies.core.level_program import EXACT, PRECISE, TIE, LevelProgram, decimals
from apportion.policies.problem import Problem
from apportion.policies.solution import Attempted

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.base import Policy
    from apportion.policies.core.canonical import Point
    from apportion.policies.instance import Instance
    from apportion.types import Bools, Floats

Rates: TypeAlias = "Callable[[Bools], Floats]"
"""How fast jobs climb, given which can: 0 for those that are not, and not 0 for all."""
_LOG = logging.getLogger(__name__)
_CERTAIN = 1e-9
"""Doubt in a level with which rounding errors are of no account."""
_FIRST_ORDER = 10.0
"""Errors are worked out to first order, and some that hang on each other are larger."""
_NOTHING = 1e-12
"""Part of all that a job could make below which it has nothing: shares of time end there."""
_TIE = 1e-9
"""Dual value of a vertex that may be zero."""
_COUNTS = 1e-7
"""Part of the largest dual value from which on one counts. Whoever is wrongly left out is frozen by
the next program, in which nobody rises and it has the largest."""
_FEW = 200
"""Jobs up to which levels are proved in decimals, and ties are evened."""
_MOST_STEPS = 200


@dataclass(eq=False)
class Path:
    """Levels of jobs by one height; numbers are floats or decimals.

    Each job climbs at its rate, and where it has climbed h its level is
    ``factor * h / (1 - offset * h)``. Rates change where a job makes all that it can, and stops.

    Attributes
    ----------
    rates
        How fast jobs climb, given who can; floats.
    factor, offset
        Shape (jobs,) each.
    """

    rates: Rates
    factor: Any
    offset: Any

    def in_decimals(self) -> Path:
        """Return the same path in decimals."""
        return Path(self.rates, decimals(self.factor), decimals(self.offset))

    def begin(self, active: Bools, level: Any, most: Any) -> tuple[Any, bool]:
        """Start from levels of which some are frozen; return where the first job stops, if any.

        `most` is what each job makes if it runs all the time.
        """
        self._frozen, self._most, self._start = level, most, active
        self._top = np.where(most < np.inf, self._climbed(most), np.inf)
        self._pieces = [(level[0] * 0, self._climbed(level), self._rates(active), active)]
        stops = self._goes_on()
        return (self._pieces[-1][0] if stops else level[0] * 0 + 1), stops

    def _climbed(self, level: Any) -> Any:
        return level / (self.factor + self.offset * level)

    def _rates(self, active: Bools) -> Any:
        """Return the rates, as decimals if levels are."""
        rate = self.rates(active) if active.any() else np.zeros(active.size)
        return decimals(rate) if self._most.dtype == object else rate

    def _goes_on(self) -> bool:
        """Find the next stop; False if nobody will."""
        height, climbed, rate, active = self._pieces[-1]
        rises = (rate > 0) & (self._top < np.inf)
        if not rises.any():
            return False
        left = (self._top[rises] - climbed[rises]) / rate[rises]
        step = max(left.min(), 0)
        stopped = np.zeros(active.size, dtype=bool)
        stopped[rises] = left <= step
        climbed = np.where(stopped, self._top, climbed + rate * step)
        active = active & ~stopped
        self._pieces.append((height + step, climbed, self._rates(active), active))
        return True

    def _in_piece(self, piece: Any, height: Any) -> tuple[Any, Any]:
        """Return levels on a piece of the path, and how fast they rise."""
        begins, climbed, rate, active = piece
        climbed = climbed + rate * (height - begins)
        left = np.where(active, 1 - self.offset * climbed, 1)
        level = np.where(active, self.factor * climbed / left, self._most)
        return np.where(self._start, level, self._frozen), rate * self.factor / left**2

    def at(self, height: Any) -> tuple[Any, Any, Bools]:
        """Return all levels at a height, how fast they rise there, and who makes all it can."""
        while self._pieces[-1][0] <= height and self._goes_on():
            pass
        place = bisect_right(self._pieces, height, key=lambda piece: piece[0]) - 1
        piece = self._pieces[place]
        return *self._in_piece(piece, height), self._start & ~piece[3]

    def last(self, dual: Any, bound: Any) -> Any:
        """Return the last height at which ``dual @ level <= bound``: infinite if all are."""
        pieces = self._pieces

        def worth(piece: Any) -> Any:
            return dual @ self._in_piece(piece, piece[0])[0]

        place = max(bisect_right(pieces, bound, key=worth) - 1, 0)
        ends = place + 1 < len(pieces)
        while not ends and self._goes_on():
            ends = bool(worth(pieces[-1]) > bound)
            place += not ends
        begins, height = pieces[place][0], pieces[place + ends][0]
        for turn in range(_MOST_STEPS):  # Newton's method: levels are convex between stops
            level, rise = self._in_piece(pieces[place], height)
            slope = dual @ rise
            if not slope > 0:
                return begins if ends or not rise.any() else np.inf
            new = height - (dual @ level - bound) / slope
            if turn and not new < height:
                break
            height = max(new, begins)
        return height

    def height_of(self, level: Floats) -> float:
        """Return the height that all have reached at least, of those who climb first; floats."""
        rate = self.rates(np.ones(level.size, dtype=bool))
        return float((self._climbed(level) / np.where(rate > 0, rate, np.nan))[rate > 0].min())


class Filled(NamedTuple):
    """Levels that no job can exceed unless another one has less that has no more.

    Attributes
    ----------
    level, most
        Shape (jobs,), and what each job makes at most, 0 if that is not known; floats.
    doubt
        By what part of itself a level may be off, at most.
    first
        Where the first level ended; ``None`` if no job can have anything.
    open
        Columns and slacks that need not be 0 in all such allocations.
    point
        One of them.
    """

    level: Floats
    most: Floats
    doubt: float
    first: _Stop | None
    open: Bools
    point: Point


class _Stop(NamedTuple):
    """The last height for which there is room, and what proves it.

    Attributes
    ----------
    height
        Where it is, or where the first job makes all it can.
    scarce
        Whether no job makes all it can below.
    level, rise, full
        Levels there, how fast they rise, and who makes all it can, shape (jobs,) each.
    dual, over
        ``sum of dual * u <= sum of dual * level + over`` in every allocation; floats.
    open
        Columns and slacks without a reduced cost at these.
    point
        That has these levels.
    """

    height: float
    scarce: bool
    level: Any
    rise: Floats
    full: Bools
    dual: Floats
    over: float
    open: Bools
    point: Point


def _last_with_room(
    program: LevelProgram, path: Path, active: Bools, level: Any, most: Any
) -> _Stop:
    """Rise until there is room for nothing higher."""
    exact = level.dtype == object
    tie, rounding, close = (TIE, EXACT, 1e-27) if exact else (_TIE, 2.0**-52, 1e-13)
    first, stops = path.begin(active, level, most)
    height, sure, error, open_ = first, False, 0.0, program.every
    dual, bound, held = 0 * level, level[0] * 0, np.where(active, 0 * level, level)
    for _ in range(_MOST_STEPS):
        reached, rise, full = path.at(height)
        wanted = np.where(active, reached, 0 * level)
        if not (wanted > 0).any():
            break
        part, new = program.maximise(held, wanted)
        if sure and 1 - part <= close:
            break
        made = part * (new @ wanted)
        dual, bound, error = new, made + new @ held, program.error * float(made)
        open_ = program.reduced <= tie
        higher = path.last(dual, bound)
        if sure and higher >= height:
            break
        height, sure = (higher, True) if higher < np.inf else (2 * height, False)
    over = abs(float(bound - dual @ reached)) + error + rounding * float(bound)
    dual, rise = (np.asarray(each, dtype=float) for each in (dual, rise))
    first, height = float(first) if stops else np.inf, float(height)
    scarce, lowest = first > height * (1 + _TIE), min(first, height)
    return _Stop(lowest, scarce, reached, rise, full, dual, over, open_, program.point)


def fill(program: LevelProgram, path: Path, *, exact: bool) -> Filled:
    """Raise levels along a path until nobody can rise any further, in floats or in decimals.

    Raises
    ------
    SolveError
        If a level was not found.
    """
    open_, counts = program.every, TIE if exact else _COUNTS
    most = program.most(open_, exact=exact)
    size = np.where(most < np.inf, most, 0)
    level, size = 0 * size, size.astype(float)
    active, err, first = np.ones(size.size, dtype=bool), 0 * size, None
    while (active := active & (level < most)).any():
        stop = _last_with_room(program, path, active, level, most)
        cost = stop.dual * active
        worth = cost * np.where(most < np.inf, size, float(stop.level.max()))
        priced = active & (worth > counts * worth.max()) & ~stop.full
        stopped = priced | stop.full
        if not stopped.any():
            raise SolveError("Water filling found nobody who can rise no further.")
        first = first or stop
        # By so much may all together, at their dual values, have more than is said.
        over = stop.over + stop.dual @ np.where(active, 0.0, err)
        speed = cost @ (priced * stop.rise)
        if speed > 0:
            rises = active & (stop.rise > 0)  # 0 times what has no bound would be none
            err[rises] = np.maximum(err[rises], stop.rise[rises] * (over / speed))
        open_ = open_ & stop.open
        level, active = np.where(active, stop.level, level), active & ~stopped
        most = program.most(open_, exact=exact)  # what others have leaves only these to them
    reached = level.astype(float)
    doubt = _FIRST_ORDER * _part(err, reached, size)
    return Filled(reached, size, doubt, first, open_, program.point)


def _all_alike(active: Bools) -> Floats:
    """Climb all at 1."""
    return active.astype(float)


def _rising(policy: Policy, p: Problem) -> tuple[cp.Expression, Path, bool, float]:
    """Ask a policy that passes rates on, or read its objective.

    Returns
    -------
    utility, path
        What rises, and how.
    inverse
        Whether the inverse of the height is the objective.
    inexact
        Relative error of the numbers.
    """
    if hasattr(policy, "rates") and hasattr(policy, "utility"):
        one = np.ones(p.count.size)
        path = Path(policy.rates(p), one, 0 * one)
        return policy.utility(p), path, False, p.inexact
    speeds = SpeedProblem(p.instance)
    form = stated_form(policy, speeds)
    if form is None or not form.about_worst:
        raise InputError(
            f"{policy!r} is lexicographic, and its objective has no levels of jobs: maximise "
            "cp.min of a multiple of p.throughput, or minimise cp.max over its inverse."
        )
    inverse = form.kind == "inverse"
    path = Path(_all_alike, form.k if inverse else 1 / form.k, form.offset)
    return p.throughput, path, inverse, speeds.inexact


def solve(policy: Policy, instance: Instance, *, second_stage: bool) -> Attempted:
    """Find the lexicographic optimum of a policy, and the most even allocation that has its levels.

    Where a job has its level whatever the allocation there is nothing left to spend.

    Raises
    ------
    InfeasibleError, InputError, SolveError
        If the policy's constraints cannot hold together or are not linear, it states no levels, or
        one of these was not found.
    """
    p, step = Problem(instance), cp.Variable(name="step")
    utility, path, inverse, inexact = _rising(policy, p)
    stated = Statement.about(policy, p, cp.Maximize(step))
    demand = utility >= cp.multiply(np.ones(instance.jobs), step)
    stated = stated._replace(constraints=[demand, *stated.constraints])
    compiled = stated.compiled(policy)
    if not compiled.is_linear:
        raise InputError(f"{policy!r} is lexicographic: its constraints must be linear.")
    if stated.earlier:
        compiled, _ = over_earlier(policy, stated, compiled.scaled())
    hard = instance.hard
    times = slice(hard.size, hard.size + instance.jobs)
    program = LevelProgram(compiled, compiled.columns[step.id], times)
    try:
        filled = _filled(program, path)
    except SolveError:
        optimum_of(policy, stated, compiled.scaled(), None)  # tells which constraints cannot hold
        raise
    X, _ = stated.at(program.program, filled.point.x[: program.program.c.size])
    if second_stage and instance.jobs <= _FEW:
        X = _evened(stated, program, filled, utility)
    value, bound = path.height_of(np.asarray(utility.value, dtype=float)), 0.0
    prices = np.zeros(instance.capacity.size)
    if (first := filled.first) is not None:
        bound = first.height
        if first.scarce:
            prices[hard] = _prices(program, first, instance.capacity[hard])
    if inverse:
        value, bound = 1 / max(value, 1e-300), 1 / max(bound, 1e-300)
        prices *= bound**2
    gap = max(relative_gap(value, bound), filled.doubt, _missed(utility, filled), inexact)
    stats = {"solver": "highs", "rows": instance.rows, "steps": program.solved}
    return Attempted(X, value, gap, prices, stats)


def _filled(program: LevelProgram, path: Path) -> Filled:
    """Fill in floats, and once more in decimals where these may have led astray."""
    filled, failed = None, SolveError()
    for exact in (False, True) if program.rows.size <= _FEW else (False,):
        try:
            with localcontext(PRECISE):
                filled = fill(program, path.in_decimals() if exact else path, exact=exact)
        except SolveError as error:
            _LOG.info("levels in %s: %s", "decimals" if exact else "floats", error)
            failed = error
            continue
        if filled.doubt <= _CERTAIN:
            break
    if filled is None:
        raise failed
    return filled


def _prices(program: LevelProgram, first: _Stop, capacity: Floats) -> Floats:
    """Return by how much one more unit of each resource raises the first level, the least ones."""
    rows, point, posed = np.arange(capacity.size), first.point, program.program
    size = float((point.y[program.rows] * program.unit) @ first.rise)
    posed = program.posed(np.asarray(first.level, dtype=float), first.rise / size, posed)
    x = point.x[: posed.c.size].copy()
    x[program.column] = 0.0
    y = least_duals(posed, replace(point, x=x, exact=True), rows, capacity)
    return np.asarray(np.maximum(y[rows], 0.0) * posed.row[rows] / size)


def _evened(
    stated: Statement, program: LevelProgram, filled: Filled, utility: cp.Expression
) -> Floats:
    """Return the most even shares of time at which all have their levels, set in the variables."""
    p, posed, rows = stated.p, program.program, program.rows
    X, cells = np.asarray(p.X.value, dtype=float), stated.place(p.X, posed)
    open_ = filled.open.copy()
    open_[posed.c.size + rows] = False
    if (filled.point.x[open_] > _TIE).all():
        return X  # there is no other
    right, columns = posed.b.copy(), posed.c.size
    right[rows] -= program.unit * filled.level
    lower, upper = posed.lower.copy(), np.where(open_[:columns], posed.upper, 0.0)
    lower[program.column] = upper[program.column] = 0.0
    face = replace(posed, b=right, equality=~open_[columns:], lower=lower, upper=upper)
    weight = evenness(p.instance).ravel(order="F") * posed.column[cells] ** 2
    even, _ = stated.at(face, most_even(face, cells, weight).x)
    if p.instance.solo:  # rounding errors may be much of a level
        has = np.asarray(utility.value, dtype=float)
        even = even * np.divide(filled.level, has, out=np.ones_like(has), where=has > 0)[:, None]
    p.X.value = even = make_feasible(even, p.instance)
    if _missed(utility, filled) > _TIE:
        p.X.value = even = X
    return even


def _missed(utility: cp.Expression, filled: Filled) -> float:
    """Return by what part of itself a level is missed, at most."""
    off = np.abs(np.asarray(utility.value, dtype=float) - filled.level)
    return _part(off, filled.level, filled.most)


def _part(off: Floats, level: Floats, most: Floats) -> float:
    """Return the largest part of a level that is off, or of what a job could make without one."""
    return float((off / np.maximum(np.where(level > _NOTHING * most, level, most), 1e-300)).max())
