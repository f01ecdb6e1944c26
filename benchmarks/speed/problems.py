"""The allocation problems that the speed suite solves, drawn from the project's own job types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.policies import Instance
from apportion.policies.pairs import PairTable
from apportion.sim import generate_pair_throughputs
from apportion.sim.job_types import job_type_throughputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Case", "draw"]

# Speeds of accelerators beside the three that were measured, relative to the V100.
_MORE_TYPES = (1.9, 0.35, 2.6, 0.8, 0.15)


@dataclass(frozen=True)
class Case:
    """One problem: jobs in the middle of their lives, and GPUs for half of what they want.

    Attributes
    ----------
    speed
        Steps/s, shape (jobs, types).
    scale
        GPUs per job, shape (jobs,).
    gpus
        GPUs of each type, shape (types,).
    columns
        Columns of the jobs table, each of shape (jobs,).
    job_type
        Row of the table of job types that each job was drawn from, shape (jobs,).
    """

    speed: Floats
    scale: Floats
    gpus: Floats
    columns: dict[str, Floats]
    job_type: NDArray[np.intp]

    @property
    def instance(self) -> Instance:
        """The problem in the arrays of `apportion.policies.solve_instance`."""
        return Instance.of_jobs(self.speed, self.scale, self.gpus, columns=self.columns)

    @property
    def table(self) -> pd.DataFrame:
        """The jobs table."""
        return pd.DataFrame({"scale_factor": self.scale} | self.columns)

    def part(self, jobs: NDArray[np.intp], share: float) -> Case:
        """Some of the jobs on a share of the GPUs."""
        columns = {name: values[jobs] for name, values in self.columns.items()}
        gpus, job_type = self.gpus * share, self.job_type[jobs]
        return Case(self.speed[jobs], self.scale[jobs], gpus, columns, job_type)

    @property
    def pairs(self) -> PairTable:
        """How fast the jobs of a case of single-GPU jobs on three types run in pairs."""
        drawn = generate_pair_throughputs(0)
        return PairTable(drawn.own, self.job_type)


def draw(jobs: int, types: int, *, unique: bool = False, single: bool = False) -> Case:
    """Draw a problem from seed 0.

    Parameters
    ----------
    jobs, types
        Size; beyond three types, made-up ones.
    unique
        Whether each job's throughputs are its own (5 % around its type's) instead of its type's.
    single
        Whether every job holds one GPU.
    """
    rng = np.random.default_rng(0)
    known = job_type_throughputs((1,) if single else (1, 2, 4, 8))
    speeds = known.to_numpy()
    more = np.array(_MORE_TYPES[: max(types - speeds.shape[1], 0)])
    jitter = rng.lognormal(0.0, 0.25, (len(known), more.size))
    speeds = np.hstack([speeds, speeds[:, :1] * more * jitter])[:, :types]
    row = rng.integers(0, len(known), jobs)
    scale = known.index.get_level_values("scale_factor").to_numpy(dtype=float)[row]
    speed = speeds[row]
    if unique:
        speed = speed * rng.lognormal(0.0, 0.05, speed.shape)
    elapsed_s = rng.uniform(0.0, 36_000.0, jobs)
    columns = {
        "order": np.arange(jobs, dtype=float),
        "steps_remaining": speed.max(axis=1) * 60.0 * 10.0 ** rng.uniform(1.5, 4.0, jobs),
        "elapsed_s": elapsed_s,
        "isolated_elapsed_s": elapsed_s * rng.uniform(0.5, 1.5, jobs),
    }
    gpus = np.full(types, float(max(round(scale.sum() / 2 / types), 8)))
    return Case(speed, scale, gpus, columns, row)
