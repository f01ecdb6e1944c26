"""What every part of the speed suite is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.speed.gavel import Gavel

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Small sizes or not, the folder of Gavel's oracle if it is there, and Gavel's own code.

    And checkouts of earlier commits, by what is run on them.
    """

    quick: bool
    data: Path | None
    gavel: Gavel
    past: Mapping[str, Path] = field(default_factory=dict)
