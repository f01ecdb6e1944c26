"""The columns of tables of speeds: accelerators, with a number of GPUs and a tier if need be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.checks import hashable, is_number, whole
from apportion.checks import label as check_label
from apportion.cluster import ACCELERATORS
from apportion.errors import InputError, written
from apportion.table_checks import check_unique

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

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
        near those of bandwidths (`apportion.sim.drawn.modelled_speeds`). A type that has no sheet
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
