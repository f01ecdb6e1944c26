"""Pair throughputs for those who have none measured: a simple model of resource contention.

Every job type presses on a few resources of a GPU (arithmetic, memory bandwidth, the host that
feeds it) and suffers from what others press on them. Beside a partner it slows down by

    1 + sum over resources of (its sensitivity x the partner's pressure),

times a little noise: of low rank, as measurements are. Pairs that need more memory than the GPU has
cannot share. Pressure and memory grow with the batch size; a slower GPU is pressed harder. The
figures are drawn at random around plausible ones: they are not measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import seed as check_seed
from apportion.estimators import family_of
from apportion.pairs import PairThroughputs
from apportion.sim.job_types import job_type_throughputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apportion.types import Floats


_RESOURCES = 3
_PRESSURE = (0.05, 0.75)
"""Pressure on a resource and sensitivity to it are uniform in this range, per model family."""
_MEMORY = (0.1, 0.5)
"""Part of the GPU's memory that a family needs at its smallest batch size."""
_LARGEST_BATCH = 1.6
"""Pressure and memory at a family's largest batch size, relative to its smallest."""
_JITTER = 0.2
"""Standard deviation of the logarithm of a job type's demands around its family's."""
_NOISE = 0.05
"""Standard deviation of the logarithm of the slow-down."""


@checked
def generate_pair_throughputs(
    seed: int = 0,
    accelerators: Sequence[str] | None = None,
    *,
    scale_factors: Iterable[int] = (1,),
    mixed_scale_factors: bool = False,
) -> PairThroughputs:
    """Draw how much the job types of generated workloads slow each other down.

    Parameters
    ----------
    seed
        Same seed, same throughputs.
    accelerators
        Accelerator types, out of those that `job_type_throughputs` knows; all by default.
    scale_factors
        GPUs per job; above one, only distributed job types have keys.
    mixed_scale_factors
        Whether jobs with different numbers of GPUs may share too.

    Raises
    ------
    InputError
        For an accelerator that the table of job types does not know, and a seed below zero.
    """
    check_seed(seed)
    table = job_type_throughputs(scale_factors, accelerators)
    alone = table.to_numpy()
    types = table.index.get_level_values(0)
    pressure, sensitivity, memory = _demands(types, np.random.default_rng(seed))
    # The slower the GPU is for a job, relative to its fastest, the busier the job keeps it.
    busier = (alone.max(axis=1, keepdims=True) / alone) ** 0.25
    slowdown = 1.0 + np.einsum("ar,br,bj->abj", sensitivity, pressure, busier)
    # A generator of its own, so that other accelerators or gangs leave the demands as they are.
    noise = np.random.default_rng([seed, 1]).normal(0.0, _NOISE, slowdown.shape)
    share = np.minimum(np.exp(noise) / slowdown, 1.0)
    fits = memory[:, None] + memory[None, :] <= 1.0
    gangs = table.index.get_level_values(1).to_numpy()
    if not mixed_scale_factors:
        fits &= gangs[:, None] == gangs[None, :]
    own = share * alone[:, None, :] * fits[:, :, None]
    index = pd.MultiIndex.from_tuples(table.index.tolist())
    return PairThroughputs(own, alone, index, tuple(table.columns.astype(str)))


def _demands(types: pd.Index, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Pressure and sensitivity (keys, resources) and memory (keys,) of each key's job type."""
    kinds = types.unique()
    families = pd.Index([family_of(name) for name in kinds])
    family, names = pd.factorize(families)
    shape = (len(names), _RESOURCES)
    pressure, sensitivity = rng.uniform(*_PRESSURE, (2, *shape))[:, family]
    memory = rng.uniform(*_MEMORY, len(names))[family]
    jitter = np.exp(rng.normal(0.0, _JITTER, (2, *pressure.shape)))
    # Job types are listed by growing batch size within their family.
    by_family = pd.Series(family).groupby(family)
    rank = by_family.cumcount() / (by_family.transform("size") - 1).clip(lower=1)
    growth = _LARGEST_BATCH ** rank.to_numpy()
    key = kinds.get_indexer(types)
    pressure = pressure * jitter[0] * growth[:, None]
    return pressure[key], (sensitivity * jitter[1])[key], (memory * growth)[key]
