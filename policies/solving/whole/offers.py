"""What options of jobs add to an objective that is a sum, what they hold, and first decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.rows import group_rows

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

_TURNS, _FARTHEST = 12, 4.0
"""How often prices change before they are near, and by how much in whole times."""
_WHOLE = 1e-7
"""By how much a share of 1 may be less."""


class Offers(NamedTuple):
    """The options of all jobs under an objective that is maximised.

    A decision is the option of each job, a place, or the number of options for none.

    Attributes
    ----------
    adds
        Minus infinity where a job cannot run, or gains nothing; shape (jobs, options).
    gpus
        Shape (jobs, options).
    kind
        Type of each option, shape (options,).
    capacity
        GPUs of each type, shape (types,).
    stays
        1 where it is the option that a job has, shape (jobs, options).
    """

    adds: Floats
    gpus: Floats
    kind: Ints
    capacity: Floats
    stays: Floats

    @property
    def several(self) -> bool:
        """Whether jobs have several options on a type, or one now."""
        return self.kind.size > self.capacity.size or bool(self.stays.any())

    @property
    def worth(self) -> Floats:
        """What options add, 0 where a job cannot run."""
        return np.where(np.isfinite(self.adds), self.adds, 0.0)

    @property
    def alike(self) -> Ints:
        """A number for each job, the same for those that are alike, shape (jobs,)."""
        adds = np.where(np.isfinite(self.adds), self.adds, -1.0)
        return group_rows(adds, self.gpus, self.stays)[1]

    def or_none(self) -> tuple[Floats, Floats, Ints]:
        """Return `adds`, `gpus` and `kind` with one more option, to have none."""
        none = np.zeros((len(self.adds), 1))
        return np.hstack([self.adds, none]), np.hstack([self.gpus, none]), np.append(self.kind, 0)

    def near(self) -> Floats:
        """Raise prices of types of which too much is asked for, and lower the others, some times.

        Returns
        -------
        price
            Near those at which what jobs choose fills each type, shape (types,).
        """
        adds, gpus, kind = self.or_none()
        jobs, types = np.arange(len(adds)), self.capacity.size
        price = np.full(types, self.worth.max(axis=1, initial=0.0).sum() / self.capacity.sum())
        for turn in range(_TURNS):
            option = (adds - gpus * price[kind]).argmax(axis=1)
            asked = np.bincount(kind[option], gpus[jobs, option], types) / self.capacity
            price *= 1 + (np.clip(asked, 1 / _FARTHEST, _FARTHEST) - 1) / (1 + turn / 2)
        return price

    def filled(self) -> tuple[Ints, Floats]:
        """Serve those who add most per GPU first, wherever they fit.

        Returns
        -------
        option, per_gpu
            A decision; and on each type the most per GPU of those who find no place.
        """
        runs = np.isfinite(self.adds)
        per_gpu = np.divide(self.adds, self.gpus, out=np.zeros(runs.shape), where=runs)
        cells = np.flatnonzero(runs)
        cells = cells[np.argsort(-per_gpu.ravel()[cells], kind="stable")]
        taken = self._served(cells, [self.kind.size] * len(runs), self.capacity)
        waits = (taken == self.kind.size)[:, None]
        most, by_type = per_gpu.max(axis=0, where=waits, initial=0.0), np.zeros(self.capacity.size)
        np.maximum.at(by_type, self.kind, most)
        return taken, by_type

    def rounded(self, shares: Floats) -> Ints:
        """Round shares down, and serve those of the most worth first with what is left.

        Where what holds now is better, that is what is returned.
        """
        whole = shares >= 1.0 - _WHOLE
        option, left = self._of(whole)
        cells = np.flatnonzero(np.isfinite(self.adds) & (option == self.kind.size)[:, None])
        cells = cells[np.argsort(-self.adds.ravel()[cells], kind="stable")]
        filled = self._served(cells, option.tolist(), left)
        now, left = self._of(self.stays > 0)
        better = self.added(now) > self.added(filled)
        return now if better and (left >= 0).all() else filled

    def _of(self, taken: Bools) -> tuple[Ints, Floats]:
        """Return the decision in which jobs have what is taken, and what it leaves of each type."""
        option = np.where(taken.any(axis=1), taken.argmax(axis=1), self.kind.size)
        held = np.bincount(self.kind, (self.gpus * taken).sum(axis=0), self.capacity.size)
        return option, self.capacity - held

    def _served(self, cells: Ints, option: list[int], left: Floats) -> Ints:
        """Give jobs without an option what they ask for, cell by cell, as long as there is room."""
        none, room = self.kind.size, left.tolist()
        job, place = np.divmod(cells, none)
        kind, gpus = self.kind[place], self.gpus.ravel()[cells]
        asked = zip(job.tolist(), place.tolist(), kind.tolist(), gpus.tolist(), strict=True)
        for who, which, where, size in asked:
            if size <= room[where] and option[who] == none:
                option[who] = which
                room[where] -= size
        return np.array(option, dtype=np.intp)

    def added(self, option: Ints, worth: Floats | None = None) -> float:
        """Sum up what a decision is worth, by default what it adds."""
        worth = self.worth if worth is None else worth
        some = np.flatnonzero(option < self.kind.size)
        return float(worth[some, option[some]].sum())
