"""Where water filling at prices ended, for the next one to begin there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.policies.solving.worst_off.demand_columns import DemandColumns
    from apportion.types import Bools, Floats

_KNOWN = 8
"""So many prices are kept for each step."""


class Near(NamedTuple):
    """Where a step begins: a height, and prices to choose from or those of the first columns.

    `surely` says that the prices are to be those of the height that they lead to.
    """

    height: float
    known: Floats | None = None
    at: Floats = np.zeros(0)
    surely: bool = True


@dataclass
class LastFilling:
    """Where the last filling ended, step by step.

    Attributes
    ----------
    height, at
        How high each step rose, and the columns at which its prices were found.
    known
        Prices that were right of late, a row each, the last ones first: few are so again and again.
    """

    height: list[float] = field(default_factory=list)
    at: list[Floats] = field(default_factory=list)
    known: list[Floats] = field(default_factory=list)

    @property
    def ways(self) -> range:
        """Ways to try: known prices, those of the height next to them, those of the right one."""
        return range(0 if self.known else 2, 3)

    def near(self, place: int, full: Bools, held: Bools, way: int) -> Near | None:
        """Return where to begin a step, or ``None`` where no prices are known.

        Types that are full already have no price, or one of any sign if they are to be held full.
        """
        height = self.height[place] if place < len(self.height) else np.inf
        if way == 0:
            if place >= len(self.known):
                return None
            known, free = self.known[place], np.where(held, -np.inf, 0.0)
            known = known[((free <= known) & (known <= np.where(full & ~held, 0.0, np.inf))).all(1)]
            return Near(height, known) if len(known) else None
        open_ = ~full[held | ~full]
        if place < len(self.at) and self.at[place].shape[1] == open_.size:
            return Near(height, at=self.at[place], surely=way == 2)
        return Near(np.inf, at=(open_ / np.count_nonzero(open_))[None])

    def ended(self, place: int, search: DemandColumns, way: int) -> None:
        """Note where a step ended."""
        if way:
            self.at[place:] = [search.at]
            before = self.known[place : place + 1]
            self.known[place : place + 1] = [np.vstack([search.prices, *before])[:_KNOWN]]
        self.height[place : None if way else place + 1] = [search.height]
