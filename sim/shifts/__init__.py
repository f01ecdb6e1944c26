"""Shifts of all the jobs on a cluster: for links that form loops too, and chosen anew in epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.shifts.shared_links import LinkShifts as LinkShifts
    from apportion.sim.shifts.shared_links import SharedLinks as SharedLinks


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
