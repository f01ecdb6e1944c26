"""Placements: which of the free devices a gang gets, under every mechanism."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.mechanism.placements.registry import PLACEMENTS, get_placement, register
from apportion.mechanism.placements.strategy import Gang, Strategy

__all__ = ["PLACEMENTS", "Gang", "Strategy", "get_placement", "register"]

open_doors(globals())
