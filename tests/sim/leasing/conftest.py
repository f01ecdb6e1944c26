from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.sim import Workload
from apportion.sim.network import tier_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.sim.network import Shape

MODELS = ("VGG11", "ResNet50", "BERT-large")
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class TieredNetwork:
    """Overheads by tier, the same for every model."""

    overheads: tuple[float, float, float] = (0.25, 1.0, 7.0)
    name: str = "tiered"

    def overhead(self, job_type: str, shape: Shape) -> float:
        return self.overheads[tier_of(shape)]


def make_workload(
    steps: Sequence[float],
    gpus: Sequence[int] | int = 1,
    arrival_s: Sequence[float] | float = 0.0,
    job_type: Sequence[str] | str = "ResNet50",
    steps_per_s: float = 1.0,
) -> Workload:
    jobs = pd.DataFrame({"total_steps": steps})
    jobs = jobs.assign(scale_factor=gpus, arrival_s=arrival_s, job_type=job_type)
    pairs = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]].drop_duplicates())
    return Workload("by hand", jobs, pd.DataFrame({"gpu": steps_per_s}, index=pairs))


def draw_workload(seed: int, jobs: int = 24) -> Workload:
    """More work than 32 GPUs do while the jobs arrive."""
    rng = np.random.default_rng(seed)
    return make_workload(
        rng.lognormal(8.0, 1.0, jobs).tolist(),
        rng.choice(SIZES, jobs).tolist(),
        rng.uniform(0, 10000, jobs).tolist(),
        rng.choice(MODELS, jobs).tolist(),
        steps_per_s=0.5,
    )


@pytest.fixture
def network() -> TieredNetwork:
    return TieredNetwork()


@pytest.fixture
def workload_of() -> Callable[..., Workload]:
    return make_workload


@pytest.fixture
def random_workload() -> Callable[..., Workload]:
    return draw_workload
