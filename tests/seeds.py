"""Which cases are tested in every run, and which with ``-m slow`` or ``-m thorough``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark.structures import ParameterSet

__all__ = ["each_seed", "left_out", "ranges_of_seeds", "sampled"]

# What the run leaves out: two of three cases are slow, and making them takes as long as imports.
left_out: set[str] = set()


def ranges_of_seeds(few: int, most: int, some: int = 0) -> list[ParameterSet]:
    """Give ranges, for tests that loop over their seeds: those up to `some` to ``-m thorough``."""
    ranges = [pytest.param(range(few), id="few")]
    if some:
        ranges.append(pytest.param(range(few, some), id="some", marks=pytest.mark.thorough))
    more = range(max(few, some), most)
    return [*ranges, pytest.param(more, id="more", marks=pytest.mark.slow)]


def each_seed(few: int, most: int) -> list[ParameterSet]:
    """Give the seeds one by one."""
    slow = [pytest.mark.slow]
    made = few if "slow" in left_out else most
    return [pytest.param(seed, marks=slow if seed >= few else []) for seed in range(made)]


def sampled(cases: Iterable[object], every: int) -> list[ParameterSet]:
    """Give each so-many-th case, from the first on, to every run, the others to ``-m thorough``.

    For properties that many policies or settings have for one reason.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.thorough] if place % every else [],
        )
        for place, case in enumerate(cases)
    ]
