"""The test of a race: looked at several times, about several policies, with errors shared out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from apportion.answers.evidence import Difference, between, blocks_of
from apportion.checks import number
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

LOOKS = (4, 8, 16, 32)
"""Draws after which losers are dropped."""

MOST_LOOKS = 8
"""Looks over which the chance of an error is shared out, however few of them are taken.

So whoever has seen an answer may go on with more draws: the levels are the same, and hold for all
looks together.
"""


def usual_looks(draws: int) -> list[int]:
    """Return when a race of so many draws is looked at."""
    return [*(each for each in LOOKS if each < draws), draws]


def read_looks(given: Sequence[int]) -> list[int]:
    """Return the numbers of draws.

    Raises
    ------
    InputError
        If they do not grow, are below 2, or more than `MOST_LOOKS`.
    """
    found = [int(number("A look", each, least=2)) for each in given]
    if not found or sorted(set(found)) != found:
        raise InputError(f"looks is {found}; it must be growing numbers of draws, as (4, 8, 16).")
    if len(found) > MOST_LOOKS:
        raise InputError(f"looks has {len(found)} numbers; a race has {MOST_LOOKS} at most.")
    return found


@dataclass
class SequentialTest:
    """Who is left of a race, by the test that `apportion.recommend` describes.

    Attributes
    ----------
    figure, level
        What it is about, and the level of all that it says.
    policies
        Who takes part.
    resampled
        Whether draws are resamples of one log.
    dropped
        By whom each loser was beaten, and at which look, from 1.
    """

    figure: str
    level: float
    policies: tuple[str, ...]
    resampled: bool
    dropped: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def level_of_pair(self) -> float:
        """The level at which two policies are compared at one look."""
        pairs = len(self.policies) * (len(self.policies) - 1) / 2
        return 1 - (1 - self.level) / (MOST_LOOKS * pairs)

    def difference(self, runs: pd.DataFrame, one: str, other: str) -> Difference:
        """Set one policy against another one, over the draws that both ran."""
        by_seed = {
            label: runs[runs["policy"] == label].set_index("seed")[self.figure]
            for label in (one, other)
        }
        blocks = blocks_of(runs) if self.resampled else 0
        return between(by_seed[one], by_seed[other], blocks=blocks, level=self.level_of_pair)

    def losers(self, runs: pd.DataFrame, labels: Sequence[str], look: int) -> set[str]:
        """Return who is worse than another one by more than chance, and remember it."""
        found: dict[str, tuple[str, int]] = {}
        for one, other in combinations(labels, 2):
            apart = self.difference(runs, one, other)
            if not apart.sure:
                continue
            worse, better = (one, other) if apart.ratio > 1 else (other, one)
            found.setdefault(worse, (better, look))
        self.dropped |= found
        return set(found)

    def same(self, runs: pd.DataFrame, labels: Sequence[str]) -> bool:
        """Whether those who are left have the same figure in every draw."""
        table = runs.pivot_table(index="seed", columns="policy", values=self.figure)
        return bool((table[list(labels)].nunique(axis=1) == 1).all())

    def alike(self, runs: pd.DataFrame, labels: Sequence[str]) -> bool:
        """Whether no two of those who are left differ by what matters, as far as is known."""
        return all(self.difference(runs, one, other).none for one, other in combinations(labels, 2))
