"""A walk over the prices of types until what jobs choose at them fills the types.

It is the simplex method on the dual of ::

    max over x of sum of v * x,  such that  sum of g * x <= W of each type,
                                 sum over options of x <= 1 for each job,  x >= 0

which is convex, and linear between ties::

    min over p >= 0 of W @ p + sum over jobs of max(0, max over options of v - g p)

Every p is feasible, so that any prices are a place to begin; those of a moment ago are near. The
state is of the size of the types, not of the jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.types import Bools, Floats, Ints

_STEPS = 400
_MISSED = 1e-10
"""By how much, in whole times, a share may be below nothing or a type be short."""
_LEVEL = 1e-11
"""Slopes below it, beside GPUs around 1, are none."""
_FULL = 1e-9
"""Shares up to it are none."""
_ALIKE = 1e-12
"""Part of what an option adds by which a tie may miss being one."""


class Tie(NamedTuple):
    """A job to which a second option is worth as much as its base."""

    job: int
    base: int
    option: int


class PriceWalk:
    """The prices, what each job takes at them, and as many ties as there are types.

    Each job has a *base*, an option or none. A tie is a second option of a job that is worth as
    much to it as its base, or a type of price 0 that need not be full; before the walk has come to
    either, a price held where it began, at which the type is to be full.

    Parameters
    ----------
    adds
        What a job adds on an option, minus infinity where it cannot run, shape (jobs, options).
    gpus
        GPUs that it holds there, shape (jobs, options).
    kind
        Type of each option, shape (options,).
    capacity
        GPUs of each type, above 0, shape (types,).

    Attributes
    ----------
    prices
        Per GPU of each type, shape (types,).
    """

    def __init__(self, adds: Floats, gpus: Floats, kind: Ints, capacity: Floats) -> None:
        jobs, options = adds.shape
        self._adds, self._gpus = np.zeros((2, jobs, options + 1))  # nothing under the last
        self._adds[:, :-1], self._gpus[:, :-1] = adds, gpus
        self._kind, self._capacity = np.zeros(options + 1, dtype=np.intp), capacity
        self._kind[:-1] = kind
        self._first = np.arange(len(adds)) * self._kind.size  # cell of each job
        self._eye = np.eye(capacity.size)

    def run(self, near: Floats, ties: Iterable[Tie] = ()) -> bool:
        """Walk from some prices to the best; tell whether it came there.

        Parameters
        ----------
        near
            The prices.
        ties
            Those of an earlier walk. Where they are ties at prices of now, it begins there.
        """
        self._begin(np.maximum(near, 0.0))
        if ties and not self._tie(ties):
            self._begin(self.prices)
        for _ in range(_STEPS):
            if not self._spread():
                return False
            leaves = self._leaves()
            if leaves < 0:
                return True
            if not self._step(leaves):
                return False
        return False

    @property
    def ties(self) -> list[Tie]:
        """Ties at the prices."""
        at = zip(self._job.tolist(), self._option.tolist(), strict=True)
        return [Tie(job, int(self._base[job]), option) for job, option in at if job >= 0]

    def _begin(self, prices: Floats) -> None:
        """Hold prices, but those of 0: such a type need not be full."""
        self.prices = prices
        self._base: Ints = self._worth().argmax(axis=1)
        self._option = np.arange(prices.size)
        self._job = self._option * 0 - 1
        self._held: Bools = prices > 0
        self._matrix = self._eye.copy()

    def _tie(self, ties: Iterable[Tie]) -> bool:
        """Take ties in place of prices, and the prices at which they are some, if there are any.

        Each takes the place of the price that it says most about, beside those before it.
        """
        right, free = self.prices.copy(), np.ones(self.prices.size, dtype=bool)
        for job, base, option in ties:
            apart = self._adds[job, option] - self._adds[job, base]
            self._base[job] = base
            column = self._takes(job, option)
            says = np.where(free, np.abs(self._inverse_of_matrix()[0] @ column), 0.0)
            place = int(says.argmax())
            if np.isfinite(apart) and says[place] > _LEVEL:
                self._job[place], self._option[place] = job, option
                self._matrix[:, place], right[place], free[place] = column, apart, False
        self._held &= free
        prices = right @ self._inverse_of_matrix()[0]
        self.prices = np.maximum(prices, 0.0)
        worth, based = self._worth(), self._base
        self._base = worth.argmax(axis=1)
        for job, base, option in self.ties:
            self._base[job] = base = int(based[job])
            least = min(worth[job, base], worth[job, option])
            if worth[job].max() - least > _ALIKE * abs(self._adds[job, option]):
                return False
        return bool((prices >= 0).all())

    def _inverse_of_matrix(self) -> tuple[Floats, bool]:
        """Return the inverse of what ties take, and whether there is one."""
        solve = lapack.dgesv  # pyright: ignore[reportAttributeAccessIssue]
        _, _, inverse, failed = solve(self._matrix, self._eye)
        return inverse, not failed

    def _spread(self) -> bool:
        """Find the shares of the ties that fill the types."""
        self._inverse, found = self._inverse_of_matrix()
        self._share = self._inverse @ self._left()
        return found

    def _worth(self) -> Floats:
        """Return what each option is worth to each job at the prices; none, in the end, nothing."""
        return np.asarray(self._adds - self._gpus * self.prices[self._kind])

    def _of_base(self, cells: Floats) -> Floats:
        """Return the numbers of the bases, shape (jobs,)."""
        return cells.ravel().take(self._first + self._base)

    def _left(self) -> Floats:
        """Return what of each type is left by all who spend their time on their base."""
        taken, kind = self._of_base(self._gpus), self._kind.take(self._base)
        return np.asarray(self._capacity - np.bincount(kind, taken, self._capacity.size))

    def _leaves(self) -> int:
        """Return the tie that is to be given up, -1 for none.

        The share of a tie is below 0, or that of a base, which then changes places with one.
        """
        short = np.where(self._held, np.abs(self._share), -self._share)
        leaves = int(short.argmax())
        worst, of_job, of_each = float(short[leaves]), -1, dict[int, float]()
        for job, share in zip(self._job.tolist(), self._share.tolist(), strict=True):
            if job >= 0:
                of_each[job] = of_each.get(job, 0.0) + share
        for job, share in of_each.items():
            if share - 1.0 > worst:
                worst, of_job = share - 1.0, job
        if worst <= _MISSED:
            return -1
        if of_job >= 0:
            leaves = int(np.where(self._job == of_job, self._share, -np.inf).argmax())
            base = int(self._base[of_job])
            self._base[of_job], self._option[leaves] = self._option[leaves], base
            for tie in np.flatnonzero(self._job == of_job).tolist():
                self._matrix[:, tie] = self._takes(of_job, int(self._option[tie]))
            self._spread()
        return leaves

    def _takes(self, job: int, option: int) -> Floats:
        """Return what a tie takes of each type, per unit of its share; one where no job is tied."""
        column, base = np.zeros(self._capacity.size), int(self._base[job])
        if job < 0:
            column[option] = 1.0
            return column
        column[self._kind[option]] += self._gpus[job, option]
        column[self._kind[base]] -= self._gpus[job, base]
        return column

    def _step(self, leaves: int) -> bool:
        """Move the prices away from a tie to the first other one; False if there is none."""
        way = self._inverse[leaves] * (1.0 if self._share[leaves] < 0 else -1.0)
        worth, slope = self._worth(), -self._gpus * way[self._kind]
        behind = np.maximum(self._of_base(worth)[:, None] - worth, 0.0)
        gains = slope - self._of_base(slope)[:, None]
        ties = self._job >= 0
        gains[self._job[ties], self._option[ties]] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            after = behind / gains
            to_zero = self.prices / -way
        after[gains <= _LEVEL] = np.inf
        first = int(after.argmin())
        rises = way >= -_LEVEL
        rises[self._option[~ties & ~self._held]] = True
        to_zero[rises] = np.inf
        free = int(to_zero.argmin())
        far = min(float(after.flat[first]), float(to_zero[free]))
        if far == np.inf:
            return False
        self.prices = np.maximum(self.prices + far * way, 0.0)
        self._held[leaves] = False
        job, option = divmod(first, self._kind.size)
        if to_zero[free] <= far:
            self.prices[free], job, option = 0.0, -1, free
        self._job[leaves], self._option[leaves] = job, option
        self._matrix[:, leaves] = self._takes(job, option)
        return True

    def _tied(self) -> Bools:
        """Return where jobs may spend time: bases and ties, nothing in the last column."""
        tied = np.zeros(self._adds.shape, dtype=bool)
        tied.flat[self._first + self._base] = True
        ties = self._job >= 0
        tied[self._job[ties], self._option[ties]] = True
        return tied

    @property
    def shares(self) -> Floats:
        """Shares of time, shape (jobs, options)."""
        X = np.zeros(self._adds.shape)
        X.flat[self._first + self._base] = 1.0
        for job, option, share in zip(self._job, self._option, self._share, strict=True):
            if job >= 0:
                X[job, option] += share
                X[job, self._base[job]] -= share
        return X[:, :-1]

    @property
    def apart(self) -> float:
        """How much less anything else is worth, by job or, per GPU, by type; at least."""
        worth = self._worth()
        behind = self._of_base(worth)[:, None] - worth
        dear = np.ones(self._capacity.size, dtype=bool)
        dear[self._option[(self._job < 0) & ~self._held]] = False
        nearest = behind.min(where=~self._tied(), initial=np.inf)
        return float(min(nearest, self.prices.min(where=dear, initial=np.inf)))

    @property
    def degenerate(self) -> bool:
        """Whether a tie or the base of a tied job has no share, or a type of no price is full.

        Other prices are right then as well; so is a price that is still held.
        """
        base = [1.0 - self._share[self._job == job].sum() for job in self._job if job >= 0]
        return bool(min(float(self._share.min()), *base, 1.0) <= _FULL)

    @property
    def bound(self) -> float:
        """What no shares add more than."""
        return float(self._capacity @ self.prices + self._worth().max(axis=1).sum())
