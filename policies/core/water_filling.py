"""Water filling: raise all levels together, freeze what cannot rise, go on with the rest.

All active jobs rise along a path: at a height each has a level, up to what it makes with all of its
time, where it stops and the others go on without it. The largest part t of the levels of a height
that an allocation can have, and the dual values y of these levels, are a linear program's::

    max t  such that  u(x) >= t * level(height),       sum of y * u(x) <= t  for every allocation

The next height is the last one whose levels are within that bound; heights approach the last that
is possible from above, and end there in a few programs (Newton's method). Whoever has y > 0 there
can rise no further in any allocation that leaves the others what they have: it is frozen, and the
others go on. At least one job is, so there are at most as many such levels as jobs.

Levels build upon each other, and little may be left of one for the next. What rounding errors may
have done to them is counted; if it may show, all is done once more in fractions
(`apportion.policies.core.level_program`), in which a job rises or does not.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import cvxpy as cp
import numpy as np

from apportion.errors import InputError, SolveError
from apportion.policies.core.certificate import make_feasible, relative_gap
from apportion.policies.core.faces import least_duals
from apportion.policies.core.forms import SpeedProblem, stated_form
from apportion.policies.core.general import Statement, evenness, most_even, optimum_of, over_earlier
from apportion.policies.core.level_program import EXACT, TIE, LevelProgram, fractions
from apportion.policies.problem import Problem
from apportion.policies.solution import Attempted

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.core.canonical import Point
    from apportion.policies.instance import Instance
    from apportion.policies.water_filling import Rates
    from apportion.types import Bools, Floats

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
"""Jobs up to which levels are proved in fractions, and ties are evened."""
_MOST_STEPS = 200


class Path(Protocol):
    """Levels of jobs by one height; numbers are floats or fractions."""

    def begin(self, active: Bools, level: Any, most: Any) -> Any:
        """Start from levels of which some are frozen; return a height to begin with.

        `most` is what each job makes if it runs all the time.
        """
        ...

    def at(self, height: Any) -> tuple[Any, Any, Bools]:
        """Return all levels at a height, how fast they rise there, and who makes all it can."""
        ...

    def last(self, dual: Any, bound: Any) -> Any:
        """Return the last height at which ``dual @ level <= bound``."""
        ...


class Together:
    """Levels ``rate t / (1 - offset t)``, as of objectives about the worst off job.

    That is the throughput at which ``offset + rate / u`` is 1 / t, or without offsets ``u / rate``
    is t.
    """

    def __init__(self, rate: Any, offset: Any) -> None:
        self._rate, self._offset = rate, offset

    def begin(self, active: Bools, level: Any, most: Any) -> Any:
        """Begin where the first one makes all that it can."""
        self._active, self._frozen, self._most = active, level, most
        rate, offset = self._rate, self._offset
        with np.errstate(invalid="ignore", divide="ignore"):
            own, limit = most / (rate + offset * most), 1 / np.where(offset > 0, offset, _NOTHING)
        self._own = np.where(most < np.inf, own, np.where(offset > 0, limit, np.inf))
        self._first, self._top = self._own[active].min(), self._own[active].max()
        return self._first if self._first < np.inf else level[0] * 0 + 1

    def at(self, height: Any) -> tuple[Any, Any, Bools]:
        """Return all levels at a height, how fast they rise there, and who makes all it can."""
        rises = self._active & (self._own > height)
        left = np.where(rises, 1 - self._offset * height, 1)
        level = np.where(rises, self._rate * height / left, self._most)
        rise = np.where(rises, self._rate / left**2, 0)
        return np.where(self._active, level, self._frozen), rise, self._active & ~rises

    def last(self, dual: Any, bound: Any) -> Any:
        """Go from tangent to tangent, or to the middle where one leads out (Newton's method)."""
        low, high = 0, self._top
        height = self._first if self._first < np.inf else self._frozen[0] * 0 + 1
        if high < np.inf and dual @ self.at(high)[0] <= bound:
            return high
        for _ in range(_MOST_STEPS):
            level, rise, _ = self.at(height)
            over, slope = dual @ level - bound, dual @ rise
            low, high = (low, height) if over > 0 else (height, high)
            new = height - over / slope if slope > 0 else low
            if not low < new < high:
                new = (low + high) / 2 if high < np.inf else 2 * height
            last, height = height, _cut(new)
            if abs(height - last) <= _still(height):
                break
        return height


class PassedOn:
    """Levels that rise at rates; they change where a job stops.

    Parameters
    ----------
    rates
        How fast levels rise, given who can; floats.
    """

    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    def begin(self, active: Bools, level: Any, most: Any) -> Any:
        """Begin where the first one makes all that it can."""
        self._most = most
        self._heights, self._stops = [level[0] * 0], [(active, level, self._speed(active))]
        self._start = active
        self._goes_on()
        return self._heights[-1] if len(self._heights) > 1 else level[0] * 0 + 1

    def _speed(self, active: Bools) -> Any:
        """Return the rates, as fractions if levels are."""
        rate = self._rates(active) if active.any() else np.zeros(active.size)
        return fractions(rate) if self._most.dtype == object else rate

    def _goes_on(self) -> bool:
        """Find the next stop; False if nobody will."""
        active, level, rate = self._stops[-1]
        rising = rate > 0
        left = np.full(rate.size, np.inf, dtype=self._most.dtype)
        left[rising] = (self._most[rising] - level[rising]) / rate[rising]
        step = left.min()
        if step == np.inf:
            return False
        stopped = left <= step
        level = np.where(stopped, self._most, level + rate * max(step, 0))
        active = active & ~stopped
        self._heights.append(self._heights[-1] + max(step, 0))
        self._stops.append((active, level, self._speed(active)))
        return True

    def at(self, height: Any) -> tuple[Any, Any, Bools]:
        """Return all levels at a height, how fast they rise there, and who makes all it can."""
        while self._heights[-1] <= height and self._goes_on():
            pass
        place = bisect_right(self._heights, height) - 1
        active, level, rate = self._stops[place]
        return level + rate * (height - self._heights[place]), rate, self._start & ~active

    def last(self, dual: Any, bound: Any) -> Any:
        """Go from stop to stop."""
        place = 0
        while place + 1 < len(self._stops) or self._goes_on():
            if dual @ self._stops[place + 1][1] > bound:
                break
            place += 1
        _, level, rate = self._stops[place]
        slope, over = dual @ rate, bound - dual @ level
        if not slope > 0:
            return self._heights[place]
        return _cut(self._heights[place] + max(over, 0) / slope)


def _cut(number: Any) -> Any:
    """Return a fraction to so many digits, a float as it is."""
    whole = 1 << 400
    return Fraction(int(number * whole), whole) if isinstance(number, Fraction) else number


def _still(height: Any) -> Any:
    """Return by how much a height moves that rounding errors move."""
    return height * (Fraction(1, 1 << 300) if isinstance(height, Fraction) else 1e-16)


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
    steps
        Linear programs.
    open, tight
        Columns that need not be 0 in all such allocations; rows that are tight in them.
    """

    level: Floats
    most: Floats
    doubt: float
    first: _Stop | None
    steps: int
    open: Bools
    tight: Bools


class _Stop(NamedTuple):
    """The last height for which there is room, and what proves it.

    Attributes
    ----------
    height, own
        Where it is, and where the first job makes all it can (infinite if none does).
    level, rise, full
        Levels there, how fast they rise, and who makes all it can, shape (jobs,) each.
    dual, over
        ``sum of dual * u <= sum of dual * level + over`` in every allocation; floats.
    open, tight
        Columns without a reduced cost at these, rows with a dual value.
    point
        That has these levels.
    """

    height: Any
    own: float
    level: Any
    rise: Floats
    full: Bools
    dual: Floats
    over: float
    open: Bools
    tight: Bools
    point: Point


def _last_with_room(
    program: LevelProgram, path: Path, active: Bools, level: Any, most: Any
) -> _Stop:
    """Rise until there is room for nothing higher."""
    exact, first = level.dtype == object, path.begin(active, level, most)
    tie, rounding, close = (TIE, EXACT, 2.0**-90) if exact else (_TIE, 2.0**-52, 1e-13)
    own = float(first) if path.at(first)[2].any() else np.inf
    dual: Any
    bound: Any
    dual, bound = program.worth
    dual, bound = (fractions(dual), Fraction(bound)) if exact else (dual, bound)
    error, (open_, tight) = 0.0, program.every
    height = path.last(dual, bound)
    height, sure = (height, True) if height < np.inf else (first, False)
    for _ in range(_MOST_STEPS):
        wanted, rise, full = path.at(height)
        if not (wanted > 0).any():
            break
        part, new = program.maximise(wanted, exact=exact)
        if sure and 1 - part <= close:
            break
        dual, bound, error = new, part * (new @ wanted), program.error
        open_, tight = program.reduced <= tie, program.y > tie
        higher = path.last(dual, bound)
        if sure and higher >= height:
            break
        height, sure = higher, True
    over = abs(float(bound - dual @ wanted)) + (error + rounding) * float(bound)
    dual, rise = (np.asarray(each, dtype=float) for each in (dual, rise))
    return _Stop(height, own, wanted, rise, full, dual, over, open_, tight, program.point())


def fill(program: LevelProgram, path: Path, *, exact: bool) -> Filled:
    """Raise levels along a path until nobody can rise any further, in floats or in fractions.

    Raises
    ------
    SolveError
        If a level was not found.
    """
    open_, tight = program.every
    most = program.most(open_, exact=exact)
    size = np.where(most < np.inf, most, 0)
    level, size = 0 * size, size.astype(float)
    counts = TIE if exact else _COUNTS
    active, err, first = np.ones(size.size, dtype=bool), 0 * size, None
    while (active := active & (level < most)).any():
        stop = _last_with_room(program, path, active, level, most)
        cost = stop.dual * active
        worth = cost * np.where(most < np.inf, size, float(stop.level.max()))
        priced = (worth > counts * worth.max()) & ~stop.full
        stopped = priced | stop.full
        if not stopped.any():
            raise SolveError("Water filling found nobody who can rise no further.")
        first = first or stop
        # By so much may all together, at their dual values, have more than is said.
        over = stop.over + stop.dual @ np.where(active, 0.0, err)
        alone, all_ = np.where(priced, cost, np.inf), float(cost @ stop.rise)
        by = np.maximum(over / alone, stop.rise * (over / all_ if all_ > 0 else 0.0))
        err = np.where(active, np.maximum(err, by), err)
        open_, tight = open_ & stop.open, tight | stop.tight
        level, active = np.where(active, stop.level, level), active & ~stopped
        most = program.most(open_, exact=exact)  # what others have leaves only these to them
    reached = level.astype(float)
    worst = _FIRST_ORDER * _part(err, reached, size)
    return Filled(reached, size, worst, first, program.solved, open_, tight)


class _Rising(NamedTuple):
    """What rises under a policy, and how.

    Attributes
    ----------
    utility
        What rises, shape (jobs,).
    rate, offset
        ``offset + rate / utility`` is what the worst off job has most of, or ``utility / rate``
        least of where `inverse` is not so; shape (jobs,) each.
    inverse
        Which of them.
    rates
        How fast utilities rise, of a policy that passes rates on.
    inexact
        Relative error of these numbers.
    """

    utility: cp.Expression
    rate: Floats
    offset: Floats
    inverse: bool
    rates: Rates | None
    inexact: float

    @classmethod
    def of(cls, policy: Policy, p: Problem) -> _Rising:
        """Ask a policy that passes rates on, or read its objective."""
        if hasattr(policy, "rates") and hasattr(policy, "utility"):
            rates = policy.rates(p)
            rate = rates(np.ones(p.count.size, dtype=bool))
            return cls(policy.utility(p), rate, 0 * rate, False, rates, p.inexact)
        speeds = SpeedProblem(p.instance)
        form = stated_form(policy, speeds)
        if form is None or not form.about_worst:
            raise InputError(
                f"{policy!r} is lexicographic, and its objective has no levels of jobs: maximise "
                "cp.min of a multiple of p.throughput, or minimise cp.max over its inverse."
            )
        inverse = form.kind == "inverse"
        rate = form.k if inverse else 1 / form.k
        return cls(p.throughput, rate, form.offset, inverse, None, speeds.inexact)

    def path(self, *, exact: bool) -> Path:
        """Return how jobs rise, in floats or in fractions."""
        if self.rates is not None:
            return PassedOn(self.rates)
        told = fractions if exact else np.asarray
        return Together(told(self.rate), told(self.offset))

    def objective(self, made: Floats) -> float:
        """Return the first level at some utilities."""
        rises = self.rate > 0
        if not self.inverse:
            return float((made[rises] / self.rate[rises]).min())
        return float((self.offset + self.rate / np.maximum(made, 1e-300)).max())


def solve(policy: Policy, instance: Instance, *, second_stage: bool) -> Attempted:
    """Find the lexicographic optimum of a policy, and the most even allocation that has its levels.

    Where a job has its level whatever the allocation there is nothing left to spend.

    Raises
    ------
    InfeasibleError, InputError, SolveError
        If the policy's constraints cannot hold together or are not linear, it states no levels, or
        one of these was not found.
    """
    clock, p, step = [time.perf_counter()], Problem(instance), cp.Variable(name="step")
    rising = _Rising.of(policy, p)
    stated = Statement.about(policy, p, cp.Maximize(step))
    demand = rising.utility >= cp.multiply(np.ones(instance.jobs), step)
    stated = stated._replace(constraints=[demand, *stated.constraints])
    compiled = stated.compiled(policy)
    if not compiled.is_linear:
        raise InputError(f"{policy!r} is lexicographic: its constraints must be linear.")
    if stated.earlier:
        compiled, _ = over_earlier(policy, stated, compiled.scaled())
    clock.append(time.perf_counter())
    program = LevelProgram(compiled, compiled.columns[step.id], instance.hard.size, instance.jobs)
    try:
        filled = _filled(program, rising)
    except SolveError:
        optimum_of(policy, stated, compiled.scaled(), None)  # tells which constraints cannot hold
        raise
    clock.append(time.perf_counter())
    X, _ = stated.at(program.program, program.x)
    if second_stage and instance.jobs <= _FEW:
        X = _evened(stated, program, filled, rising.utility)
    clock.append(time.perf_counter())
    made, first = np.asarray(rising.utility.value, dtype=float), filled.first
    value, bound, prices = rising.objective(made), 0.0, np.zeros(instance.capacity.size)
    if first is not None:
        height = min(float(first.height), first.own)
        bound = 1 / height if rising.inverse and height > 0 else height
        if first.own > float(first.height) * (1 + _TIE):
            prices[instance.hard] = _prices(program, first, instance.capacity[instance.hard])
            prices *= bound**2 if rising.inverse else 1.0
    missed = _missed(rising.utility, filled.level, filled.most)
    gap = max(relative_gap(value, bound), filled.doubt, missed, p.inexact, rising.inexact)
    stats = {
        "solver": "highs",
        "rows": instance.rows,
        "steps": filled.steps,
        **dict(zip(("compile_s", "solve_s", "second_stage_s"), np.diff(clock), strict=True)),
    }
    return Attempted(X, value, gap, prices, stats)


def _filled(program: LevelProgram, rising: _Rising) -> Filled:
    """Fill in floats, and once more in fractions where these may have led astray."""
    few = program.rows.size <= _FEW
    try:
        filled = fill(program, rising.path(exact=False), exact=False)
    except SolveError as error:
        if not few:
            raise
        _LOG.info("filled in fractions: %s", error)
    else:
        if filled.doubt <= _CERTAIN or not few:
            return filled
    return fill(program, rising.path(exact=True), exact=True)


def _prices(program: LevelProgram, first: _Stop, capacity: Floats) -> Floats:
    """Return by how much one more unit of each resource raises the first level, the least ones."""
    rows, y, unit = np.arange(capacity.size), first.point.y, program.unit
    size = float((y[program.rows] * unit) @ first.rise)
    posed = program.posed(first.rise / size)
    x, b = first.point.x.copy(), posed.b.copy()
    x[program.column], b[program.rows] = (
        0.0,
        b[program.rows] - unit * np.asarray(first.level, dtype=float),
    )
    y = least_duals(replace(posed, b=b), replace(first.point, x=x), rows, capacity)
    return np.asarray(np.maximum(y[rows], 0.0) * posed.row[rows] / size)


def _evened(
    stated: Statement, program: LevelProgram, filled: Filled, utility: cp.Expression
) -> Floats:
    """Return the most even shares of time at which all have their levels, set in the variables."""
    p, posed, rows = stated.p, program.program, program.rows
    X, cells = np.asarray(p.X.value, dtype=float), stated.place(p.X, posed)
    room = posed.b - posed.A @ program.x
    room[rows] = np.inf
    if (program.x > _TIE)[cells][filled.open[cells]].all() and (filled.tight | (room > _TIE)).all():
        return X  # there is no other
    right, tight = posed.b.copy(), filled.tight.copy()
    right[rows] -= program.unit * filled.level
    tight[rows] = True
    lower, upper = posed.lower.copy(), np.where(filled.open, posed.upper, 0.0)
    lower[program.column] = upper[program.column] = 0.0
    face = replace(posed, b=right, equality=tight, lower=lower, upper=upper)
    weight = evenness(p.instance).ravel(order="F") * posed.column[cells] ** 2
    even, _ = stated.at(face, most_even(face, cells, weight).x)
    p.X.value = even = _at_their_levels(even, p, utility, filled.level)
    if _missed(utility, filled.level, filled.most) > _TIE:
        p.X.value = even = X
    return even


def _at_their_levels(X: Floats, p: Problem, utility: cp.Expression, level: Floats) -> Floats:
    """Scale the time of each job until it has its level, which rounding errors may be much of."""
    p.X.value = X
    if p.instance.solo:
        has = np.asarray(utility.value, dtype=float)
        X = X * np.divide(level, has, out=np.ones_like(has), where=has > 0)[:, None]
    return make_feasible(X, p.instance)


def _missed(utility: cp.Expression, level: Floats, most: Floats) -> float:
    """Return by what part of itself a level is missed, at most."""
    off = np.abs(np.asarray(utility.value, dtype=float) - level)
    return _part(off, level, most)


def _part(off: Floats, level: Floats, most: Floats) -> float:
    """Return the largest part of a level that is off, or of what a job could make without one."""
    return float((off / np.maximum(np.where(level > _NOTHING * most, level, most), 1e-300)).max())
