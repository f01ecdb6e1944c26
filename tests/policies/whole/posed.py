"""Elastic rounds and links of the oracles, as instances of the package."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from tests.oracles.whole_choices import Choices

from apportion.policies import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike
    from tests.oracles.draw_whole import ElasticJob
    from tests.oracles.elastic_values import ValueRow
    from tests.oracles.rotations import Link, Profile

DELAY_S = 30.0


class Shape:
    """Which type and how many GPUs the options of a round are of, and what there is."""

    def __init__(self, options: int, types: int, capacity: Sequence[int]) -> None:
        self.gpus = np.arange(options) // types + 1
        self.accelerator = np.arange(options) % types
        self.capacity = list(capacity)

    def instance(
        self, jobs: Sequence[ElasticJob], factor: ArrayLike, **columns: ArrayLike
    ) -> Instance:
        """Pose jobs of one round."""
        now = [-1 if job.current is None else job.current for job in jobs]
        known: dict[str, ArrayLike] = {
            "current_option": now,
            "reallocation_factor": factor,
            **columns,
        }
        return Instance.of_options(
            [[g or 0.0 for g in job.goodput] for job in jobs],
            self.gpus,
            self.capacity,
            option_accelerator=self.accelerator,
            columns={"current_option": now, **known},
        )

    def choices(self, rows: Sequence[ValueRow], **rest: object) -> Choices:
        """Pose the same for the enumeration, with values from the oracle."""
        types = len(self.capacity)
        use = [
            [int(k) * (int(t) == r) for r in range(types)]
            for k, t in zip(self.gpus, self.accelerator, strict=True)
        ]
        return Choices(rows, [use] * len(rows), self.capacity, **rest)  # type: ignore[arg-type]


def choice_of(X: np.ndarray) -> tuple[int | None, ...]:
    """Option of each row, None for none."""
    return tuple(int(row.argmax()) if row.any() else None for row in X)


def demands(profiles: Sequence[Profile], links: Sequence[Link]) -> list[np.ndarray]:
    """Demand by link and slot of each job."""
    return [
        np.array(
            [
                [float(p.rate(Fraction(t))) * (j in link.jobs) for t in range(int(p.period))]
                for link in links
            ]
        )
        for j, p in enumerate(profiles)
    ]
