"""The problems of the speed suite: Gavel's mix of jobs, who want twice the GPUs that there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion import Cluster, solve
from apportion.policies import Instance
from apportion.sim.job_types import job_type_throughputs
from apportion.sim.traces.oracle import read_oracle
from benchmarks.textbook import Facts, prices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion import Allocation

    Floats = NDArray[np.float64]

__all__ = ["LEAVES_FREE", "TYPES", "Case", "binding_cases", "binds", "draw"]

TYPES: tuple[str, ...] = ("v100", "p100", "k80")
# Shares of the scale factors in Gavel's generator of jobs, after Philly.
_GANGS = {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}
# Speeds of accelerators beside the three that were measured, relative to the V100.
_MORE_TYPES = (1.9, 0.35, 2.6, 0.8, 0.15)
_LOAD = 2.0
LEAVES_FREE = ("isolated", "min_cost", "min_cost_slos", "proportional", "strategy_proof")
"""Policies that leave GPUs free by what they say, however many are wanted."""


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
    """

    speed: Floats
    scale: Floats
    gpus: Floats
    columns: dict[str, Floats]

    @property
    def instance(self) -> Instance:
        """The problem in the arrays of `apportion.policies.solve_instance`."""
        arrays = self.speed, self.scale, self.gpus
        return Instance.of_jobs(*arrays, columns=self.columns, prices=prices(self.gpus.size))

    @cached_property
    def facts(self) -> Facts:
        """The numbers that the textbook's problem needs, computed once."""
        return Facts(self.speed, self.table, self.gpus)

    @property
    def table(self) -> pd.DataFrame:
        """The jobs table; the order of the jobs is that of their arrival."""
        columns = {"scale_factor": self.scale.astype(int)} | self.columns
        return pd.DataFrame(columns).rename(columns={"order": "arrival_s"})

    @property
    def labelled(self) -> tuple[pd.DataFrame, Cluster, pd.DataFrame]:
        """The problem as a user has it: steps/s, GPUs, and the jobs table, with labels."""
        types = [*TYPES, *(f"type {place}" for place in range(len(TYPES), self.gpus.size))]
        names = [f"job-{place}" for place in range(self.scale.size)]
        speed = pd.DataFrame(self.speed, index=names, columns=types[: self.gpus.size])
        gpus = dict(zip(speed.columns, self.gpus.astype(int).tolist(), strict=True))
        usd = dict(zip(gpus, prices(len(gpus)).tolist(), strict=True))
        return speed, Cluster(gpus, prices_per_gpu_hour=usd), self.table.set_index(speed.index)

    def weighted(self) -> Case:
        """The same jobs with weights of 1 to 4: the first level may hang on one job then."""
        weight = np.random.default_rng(0).integers(1, 5, self.scale.size).astype(float)
        return replace(self, columns=self.columns | {"weight": weight})

    def part(self, jobs: NDArray[np.intp]) -> Case:
        """Some of the jobs on the same GPUs."""
        columns = {name: values[jobs] for name, values in self.columns.items()}
        return Case(self.speed[jobs], self.scale[jobs], self.gpus, columns)


def draw(
    jobs: int,
    types: int,
    data: Path | None = None,
    *,
    seed: int = 0,
    unique: bool = False,
    spare: int = 0,
) -> Case:
    """Draw a problem.

    Parameters
    ----------
    jobs, types
        Size; beyond three types, made-up ones.
    data
        Folder of Gavel's oracle; None for generated throughputs.
    unique
        Whether each job's throughputs are its own (5 % around its type's) instead of its type's.
    spare
        Further jobs behind the others, who come later: GPUs are for half of what the others want.

    Notes
    -----
    The work that is left lies between 100 and 1000 minutes on the fastest type, and jobs have been
    there for less than an hour, so that one job seldom decides when all are done or what is fair.
    Gangs of more than an eighth of the jobs are left out: they would ask for more GPUs than bind.
    """
    rng = np.random.default_rng(seed)
    known = _job_speeds(data)
    size = known.index.get_level_values("scale_factor").to_numpy()
    known = known.loc[size <= max(jobs // 8, 1)]
    speeds, gangs = known.to_numpy(), known.index.get_level_values("scale_factor").to_numpy()
    more = np.array(_MORE_TYPES[: max(types - len(TYPES), 0)])
    jitter = rng.lognormal(0.0, 0.25, (len(known), more.size))
    speeds = np.hstack([speeds, speeds[:, :1] * more * jitter])[:, :types]
    row = rng.choice(len(known), jobs + spare, p=_odds(gangs))
    scale, speed = gangs[row].astype(float), speeds[row]
    if unique:
        speed = speed * rng.lognormal(0.0, 0.05, speed.shape)
    elapsed_s = rng.uniform(0.0, 3600.0, row.size)
    columns = {
        "order": np.arange(row.size, dtype=float),
        "steps_remaining": speed.max(axis=1) * 60.0 * 10.0 ** rng.uniform(2.0, 3.0, row.size),
        "elapsed_s": elapsed_s,
        "isolated_elapsed_s": elapsed_s * rng.uniform(1.0, 1.2, row.size),
    }
    wanted = scale[:jobs].sum()
    gpus = np.full(types, max(round(wanted / _LOAD / types), scale.max()))
    return Case(speed, scale, gpus, columns)


@cache
def _job_speeds(data: Path | None) -> pd.DataFrame:
    """Steps/s on TYPES by (job type, scale factor): Gavel's oracle, or generated like it."""
    if data is None:
        return job_type_throughputs(tuple(_GANGS), TYPES)
    return read_oracle(data / "simulation_throughputs.json.gz")[list(TYPES)]


def _odds(gangs: NDArray[np.intp]) -> Floats:
    """Odds of each row of the table, so that scale factors come out as Gavel draws them."""
    sizes, place, times = np.unique(gangs, return_inverse=True, return_counts=True)
    share = np.array([_GANGS[size] for size in sizes.tolist()])
    odds: Floats = (share / share.sum() / times)[place]
    return odds


def binding_cases(policy: str, count: int, make: Callable[[int], Case]) -> list[Case]:
    """Return the first cases, by seed, on which every type has a price or is full.

    Raises
    ------
    RuntimeError
        If fewer than one in twenty are so: such problems say nothing about speed.
    """
    found: list[Case] = []
    for seed in range(20 * count):
        case = make(seed)
        speed, cluster, table = case.labelled
        if binds(policy, solve(policy, speed, workers=cluster, jobs=table), table, cluster):
            found.append(case)
        if len(found) == count:
            return found
    raise RuntimeError(
        f"{policy}: capacities do not bind for {20 * count - len(found)} "
        f"of {20 * count} seeds; such problems say nothing about speed."
    )


def binds(policy: str, allocation: Allocation, jobs: pd.DataFrame, cluster: Cluster) -> bool:
    """Whether every type of GPU has a price or is full; policies that leave GPUs free always do."""
    if policy in LEAVES_FREE:
        return True
    priced = allocation.prices.to_numpy() > 0
    held = jobs["scale_factor"].to_numpy() @ allocation.X.to_numpy()
    full = held >= np.array(list(cluster.gpus.values())) * (1 - 1e-6)
    return bool((priced | full).all())
