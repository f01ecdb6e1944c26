"""The columns of tables of speeds, and how much faster a gang of GPUs is than one.

The figures are the median speed-ups over batch sizes and over v100, p100 and k80 of the
measurements published with Gavel (Narayanan et al., OSDI 2020, artefact, MIT licence), all GPUs
of the gang in one place. Between them the speed-up is interpolated geometrically (a straight line
in log-log scale); past eight GPUs it goes on with the mean slope from one GPU to eight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.checks import hashable, is_number, whole
from apportion.checks import label as check_label
from apportion.cluster import ACCELERATORS
from apportion.errors import InputError, unknown_name, written
from apportion.table_checks import check_unique

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from apportion.types import Floats


_USUAL_SCALING = 0.8
"""Exponent of the speed in the number of GPUs where nothing was measured."""

_VALID = (
    "an accelerator, (accelerator, GPUs), (accelerator, tier) or (accelerator, GPUs, tier), such "
    "as ('v100', 4)"
)


class _Column(NamedTuple):
    accelerator: str
    gpus: int
    tier: str


@dataclass(frozen=True, eq=False)
class SpeedColumns:
    """What a gang may hold: an accelerator type, how many of them, and how far apart.

    Attributes
    ----------
    labels
        As given: ``"v100"``, ``("v100", 4)``, ``("v100", "rack")`` or ``("v100", 4, "rack")``.
    same_accelerator
        1 where two columns have the accelerator in common, else 0; shape (columns, columns).
    log_gpus
        Natural logarithm of the number of GPUs, shape (columns,).
    log_sheets
        That of the speeds by data sheets, 0 in the mean over the types, and NaN for a type without
        a sheet; shape (columns,).
    """

    labels: tuple[Hashable, ...]
    same_accelerator: Floats
    log_gpus: Floats
    log_sheets: Floats

    @classmethod
    def of(cls, labels: Iterable[Hashable] | pd.Index | SpeedColumns) -> SpeedColumns:
        """Read labels.

        Raises
        ------
        InputError
            For labels that are none of the above, and for one that stands twice.
        """
        if isinstance(labels, SpeedColumns):
            return labels
        given = hashable("column of speeds", labels)
        if not given:
            raise InputError("There are no columns of speeds; name one accelerator at least.")
        parts = [_read(each) for each in given]
        check_unique("column of speeds", pd.MultiIndex.from_tuples(parts))
        names = np.array([part.accelerator for part in parts], dtype=object)
        gpus = np.array([part.gpus for part in parts], dtype=np.float64)
        same = (names[:, None] == names[None, :]).astype(np.float64)
        return cls(tuple(given), same, np.log(gpus), _by_data_sheets(names.tolist()))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def usual(self) -> Floats:
        r"""Logarithm of speeds where nothing was measured, up to a constant; shape (columns,).

        .. math:: \ln \text{bandwidth of the accelerator's memory} + 0.8 \ln g

        by the data sheets of `apportion.accelerators`; published ratios of training speeds are
        near those of bandwidths (`apportion.sim.modelled_speeds`). A type that has no sheet
        is taken for as fast as the others are in the mean.
        """
        return np.asarray(np.nan_to_num(self.log_sheets) + _USUAL_SCALING * self.log_gpus)

    def terms(self) -> Floats:
        r"""Covariances that the structured prior adds up, shape (4, columns, columns).

        .. math:: [a=a'],\quad \log_2 g \log_2 g',\quad [a=a'] \log_2 g \log_2 g',\quad [c=c'].
        """
        scaling = np.outer(self.log_gpus, self.log_gpus) / np.log(2.0) ** 2
        own = np.eye(len(self))
        return np.stack([self.same_accelerator, scaling, self.same_accelerator * scaling, own])

    def index(self) -> pd.Index:
        """Labels as the columns of a table: several levels where they are tuples of one length."""
        tuples = [each for each in self.labels if isinstance(each, tuple)]
        lengths = {len(each) for each in tuples}
        if len(tuples) < len(self) or lengths not in ({2}, {3}):
            return pd.Index(list(self.labels), tupleize_cols=False)
        return pd.MultiIndex.from_tuples(tuples)


def _by_data_sheets(names: list[str]) -> Floats:
    """Return logarithms of speeds by the data sheets, less their mean; NaN where there is none."""
    sheets = {name: ACCELERATORS[name] for name in names if name in ACCELERATORS}
    logs = {name: math.log(each.bandwidth_gb_per_s) for name, each in sheets.items()}
    mean = math.fsum(logs.values()) / max(len(logs), 1)
    return np.array([logs.get(name, math.nan) - mean for name in names])


def _read(given: Any) -> _Column:
    parts = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(parts) <= 3:
        raise InputError(f"The column of speeds {written(given)} must be {_VALID}.")
    accelerator, rest = check_label("accelerator", parts[0]), parts[1:]
    gpus, tier = 1, ""
    if rest and (is_number(rest[0]) or len(rest) == 2):
        name = f"The number of GPUs of the column {written(given)}"
        gpus, rest = whole(name, rest[0], 1, integral=True), rest[1:]
    if rest:
        tier = check_label("tier", rest[0])
    return _Column(accelerator, gpus, tier)


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
