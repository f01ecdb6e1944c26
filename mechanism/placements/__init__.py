"""Placements: which of the free devices a gang gets, under every mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.mechanism.placements.built_in import (
        least_workload_first as least_workload_first,
    )
    from apportion.mechanism.placements.registry import PLACEMENTS as PLACEMENTS
    from apportion.mechanism.placements.registry import get_placement as get_placement
    from apportion.mechanism.placements.registry import register as register
    from apportion.mechanism.placements.strategy import Gang as Gang
    from apportion.mechanism.placements.strategy import Strategy as Strategy


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
