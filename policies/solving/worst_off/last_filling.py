"""Where water filling at prices ended, for the next one to begin there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.policies.solving.solvers.demand_columns import DemandColumns
    from apportion.types import Bools, Floats

_KNOWN = 8
"""So many prices are kept for each step."""


class Near(NamedTuple):
    """Where a step begins: a height, and prices to choose from or those of the first columns."""

    height: float
    known: Floats | None = None
    at: Floats = np.zeros(0)


@dataclass
class LastFilling:
    """Where the last filling ended, step by step.

    Attributes
    ----------
    height, at
        How high each step rose, and the columns at which its prices were found.
    known
        Prices that were right of late, the last ones first: few are so again and again.
    """

    height: list[float] = field(default_factory=list)
    at: list[Floats] = field(default_factory=list)
    known: list[list[Floats]] = field(default_factory=list)

    def near(self, place: int, full: Bools, held: Bools, *, anew: bool) -> Near | None:
        """Return where to begin a step, or ``None`` where it is to be at known prices.

        Types that are full already have no price, or one of any sign if they are to be held full.
        """
        height = self.height[place] if place < len(self.height) else np.inf
        if not anew:
            least, most = np.where(held, -np.inf, 0.0), np.where(full & ~held, 0.0, np.inf)
            of_step = self.known[place] if place < len(self.known) else []
            known = [one for one in of_step if ((least <= one) & (one <= most)).all()]
            return Near(height, np.array(known)) if known else None
        open_ = ~full[held | ~full]
        if place < len(self.at) and self.at[place].shape[1] == open_.size:
            return Near(height, at=self.at[place])
        return Near(np.inf, at=(open_ / np.count_nonzero(open_))[None])

    def ended(self, place: int, search: DemandColumns, *, anew: bool) -> None:
        """Note where a step ended."""
        if anew:
            self.at[place:] = [search.at]
            self.known += [[]] * (place >= len(self.known))
            self.known[place] = [search.prices, *self.known[place][: _KNOWN - 1]]
        self.height[place : None if anew else place + 1] = [search.height]
