"""Where water filling at prices ended, for the next one to begin there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.worst_off.demand_hulls import Hulls

if TYPE_CHECKING:
    from apportion.policies.solving.worst_off.demand_columns import DemandColumns
    from apportion.types import Bools, Floats, Ints

_KNOWN = 8
"""So many prices are kept for each step."""
_ROOM = 4
"""Hulls are kept of so many times the jobs at hand."""


class Near(NamedTuple):
    """Where a search begins: a height, and prices of the first columns.

    `surely` says that the prices are to be those of the height that they lead to.
    """

    height: float
    at: Floats
    surely: bool = True


class KnownPrices:
    """Prices that were right of late, and hulls at them: few are right again and again.

    Parameters
    ----------
    kind
        Type of each option, shape (options,).
    types
        How many types there are.

    Attributes
    ----------
    prices
        A row each, the last ones first; the largest of a row is 1, whatever its sign.
    """

    def __init__(self, kind: Ints, types: int) -> None:
        self.prices, self._kind = np.zeros((0, types)), kind
        self._forget()

    def _forget(self) -> None:
        points = self._kind.size + 1
        self._row, self._may = np.zeros((0, points)), np.zeros((0, points), dtype=bool)
        self._place: dict[bytes, int] = {}
        self._hulls = self._of(self._row, self._may)

    def _of(self, row: Floats, may: Bools) -> Hulls:
        each = np.zeros((len(self.prices), self._kind.size + 1))
        each[:, 1:] = self.prices[:, self._kind]
        return Hulls.of(each, row, may)

    def add(self, prices: Floats) -> None:
        """Add prices in front."""
        self.prices = np.concatenate([prices[None], self.prices])[:_KNOWN]
        self._hulls = self._of(self._row, self._may)

    def hulls(self, row: Floats, may: Bools) -> tuple[Hulls, Ints]:
        """Return hulls at the prices, and the one of each job.

        Parameters
        ----------
        row, may
            Speeds of jobs and where they may be, rest first, shape (jobs, options + 1).
        """
        coded = row.copy()
        coded[:, 0] = may @ 2.0 ** np.arange(row.shape[1])
        keys: list[bytes] = coded.view(f"V{coded.strides[0]}").ravel().tolist()
        place = [*map(self._place.get, keys)]
        if None in place:
            self._learn(keys, row, may)
            place = [*map(self._place.get, keys)]
        return self._hulls, np.array(place)

    def _learn(self, keys: list[bytes], row: Floats, may: Bools) -> None:
        """Find hulls that are not known yet."""
        if len(self._place) > _ROOM * len(keys):
            self._forget()
        new = {key: job for job, key in enumerate(keys) if key not in self._place}
        row, may = row[[*new.values()]], may[[*new.values()]]
        self._hulls = self._hulls.and_of(self._of(row, may))
        self._place |= dict(zip(new, range(len(self._row), len(self._row) + len(row)), strict=True))
        self._row, self._may = np.concatenate([self._row, row]), np.concatenate([self._may, may])


@dataclass
class LastStep:
    """Where a step ended, the last time that the same types were full before it.

    Attributes
    ----------
    known
        Prices that were right of late.
    height
        How high it rose.
    at
        Columns at which its prices were found, if any were.
    """

    known: KnownPrices
    height: float = np.inf
    at: Floats | None = None

    def near(self, full: Bools, held: Bools, surely: bool) -> Near:
        """Return where to search from."""
        if self.at is not None:
            return Near(self.height, self.at, surely)
        open_ = ~full[held | ~full]
        return Near(np.inf, (open_ / np.count_nonzero(open_))[None])

    def found(self, search: DemandColumns) -> None:
        """Note what a search found."""
        self.at = search.at
        self.known.add(search.prices)


@dataclass
class LastFilling:
    """Where the last filling ended, step by step."""

    steps: dict[tuple[int, bytes, bytes], LastStep] = field(default_factory=dict)

    @property
    def ways(self) -> range:
        """Ways to try: known prices, those of the height next to them, those of the right one."""
        return range(0 if self.steps else 2, 3)

    def step(self, place: int, full: Bools, held: Bools, kind: Ints) -> LastStep:
        """Return what is known of a step, by which types are full before it, and to be held.

        `kind` is the type of each option, shape (options,).
        """
        key = place, full.tobytes(), held.tobytes()
        known = self.steps.get(key)
        if known is None:
            known = self.steps[key] = LastStep(KnownPrices(kind, full.size))
        return known
