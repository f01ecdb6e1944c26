"""Resources beside the GPUs: anything that running rows hold units of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from apportion.annotations import check_fields
from apportion.checks import LARGEST_NUMBER, label, number
from apportion.errors import InputError, written
from apportion.table_checks import as_floats

if TYPE_CHECKING:
    from apportion.tensor import ThroughputTensor
    from apportion.types import Ints


@dataclass(frozen=True)
class Resource:
    """A resource beside the GPUs: anything that running rows hold units of.

    Parameters
    ----------
    name
        How it is called in `Allocation.prices`, and by policies.
    capacity
        Units that there are; None for a soft resource, of which any number may be held: policies
        read in `Problem.held` how many are.
    usage
        Units that a row holds while it runs under an option: a table with the rows and options of
        the tensor, in any order, or a sparse array of scipy of that shape, in their order.

    Raises
    ------
    InputError
        For a capacity or usage that is no finite number >= 0.
    """

    name: str
    capacity: float | None
    usage: pd.DataFrame | sparse.sparray

    def __post_init__(self) -> None:
        check_fields(self)
        label("name of a resource", self.name)
        if self.capacity is not None:
            words = "a finite number"
            number(f"The capacity of resource {self.name!r}", self.capacity, words=words)
        if not isinstance(self.usage, pd.DataFrame) and not sparse.issparse(self.usage):
            raise InputError(
                f"The usage of resource {self.name!r} is {written(self.usage)}; it must be a "
                f"DataFrame or a sparse array of scipy."
            )
        used = _sparse(self.usage).data
        if not ((used >= 0) & (used <= LARGEST_NUMBER)).all():
            raise InputError(
                f"The usage of resource {self.name!r} holds a value that is no finite number >= 0."
            )

    @property
    def limit(self) -> float:
        """Units that may be held: infinitely many of a soft resource."""
        return np.inf if self.capacity is None else float(self.capacity)

    def used(self, tensor: ThroughputTensor) -> sparse.csr_array:
        """Return units that are held, rows and options as in the tensor.

        Raises
        ------
        InputError
            If the usage has others.
        """
        usage: Any = self.usage  # of scipy, whose types do not tell of shapes
        if isinstance(usage, pd.DataFrame):
            row = _places(tensor.rows, usage.index)
            option = _places(tensor.options, usage.columns)
            if row is not None and option is not None:
                return _sparse(usage.iloc[row, option])
        elif usage.shape == (len(tensor.rows), len(tensor.options)):
            return _sparse(usage)
        raise InputError(
            f"The usage of resource {self.name!r} must have the rows and options of the "
            f"throughput tensor."
        )


def _places(wanted: pd.Index, given: pd.Index) -> Ints | None:
    """Where each of the labels wanted is among those given; None if those are others."""
    if not given.is_unique or given.nlevels != wanted.nlevels or len(given) != len(wanted):
        return None
    places = np.asarray(given.get_indexer(wanted), dtype=np.intp)
    return None if (places < 0).any() else places


def _sparse(usage: pd.DataFrame | sparse.sparray) -> sparse.csr_array:
    """Return what is not zero in a table or a sparse array; NaN is not."""
    table: Any = as_floats(usage) if isinstance(usage, pd.DataFrame) else usage
    return sparse.csr_array(table, dtype=np.float64)
