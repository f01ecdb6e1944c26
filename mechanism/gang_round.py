"""What comes of asking for a round: its gangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from apportion.types import Bools, Ints


class GangRound(NamedTuple):
    """The gangs of one round.

    rows, types
        Row and accelerator type of each gang, shape (gangs,).
    starts
        Whether each job of a gang starts: it did not run on these devices in the round before, be
        they new to the gang or to this job of it; shape (gangs, members).
    stopped
        Jobs, by slot, that ran in the round before and lost their devices: they wait or have moved.
    declined
        Whether the placement had no devices for some gang that was to run.
    columns
        Columns of the core at which the time of each gang counts; its types unless there are tiers.
    """

    rows: Ints
    types: Ints
    starts: Bools
    stopped: Ints
    declined: bool = False
    columns: Ints | None = None
