"""Multi-GPU scaling: how much faster a gang of GPUs is than one, by model family.

The figures are the median speed-ups over batch sizes and over v100, p100 and k80 of the
measurements published with Gavel (Narayanan et al., OSDI 2020, artefact, MIT licence), all GPUs
of the gang in one place. Between them the speed-up is interpolated geometrically (a straight line
in log-log scale); past eight GPUs it goes on with the mean slope from one GPU to eight.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

_MEASURED_GPUS = (1, 2, 4, 8)

SPEEDUPS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "ResNet-18": (1.0, 1.84, 3.59, 7.29),
        "ResNet-50": (1.0, 1.81, 3.31, 5.61),
        "Transformer": (1.0, 1.66, 2.60, 5.36),
        "LM": (1.0, 1.40, 1.81, 3.75),
    }
)
"""Speed-up over one GPU with 1, 2, 4 and 8 GPUs, by model family."""

DISTRIBUTED_FAMILIES: tuple[str, ...] = tuple(SPEEDUPS)
"""Model families whose jobs may hold more than one GPU."""


def family_of(job_type: str) -> str:
    """Model family of a job type: ``"LM (batch size 5)"`` is of family ``"LM"``."""
    return job_type.partition(" (")[0]


def speedup(family: str, gpus: ArrayLike) -> NDArray[np.float64]:
    """Throughput of a gang relative to one GPU.

    Parameters
    ----------
    family
        Model family, one of `DISTRIBUTED_FAMILIES` (any family where every gang is one GPU).
    gpus
        GPUs in the gang, whole numbers >= 1, any shape.

    Returns
    -------
    NDArray[np.float64]
        Speed-ups of the same shape; 1 for one GPU, never above the number of GPUs.

    Raises
    ------
    InputError
        If a gang is not a whole number >= 1, or if the family is not distributed and a gang is.
    """
    gang = np.asarray(gpus, dtype=float)
    wrong = ~((gang >= 1) & (gang == np.floor(gang)) & np.isfinite(gang))
    if wrong.any():
        raise InputError(f"A gang of {gang[wrong][0]:g} GPUs; it must be a whole number >= 1.")
    if np.all(gang == 1):
        return np.ones_like(gang)
    if family not in SPEEDUPS:
        raise unknown_name("model family for gangs of several GPUs", family, SPEEDUPS)
    log_gpus, log_speedups = np.log(_MEASURED_GPUS), np.log(SPEEDUPS[family])
    inside = np.interp(np.log(gang), log_gpus, log_speedups)
    slope = log_speedups[-1] / log_gpus[-1]
    beyond = np.maximum(np.log(gang) - log_gpus[-1], 0.0) * slope
    return np.asarray(np.exp(inside + beyond), dtype=np.float64)


def scaled_throughput(
    single_gpu: ArrayLike, family: str, scale_factor: ArrayLike
) -> NDArray[np.float64]:
    """Steps/s of a whole gang, from the steps/s on one GPU.

    Parameters
    ----------
    single_gpu
        Steps/s on one GPU; broadcasts with `scale_factor`.
    family
        Model family, see `speedup`.
    scale_factor
        GPUs in the gang.

    Returns
    -------
    NDArray[np.float64]
        Steps/s of the gang, the broadcast shape; 0 where one GPU cannot run the job.
    """
    return np.asarray(single_gpu, dtype=np.float64) * speedup(family, scale_factor)
