"""The problems of the speed suite: Gavel's mix of jobs, who want twice the GPUs that there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.policies import Instance
from apportion.policies.core.pairs import PairTable
from apportion.sim import generate_pair_throughputs
from apportion.sim.job_types import job_type_throughputs
from apportion.sim.traces.oracle import read_oracle, read_pair_oracle
from benchmarks.textbook import prices

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["TYPES", "Case", "draw", "job_speeds"]

TYPES: tuple[str, ...] = ("v100", "p100", "k80")
# Shares of the scale factors in Gavel's generator of jobs, after Philly.
_GANGS = {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}
# Speeds of accelerators beside the three that were measured, relative to the V100.
_MORE_TYPES = (1.9, 0.35, 2.6, 0.8, 0.15)
_LOAD = 2.0


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
    pairs
        How fast the jobs run in pairs, where each has one GPU and there are three types.
    """

    speed: Floats
    scale: Floats
    gpus: Floats
    columns: dict[str, Floats]
    job_type: NDArray[np.intp]
    pairs: PairTable | None = None

    @property
    def instance(self) -> Instance:
        """The problem in the arrays of `apportion.policies.solve_instance`."""
        given = self.speed, self.scale, self.gpus
        return Instance.of_jobs(*given, columns=self.columns, prices=prices(self.gpus.size))

    @property
    def table(self) -> pd.DataFrame:
        """The jobs table; the order of the jobs is that of their arrival."""
        columns = {"scale_factor": self.scale.astype(int)} | self.columns
        return pd.DataFrame(columns).rename(columns={"order": "arrival_s"})

    @property
    def labelled(self) -> tuple[pd.DataFrame, dict[str, int], pd.DataFrame]:
        """The problem as a user has it: steps/s, GPUs, and the jobs table, with labels."""
        types = [*TYPES, *(f"type {place}" for place in range(len(TYPES), self.gpus.size))]
        names = [f"job-{place}" for place in range(self.scale.size)]
        speed = pd.DataFrame(self.speed, index=names, columns=types[: self.gpus.size])
        gpus = dict(zip(types, self.gpus.astype(int).tolist(), strict=False))
        return speed, gpus, self.table.set_index(speed.index)

    def weighted(self) -> Case:
        """The same jobs with weights of 1 to 4: the first level may hang on one job then."""
        weight = np.random.default_rng(0).integers(1, 5, self.scale.size).astype(float)
        return replace(self, columns=self.columns | {"weight": weight})

    def part(self, jobs: NDArray[np.intp], share: float) -> Case:
        """Some of the jobs on a share of the GPUs."""
        columns = {name: values[jobs] for name, values in self.columns.items()}
        gpus, job_type = self.gpus * share, self.job_type[jobs]
        return Case(self.speed[jobs], self.scale[jobs], gpus, columns, job_type)


@cache
def job_speeds(data: Path | None, *, single: bool = False) -> pd.DataFrame:
    """Steps/s on TYPES by (job type, scale factor): Gavel's oracle, or generated like it."""
    if data is None:
        known = job_type_throughputs(tuple(_GANGS), TYPES)
    else:
        known = read_oracle(data / "simulation_throughputs.json.gz")[list(TYPES)]
    return known.loc[known.index.get_level_values("scale_factor") == 1] if single else known


def draw(
    jobs: int, types: int, data: Path | None = None, *, unique: bool = False, single: bool = False
) -> Case:
    """Draw a problem from seed 0.

    Parameters
    ----------
    jobs, types
        Size; beyond three types, made-up ones.
    data
        Folder of Gavel's oracle; None for generated throughputs.
    unique
        Whether each job's throughputs are its own (5 % around its type's) instead of its type's.
    single
        Whether every job holds one GPU.

    Notes
    -----
    The work that is left lies between 100 and 1000 minutes on the fastest type, and jobs have been
    there for less than an hour, so that no single job decides when all are done or what is fair:
    every type of GPU has a price. `ours` of `benchmarks.speed.timing` asserts that.
    """
    rng = np.random.default_rng(0)
    known = job_speeds(data, single=single)
    speeds, gangs = known.to_numpy(), known.index.get_level_values("scale_factor").to_numpy()
    more = np.array(_MORE_TYPES[: max(types - len(TYPES), 0)])
    jitter = rng.lognormal(0.0, 0.25, (len(known), more.size))
    speeds = np.hstack([speeds, speeds[:, :1] * more * jitter])[:, :types]
    row = rng.choice(len(known), jobs, p=_odds(gangs))
    scale, speed = gangs[row].astype(float), speeds[row]
    if unique:
        speed = speed * rng.lognormal(0.0, 0.05, speed.shape)
    elapsed_s = rng.uniform(0.0, 3600.0, jobs)
    columns = {
        "order": np.arange(jobs, dtype=float),
        "steps_remaining": speed.max(axis=1) * 60.0 * 10.0 ** rng.uniform(2.0, 3.0, jobs),
        "elapsed_s": elapsed_s,
        "isolated_elapsed_s": elapsed_s * rng.uniform(1.0, 1.2, jobs),
    }
    gpus = np.full(types, float(max(round(scale.sum() / _LOAD / types), 8)))
    pairs = PairTable(_pair_speeds(data, known.index), row) if single and types == 3 else None
    return Case(speed, scale, gpus, columns, row, pairs)


def _odds(gangs: NDArray[np.intp]) -> Floats:
    """Odds of each row of the table, so that scale factors come out as Gavel draws them."""
    sizes, place, times = np.unique(gangs, return_inverse=True, return_counts=True)
    share = np.array([_GANGS[size] for size in sizes.tolist()])
    odds: Floats = (share / share.sum() / times)[place]
    return odds


def _pair_speeds(data: Path | None, keys: pd.Index[Any]) -> Floats:
    """How fast job types run beside each other, shape (keys, keys, 3)."""
    if data is None:
        known = generate_pair_throughputs(0, TYPES)
    else:
        known = read_pair_oracle(data / "simulation_throughputs.json.gz")
    place = known.keys.get_indexer(keys)
    types = np.array([known.accelerators.index(name) for name in TYPES])
    own: Floats = known.own[np.ix_(place, place, types)]
    return own
