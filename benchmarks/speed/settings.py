"""What every part of the speed suite is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.speed.gavel import Gavel

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Small sizes or not, the folder of Gavel's oracle if it is there, and Gavel's own code."""

    quick: bool
    data: Path | None
    gavel: Gavel
