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

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

_STEPS = 400
_MISSED = 1e-10
"""By how much, in whole times, a share may be below nothing or a type be short."""
_LEVEL = 1e-11
"""Slopes below it, beside GPUs around 1, are none."""
_FULL = 1e-9
"""Shares up to it are none."""


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
        nothing = np.zeros((len(adds), 1))
        self._adds, self._gpus = np.hstack([adds, nothing]), np.hstack([gpus, nothing])
        self._kind, self._capacity = np.append(kind, 0), capacity
        self._rows = np.arange(len(adds))

    def run(self, near: Floats) -> bool:
        """Walk from some prices to the best; tell whether it came there."""
        self.prices = np.maximum(near, 0.0)
        types = self._capacity.size
        self._base: Ints = self._worth().argmax(axis=1)
        self._job, self._option = np.full(types, -1), np.arange(types)
        self._held: Bools = np.ones(types, dtype=bool)  # prices that are held where they began
        self._matrix = np.eye(types)
        for _ in range(_STEPS):
            self._spread()
            leaves = self._leaves()
            if leaves < 0:
                return True
            if not self._step(leaves):
                return False
        return False

    def _spread(self) -> None:
        """Find the shares of the ties that fill the types."""
        self._inverse = np.linalg.inv(self._matrix)
        self._share = self._inverse @ self._left()

    def _worth(self) -> Floats:
        """Return what each option is worth to each job at the prices; none, in the end, nothing."""
        return np.asarray(self._adds - self._gpus * self.prices[self._kind])

    def _left(self) -> Floats:
        """Return what of each type is left by all who spend their time on their base."""
        taken = self._gpus[self._rows, self._base]
        held = np.bincount(self._kind[self._base], taken, self._capacity.size)
        return np.asarray(self._capacity - held)

    def _leaves(self) -> int:
        """Return the tie that is to be given up, -1 for none.

        The share of a tie is below 0, or that of a base, which then changes places with one.
        """
        short = np.where(self._held, np.abs(self._share), -self._share)
        leaves = int(short.argmax())
        worst, of_job = float(short[leaves]), -1
        for job in {job for job in self._job.tolist() if job >= 0}:
            over = float(self._share[self._job == job].sum()) - 1.0
            if over > worst:
                worst, of_job = over, job
        if worst <= _MISSED:
            return -1
        if of_job >= 0:
            leaves = int(np.where(self._job == of_job, self._share, -np.inf).argmax())
            base = int(self._base[of_job])
            self._base[of_job], self._option[leaves] = self._option[leaves], base
            for tie in np.flatnonzero(self._job == of_job).tolist():
                self._write(tie)
            self._spread()
        return leaves

    def _write(self, tie: int) -> None:
        """Write what a tie takes of each type, per unit of its share."""
        job, option = int(self._job[tie]), int(self._option[tie])
        column = self._matrix[:, tie]
        column[:] = 0.0
        if job < 0:
            column[option] = 1.0
            return
        base = int(self._base[job])
        column[self._kind[option]] += self._gpus[job, option]
        column[self._kind[base]] -= self._gpus[job, base]

    def _step(self, leaves: int) -> bool:
        """Move the prices away from a tie to the first other one; False if there is none."""
        way = self._inverse[leaves] * (1.0 if self._share[leaves] < 0 else -1.0)
        worth, slope = self._worth(), -self._gpus * way[self._kind]
        behind = np.maximum(worth[self._rows, self._base][:, None] - worth, 0.0)
        gains = slope - slope[self._rows, self._base][:, None]
        ties = self._job >= 0
        gains[self._job[ties], self._option[ties]] = 0.0
        rises = gains > _LEVEL
        after = np.divide(behind, gains, out=np.full_like(behind, np.inf), where=rises)
        first = int(after.argmin())
        falls = way < -_LEVEL
        falls[self._option[~ties & ~self._held]] = False
        to_zero = np.divide(self.prices, -way, out=np.full_like(way, np.inf), where=falls)
        free = int(to_zero.argmin())
        far = min(float(after.flat[first]), float(to_zero[free]))
        if far == np.inf:
            return False
        self.prices = np.maximum(self.prices + far * way, 0.0)
        self._held[leaves] = False
        if to_zero[free] <= far:
            self.prices[free] = 0.0
            self._job[leaves], self._option[leaves] = -1, free
        else:
            self._job[leaves], self._option[leaves] = divmod(first, self._kind.size)
        self._write(leaves)
        return True

    def _tied(self) -> Bools:
        """Return where jobs may spend time: bases and ties, nothing in the last column."""
        tied = np.zeros(self._adds.shape, dtype=bool)
        tied[self._rows, self._base] = True
        ties = self._job >= 0
        tied[self._job[ties], self._option[ties]] = True
        return tied

    @property
    def shares(self) -> Floats:
        """Shares of time, shape (jobs, options)."""
        X = np.zeros(self._adds.shape)
        X[self._rows, self._base] = 1.0
        for job, option, share in zip(self._job, self._option, self._share, strict=True):
            if job >= 0:
                X[job, option] += share
                X[job, self._base[job]] -= share
        return X[:, :-1]

    @property
    def apart(self) -> float:
        """How much less anything else is worth, by job or, per GPU, by type; at least."""
        worth = self._worth()
        behind = worth[self._rows, self._base][:, None] - worth
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
