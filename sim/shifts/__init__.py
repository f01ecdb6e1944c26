"""Shifts of all the jobs on a cluster: for links that form loops too, and chosen anew in epochs."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.sim.shifts.gang_placement import GangPlacement
from apportion.sim.shifts.placed_gangs import PlacedGangs
from apportion.sim.shifts.shared_links import LinkShifts, SharedLinks

__all__ = ["GangPlacement", "LinkShifts", "PlacedGangs", "SharedLinks"]

open_doors(globals())
