"""Seeds of drawn cases: the first few in every run, the others with ``-m slow``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

__all__ = ["each_seed", "ranges_of_seeds"]


def ranges_of_seeds(few: int, most: int) -> list[ParameterSet]:
    """Give two ranges, for tests that loop over their seeds."""
    slow = pytest.mark.slow
    return [
        pytest.param(range(few), id="few"),
        pytest.param(range(few, most), id="more", marks=slow),
    ]


def each_seed(few: int, most: int) -> list[ParameterSet]:
    """Give the seeds one by one."""
    slow = [pytest.mark.slow]
    return [pytest.param(seed, marks=slow if seed >= few else []) for seed in range(most)]
